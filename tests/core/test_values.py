import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import ORDER_VERSION, WorkOrder
from ml_toolkit_core.values import ComputeTarget, JobHandle, JobState, Prompts


def test_states_stand_in_rank_order_and_unknown_has_none():
    ranks = [state.rank for state in JobState]

    assert ranks == [0, 1, 2, 3, 4, 5, None]


def test_only_succeeded_failed_and_cancelled_are_final():
    final = {state for state in JobState if state.is_final}

    assert final == {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


def test_the_number_of_gpus_is_derived():
    target = ComputeTarget(name="x", gpu_nodes=2, gpus_per_node=8)

    assert target.num_gpus == 16


@pytest.mark.parametrize("text", ["", "local", "local://", "://x", "No Good://x"])
def test_text_that_is_no_handle_is_refused(text):
    with pytest.raises(RequestError, match="is no job handle"):
        JobHandle.parse(text)


def test_a_handle_keeps_slashes_of_the_platforms_id():
    handle = JobHandle.parse("databricks://host.example/123")

    assert (handle.backend, handle.job_id) == ("databricks", "host.example/123")


def test_two_ways_of_asking_are_refused_naming_both():
    with pytest.raises(RequestError, match="prompt_column='a' and prompt_template="):
        Prompts(prompt_column="a", prompt_template="{a}")


def test_an_order_of_another_major_version_is_refused_naming_both():
    with pytest.raises(RequestError, match=f"'2.0' .*{ORDER_VERSION!r}"):
        WorkOrder.loads('{"order_version": "2.0"}')
