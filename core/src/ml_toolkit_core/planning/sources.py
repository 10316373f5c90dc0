"""Where a model's facts are found: a folder, a cached id, a GGUF file or a mapping."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import checkpoints
from ml_toolkit_core.planning.architectures import GGUF_NAMES
from ml_toolkit_core.planning.config import profile_from_config
from ml_toolkit_core.planning.profile import ModelProfile


def read_profile(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    cache_dir: str | os.PathLike[str] | None = None,
) -> ModelProfile:
    """Return the profile of a model without loading its weights or using a network.

    Args:
        source: A folder with ``config.json``, a ``.gguf`` file, the id of a model that
            is in the Hugging Face cache, or the content of a ``config.json``.
        cache_dir: The cache; by default ``HF_HUB_CACHE``, else ``hub`` in ``HF_HOME``,
            else ``~/.cache/huggingface/hub``.

    Raises:
        RequestError: If the source is none of these, or a file in it is broken.
    """
    if isinstance(source, Mapping):
        return profile_from_config(source)
    text = os.fspath(source)
    path = Path(text).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return _from_gguf(path)
    folder = path if path.is_dir() else _cached(text, cache_dir)
    if folder is None:
        raise RequestError(
            f"model={text!r} is no folder, no .gguf file and no id in the cache "
            f"{_cache(cache_dir)}; download it, or pass its config as a mapping."
        )
    if not (folder / "config.json").is_file():
        files = sorted(folder.glob("*.gguf"))
        if len(files) == 1:
            return _from_gguf(files[0])
        raise RequestError(f"model={text!r}: {folder} has no config.json.")
    config = checkpoints.read_json(folder / "config.json")
    weights = checkpoints.safetensors_bytes(folder)
    if weights is None:
        return profile_from_config(config, name=text)
    return profile_from_config(
        config, name=text, weight_bytes=weights[0], weight_source=weights[1]
    )


def _cache(cache_dir: str | os.PathLike[str] | None) -> Path:
    if cache_dir is not None:
        return Path(cache_dir).expanduser()
    if given := os.environ.get("HF_HUB_CACHE"):
        return Path(given).expanduser()
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return Path(home).expanduser() / "hub"


def _cached(name: str, cache_dir: str | os.PathLike[str] | None) -> Path | None:
    """Return the newest snapshot of a model in the cache, ``main`` first."""
    model = _cache(cache_dir) / f"models--{name.replace('/', '--')}"
    main = model / "refs" / "main"
    if main.is_file():
        folder = model / "snapshots" / main.read_text(encoding="utf-8").strip()
        if folder.is_dir():
            return folder
    snapshots = [path for path in model.glob("snapshots/*") if path.is_dir()]
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def _from_gguf(path: Path) -> ModelProfile:
    facts, weight_bytes = checkpoints.gguf_facts(path)
    kind = str(facts.get("general.architecture", "unknown"))

    def fact(name: str) -> Any:
        value = facts.get(f"{kind}.{name}")
        return max(value) if isinstance(value, list) else value

    words = facts.get("tokenizer.ggml.tokens")
    latent, heads = fact("attention.kv_lora_rank"), fact("attention.head_count")
    config = {
        "architectures": [GGUF_NAMES.get(kind, kind)],
        "num_hidden_layers": fact("block_count"),
        "hidden_size": fact("embedding_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": heads if latent else fact("attention.head_count_kv"),
        "head_dim": fact("attention.key_length"),
        "intermediate_size": fact("feed_forward_length"),
        "moe_intermediate_size": fact("expert_feed_forward_length"),
        "num_experts": fact("expert_count"),
        "num_experts_per_tok": fact("expert_used_count"),
        "n_shared_experts": fact("expert_shared_count"),
        "first_k_dense_replace": fact("leading_dense_block_count"),
        "kv_lora_rank": latent,
        "qk_rope_head_dim": fact("rope.dimension_count") if latent else None,
        "sliding_window": fact("attention.sliding_window"),
        "max_position_embeddings": fact("context_length"),
        "vocab_size": fact("vocab_size") or words,
        "quantization_config": {"quant_method": "gguf"},
    }
    if config["num_experts"] and not config["moe_intermediate_size"]:
        config["num_local_experts"] = config.pop("num_experts")
    given = {name: value for name, value in config.items() if value is not None}
    return profile_from_config(
        given, name=str(path), weight_bytes=weight_bytes, weight_source="file"
    )
