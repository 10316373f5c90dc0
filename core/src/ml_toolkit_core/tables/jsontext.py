"""Arrow values as strict JSON text: exact, and the same on every machine."""

import base64
import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import (
    Array,
    ArrowType,
    is_bytes,
    is_list,
    is_text,
    rebuilt,
)
from ml_toolkit_core.tables.kinds import is_json
from ml_toolkit_core.tables.moments import moment

#: Turns a value, as ``to_pylist`` gives it, into JSON text.
Encoder: TypeAlias = Callable[[Any], str]

#: How numbers that JSON does not have are written, as text.
NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
dumps: Final[Encoder] = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def has_json_form(kind: ArrowType) -> bool:
    """Whether values of a type can be written; see :func:`json_lines`."""
    return _encoder(kind) is not None


def json_lines(rows: pa.Table) -> Iterator[bytes]:
    """Yield a line of JSON for each row.

    A column of JSON text gives the JSON it holds. Decimals and times are exact text
    (ISO 8601; an instant is in UTC, with ``Z``; a year beyond 9999 or before 0 has a
    sign, as in ``+10183-09-21``), binary values are base64, maps are
    lists of ``{"key": ..., "value": ...}``, and numbers that JSON does not have are
    the words ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    keys = [dumps(name) for name in rows.column_names]
    for columns in json_columns(rows):
        for texts in zip(*columns, strict=True):
            items = (f"{key}: {text}" for key, text in zip(keys, texts, strict=True))
            yield f"{{{', '.join(items)}}}\n".encode()


def json_columns(rows: pa.Table) -> Iterator[list[list[str]]]:
    """Yield batch by batch the JSON texts of each column; see :func:`json_lines`."""
    encoders = [
        _or_null(str if is_json(column) else _encoder(column.type) or _refuse)
        for column in rows.schema
    ]
    for batch in rows.to_batches():
        yield [
            [encode(value) for value in _python_values(array)]
            for array, encode in zip(batch.columns, encoders, strict=True)
        ]


def _encoder(kind: ArrowType) -> Encoder | None:
    """Return the encoder of values that are not null; None when there is none."""
    for is_kind, encode in _SCALARS:
        if is_kind(kind):
            return encode
    if _is_moment(kind):
        zone = "Z" if _is_instant(kind) else ""
        return lambda text: f'"{moment(text, kind)}{zone}"'
    if types.is_dictionary(kind):
        return _encoder(kind.value_type)
    if types.is_map(kind):
        return _map_encoder(kind)
    if is_list(kind):
        return _list_encoder(_encoder(kind.value_type))
    return _struct_encoder(kind) if types.is_struct(kind) else None


def _number(value: float) -> str:
    if math.isfinite(value):
        return dumps(value)
    return '"NaN"' if math.isnan(value) else f'"{"-" * (value < 0)}Infinity"'


def _is_moment(kind: ArrowType) -> bool:
    return types.is_date(kind) or types.is_timestamp(kind)


def _is_instant(kind: ArrowType) -> bool:
    return types.is_timestamp(kind) and kind.tz is not None


_SCALARS: Final[tuple[tuple[Callable[[ArrowType], bool], Encoder], ...]] = (
    (is_text, dumps),
    (types.is_integer, dumps),
    (types.is_boolean, dumps),
    (types.is_null, dumps),
    (types.is_floating, _number),
    (types.is_decimal, lambda value: f'"{value:f}"'),
    (types.is_time, lambda text: f'"{text}"'),
    (is_bytes, lambda value: f'"{base64.b64encode(value).decode()}"'),
)


def _list_encoder(item: Encoder | None) -> Encoder | None:
    if item is None:
        return None
    encode = _or_null(item)
    return lambda values: f"[{', '.join(map(encode, values))}]"


def _struct_encoder(kind: ArrowType) -> Encoder | None:
    encoders = {item.name: _encoder(item.type) for item in kind}
    known = {name: _or_null(code) for name, code in encoders.items() if code}
    if len(known) < kind.num_fields:  # one has no form, or two have one name
        return None

    def encode(value: dict[str, Any]) -> str:
        items = (f"{dumps(name)}: {code(value[name])}" for name, code in known.items())
        return f"{{{', '.join(items)}}}"

    return encode


def _map_encoder(kind: ArrowType) -> Encoder | None:
    key, item = _encoder(kind.key_type), _encoder(kind.item_type)
    if key is None or item is None:
        return None
    key_text, item_text = key, _or_null(item)

    def encode(pairs: list[tuple[Any, Any]]) -> str:
        items = (
            f'{{"key": {key_text(name)}, "value": {item_text(value)}}}'
            for name, value in pairs
        )
        return f"[{', '.join(items)}]"

    return encode


def _or_null(encode: Encoder) -> Encoder:
    return lambda value: "null" if value is None else encode(value)


def _refuse(value: object) -> str:
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def _python_values(array: Array) -> list[Any]:
    """Return Python values, times as text: Python's own have no nanoseconds.

    Python's dates end at the year 9999.
    """
    for form in (_without_zone, _times_as_text):
        kind = form(array.type)
        if kind != array.type:
            array = array.cast(kind)
    return array.to_pylist()


def _without_zone(kind: ArrowType) -> ArrowType:
    # The cast gives the time in UTC, and needs no time zone database.
    if _is_instant(kind):
        return pa.timestamp(kind.unit)
    return rebuilt(kind, _without_zone)


def _times_as_text(kind: ArrowType) -> ArrowType:
    if _is_moment(kind) or types.is_time(kind):
        return pa.string()
    return rebuilt(kind, _times_as_text)
