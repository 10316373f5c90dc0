"""How many bytes a model's weights take, worked out from its config.

Matrices, biases and norms, counted as the checkpoints of the known architectures store
them: for Llama 3.1, Qwen2.5, Mixtral and SmolLM2 the sum is the checkpoint to the byte.
"""

from collections.abc import Mapping
from typing import Any

from ml_toolkit_core.planning.architectures import ARCHITECTURES, PLAIN, Traits
from ml_toolkit_core.planning.profile import ModelProfile, dtype_bytes

#: Scales and plain layers make quantised weights larger than their bits; by how much
#: differs, so the upper end leaves a fifth for them.
_QUANTISED_MORE = 1.2
#: How far an unknown architecture may be from a plain gated transformer.
_UNKNOWN_LESS, _UNKNOWN_MORE = 0.6, 1.6


def parameter_bytes(profile: ModelProfile, facts: Mapping[str, Any]) -> tuple[int, int]:
    """Return lowest and highest bytes of the weights; equal where they are exact.

    Args:
        profile: The profile so far.
        facts: The config, for what only counting needs.
    """
    traits = ARCHITECTURES.get(profile.architecture, PLAIN)
    ends = profile.vocab_size * profile.hidden_size
    ends *= 1 if profile.tied_embeddings else 2
    norms = profile.hidden_size * (2 if traits.norm_bias else 1)
    layers = _attention(profile, facts, traits) + profile.n_layers * (
        traits.norms * norms
    )
    layers += _mlps(profile, facts, traits)
    plain = dtype_bytes(profile.dtype)
    bits = profile.quantization.bits if profile.quantization else None
    low = (ends + norms) * plain + layers * (bits or 8 * plain) // 8
    if not profile.known:
        return int(_UNKNOWN_LESS * low), int(_UNKNOWN_MORE * low)
    return (low, int(_QUANTISED_MORE * low)) if profile.quantization else (low, low)


def _attention(profile: ModelProfile, facts: Mapping[str, Any], traits: Traits) -> int:
    hidden, heads = profile.hidden_size, profile.n_heads
    if profile.latent_dim:
        return profile.n_layers * _latent_attention(profile, facts)
    queries = heads * profile.head_dim
    values = 2 * profile.n_kv_heads * profile.head_dim
    layer = hidden * (queries + values) + queries * hidden
    layer += queries + values if traits.qkv_bias else 0
    layer += hidden if traits.out_bias else 0
    layer += 2 * profile.head_dim if traits.qk_norm else 0
    layer += heads if traits.sinks else 0
    return profile.n_layers * layer


def _latent_attention(profile: ModelProfile, facts: Mapping[str, Any]) -> int:
    hidden, heads = profile.hidden_size, profile.n_heads
    rank, rope = int(facts["kv_lora_rank"]), int(facts.get("qk_rope_head_dim", 0))
    nope, value = int(facts.get("qk_nope_head_dim", 0)), int(facts.get("v_head_dim", 0))
    query_rank = facts.get("q_lora_rank")
    queries = heads * (nope + rope)
    if query_rank:
        layer = hidden * query_rank + query_rank + query_rank * queries
    else:
        layer = hidden * queries
    layer += hidden * (rank + rope) + rank + rank * heads * (nope + value)
    return int(layer + heads * value * hidden)


def _mlps(profile: ModelProfile, facts: Mapping[str, Any], traits: Traits) -> int:
    hidden = profile.hidden_size
    matrices = 3 if traits.gated else 2

    def mlp(width: int) -> int:
        biases = (matrices - 1) * width + hidden if traits.mlp_bias else 0
        return matrices * hidden * width + biases

    if not profile.n_experts:
        return profile.n_layers * mlp(profile.intermediate_size)
    dense = int(facts.get("first_k_dense_replace") or 0)
    shared = int(facts.get("n_shared_experts") or 0)
    router = hidden * profile.n_experts
    router += profile.n_experts if traits.mlp_bias or shared else 0
    layer = router + (profile.n_experts + shared) * mlp(profile.moe_intermediate_size)
    return (profile.n_layers - dense) * layer + dense * mlp(profile.intermediate_size)
