"""JSON Lines as text: lines, the objects in them, and what is wrong with a line."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO, Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.kinds import Rounded
from ml_toolkit_core.wire import Json

_BOM: Final = b"\xef\xbb\xbf"
#: Marks at the start of files that are no UTF-8, and what they are; longer ones first.
_OTHER_ENCODINGS: Final = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "compressed with gzip twice",
    b"PAR1": "a Parquet file",
}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_KINDS: Final = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    Rounded: "a number",
    bool: "true or false",
    type(None): "null",
}


class LineFault(Exception):
    """A line is no JSON object; says what it is instead, without its text."""


def lines(handle: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(handle, start=1):
        bare = line.removeprefix(_BOM) if number == 1 else line
        if not bare.isspace() and bare:
            yield number, bare.rstrip(b"\r\n")


def encoding_of(handle: BinaryIO) -> str | None:
    """Tell by its first bytes what a file is when it is no UTF-8 text."""
    head = handle.read(4)
    handle.seek(0)
    encodings = (
        word for mark, word in _OTHER_ENCODINGS.items() if head[: len(mark)] == mark
    )
    return next(encodings, "UTF-16" if b"\0" in head[:2] else None)


def check_encoding(name: str, handle: BinaryIO) -> None:
    """Look at the first bytes of a file.

    Raises:
        RequestError: When they say that it is no UTF-8 text.
    """
    encoding = encoding_of(handle)
    if encoding:
        raise RequestError(
            f"{name}: the file is {encoding}, not UTF-8 text; JSON Lines are read as "
            "UTF-8: convert the file (for example with iconv) and try again"
        )


def parse_strictly(line: bytes) -> dict[str, Json]:
    """Parse a line of a file that nobody has looked at.

    Raises:
        LineFault: When it is not one JSON object, in strict UTF-8, with different
            keys.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise LineFault(
            f"is not UTF-8 (byte 0x{byte:02x} at position {error.start})"
        ) from error
    try:
        value = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text) or error.msg.startswith("Unterminated")
        fault = (
            "is cut off" if cut else f"is not JSON ({error.msg}, column {error.colno})"
        )
        raise LineFault(fault) from error
    except RecursionError as error:
        raise LineFault("is nested too deeply") from error
    except ValueError as error:  # int() takes 4300 digits at most
        raise LineFault("holds a number of too many digits") from error
    if not isinstance(value, dict):
        raise LineFault(f"is {_KINDS[type(value)]}, not an object")
    if may_hold_surrogates(text) and _has_broken_key(value):
        raise LineFault("has a key with half of a surrogate pair")
    return value


def parse(line: str) -> dict[str, Json]:
    """Parse a line that was checked when its file was pinned."""
    value = json.loads(line)
    if not isinstance(value, dict):
        raise LineFault("is not an object")
    return value


def parse_with_texts(line: str) -> dict[str, tuple[Json, str]]:
    """Return each value of a checked line, and its exact JSON text, by key.

    >>> parse_with_texts('{"a": 1.50, "b": {"c": [1,  2]}}')
    {'a': (1.5, '1.50'), 'b': ({'c': [1, 2]}, '{"c": [1,  2]}')}

    Raises:
        LineFault: When the line is not as it was checked.
    """
    found: dict[str, tuple[Json, str]] = {}
    scan = _PLAIN.scan_once
    try:
        place = _skip(line, line.index("{") + 1)
        while line[place] != "}":
            key, place = scan(line, place)
            start = _skip(line, line.index(":", place) + 1)
            value, stop = scan(line, start)
            found[key] = (value, line[start:stop])
            place = _skip(line, stop)
            if line[place] == ",":
                place = _skip(line, place + 1)
    except (StopIteration, IndexError) as error:
        raise LineFault("is not the object it was") from error
    return found


def may_hold_surrogates(line: str) -> bool:
    """Whether a line holds escapes of surrogates, lone or in pairs."""
    return bool(_SURROGATE_ESCAPE.search(line))


def has_surrogates(value: Json) -> bool:
    """Whether a parsed value holds half of a surrogate pair anywhere."""
    if isinstance(value, str):
        return bool(_SURROGATE.search(value))
    if isinstance(value, Mapping):
        return any(has_surrogates(k) or has_surrogates(v) for k, v in value.items())
    return isinstance(value, list) and any(map(has_surrogates, value))


def without_surrogates(value: Json) -> Json:
    """Replace every half of a surrogate pair by U+FFFD."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {
            without_surrogates(key): without_surrogates(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def _has_broken_key(value: Json) -> bool:
    if isinstance(value, Mapping):
        return any(has_surrogates(k) or _has_broken_key(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_has_broken_key, value))


def _skip(text: str, place: int) -> int:
    while text[place] in " \t\n\r":
        place += 1
    return place


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise LineFault("has an object with the same key twice")
    return found


def _constant(word: str) -> Json:
    raise LineFault(f"holds {word}, which is not JSON (write null or text)")


def _float(text: str) -> float:
    """Parse a number; one that would lose digits on its way out again is marked."""
    value = float(text)
    written = repr(value)
    if written == text or math.isinf(value):
        return value
    try:
        is_kept = Decimal(written) == Decimal(text)
    except InvalidOperation:  # an exponent beyond those of decimals
        is_kept = False
    return value if is_kept else Rounded(value)


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
)
_PLAIN: Final[Any] = json.JSONDecoder()
