"""What one GPU of a replica has to hold, and how many tokens it can cache.

The overhead is a band. Its low end was fitted to vLLM's own logs for Llama-3-8B on one
H100 (vllm#10511: KV cache 53.3 GiB, ours 53.3 to 54.5); its high end also covers
Qwen3-235B-FP8 on four (vllm#21348: 8.1 GiB, ours 8.1 to 13.6). The truth is the profile
that vLLM takes when it starts.
"""

import math
from typing import Final

import attrs

from ml_toolkit_core.planning.profile import ModelProfile
from ml_toolkit_core.planning.rules import layer_split

GIB: Final = 1 << 30
#: Context of CUDA and of the libraries, and what CUDA graphs take at least.
_BASE: Final = 7 * GIB // 10
#: Buffers of the collectives, where GPUs talk to each other.
_COLLECTIVES: Final = 14 * GIB // 10
#: How much more was seen in vLLM's logs: dense models, and models with experts.
_DENSE_MORE, _EXPERTS_MORE = 12 * GIB // 10, 55 * GIB // 10
#: Tokens of a cache block.
_BLOCK: Final = 16
#: vLLM 0.32, offline: GPUs as large as an H100 take in 16384 tokens a step and hold
#: 1024 sequences, others 8192 and 256.
_LARGE_GPU: Final = 70 * GIB
_LARGE_DEFAULTS, _SMALL_DEFAULTS = (16_384, 1_024), (8_192, 256)
#: Less of a GPU's memory left than this counts as tight.
_TIGHT: Final = 0.05


@attrs.frozen(kw_only=True)
class Memory:
    """One GPU of a replica, on the tightest pipeline stage, in bytes.

    Attributes:
        usable: What vLLM may take.
        weights: Weights on this GPU, the high end where they are a band.
        overhead_low: Activations, libraries and graphs, as seen at best.
        overhead_high: The same, as seen at worst.
        kv: What is left for the KV cache with the low overhead; negative in a misfit.
        kv_tokens: Tokens that the replica can cache, all sequences together.
        max_concurrent_seqs: Sequences of full length that fit at a time.
        tight: Whether less than 5 % of the GPU is left for the KV cache.
    """

    usable: int
    weights: int
    overhead_low: int
    overhead_high: int
    kv: int
    kv_tokens: int
    max_concurrent_seqs: int
    tight: bool


def batch_defaults(gpu_memory_bytes: int) -> tuple[int, int]:
    """Return tokens that a step takes in, and sequences held, by vLLM's defaults."""
    return _LARGE_DEFAULTS if gpu_memory_bytes >= _LARGE_GPU else _SMALL_DEFAULTS


def memory_of(  # noqa: PLR0913 - the facts of one GPU
    profile: ModelProfile,
    *,
    tensor_parallel: int,
    pipeline_parallel: int,
    gpu_memory_bytes: int,
    gpu_memory_utilization: float,
    context: int,
    kv_value_bytes: int = 2,
) -> Memory:
    """Return what the tightest GPU of a replica holds.

    Args:
        profile: The model.
        tensor_parallel: GPUs that share every layer.
        pipeline_parallel: Stages.
        gpu_memory_bytes: Memory of one GPU.
        gpu_memory_utilization: The share of it that vLLM may take, 0 to 1.
        context: The longest sequence, in tokens.
        kv_value_bytes: Bytes of one cached value.
    """
    usable = math.floor(gpu_memory_bytes * gpu_memory_utilization)
    in_flight, _ = batch_defaults(gpu_memory_bytes)
    low = overhead(profile, tensor_parallel, pipeline_parallel, in_flight)
    more = _EXPERTS_MORE if profile.n_experts else _DENSE_MORE
    sequence = profile.kv_bytes_per_sequence(
        context,
        tensor_parallel=tensor_parallel,
        value_bytes=kv_value_bytes,
        tokens_in_flight=in_flight,
    )
    stages = []
    split = layer_split(profile.n_layers, pipeline_parallel)
    for stage, layers in enumerate(split):
        weights = stage_weights(profile, split, stage) // tensor_parallel
        kv = usable - weights - low
        # One block of the cache is vLLM's own and stays empty.
        each = max(1, sequence * layers // profile.n_layers)
        block = max(1, each * _BLOCK // context)
        stages.append((max(0, kv - block) / each, kv, weights))
    held, kv, weights = min(stages)
    return Memory(
        usable=usable,
        weights=weights,
        overhead_low=low,
        overhead_high=low + more,
        kv=kv,
        kv_tokens=int(held * context) // _BLOCK * _BLOCK,
        max_concurrent_seqs=int(held),
        tight=kv < _TIGHT * gpu_memory_bytes,
    )


def stage_weights(profile: ModelProfile, split: tuple[int, ...], stage: int) -> int:
    """Return the bytes of a stage's weights, before tensor parallelism shares them.

    The embedding is on the first stage and the head on the last one; the layers count
    as equal.
    """
    total = profile.weight_bytes[1]
    end = profile.embedding_bytes
    ends = end if profile.tied_embeddings else 2 * end
    if total <= ends:  # not a model that we know how to take apart
        return total
    weights = (total - ends) * split[stage] // profile.n_layers
    last = len(split) - 1
    weights += end if stage == 0 else 0
    if stage == last and (last > 0 or not profile.tied_embeddings):
        weights += end
    return weights


def overhead(
    profile: ModelProfile, tensor_parallel: int, pipeline_parallel: int, tokens: int
) -> int:
    """Return the bytes that vLLM needs beside weights and cache, at best.

    Args:
        profile: The model.
        tensor_parallel: GPUs that share every layer.
        pipeline_parallel: Stages.
        tokens: Tokens that one step takes in.
    """
    widths = 2 * profile.hidden_size + 2 * profile.active_width // tensor_parallel
    talks = _COLLECTIVES if tensor_parallel * pipeline_parallel > 1 else 0
    return _BASE + talks + tokens * widths * 2
