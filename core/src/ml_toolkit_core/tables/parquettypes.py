"""The Arrow type in which a Parquet file holds another one exactly."""

from typing import Final

import pyarrow as pa
from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import ArrowType, is_bytes, is_text, rebuilt

_WIDER: Final[dict[ArrowType, ArrowType]] = {
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time32("ms"),
}
#: Arrow writes no slice of these, and makes slices of what is inside of a null itself.
_INSIDE: Final[dict[ArrowType, ArrowType]] = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def parquet_type(kind: ArrowType) -> ArrowType | None:
    """Return the type for a Parquet file; None when it can hold none.

    >>> parquet_type(pa.uint64()), parquet_type(pa.timestamp("s"))
    (DataType(uint64), TimestampType(timestamp[ms]))
    """
    if kind in _WIDER:
        return _WIDER[kind]
    if types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if types.is_decimal(kind):
        return kind if 0 <= kind.scale <= kind.precision else None
    if types.is_nested(kind):
        return _nested(kind)
    if types.is_primitive(kind) or types.is_null(kind) or is_text(kind):
        return None if types.is_interval(kind) else kind
    return kind if is_bytes(kind) else None


def _nested(kind: ArrowType) -> ArrowType | None:
    inner = [_inside(kind.field(i).type) for i in range(kind.num_fields)]
    if not inner or None in inner:
        return None
    same = all(kind.field(i).type == known for i, known in enumerate(inner))
    return kind if same else rebuilt(kind, _inside)


def _inside(kind: ArrowType) -> ArrowType | None:
    return _INSIDE.get(kind) or parquet_type(kind)
