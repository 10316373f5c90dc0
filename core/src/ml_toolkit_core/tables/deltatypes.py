"""The Arrow type in which a Delta table holds another one exactly."""

from typing import Final

import pyarrow as pa
from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import ArrowType, is_bytes, is_list, is_text

#: Spark opens no table with one of these in a column's name, unless it maps columns.
DELTA_NAME_BREAKERS: Final = " ,;{}()\n\t="

_WIDER: Final[dict[ArrowType, ArrowType]] = {
    pa.null(): pa.string(),
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
}
_SAME: Final = {
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
}
_DELTA_DIGITS: Final = 38


def delta_type(kind: ArrowType) -> ArrowType | None:  # noqa: PLR0911  one per type
    """Return the type for a Delta table; None when values could change.

    Instants keep their time and lose the name of their zone. Refused are, among
    others, nanoseconds (delta-rs cuts them off without a word), unsigned 64-bit
    numbers, times of day and durations.

    >>> delta_type(pa.uint32()), delta_type(pa.timestamp("ns"))
    (DataType(int64), None)
    """
    if kind in _SAME:
        return kind
    if kind in _WIDER:
        return _WIDER[kind]
    if is_text(kind):
        return pa.string()
    if is_bytes(kind):
        return pa.binary()
    if types.is_timestamp(kind):
        zone = None if kind.tz is None else "UTC"
        return None if kind.unit == "ns" else pa.timestamp("us", zone)
    if types.is_decimal(kind) and kind.precision <= _DELTA_DIGITS and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_dictionary(kind):
        return delta_type(kind.value_type)
    return _nested(kind)


def _nested(kind: ArrowType) -> ArrowType | None:
    if types.is_map(kind):
        key, item = delta_type(kind.key_type), delta_type(kind.item_type)
        if key is None or item is None:
            return None
        # delta-rs does not look for timestamps without a zone in maps: it fails then.
        found = pa.map_(key, item)
        return None if "timestamp[us]" in str(found) else found
    if is_list(kind):
        item = delta_type(kind.value_type)
        return pa.list_(pa.field("element", item)) if item is not None else None
    if types.is_struct(kind) and kind.num_fields:
        items = [(item.name, delta_type(item.type)) for item in kind]
        known = [pa.field(name, item) for name, item in items if item is not None]
        return pa.struct(known) if len(known) == len(items) else None
    return None
