"""Which tensor- and pipeline-parallel sizes vLLM really starts with.

vLLM checks the attention heads when it reads the config; the other rules fail later,
when the weights are loaded and the workers run. Here all of them are checked before
anything is started. Source: vLLM 0.32 (``ModelConfig.verify_with_parallel_config``,
``QKVParallelLinear``, ``VocabParallelEmbedding``, ``fp8_utils``, ``get_pp_indices``).
"""

from collections.abc import Iterator
from typing import Final

from ml_toolkit_core.planning.profile import ModelProfile

#: vLLM pads the vocabulary to a multiple of this before it is split.
VOCABULARY_PADDING: Final = 64
#: Methods whose kernels pad an expert's width by themselves.
_PADS_ITSELF: Final = {"mxfp4", "gguf"}


def tensor_parallel_faults(profile: ModelProfile, size: int) -> tuple[str, ...]:
    """Return why the model cannot be split over ``size`` GPUs, a sentence per rule.

    Args:
        profile: The model.
        size: GPUs that share every layer, 1 or more.
    """
    return tuple(_faults(profile, size)) if size > 1 else ()


def _faults(profile: ModelProfile, size: int) -> Iterator[str]:
    if profile.n_heads % size:
        yield f"{profile.n_heads} attention heads do not divide by {size}"
    kv = profile.n_kv_heads
    if not profile.latent_dim and (size % kv if size >= kv else kv % size):
        yield (
            f"{kv} KV heads can neither be shared out nor repeated evenly over {size} "
            "GPUs (vLLM notices only when it loads the weights)"
        )
    padded = -(-profile.vocab_size // VOCABULARY_PADDING) * VOCABULARY_PADDING
    if padded % size:
        yield f"the vocabulary, padded to {padded}, does not divide by {size}"
    for what, width in (
        ("MLP", profile.intermediate_size),
        ("expert", profile.moe_intermediate_size),
    ):
        if width % size:
            yield f"the {what} width {width} does not divide by {size}"
        elif width:
            yield from _quantisation_faults(profile, what, width, size)


def _quantisation_faults(
    profile: ModelProfile, what: str, width: int, size: int
) -> Iterator[str]:
    stored = profile.quantization
    if stored is None or stored.method in _PADS_ITSELF:
        return
    part = width // size
    if stored.block and part % stored.block[0]:
        yield (
            f"the {what} width {width} over {size} GPUs is {part}, not a multiple of "
            f"the {stored.method} block {stored.block[0]}"
        )
    if stored.group_size and part % stored.group_size:
        yield (
            f"the {what} width {width} over {size} GPUs is {part}, not a multiple of "
            f"the {stored.method} group size {stored.group_size}"
        )


def layer_split(n_layers: int, stages: int) -> tuple[int, ...]:
    """Return how vLLM shares out layers: evenly, what is left over before the last.

    >>> layer_split(126, 4), layer_split(61, 4), layer_split(3, 4)
    ((31, 32, 32, 31), (15, 15, 16, 15), (1, 1, 1, 0))
    """
    layers = [n_layers // stages] * stages
    for place in range(2, n_layers % stages + 2):
        layers[-place] += 1
    return tuple(layers)


def pipeline_parallel_faults(profile: ModelProfile, stages: int) -> tuple[str, ...]:
    """Return why the model cannot run in so many stages, a sentence per rule.

    Args:
        profile: The model.
        stages: Pipeline stages, 1 or more.
    """
    if min(layer_split(profile.n_layers, stages)) < 1:
        fault = f"{profile.n_layers} layers leave one of {stages} stages empty"
        return (f"{fault}, and vLLM says nothing about it",)
    if stages > 1 and not profile.known:
        return (f"whether {profile.architecture!r} has stages is not known",)
    return ()
