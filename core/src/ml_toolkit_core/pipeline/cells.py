"""The values of a column as requests are made of them."""

import json
from typing import Final

import pyarrow as pa

from ml_toolkit_core.tables.arrowtypes import Array, ArrowType, Field, rebuilt
from ml_toolkit_core.tables.kinds import is_json
from ml_toolkit_core.tables.parts import RowError, RowFault
from ml_toolkit_core.wire import Json

#: What Arrow and Python say of text that is not UTF-8, and of far dates.
_UNREADABLE: Final = (ValueError, OverflowError, RecursionError, pa.ArrowException)


def cells(batch: pa.RecordBatch, name: str) -> list[Json]:
    """Return a column as Python values; one that cannot be read is its RowError."""
    index = batch.schema.get_field_index(name)
    field = batch.schema.field(index)
    column = batch.column(index)
    kind = _in_microseconds(column.type)
    if kind != column.type:
        column = column.cast(kind, safe=False)
    try:
        return _plain(column, field)
    except _UNREADABLE:  # at least one value: find out which, the others are fine
        return [
            _plain_or_error(column.slice(row, 1), field) for row in range(len(column))
        ]


def _plain(column: Array, field: Field) -> list[Json]:
    values: list[Json] = column.to_pylist()
    if is_json(field):
        return [None if text is None else json.loads(text) for text in values]
    if pa.types.is_nested(column.type):
        return [_without_nulls(value) for value in values]
    return values


def _plain_or_error(column: Array, field: Field) -> Json | RowError:
    try:
        return _plain(column, field)[0]
    except _UNREADABLE as error:
        return RowError(
            RowFault.UNREADABLE,
            f"column {field.name!r} holds a value that Python cannot read "
            f"({type(error).__name__})",
        )


def _in_microseconds(kind: ArrowType) -> ArrowType:
    """Return a type whose times Python can say; it knows no nanoseconds."""
    if getattr(kind, "unit", None) != "ns":
        return rebuilt(kind, _in_microseconds)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if pa.types.is_time64(kind) else pa.duration("us")


def _without_nulls(value: Json) -> Json:
    # Arrow fills a struct with the keys of all its siblings, as nulls.
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
