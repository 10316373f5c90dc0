import json

import pytest
from attrs import evolve

from ml_toolkit_core.defaults import plan_replicas
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import (
    ComputeTarget,
    InferenceRequest,
    InputPin,
    ModelKind,
    ModelLocation,
    Pinned,
    Prompts,
    TableLocation,
)

PINNED = Pinned(
    source=TableLocation(name="i", uri="i"),
    pin=InputPin(arrow_schema=""),
    model=ModelLocation(name="org/none", uri="org/none", kind=ModelKind.HUB),
    output=TableLocation(name="o", uri="o"),
    prompts=Prompts(),
)


def plan(replicas, *, nodes=2, gpus=8, cores=None):
    request = InferenceRequest(
        input_table="i", model="m", output_table="o", replicas=replicas
    )
    target = ComputeTarget(
        name="t", gpu_nodes=nodes, gpus_per_node=gpus, cpus_per_node=cores
    )
    made = plan_replicas(request, target, PINNED)
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
def test_gpus_are_shared_out_within_nodes_when_nothing_is_known(replicas, made):
    assert plan(replicas) == made


def test_a_model_whose_facts_are_known_gets_real_sizes(tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = ModelLocation(name="m", uri=str(tmp_path), kind=ModelKind.FOLDER)
    request = InferenceRequest(input_table="i", model="m", output_table="o")
    target = ComputeTarget(
        name="t", gpu_nodes=2, gpus_per_node=8, gpu_memory_bytes=79 * 2**30
    )

    made = plan_replicas(request, target, evolve(PINNED, model=model))

    assert (made.replicas, made.tensor_parallel_size) == (16, 1)
    assert made.engine_kwargs["gpu_memory_utilization"] == 0.9
    assert made.max_concurrent_seqs >= 32


def test_more_replicas_than_gpus_are_refused():
    with pytest.raises(RequestError, match="replicas=17 .*16"):
        plan(17)


@pytest.mark.parametrize("replicas", [0, -1, True, "max", 1.5])
def test_a_count_that_is_none_is_refused(replicas):
    with pytest.raises(RequestError, match="'throughput', 'depth' or a number"):
        plan(replicas)


def test_replicas_without_gpus_share_the_cores():
    request = InferenceRequest(input_table="i", model="m", output_table="o", replicas=2)
    target = ComputeTarget(name="t", gpu_nodes=1, gpus_per_node=0, cpus_per_node=5)

    made = plan_replicas(request, target, PINNED)

    assert (made.replicas, made.cpus_per_replica) == (2, 2)


def test_more_replicas_than_cores_are_refused():
    with pytest.raises(RequestError, match="more than there are CPU cores"):
        plan(3, nodes=1, gpus=0, cores=2)
