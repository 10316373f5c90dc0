import pytest

from ml_toolkit.functions.llm.inference import RequestError, plan_inference
from ml_toolkit_anyscale import sitefile
from ml_toolkit_anyscale.options import IMAGE, OPTIONS


@pytest.fixture
def plan(jsonl, tmp_path, monkeypatch):
    """Return a function that plans on Anyscale."""
    monkeypatch.delenv(IMAGE, raising=False)
    monkeypatch.delenv(sitefile.VARIABLE, raising=False)

    def make(*, input_table=None, **options):
        return plan_inference(
            input_table or str(jsonl([{"prompt": "a"}])),
            "stub/any",
            str(tmp_path / "out"),
            **{
                "compute_type": "anyscale",
                "executor": "scripted",
                "gpu_type": "h100",
                "num_gpus": 16,
                **options,
            },
        )

    return make


def test_a_plan_says_machines_route_replicas_and_the_missing_image(plan):
    text = str(plan(anyscale_job_kind="incremental", anyscale_team="corporate"))

    for line in (
        "compute   anyscale: h100-two-nodes",
        "replicas  2 x 8 GPUs, tensor_parallel_size=8",
        "p5.48xlarge head and 1 x p5.48xlarge, 16 h100 GPUs",
        "route: queue 'corporate', priority 100: rule 1 of 13, matches team in",
        "every node of the cluster must see the same at the same path",
        "no image yet: pass anyscale_image_uri=, set ML_TOOLKIT_ANYSCALE_IMAGE_URI",
    ):
        assert line in text


def test_the_target_is_what_the_catalog_says(plan):
    target = plan(gpu_type="b200", num_gpus=32).target

    assert (target.name, target.gpu_nodes, target.gpus_per_node) == (
        *("b200-four-nodes", 4, 8),
    )
    assert target.gpu_memory_bytes == 179 * 1024**3
    assert (target.num_gpus, target.cpus_per_node) == (32, 192)


def test_a_cpu_head_runs_no_replica(plan):
    plan = plan(anyscale_compute_config="h100-cpu-head-2gpu")

    assert (plan.target.gpu_nodes, plan.replicas.replicas) == (2, 2)
    assert "r6i.16xlarge head and 2 x p5.48xlarge, 16 h100 GPUs" in str(plan)


def test_an_image_comes_from_option_variable_or_site_in_this_order(
    plan, monkeypatch, tmp_path
):
    (tmp_path / "site.toml").write_text("image_uri = 'site:1'\ncloud = 'main'")
    monkeypatch.setenv(sitefile.VARIABLE, str(tmp_path / "site.toml"))
    of_site = plan().target.options
    monkeypatch.setenv(IMAGE, "variable:1")
    of_variable = plan().target.options
    of_option = plan(anyscale_image_uri="option:1").target.options

    images = [given["image_uri"] for given in (of_site, of_variable, of_option)]
    assert images == ["site:1", "variable:1", "option:1"]
    assert of_site["cloud"] == "main"


def test_a_job_without_an_image_is_refused_with_what_it_must_hold(
    ask, quiet_twin, monkeypatch
):
    monkeypatch.delenv(IMAGE)

    with pytest.raises(RequestError, match="needs an image.*pyarrow, deltalake"):
        ask(wait=False)

    assert quiet_twin.requests == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"anyscale_priority": 1001}, "anyscale_priority=1001 must be"),
        ({"anyscale_priority": "high"}, "anyscale_priority='high' must be of type int"),
        ({"anyscale_max_retries": -1}, "anyscale_max_retries=-1 must be 0 or more"),
        ({"anyscale_timeout_s": 0}, "anyscale_timeout_s=0 must be 1 or more"),
        ({"anyscale_tags": {"team": "x"}}, "'team' is ml-toolkit's own tag"),
        ({"anyscale_tags": {"run_id": "x"}}, "'run_id' is ml-toolkit's own tag"),
        ({"anyscale_tags": {"cost": 7}}, "keys and values are text"),
        ({"anyscale_tags": {"cost": ""}}, "not empty"),
        ({"anyscale_tag": {}}, "'anyscale_tag' is no option.*'anyscale_tags'"),
        ({"anyscale_imageuri": "x"}, "Did you mean 'anyscale_image_uri'"),
        (
            {
                "anyscale_compute_config": "h100-two-nodes",
                "anyscale_raw_compute_config": "mine",
            },
            "say it twice",
        ),
    ],
)
def test_a_wrong_option_is_refused_when_planning(plan, options, message):
    with pytest.raises(RequestError, match=message):
        plan(**options)


def test_extra_tags_are_seen_by_the_rules(plan, monkeypatch, tmp_path):
    (tmp_path / "rules.yaml").write_text(
        "scheduling_rules:\n"
        "  - {resource_queue: eu, selector: [{key: zone, operator: exists}]}\n"
        "  - {resource_queue: rest}\n"
    )
    (tmp_path / "site.toml").write_text("scheduler_config = 'rules.yaml'")
    monkeypatch.setenv(sitefile.VARIABLE, str(tmp_path / "site.toml"))

    assert "queue 'eu'" in str(plan(anyscale_tags={"zone": "eu-1"}))
    assert "queue 'rest'" in str(plan())


def test_a_priority_is_told_as_the_rule_grants_it(plan, monkeypatch, tmp_path):
    (tmp_path / "rules.yaml").write_text(
        "scheduling_rules: [{resource_queue: q, priority_policy: "
        "{default: 5, max: 50, on_violation: reject}}]"
    )
    (tmp_path / "site.toml").write_text("scheduler_config = 'rules.yaml'")
    monkeypatch.setenv(sitefile.VARIABLE, str(tmp_path / "site.toml"))

    assert "priority 500 is out of its bounds 0 to 50: it is refused" in str(
        plan(anyscale_priority=500)
    )


def test_machines_that_nobody_knows_are_planned_on_the_far_side(plan):
    plan = plan(gpu_type=None, num_gpus=None, anyscale_raw_compute_config="mine:3")

    assert plan.replicas.on_far_side
    assert "replicas  planned on the far side" in str(plan)
    assert "mine:3: not in the catalog, taken as it is" in str(plan)


def test_a_known_name_keeps_its_shape_when_it_is_taken_as_it_is(plan):
    plan = plan(
        gpu_type=None, num_gpus=None, anyscale_raw_compute_config="b200-two-nodes"
    )

    assert plan.target.num_gpus == 16


def test_many_inputs_are_counted_and_not_listed(plan, jsonl):
    inputs = [str(jsonl([{"prompt": "a"}], f"part-{n}.jsonl")) for n in range(9)]

    (note,) = [n for n in plan(input_table=inputs).notes if "every node" in n]
    assert f"input_table={inputs[0]!r} and 8 more, output_table=" in note


def test_every_option_says_what_it_is():
    assert all(option.doc.endswith(".") for option in OPTIONS)
