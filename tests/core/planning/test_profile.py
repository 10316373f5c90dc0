"""Profiles: facts read from configs in all spellings, and bytes read from headers."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import profile_from_config, read_profile

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 10,
    "max_position_embeddings": 64,
}
MODELS = json.loads(
    Path(__file__)
    .parents[2]
    .joinpath("data/planning/models.json")
    .read_text(encoding="utf-8")
)["models"]


def safetensors(path: Path, tensors: Mapping[str, int]) -> None:
    """Write a file whose tensors have so many bytes; the values are left out."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in tensors.items():
        header[name] = {
            "dtype": "U8",
            "shape": [size],
            "data_offsets": [end, end + size],
        }
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


def gguf(path: Path, facts: Mapping[str, Any], tensor_bytes: int) -> None:
    """Write a GGUF file with these facts and one tensor."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def value(given: Any) -> bytes:
        if isinstance(given, str):
            return struct.pack("<I", 8) + text(given)
        if isinstance(given, list):
            inner = b"".join(text(word) for word in given)
            return struct.pack("<IIQ", 9, 8, len(given)) + inner
        return struct.pack("<II", 4, given)

    entries = b"".join(text(key) + value(given) for key, given in facts.items())
    tensor = text("w") + struct.pack("<IQIQ", 1, tensor_bytes, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(facts)) + entries + tensor
    path.write_bytes(head + b"\0" * (-len(head) % 32) + b"\0" * tensor_bytes)


@pytest.mark.parametrize(
    ("name", "weight_bytes"),
    [
        ("Llama-3.1-8B", 16_060_522_496),
        ("Llama-3.1-70B", 141_107_412_992),
        ("Qwen2.5-7B", 15_231_233_024),
        ("Qwen3-235B-A22B", 470_187_269_120),
        ("SmolLM2-135M", 269_030_016),
    ],
)
def test_works_out_the_bytes_of_plain_models_exactly(
    name: str, weight_bytes: int
) -> None:
    config = next(model["config"] for model in MODELS if model["name"] == name)

    profile = profile_from_config(config)

    assert profile.exact
    assert profile.weight_bytes == (weight_bytes, weight_bytes)


@pytest.mark.parametrize("name", ["DeepSeek-V3", "gpt-oss-120b", "Qwen3-235B-A22B-FP8"])
def test_gives_a_band_for_quantised_models_that_covers_the_checkpoint(
    name: str,
) -> None:
    model = next(model for model in MODELS if model["name"] == name)

    low, high = profile_from_config(model["config"]).weight_bytes

    assert low * 0.999 <= model["weight_bytes"] <= high


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("Llama-3.1-8B", 131_072),
        ("DeepSeek-V3", 61 * 576 * 2),
        ("Falcon-7B", 32 * 2 * 64 * 2),
        ("Qwen3-235B-A22B", 94 * 2 * 4 * 128 * 2),
    ],
)
def test_knows_the_cache_of_a_token(name: str, bytes_per_token: int) -> None:
    config = next(model["config"] for model in MODELS if model["name"] == name)

    profile = profile_from_config(config)

    assert profile.kv_bytes_per_token() == (bytes_per_token, bytes_per_token)


def test_shares_kv_heads_but_not_the_latent_vector() -> None:
    llama = profile_from_config(LLAMA)
    latent = profile_from_config({**LLAMA, "kv_lora_rank": 6, "qk_rope_head_dim": 2})

    assert llama.kv_bytes_per_token(tensor_parallel=2)[0] == 2 * 2 * 1 * 2 * 2
    assert llama.kv_bytes_per_token(tensor_parallel=4)[0] == 2 * 2 * 1 * 2 * 2
    assert latent.kv_bytes_per_token(tensor_parallel=4)[0] == 2 * 8 * 2


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        ({"n_head_kv": 8, "num_key_value_heads": None}, "n_kv_heads", 8),
        ({"multi_query": True, "num_kv_heads": 4}, "n_kv_heads", 1),
        ({"attn_config": {"kv_n_heads": 2}}, "n_kv_heads", 2),
        ({"multi_query": True, "multi_query_group_num": 2}, "n_kv_heads", 2),
        ({"num_key_value_heads": None}, "n_kv_heads", 4),
        ({"head_dim": 32}, "head_dim", 32),
        ({"kv_channels": 16}, "head_dim", 16),
        ({"torch_dtype": "float32"}, "dtype", "float32"),
        ({"dtype": "float16", "torch_dtype": "float32"}, "dtype", "float16"),
        ({"sliding_window": 7}, "sliding_layers", 2),
        ({"sliding_window": 7, "use_sliding_window": False}, "sliding_layers", 0),
        (
            {"sliding_window": 7, "use_sliding_window": True, "max_window_layers": 1},
            "sliding_layers",
            1,
        ),
        ({"sliding_window": 7, "sliding_window_pattern": 2}, "sliding_layers", 1),
        (
            {"sliding_window": 7, "layer_types": ["full_attention"] * 2},
            "sliding_window",
            None,
        ),
        ({"max_position_embeddings": None, "n_positions": 32}, "context_length", 32),
        ({"tie_word_embeddings": True}, "tied_embeddings", True),
        ({"text_config": {"num_hidden_layers": 5}}, "n_layers", 5),
        ({"num_local_experts": 4, "num_experts_per_tok": 2}, "intermediate_size", 0),
        ({"num_local_experts": 4}, "moe_intermediate_size", 16),
        (
            {"n_routed_experts": 4, "moe_intermediate_size": 6, "n_shared_experts": 1},
            "experts_per_token",
            2,
        ),
    ],
)
def test_reads_old_and_new_spellings(
    changes: dict[str, Any], field: str, expected: object
) -> None:
    profile = profile_from_config({**LLAMA, **changes})

    assert getattr(profile, field) == expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, (128, None, 8)),
        ({"quant_method": "awq", "group_size": 128, "bits": 4}, (None, 128, 4)),
        ({"quant_method": "gptq", "group_size": -1, "bits": 8}, (None, None, 8)),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"0": {"weights": {"num_bits": 4, "group_size": 32}}},
            },
            (None, 32, 4),
        ),
    ],
)
def test_reads_how_weights_are_stored(
    stored: dict[str, Any], expected: tuple[int | None, int | None, int | None]
) -> None:
    profile = profile_from_config({**LLAMA, "quantization_config": stored})

    found = profile.quantization
    assert found is not None
    assert (found.block and found.block[0], found.group_size, found.bits) == expected


def test_says_that_an_architecture_is_unknown_and_gives_bands() -> None:
    profile = profile_from_config({**LLAMA, "architectures": ["StrangeForCausalLM"]})

    low, high = profile.weight_bytes
    assert not profile.known
    assert "StrangeForCausalLM" in profile.notes[0]
    assert low < profile_from_config(LLAMA).weight_bytes[0] < high
    assert profile.kv_bytes_per_token() == (32, 64)


def test_a_sliding_layer_keeps_its_window_and_what_is_in_flight() -> None:
    profile = profile_from_config({**LLAMA, "sliding_window": 8})

    assert profile.kv_bytes_per_sequence(64) == 32 * 7
    assert profile.kv_bytes_per_sequence(64, tokens_in_flight=20) == 32 * 27
    assert profile.kv_bytes_per_sequence(4) == 32 * 4


def test_reads_the_index_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    index = {"metadata": {"total_size": 4711}, "weight_map": {}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))

    profile = read_profile(tmp_path)

    assert profile.weight_bytes == (4711, 4711)
    assert profile.weight_source == "index"


def test_adds_up_the_headers_without_an_index(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    safetensors(tmp_path / "model-1.safetensors", {"a": 100, "b": 20})
    safetensors(tmp_path / "model-2.safetensors", {"c": 3})
    safetensors(tmp_path / "consolidated.safetensors", {"a": 123})

    profile = read_profile(str(tmp_path))

    assert profile.weight_bytes == (123, 123)
    assert profile.weight_source == "headers"


def test_finds_an_id_in_the_cache(tmp_path: Path) -> None:
    model = tmp_path / "models--acme--tiny"
    snapshot = model / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc\n")
    (snapshot / "config.json").write_text(json.dumps(LLAMA))

    profile = read_profile("acme/tiny", cache_dir=tmp_path)

    assert profile.name == "acme/tiny"
    assert profile.weight_source == "computed"


def test_reads_a_gguf_file(tmp_path: Path) -> None:
    facts = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.embedding_length": 8,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.feed_forward_length": 16,
        "llama.context_length": 64,
        "tokenizer.ggml.tokens": ["a", "b", "c"],
    }
    gguf(tmp_path / "m.gguf", facts, 160)

    profile = read_profile(tmp_path / "m.gguf")

    assert profile.known
    assert profile.weight_bytes == (160, 160)
    assert (profile.n_layers, profile.n_kv_heads, profile.vocab_size) == (2, 2, 3)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nobody/nothing", "no folder, no .gguf file and no id in the cache"),
        ({}, "num_hidden_layers"),
        ({**LLAMA, "hidden_size": 2.5}, r"hidden_size=2\.5"),
        ({**LLAMA, "num_attention_heads": 0}, "0 heads"),
    ],
)
def test_refuses_what_is_no_model(source: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=words):
        read_profile(source, cache_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", b"short"),
        ("model.safetensors", (10**12).to_bytes(8, "little") + b"{}"),
        ("model.safetensors", (4).to_bytes(8, "little") + b"[1]]"),
        ("model.safetensors.index.json", b"not json"),
    ],
)
def test_names_a_broken_file(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / name).write_bytes(content)

    with pytest.raises(RequestError, match=r"model\.safetensors"):
        read_profile(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + b"\xff" * 60, b"x" * 99])
def test_names_a_broken_gguf_file(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(content)

    with pytest.raises(RequestError, match="GGUF"):
        read_profile(tmp_path / "m.gguf")
