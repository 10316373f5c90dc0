"""The twin of Anyscale, through the SDK's own client: what it does and refuses."""

import threading
from pathlib import Path

import anyscale
import pytest
from anyscale.job.models import JobConfig, JobQueueConfig, JobQueueSpec, JobState
from emulators.anyscale import CONFIGS, TOKEN, Twin, alive, build_image

from ml_toolkit_anyscale import sitefile
from ml_toolkit_anyscale.catalog import DOCUMENTED

RULES = Path(sitefile.__file__).with_name("scheduler.yaml")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return f"{build_image(tmp_path_factory.mktemp('image'))}:/usr/bin:/bin"


@pytest.fixture
def start(tmp_path, image, monkeypatch):
    """Return a function that starts a twin, with the SDK's client for it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    twins = []

    def begin(**options):
        twin = Twin(tmp_path / f"twin-{len(twins)}", image, **options)
        twins.append(twin)
        return twin, anyscale.Anyscale(auth_token=TOKEN, _host=twin.host).job

    yield begin
    for twin in twins:
        twin.close()


def config(entrypoint="true", **changes):
    given = {
        "name": "job",
        "entrypoint": entrypoint,
        "compute_config": "h100-two-nodes",
        "image_uri": "registry.example.org/llm:1",
        "max_retries": 0,
        "timeout_s": 60,
    }
    return JobConfig(**{**given, **changes})


def test_it_registers_the_documented_configs_with_the_same_machines():
    assert set(CONFIGS) == set(DOCUMENTED)
    for name, (head, workers) in CONFIGS.items():
        shape = DOCUMENTED[name]
        assert head == shape.head.instance
        assert workers == ([(shape.worker.instance, shape.workers)] * bool(workers))


def test_a_job_goes_through_its_states(start):
    twin, sdk = start()

    job_id = sdk.submit(config("echo hello; echo $FOO", env_vars={"FOO": "bar"}))
    twin.plane.wait(job_id, "SUCCESS")

    status = sdk.status(id=job_id)
    assert (status.state, status.config.compute_config) == (
        *(JobState.SUCCEEDED, "h100-two-nodes:1"),
    )
    assert sdk.get_logs(id=job_id).split() == ["hello", "bar"]


def test_a_failing_job_is_tried_again_and_then_is_out_of_retries(start):
    twin, sdk = start()

    job_id = sdk.submit(config("exit 3", max_retries=2))
    job = twin.plane.wait(job_id, "OUT_OF_RETRIES")

    assert job.history.count("RESTARTING") == 2
    assert len(sdk.status(id=job_id).runs) == 3
    assert job.error == "the entrypoint ended with 3"


def test_a_run_that_takes_too_long_fails(start):
    twin, sdk = start()

    job_id = sdk.submit(config("exec tail -f /dev/null", timeout_s=1))

    assert twin.plane.wait(job_id, "OUT_OF_RETRIES").error.endswith("a timeout")


def test_termination_ends_the_whole_process_group(start):
    twin, sdk = start()
    job_id = sdk.submit(config("tail -f /dev/null & tail -f /dev/null"))
    twin.plane.wait(job_id, "RUNNING")

    sdk.terminate(id=job_id)
    job = twin.plane.wait(job_id, "TERMINATED")

    assert alive(job.process) == []


def test_a_working_directory_is_uploaded_once_and_unpacked(start, tmp_path):
    twin, sdk = start()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/data.txt").write_text("from here")

    for name in ("one", "two"):
        job_id = sdk.submit(
            config("cat data.txt", name=name, working_dir=str(tmp_path / "work"))
        )
        twin.plane.wait(job_id, "SUCCESS")

    assert sdk.get_logs(id=job_id) == "from here\n"
    assert twin.plane.writes == 1


def test_tags_are_kept_listed_and_filtered(start):
    twin, sdk = start(mode="hold")
    wanted = sdk.submit(config(tags={"team": "yoda", "n": "1"}))
    sdk.submit(config(tags={"team": "yoda", "n": "2"}))
    sdk.add_tags(job_id=wanted, tags={"late": "yes"})
    twin.plane.move(twin.plane.jobs[wanted], "RUNNING")

    assert sdk.list_tags(job_id=wanted) == {"team": "yoda", "n": "1", "late": "yes"}
    ids = [
        status.id
        for status in sdk.list(
            tags_filter={"team": ["yoda"], "n": ["1"]},
            state_filter=[JobState.RUNNING],
            include_all_users=True,
        )
    ]
    assert ids == [wanted]


ORDERS = {
    "FIFO": [0, 1, 2, 3],
    "LIFO": [0, 3, 2, 1],
    "PRIORITY": [0, 3, 1, 2],
}


@pytest.mark.parametrize("mode", ORDERS)
def test_a_job_queue_runs_one_at_a_time_in_its_order(start, mode):
    twin, sdk = start(mode="hold")
    spec = JobQueueSpec(name="q", idle_timeout_s=60, execution_mode=mode)
    for priority in (9, 5, 7, 1):
        queue = JobQueueConfig(priority=priority, job_queue_spec=spec)
        sdk.submit(config(job_queue_config=queue))

    assert ORDERS[mode] == run_all(twin)


def test_the_scheduler_runs_the_higher_priority_first(start):
    """One slot: the order that the page promises."""
    twin, sdk = start(rules=RULES, slots=1, mode="hold")
    tags = [
        {},
        {"team": "yoda", "job_kind": "training"},
        {"team": "corporate", "job_kind": "backfill"},
        {"team": "research", "job_kind": "incremental"},
        {"team": "corporate", "job_kind": "incremental"},
        {"team": "Corporate", "job-kind": "incremental"},
    ]
    for given in tags:
        sdk.submit(config(tags=given))

    assert run_all(twin) == [0, 4, 3, 2, 1, 5]
    assert [job.queue for job in twin.jobs] == [
        *("shared-fallback", "yoda", "corporate", "base", "corporate"),
        "shared-fallback",
    ]


def run_all(twin):
    """Let the jobs run as they are admitted, and return the order."""
    waiting, order = twin.jobs, []
    ready = [waiting.pop(0)]  # it came when nobody else was there
    while ready:
        order += [job.number for job in ready]
        ready = twin.plane.scheduler.ready(waiting, [])[:1]
        waiting = [job for job in waiting if job not in ready]
    return order


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compute_config": "nope"}, "'nope' does not exist"),
        ({"compute_config": "h100-two-nodes:9"}, "does not exist"),
        ({"cloud": "mars"}, "Cloud 'mars' not found"),
        ({"project": "nope"}, "Project 'nope' was not found"),
        ({"tags": {"key": "v" * 300}}, "too long"),
        (
            {"job_queue_config": JobQueueConfig(target_job_queue_name="nope")},
            "Job queue 'nope' was not found",
        ),
        (
            {
                "job_queue_config": JobQueueConfig(
                    target_job_queue_name="q",
                    job_queue_spec=JobQueueSpec(name="q", idle_timeout_s=1),
                )
            },
            "Exactly one",
        ),
        ({"working_dir": "s3://bucket/never.zip"}, "was not uploaded"),
    ],
)
def test_it_refuses_what_the_real_one_refuses(start, changes, message):
    twin, sdk = start(mode="hold")

    with pytest.raises(ValueError, match=message):
        sdk.submit(config(**changes))

    assert twin.jobs == []


def test_a_priority_out_of_the_rules_bounds_is_refused(start, tmp_path):
    (tmp_path / "rules.yaml").write_text(
        "scheduling_rules: [{resource_queue: q, priority_policy: "
        "{default: 5, max: 50, on_violation: reject}}]"
    )
    _, sdk = start(rules=tmp_path / "rules.yaml", mode="hold")

    with pytest.raises(ValueError, match="Priority 60 is not within 0 and 50"):
        sdk.submit(config(priority=60))


def test_a_wrong_token_is_refused(start):
    twin, _ = start(mode="hold")

    with pytest.raises(Exception, match="invalid or have expired"):
        anyscale.Anyscale(auth_token="aph0_wrong", _host=twin.host)  # noqa: S106


def test_unknown_jobs_are_not_found(start):
    _, sdk = start(mode="hold")

    for call in (sdk.status, sdk.terminate, sdk.get_logs):
        with pytest.raises(RuntimeError, match="was not found"):
            call(id="prodjob_nope")


def test_it_leaves_no_thread_and_no_process_behind(tmp_path, image):
    before = threading.active_count()
    twin = Twin(tmp_path / "t", image)

    twin.close()

    assert threading.active_count() == before
