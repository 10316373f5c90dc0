"""The exact bytes of a checkpoint, read from its index or headers; no weight is loaded.

Formats: safetensors (8 bytes with the length of a JSON header, then the header) and
GGUF 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from ml_toolkit_core.errors import RequestError

_INDEX = "model.safetensors.index.json"
#: A header longer than this is a broken file: the format's own limit is 100 MB.
_LONGEST_HEADER = 100_000_000
#: The most entries of a GGUF file that are read, and the longest text.
_MOST_ENTRIES, _LONGEST_TEXT = 1_000_000, 1_000_000

_SCALARS: Final = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_TEXT, _ARRAY = 8, 9


def safetensors_bytes(folder: Path) -> tuple[int, str] | None:
    """Return the bytes of a folder's tensors and where the number stands.

    Args:
        folder: A model folder with an index or with ``*.safetensors`` files.

    Returns:
        The bytes and ``index`` or ``headers``; None where the folder has no weights.

    Raises:
        RequestError: If a file is broken.
    """
    index = folder / _INDEX
    if index.is_file():
        facts = read_json(index)
        total = (facts.get("metadata") or {}).get("total_size")
        if isinstance(total, int | float) and total > 0:
            return int(total), "index"
    files = sorted(folder.glob("*.safetensors"))
    # Meta's and Mistral's repositories hold the same weights twice.
    files = [
        file for file in files if not file.name.startswith("consolidated")
    ] or files
    if not files:
        return None
    return sum(map(_tensor_bytes, files)), "headers"


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        RequestError: If there is none.
    """
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(facts, dict):
        raise RequestError(f"{path} holds no JSON object.")
    return facts


def _tensor_bytes(path: Path) -> int:
    with path.open("rb") as file:
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > _LONGEST_HEADER:  # noqa: PLR2004 - the format's
            raise RequestError(f"{path} is no safetensors file; download it again.")
        try:
            header = json.loads(file.read(length))
            spans = [
                entry["data_offsets"]
                for name, entry in header.items()
                if name != "__metadata__"
            ]
            return sum(end - start for start, end in spans)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RequestError(
                f"{path} has a broken safetensors header; download it again."
            ) from error


def gguf_facts(path: Path) -> tuple[Mapping[str, Any], int]:
    """Return the key-value facts of a GGUF file and the bytes of its tensors.

    Long arrays, such as a tokenizer's words, are given as their length.

    Raises:
        RequestError: If the file is broken or of another version.
    """
    try:
        with path.open("rb") as file:
            return _gguf(file, path)
    except (struct.error, UnicodeDecodeError, KeyError, OverflowError) as error:
        raise RequestError(
            f"{path} has a broken GGUF header; download it again."
        ) from error


def _gguf(file: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    magic, version, tensors, entries = struct.unpack("<4sIQQ", file.read(24))
    if magic != b"GGUF" or version not in {2, 3}:
        raise RequestError(f"{path} is no GGUF file of version 2 or 3.")
    if max(tensors, entries) > _MOST_ENTRIES:
        raise RequestError(f"{path} has a broken GGUF header; download it again.")
    facts = {}
    for _ in range(entries):
        key = _text(file)
        facts[key] = _value(file, _scalar(file, "<I"))
    for _ in range(tensors):
        _text(file)
        sides = _scalar(file, "<I")
        file.seek(8 * sides + 4 + 8, 1)
    alignment = int(facts.get("general.alignment", 32))
    start = -(-file.tell() // alignment) * alignment
    return facts, path.stat().st_size - start


def _scalar(file: BinaryIO, layout: str) -> Any:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))[0]


def _text(file: BinaryIO) -> str:
    length = _scalar(file, "<Q")
    if length > _LONGEST_TEXT:
        raise struct.error
    return str(file.read(length), "utf-8")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _TEXT:
        return _text(file)
    if kind != _ARRAY:
        return _scalar(file, _SCALARS[kind])
    inner, length = _scalar(file, "<I"), _scalar(file, "<Q")
    if length > _MOST_ENTRIES:
        raise struct.error
    values = [_value(file, inner) for _ in range(length)]
    return values if inner not in {_TEXT, _ARRAY} else length
