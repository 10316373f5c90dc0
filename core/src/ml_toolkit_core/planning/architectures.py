"""The architectures whose weights and caches we can work out, and what sets them apart.

A class name that is not here is an unknown architecture: its profile says so and gives
bands instead of numbers. All of these can be split into pipeline stages by vLLM.
Sources: the modelling files of vLLM 0.32 and of transformers 4, read for this table.
"""

from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class Traits:
    """What an architecture adds to plain attention and a gated MLP.

    Attributes:
        qkv_bias: Biases on the projections of queries, keys and values.
        out_bias: A bias on the output projection.
        qk_norm: A norm over each head's queries and keys.
        sinks: One learned sink per attention head.
        gated: Three MLP matrices (gate, up, down) rather than two.
        mlp_bias: Biases on the MLP (on each expert, and on the router).
        norms: Norms per layer, of the hidden size each, weights only.
        norm_bias: Whether norms have a bias too.
    """

    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    gated: bool = True
    mlp_bias: bool = False
    norms: int = 2
    norm_bias: bool = False


PLAIN: Final = Traits()

ARCHITECTURES: Final[dict[str, Traits]] = {
    "DeepseekV2ForCausalLM": PLAIN,
    "DeepseekV3ForCausalLM": PLAIN,
    "FalconForCausalLM": Traits(gated=False, norms=1, norm_bias=True),
    "GptOssForCausalLM": Traits(
        qkv_bias=True, out_bias=True, sinks=True, mlp_bias=True
    ),
    "LlamaForCausalLM": PLAIN,
    "MistralForCausalLM": PLAIN,
    "MixtralForCausalLM": PLAIN,
    "Phi3ForCausalLM": PLAIN,
    "Qwen2ForCausalLM": Traits(qkv_bias=True),
    "Qwen3ForCausalLM": Traits(qk_norm=True),
    "Qwen3MoeForCausalLM": Traits(qk_norm=True),
}

#: Old class names, from repositories that carried their own code.
ALIASES: Final = {
    "FalconModel": "FalconForCausalLM",
    "RWForCausalLM": "FalconForCausalLM",
    "RWModel": "FalconForCausalLM",
    "LLaMAForCausalLM": "LlamaForCausalLM",
}

#: What GGUF files call them.
GGUF_NAMES: Final = {
    "deepseek2": "DeepseekV3ForCausalLM",
    "falcon": "FalconForCausalLM",
    "gpt-oss": "GptOssForCausalLM",
    "llama": "LlamaForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
}
