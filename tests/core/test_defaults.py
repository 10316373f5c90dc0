import pytest

from ml_toolkit_core.defaults import plan_replicas
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import ComputeTarget, InferenceRequest


def plan(replicas, *, nodes=2, gpus=8, cores=None):
    request = InferenceRequest(
        input_table="i", model="m", output_table="o", replicas=replicas
    )
    target = ComputeTarget(
        name="t", gpu_nodes=nodes, gpus_per_node=gpus, cpus_per_node=cores
    )
    made = plan_replicas(request, target)
    return made.replicas, made.tensor_parallel_size, made.pipeline_parallel_size


@pytest.mark.parametrize(
    ("replicas", "made"),
    [
        ("throughput", (2, 8, 1)),
        ("depth", (1, 8, 2)),
        (2, (2, 8, 1)),
        ("4", (4, 4, 1)),
        (16, (16, 1, 1)),
    ],
)
def test_gpus_are_shared_out_within_nodes(replicas, made):
    assert plan(replicas) == made


@pytest.mark.parametrize("replicas", [1, 3, 17, 32])
def test_unequal_shares_are_refused_with_the_counts_that_work(replicas):
    with pytest.raises(RequestError, match="2, 4, 8, 16 can"):
        plan(replicas)


@pytest.mark.parametrize("replicas", [0, -1, True, "max", 1.5])
def test_a_count_that_is_none_is_refused(replicas):
    with pytest.raises(RequestError, match="'throughput', 'depth' or a number"):
        plan(replicas)


def test_replicas_without_gpus_share_the_cores():
    request = InferenceRequest(input_table="i", model="m", output_table="o", replicas=2)
    target = ComputeTarget(name="t", gpu_nodes=1, gpus_per_node=0, cpus_per_node=5)

    made = plan_replicas(request, target)

    assert (made.replicas, made.cpus_per_replica) == (2, 2)


def test_more_replicas_than_cores_are_refused():
    with pytest.raises(RequestError, match="more than there are CPU cores"):
        plan(3, nodes=1, gpus=0, cores=2)
