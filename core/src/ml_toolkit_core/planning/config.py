"""From a model's ``config.json``, in any of its spellings, to a :class:`.ModelProfile`.

Old repositories name the same fact differently, and some say one thing and mean
another: Falcon gives 71 KV heads where ``multi_query`` means one. Spellings read in the
configs of transformers 4 and in the repositories that carried their own code.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning.amounts import whole
from ml_toolkit_core.planning.architectures import ALIASES, ARCHITECTURES
from ml_toolkit_core.planning.parameters import parameter_bytes
from ml_toolkit_core.planning.profile import ModelProfile, Quantization

_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    "n_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model", "dim"),
    "n_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "n_kv_heads": ("num_key_value_heads", "multi_query_group_num", "n_head_kv"),
    "head_dim": ("head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "n_inner"),
    "context_length": (
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "max_sequence_length",
        "seq_length",
        "model_max_length",
    ),
    "n_experts": ("num_local_experts", "n_routed_experts", "num_experts"),
    "experts_per_token": ("num_experts_per_tok", "moe_topk", "num_experts_per_token"),
}


def profile_from_config(
    config: Mapping[str, Any],
    *,
    name: str = "config",
    weight_bytes: int | None = None,
    weight_source: str = "given",
) -> ModelProfile:
    """Return the profile of the model that a config describes.

    Args:
        config: The content of ``config.json``.
        name: What the model is called in messages.
        weight_bytes: The bytes of the checkpoint, if they are known; else they are
            worked out, which is exact for known architectures without quantisation
            and a band otherwise.
        weight_source: Where ``weight_bytes`` stands.

    Raises:
        RequestError: If a fact without which nothing can be planned is missing or is no
            whole number.

    >>> config = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2,
    ...           "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 10,
    ...           "intermediate_size": 16, "max_position_embeddings": 64}
    >>> profile_from_config(config).weight_bytes
    (2960, 2960)
    """
    if not isinstance(config, Mapping):
        raise RequestError(f"{name}: a config is a mapping, not {config!r}.")
    architecture = _architecture(config)
    # Models that see and hear keep the facts of their language model in a part.
    inner = config.get("text_config") or config.get("llm_config")
    facts = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
    known = architecture in ARCHITECTURES
    notes = [] if known else [_unknown(architecture)]

    def number(fact: str, default: int | None = None) -> int:
        for spelling in _SPELLINGS[fact]:
            if facts.get(spelling) is not None:
                return whole(facts[spelling], f"{name}: {spelling}")
        if default is None:
            raise RequestError(
                f"{name}: the config says no {_SPELLINGS[fact][0]}, nor any other "
                f"spelling of it ({', '.join(_SPELLINGS[fact][1:])})."
            )
        return default

    layers = number("n_layers")
    hidden = number("hidden_size")
    heads = number("n_heads")
    for fact, value in (("layers", layers), ("width", hidden), ("heads", heads)):
        if value < 1:
            raise RequestError(f"{name}: the config gives 0 {fact}.")
    window, sliding = _window(facts, layers)
    if facts.get("vision_config") or facts.get("audio_config"):
        notes.append("Only the language part is counted beside the weights.")
    experts = number("n_experts", 0)
    shared = whole(facts.get("n_shared_experts") or 0, f"{name}: n_shared_experts")
    latent = facts.get("kv_lora_rank")
    profile = ModelProfile(
        name=name,
        architecture=architecture,
        known=known,
        n_layers=layers,
        hidden_size=hidden,
        n_heads=heads,
        n_kv_heads=_kv_heads(facts, heads, number("n_kv_heads", heads)),
        head_dim=number("head_dim", max(1, hidden // heads)),
        vocab_size=number("vocab_size", 0),
        intermediate_size=_intermediate(facts, number("intermediate_size", 4 * hidden)),
        moe_intermediate_size=_expert_width(facts, experts),
        n_experts=experts,
        experts_per_token=(number("experts_per_token", 1) + shared) if experts else 0,
        latent_dim=(latent + facts.get("qk_rope_head_dim", 0)) if latent else 0,
        sliding_window=window,
        sliding_layers=sliding,
        context_length=number("context_length", 2048),
        dtype=str(facts.get("dtype") or facts.get("torch_dtype") or "bfloat16"),
        quantization=_quantization(config),
        tied_embeddings=_tied(facts, architecture),
        weight_bytes=(0, 0),
        weight_source=weight_source if weight_bytes else "computed",
        notes=tuple(notes),
    )
    if weight_bytes:
        return attrs.evolve(profile, weight_bytes=(weight_bytes, weight_bytes))
    return attrs.evolve(profile, weight_bytes=parameter_bytes(profile, facts))


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures") or [config.get("model_type") or "unknown"]
    name = str(names[0] if isinstance(names, list | tuple) else names)
    return ALIASES.get(name, name)


def _unknown(architecture: str) -> str:
    return (
        f"The architecture {architecture!r} is unknown here: bytes that are not read "
        "from the checkpoint are bands."
    )


def _kv_heads(facts: Mapping[str, Any], heads: int, given: int) -> int:
    """Return the KV heads; an old Falcon's ``multi_query`` overrules the number."""
    attention = facts.get("attn_config")
    if isinstance(attention, Mapping) and attention.get("kv_n_heads"):  # MPT
        return int(attention["kv_n_heads"])
    if "n_head_kv" in facts or facts.get("new_decoder_architecture"):  # Falcon 40B
        return int(facts.get("n_head_kv") or facts.get("num_kv_heads") or given)
    if facts.get("multi_query") and not facts.get("multi_query_group_num"):
        return 1
    return given or heads


