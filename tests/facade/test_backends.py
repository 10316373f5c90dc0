"""A backend of this process, through the facade."""

import pytest

from ml_toolkit.functions.llm.inference import (
    InferenceJob,
    JobHandle,
    JobState,
    JobStatus,
    RequestError,
    register_backend,
    run_inference,
)
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.values import BackendInfo, ComputeTarget, Option


class Lab:
    """Keeps what it was sent; cannot look jobs up."""

    def __init__(self):
        self.orders = []

    @hookimpl
    def describe(self):
        return BackendInfo(
            options=(
                Option(name="priority", type=int, doc="The higher the sooner."),
                Option(name="tags", type=dict),
            )
        )

    @hookimpl
    def resolve_compute(self, request):
        return ComputeTarget(
            name="desk", gpu_nodes=1, gpus_per_node=0, options=request.backend_options
        )

    @hookimpl
    def submit(self, order, target):
        self.orders.append((order, target))
        return JobHandle(backend="lab", job_id=f"j{len(self.orders)}")

    @hookimpl
    def poll(self):
        return JobStatus(state=JobState.RUNNING)


@pytest.fixture(autouse=True)
def lab():
    plugin = Lab()
    register_backend("lab", plugin)
    return plugin


@pytest.fixture
def run(jsonl, tmp_path):
    rows = jsonl([{"prompt": "a"}])

    def call(**options) -> InferenceJob:
        return run_inference(
            str(rows),
            "m/x",
            str(tmp_path / "out"),
            **{
                "compute_type": "lab",
                "executor": "scripted",
                "wait": False,
                **options,
            },
        )

    return call


def test_a_run_is_submitted_once_even_where_the_platform_cannot_look(lab, run):
    first = run(run_id="r")

    second = run(run_id="r")

    assert first.handle == second.handle
    assert len(lab.orders) == 1


def test_options_reach_the_backend_without_its_prefix(lab, run):
    run(lab_priority=5, lab_tags={"team": "a"})

    assert lab.orders[0][1].options == {"priority": 5, "tags": {"team": "a"}}


def test_options_as_a_command_line_has_them_are_read_as_json(lab, run):
    run(lab_priority="5", lab_tags='{"team": "a"}')

    assert lab.orders[0][1].options == {"priority": 5, "tags": {"team": "a"}}


@pytest.mark.parametrize("value", ["high", "1.5", True, 1.5])
def test_an_option_of_the_wrong_type_is_refused(lab, run, value):
    with pytest.raises(RequestError, match="lab_priority=.* must be of type int"):
        run(lab_priority=value)

    assert lab.orders == []


def test_a_misspelt_option_of_the_backend_is_answered_with_the_likely_one(run):
    with pytest.raises(RequestError, match="Did you mean 'lab_priority'"):
        run(lab_priorty=5)
