"""Fits: the sizes that vLLM starts with, and refusals that say what would work."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import (
    FitPlan,
    ModelProfile,
    plan_for,
    profile_from_config,
)
from ml_toolkit_core.planning.rules import (
    layer_split,
    pipeline_parallel_faults,
    tensor_parallel_faults,
)

GIB = 1 << 30
MODELS = {
    model["name"]: model
    for model in json.loads(
        Path(__file__)
        .parents[2]
        .joinpath("data/planning/models.json")
        .read_text(encoding="utf-8")
    )["models"]
}
SHAPES = {"h100": int(79.1 * GIB), "b200": int(178.3 * GIB)}


def profile_of(name: str) -> ModelProfile:
    """Return the profile of one of the checked-in models."""
    model = MODELS[name]
    return profile_from_config(
        model["config"], name=name, weight_bytes=model["weight_bytes"]
    )


def fitted(name: str, **changes: Any) -> FitPlan:
    """Return the plan on two nodes of eight H100."""
    facts = {"gpu_nodes": 2, "gpus_per_node": 8, "gpu_memory_bytes": SHAPES["h100"]}
    return plan_for(profile_of(name), **{**facts, **changes})


def test_has_all_models() -> None:
    assert len(MODELS) == 14


@pytest.mark.parametrize("name", MODELS)
def test_legal_sizes_are_those_of_the_table(name: str) -> None:
    profile = profile_of(name)

    legal = [size for size in range(1, 9) if not tensor_parallel_faults(profile, size)]

    assert legal == MODELS[name]["legal"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_the_smallest_size_that_starts_is_that_of_the_table(
    name: str, shape: str
) -> None:
    tensor, pipeline, *tight = MODELS[name][shape][0]

    plan = fitted(name, gpu_memory_bytes=SHAPES[shape], target_concurrency=1)

    sizes = plan.tensor_parallel_size, plan.pipeline_parallel_size
    assert (*sizes, plan.tight) == (tensor, pipeline, bool(tight))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_the_recommended_size_is_that_of_the_table(name: str, shape: str) -> None:
    # The table asks for the tokens of 32 sequences of 8192, also from short models.
    tokens = min(8192, profile_of(name).context_length)

    plan = fitted(
        name,
        gpu_memory_bytes=SHAPES[shape],
        target_concurrency=32 * 8192 // tokens,
    )

    sizes = [plan.tensor_parallel_size, plan.pipeline_parallel_size]
    assert sizes == MODELS[name][shape][1]


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("Llama-3.1-8B", 3, "32 attention heads do not divide by 3"),
        ("Phi-3-medium-4k", 4, "10 KV heads can neither be shared out nor repeated"),
        ("Qwen2.5-7B", 7, "4 KV heads"),
        ("Mixtral-8x22B", 6, "8 KV heads"),
        ("Qwen3-235B-A22B-FP8", 8, "1536 over 8 GPUs is 192, not a multiple .* 128"),
        ("DeepSeek-V3", 32, "18432 over 32 GPUs is 576"),
        ("Phi-3-medium-4k", 5, "vocabulary, padded to 32064, does not divide by 5"),
    ],
)
def test_a_rejected_size_carries_the_rule(name: str, size: int, words: str) -> None:
    faults = tensor_parallel_faults(profile_of(name), size)

    assert any(re.search(words, fault) for fault in faults)


def test_deepseek_may_be_split_in_16() -> None:
    assert tensor_parallel_faults(profile_of("DeepSeek-V3"), 16) == ()


def test_a_quantisation_group_is_never_cut() -> None:
    # Qwen2.5-VL-72B-AWQ: 29568 / 2 = 14784 is no multiple of 128 (vllm#13640).
    config = {
        **MODELS["Qwen2.5-7B"]["config"],
        "num_attention_heads": 64,
        "intermediate_size": 29_568,
        "quantization_config": {"quant_method": "awq", "group_size": 128, "bits": 4},
    }

    (fault,) = tensor_parallel_faults(profile_from_config(config), 2)

    assert "14784, not a multiple of the awq group size 128" in fault


@pytest.mark.parametrize(
    ("layers", "stages", "split"),
    [
        (126, 4, (31, 32, 32, 31)),
        (61, 4, (15, 15, 16, 15)),
        (61, 2, (31, 30)),
        (3, 4, (1, 1, 1, 0)),
        (8, 1, (8,)),
    ],
)
def test_layers_are_split_as_vllm_does(
    layers: int, stages: int, split: tuple[int, ...]
) -> None:
    assert layer_split(layers, stages) == split


def test_an_empty_stage_is_refused() -> None:
    profile = profile_of("SmolLM2-135M")

    assert pipeline_parallel_faults(profile, 30) == ()
    assert "leave one of 31 stages empty" in pipeline_parallel_faults(profile, 31)[0]


def test_the_plan_says_what_it_stands_for() -> None:
    plan = fitted("Llama-3.1-70B")

    assert (plan.replicas, plan.gpus_per_replica, plan.spare_gpus) == (4, 4, 0)
    assert plan.max_concurrent_seqs is not None
    assert plan.kv_tokens is not None
    assert plan.kv_tokens >= plan.max_concurrent_seqs * 8192
    assert plan.engine_kwargs == {
        "tensor_parallel_size": 4,
        "pipeline_parallel_size": 1,
        "gpu_memory_utilization": 0.9,
        "max_model_len": 8192,
        "max_num_seqs": 1024,
    }
    assert dict(plan.rejected)["TP3"].startswith("64 attention heads")
    assert "1 sequence(s) of 8192 tokens, 32 are wanted" in dict(plan.rejected)["TP2"]
    assert plan.memory is not None
    assert plan.memory.overhead_low < plan.memory.overhead_high


def test_the_context_is_cut_to_what_the_model_was_made_for() -> None:
    plan = fitted("Falcon-7B", max_model_len=8192)

    assert plan.max_model_len == 2048
    assert any("cut to 2048" in reason for reason in plan.reasons)


def test_a_band_is_planned_for_its_upper_end() -> None:
    config = {**MODELS["Llama-3.1-8B"]["config"], "architectures": ["Strange"]}

    plan = plan_for(
        profile_from_config(config),
        gpu_nodes=1,
        gpus_per_node=8,
        gpu_memory_bytes=SHAPES["h100"],
    )

    assert plan.memory is not None
    assert plan.memory.weights * plan.gpus_per_replica > 1.5 * 16_060_522_496
    assert any("is unknown here" in reason for reason in plan.reasons)


def test_a_misfit_says_the_smallest_number_of_gpus() -> None:
    words = r"does not start on 8 GPU\(s\) of 79.1 GiB.* 16 GPUs \(not 8\)"

    with pytest.raises(RequestError, match=words):
        fitted("Llama-3.1-405B bf16", gpu_nodes=1)


def test_a_misfit_says_the_context_that_would_fit() -> None:
    facts = {"gpu_nodes": 1, "gpus_per_node": 1, "gpu_memory_bytes": 22 * GIB}

    with pytest.raises(RequestError) as caught:
        fitted("Llama-3.1-8B", max_model_len=131_072, **facts)

    context = int(str(caught.value).split("max_model_len=")[-1].split()[0])
    assert fitted("Llama-3.1-8B", max_model_len=context, **facts).replicas == 1


def test_a_hopeless_misfit_says_so() -> None:
    with pytest.raises(RequestError, match="more memory or a quantised model"):
        fitted("Falcon-7B", gpu_memory_bytes=GIB)


def test_no_legal_size_says_every_rule() -> None:
    profile = profile_of("Falcon-7B")

    faults = tensor_parallel_faults(profile, 2)

    assert "71 attention heads do not divide by 2" in faults


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"profile": None}, "the model's facts are not known"),
        (
            {"profile": None, "unknown_because": "its config is on the far side"},
            "its config is on the far side",
        ),
        ({"gpu_memory_bytes": None}, "the memory of these GPUs is not known"),
        ({"gpus_per_node": 0}, "the nodes have no GPUs"),
    ],
)
def test_unknown_facts_give_one_replica_per_node_and_say_why(
    changes: dict[str, Any], because: str
) -> None:
    facts = {
        "profile": profile_of("Llama-3.1-8B"),
        "gpu_nodes": 3,
        "gpus_per_node": 4,
        "gpu_memory_bytes": SHAPES["h100"],
    }

    plan = plan_for(**{**facts, **changes})

    assert plan.replicas == 3
    assert plan.tensor_parallel_size == (changes.get("gpus_per_node", 4) or 1)
    assert plan.reasons == (f"One replica per node, since {because}.",)


@pytest.mark.parametrize(
    ("replicas", "tensor", "spare"), [(1, 8, 8), (2, 8, 0), (3, 4, 4), (16, 1, 0)]
)
def test_a_number_of_replicas_is_that_many(
    replicas: int, tensor: int, spare: int
) -> None:
    plan = fitted("Llama-3.1-8B", replicas=replicas)

    assert plan.replicas == replicas
    assert (plan.tensor_parallel_size, plan.pipeline_parallel_size) == (tensor, 1)
    assert plan.spare_gpus == spare


def test_too_many_replicas_say_how_many_are_possible() -> None:
    with pytest.raises(RequestError, match=r"replicas=9 .* hold 8 at most"):
        fitted("Llama-3.1-70B", replicas=9)


@pytest.mark.parametrize(("replicas", "tensor"), [(2, 4), (3, 4), (4, 2), (12, 1)])
def test_a_number_of_replicas_of_an_unknown_model_shares_the_nodes(
    replicas: int, tensor: int
) -> None:
    plan = plan_for(
        None, gpu_nodes=3, gpus_per_node=4, gpu_memory_bytes=None, replicas=replicas
    )

    assert (plan.replicas, plan.tensor_parallel_size) == (replicas, tensor)


def test_more_replicas_than_gpus_are_refused() -> None:
    with pytest.raises(RequestError, match="replicas=13 are more than the 12 GPUs"):
        plan_for(None, gpu_nodes=3, gpus_per_node=4, gpu_memory_bytes=None, replicas=13)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpu_nodes": 0}, "gpu_nodes=0"),
        ({"gpus_per_node": -1}, "gpus_per_node=-1"),
        ({"gpu_memory_bytes": 80.0}, r"gpu_memory_bytes=80\.0"),
        ({"max_model_len": 0}, "max_model_len=0"),
        ({"replicas": 0}, "replicas=0"),
        ({"target_concurrency": "32"}, "target_concurrency='32'"),
        ({"gpu_memory_utilization": 1.2}, r"gpu_memory_utilization=1\.2"),
        ({"gpu_memory_utilization": float("nan")}, "gpu_memory_utilization=nan"),
    ],
)
def test_refuses_wrong_arguments(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        fitted("Llama-3.1-8B", **changes)
