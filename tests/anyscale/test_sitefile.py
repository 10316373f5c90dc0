from importlib import resources

import pytest
from anyscale.scheduler.models import SchedulerConfig

from ml_toolkit_anyscale.catalog import known_shapes, resolve
from ml_toolkit_anyscale.routing import explain_route
from ml_toolkit_anyscale.sitefile import VARIABLE, default_rules, load_site
from ml_toolkit_core.errors import RequestError

SITE = """
image_uri = "registry.example.org/llm:7"
cloud = "aws-us-west"
project = "inference"
teams = ["yoda2"]
scheduler_config = "scheduler.yaml"

[instances."p5en.48xlarge"]
cpus = 192
memory_gib = 2048
gpus = 8
gpu_type = "h200"
gpu_memory_gib = 141

[compute_configs.h200-two-nodes]
head = "p5en.48xlarge"
workers = 1
auto = true

[compute_configs.h100-cpu-head-3gpu]
head = "r6i.16xlarge"
worker = "p5.48xlarge"
workers = 3
"""
RULES = """
resource_queues: [{name: all, preemption: {within_resource_queue: never}}]
scheduling_rules:
  - resource_queue: all
    priority_policy: {default: 7, min: 0, max: 9, on_violation: reject}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that reads a site file."""

    def load(text, rules=RULES):
        (tmp_path / "site.toml").write_text(text)
        (tmp_path / "scheduler.yaml").write_text(rules)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "site.toml"))
        return load_site()

    return load


@pytest.fixture(autouse=True)
def _no_site(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_without_a_file_everything_is_as_documented():
    site = load_site()

    assert site.rules == default_rules()
    assert (site.image_uri, site.shapes, site.teams) == (None, (), ())


def test_the_documented_rules_are_a_scheduler_config_of_the_sdk():
    file = resources.files("ml_toolkit_anyscale") / "scheduler.yaml"

    theirs = SchedulerConfig.from_yaml(str(file))

    assert [
        (r.resource_queue, r.priority_policy.default, len(r.selector or ()))
        for r in theirs.scheduling_rules
    ] == [
        (r.resource_queue, r.priority_policy.default, len(r.selector))
        for r in default_rules().rules
    ]


def test_the_sdks_own_example_is_read():
    file = resources.files("anyscale.scheduler") / "examples" / "scheduler-config.yaml"

    theirs = SchedulerConfig.from_yaml(str(file))

    assert len(theirs.scheduling_rules) == 3


def test_a_site_adds_shapes_rules_teams_and_defaults(site):
    found = site(SITE)

    assert found.image_uri == "registry.example.org/llm:7"
    assert (found.cloud, found.project) == ("aws-us-west", "inference")
    assert found.teams == ("yoda2",)
    assert explain_route({}, found.rules).priority == 7
    shapes = known_shapes(found.shapes)
    chosen = resolve(shapes, config=None, gpu_type="H200", num_gpus=16)
    assert chosen.name == "h200-two-nodes"
    assert shapes["h100-cpu-head-3gpu"].num_gpus == 24
    assert len(shapes) == 16


@pytest.mark.parametrize(
    ("text", "rules", "message"),
    [
        ("image_url = 'x'", RULES, "'image_url', .*Did you mean 'image_uri'"),
        ("image_uri = ", RULES, "cannot be read"),
        ("[compute_configs.a]\nhead = 'p6.big'", RULES, "'p6.big' is no instance"),
        ("[compute_configs.a]\nhed = 'p6.big'", RULES, "Did you mean 'head'"),
        (
            "[compute_configs.h100-two-nodes]\nhead = 'p5.48xlarge'",
            RULES,
            "is a documented one",
        ),
        (
            "[compute_configs.a]\nhead = 'r6i.16xlarge'\nworkers = 1",
            RULES,
            "need gpus and gpu_type",
        ),
        (
            "[compute_configs.a]\nhead = 'p5.48xlarge'\nworkers = -1",
            RULES,
            "'workers' must be >= 0",
        ),
        ("[instances.x]\ncpus = 1\nram = 3", RULES, "'ram', which is no entry"),
        ("scheduler_config = 'gone.yaml'", RULES, "gone.yaml"),
        ("scheduler_config = 'scheduler.yaml'", "- 1", "holds no scheduler config"),
        (
            "scheduler_config = 'scheduler.yaml'",
            "scheduling_rule: []",
            "Did you mean 'scheduling_rules'",
        ),
        (
            "scheduler_config = 'scheduler.yaml'",
            RULES.replace(
                "    priority", "    selector: [{key: k, operator: x}]\n    priority"
            ),
            "rule 1: .*'x' is not a valid Operator",
        ),
        (
            "scheduler_config = 'scheduler.yaml'",
            (
                "scheduling_rules: [{resource_queue: q, selector: "
                "[{key: a, operator: in}]}]"
            ),
            "rule 1: operator 'in' needs values",
        ),
        (
            "scheduler_config = 'scheduler.yaml'",
            "scheduling_rules: [{queue: q}]",
            "there is no 'queue'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_what_would_work(site, text, rules, message):
    with pytest.raises(RequestError, match=message):
        site(text, rules)


def test_a_file_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/nowhere/site.toml")

    with pytest.raises(RequestError, match="'/nowhere/site.toml' cannot be read"):
        load_site()