def _intermediate(facts: Mapping[str, Any], given: int) -> int:
    """Return the width of the dense MLP; 0 where every layer has experts instead."""
    experts_everywhere = (
        "moe_intermediate_size" in facts
        and not facts.get("first_k_dense_replace")
        and not facts.get("mlp_only_layers")
        and facts.get("decoder_sparse_step", 1) == 1
    ) or _shares_width(facts)
    return 0 if experts_everywhere else given


def _shares_width(facts: Mapping[str, Any]) -> bool:
    """Return whether ``intermediate_size`` means an expert (Mixtral, gpt-oss)."""
    return bool(facts.get("num_local_experts")) and (
        "moe_intermediate_size" not in facts
    )


def _expert_width(facts: Mapping[str, Any], experts: int) -> int:
    if not experts:
        return 0
    width = facts.get("moe_intermediate_size") or facts.get("intermediate_size") or 0
    return int(width)


def _window(facts: Mapping[str, Any], layers: int) -> tuple[int | None, int]:
    """Return the sliding window and how many layers slide."""
    window = facts.get("sliding_window")
    if not isinstance(window, int) or facts.get("use_sliding_window") is False:
        return None, 0
    kinds = facts.get("layer_types")
    if isinstance(kinds, list):
        sliding = sum("sliding" in str(kind) for kind in kinds)
    elif facts.get("sliding_window_pattern"):  # every n-th layer is full
        sliding = layers - layers // int(facts["sliding_window_pattern"])
    elif facts.get("use_sliding_window"):  # Qwen2: from that layer on
        sliding = max(0, layers - int(facts.get("max_window_layers", 0)))
    else:
        sliding = layers
    return (window, sliding) if sliding else (None, 0)


def _tied(facts: Mapping[str, Any], architecture: str) -> bool:
    default = architecture == "FalconForCausalLM"
    return bool(facts.get("tie_word_embeddings", default))


def _quantization(config: Mapping[str, Any]) -> Quantization | None:
    facts = config.get("quantization_config") or config.get("compression_config")
    if not isinstance(facts, Mapping):
        return None
    method = str(facts.get("quant_method") or "unknown")
    block = facts.get("weight_block_size")
    group = facts.get("group_size") or facts.get("q_group_size")
    bits = facts.get("bits") or facts.get("w_bit") or _BITS.get(method)
    for part in (facts.get("config_groups") or {}).values():  # compressed-tensors
        weights = part.get("weights") or {}
        group = group or weights.get("group_size")
        bits = bits or weights.get("num_bits")
        block = block or weights.get("block_structure")
    return Quantization(
        method=method,
        block=(int(block[0]), int(block[1])) if isinstance(block, list) else None,
        group_size=group if isinstance(group, int) and group > 0 else None,
        bits=bits if isinstance(bits, int) else None,
    )


_BITS: Final = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "bitsandbytes": 4}
