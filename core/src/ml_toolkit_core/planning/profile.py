"""What a model needs, known before a weight is loaded."""

import attrs


@attrs.frozen(kw_only=True)
class Quantization:
    """How the weights are stored, where it is not the plain dtype.

    Attributes:
        method: The name in the config, such as ``fp8``, ``gptq``, ``awq``, ``mxfp4``.
        block: Rows and columns that share a scale (FP8 by blocks), or None.
        group_size: Inputs that share a scale (GPTQ, AWQ), or None.
        bits: Bits of one stored weight, as far as the config says.
    """

    method: str
    block: tuple[int, int] | None = None
    group_size: int | None = None
    bits: int | None = None


@attrs.frozen(kw_only=True)
class ModelProfile:
    """The facts of one model that planning uses.

    Attributes:
        name: Where the facts come from: an id, a folder, a file or ``config``.
        architecture: The class name in the config, or what stands for it.
        known: Whether we know how this architecture uses memory. If not, the numbers
            are bands, and the ends of the bands are far apart.
        n_layers: Transformer layers.
        hidden_size: Width of the residual stream.
        n_heads: Attention heads.
        n_kv_heads: Heads of keys and values that are cached.
        head_dim: Width of one head.
        vocab_size: Tokens of the vocabulary, not padded.
        intermediate_size: Width of the dense MLP; 0 if there is none.
        moe_intermediate_size: Width of one expert; 0 without experts.
        n_experts: Routed experts of one layer; 0 in a dense model.
        experts_per_token: Experts that one token passes, shared ones included.
        latent_dim: With multi-head latent attention, the values cached per token and
            layer; 0 otherwise.
        sliding_window: Tokens that a sliding layer looks back, or None.
        sliding_layers: How many layers slide.
        context_length: The longest sequence that the model was made for, in tokens.
        dtype: Name of the plain dtype, such as ``bfloat16``.
        quantization: How the weights are stored, or None if plainly.
        tied_embeddings: Whether head and embedding are one matrix.
        weight_bytes: Lowest and highest bytes of all weights; one number twice where
            they are exact.
        weight_source: ``index``, ``headers``, ``file``, ``given`` or ``computed``; for
            the last one the bytes are exact only with ``known`` and unquantised.
        notes: What the reader should know, a sentence each.
    """

    name: str
    architecture: str
    known: bool
    n_layers: int
    hidden_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    weight_bytes: tuple[int, int]
    weight_source: str
    intermediate_size: int = 0
    moe_intermediate_size: int = 0
    n_experts: int = 0
    experts_per_token: int = 0
    latent_dim: int = 0
    sliding_window: int | None = None
    sliding_layers: int = 0
    dtype: str = "bfloat16"
    quantization: Quantization | None = None
    tied_embeddings: bool = False
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the bytes of the weights are one number."""
        return self.weight_bytes[0] == self.weight_bytes[1]

    @property
    def embedding_bytes(self) -> int:
        """Bytes of the embedding matrix, which quantised models keep plain too."""
        return self.vocab_size * self.hidden_size * dtype_bytes(self.dtype)

    @property
    def active_width(self) -> int:
        """Widths of all MLPs that one token passes in a layer, added up."""
        return max(
            self.intermediate_size,
            self.moe_intermediate_size * self.experts_per_token,
        )

    def kv_bytes_per_token(
        self, *, tensor_parallel: int = 1, value_bytes: int = 2
    ) -> tuple[int, int]:
        """Return lowest and highest bytes that one token caches on one GPU, all layers.

        KV heads are shared out over the GPUs, one at least on each; the latent vector
        of multi-head latent attention is on every GPU whole. Sliding layers count as
        any other here; see :meth:`kv_bytes_per_sequence`.

        Args:
            tensor_parallel: GPUs that share a layer.
            value_bytes: Bytes of one cached value; 2 for bfloat16, 1 for FP8.

        Returns:
            One number twice for a known architecture.
        """
        layer = self._kv_layer(self.n_kv_heads, tensor_parallel, value_bytes)
        most = layer
        if not self.known:
            most = max(
                layer, self._kv_layer(self.n_heads, tensor_parallel, value_bytes)
            )
        return self.n_layers * layer, self.n_layers * most

    def kv_bytes_per_sequence(
        self,
        tokens: int,
        *,
        tensor_parallel: int = 1,
        value_bytes: int = 2,
        tokens_in_flight: int = 0,
    ) -> int:
        """Return the highest bytes that one sequence caches on one GPU, all layers.

        Args:
            tokens: Length of the sequence.
            tensor_parallel: GPUs that share a layer.
            value_bytes: Bytes of one cached value.
            tokens_in_flight: Tokens that one step takes in; a sliding layer keeps them
                beside its window (``SlidingWindowManager`` in vLLM 0.32).
        """
        _, total = self.kv_bytes_per_token(
            tensor_parallel=tensor_parallel, value_bytes=value_bytes
        )
        layer = total // self.n_layers
        kept = tokens
        if self.sliding_window is not None:
            kept = min(tokens, self.sliding_window - 1 + tokens_in_flight)
        full = self.n_layers - self.sliding_layers
        return layer * (full * tokens + self.sliding_layers * kept)

    def _kv_layer(self, heads: int, tensor_parallel: int, value_bytes: int) -> int:
        if self.latent_dim:
            return self.latent_dim * value_bytes
        return 2 * max(1, heads // tensor_parallel) * self.head_dim * value_bytes


_DTYPES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8": 1}


def dtype_bytes(dtype: str) -> int:
    """Return the bytes of one value; 2 for a name that is not known."""
    return _DTYPES.get(dtype.removeprefix("torch."), 2)
