"""Text that is no UTF-8: found in batches of any type, and mended row by row."""

from typing import Any

import pyarrow as pa
from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import ArrowType, is_list, is_text
from ml_toolkit_core.tables.parts import RowError, RowFault


def mend_text(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, RowError]]:
    """Replace what is no UTF-8 by U+FFFD, and say which rows had some.

    Writers of Parquet need not look at text, and Arrow does not when it reads.
    """
    arrays: list[Any] = []
    broken: dict[int, list[str]] = {}
    for column, array in zip(batch.schema, batch.columns, strict=True):
        found = (
            [] if not _has_text(array.type) or _is_sound(array) else _broken_rows(array)
        )
        for row in found:
            broken.setdefault(row, []).append(repr(column.name))
        arrays.append(_mended(array, found) if found else array)
    if not broken:
        return batch, {}
    errors = {
        row: RowError(
            RowFault.UNREADABLE,
            f"column {', '.join(names)} holds text that is no UTF-8",
        )
        for row, names in broken.items()
    }
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema), errors


def _has_text(kind: ArrowType) -> bool:
    inside = (kind.field(place).type for place in range(kind.num_fields))
    return is_text(kind) or any(map(_has_text, inside))


def _is_sound(array: Any) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _broken_rows(array: Any) -> list[int]:
    # A slice alone would be looked at with all that it is a slice of.
    rows = (pa.concat_arrays([array.slice(row, 1)]) for row in range(len(array)))
    return [number for number, row in enumerate(rows) if not _is_sound(row)]


def _mended(array: Any, broken: list[int]) -> Any:
    pieces = []
    at = 0
    for row in broken:
        one = pa.concat_arrays([array.slice(row, 1)])
        pieces += [array.slice(at, row - at), _decoded(one)]
        at = row + 1
    return pa.concat_arrays([*pieces, array.slice(at)])


def _decoded(array: Any) -> Any:
    """Decode the text in an array anew; all else stays as it is.

    Not by way of Python's values, which cannot hold all of Arrow's times.
    """
    kind, nulls = array.type, array.is_null()
    if is_text(kind):
        layout = pa.large_binary() if types.is_large_string(kind) else pa.binary()
        raw = array.cast(layout).to_pylist()
        texts = [None if b is None else b.decode(errors="replace") for b in raw]
        return pa.array(texts, kind)
    if types.is_struct(kind):
        items = [_decoded(array.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(items, fields=[*kind], mask=nulls)
    if types.is_map(kind):
        items = [_decoded(array.keys), _decoded(array.items)]
        return pa.MapArray.from_arrays(array.offsets, *items, type=kind, mask=nulls)
    if types.is_fixed_size_list(kind):
        return type(array).from_arrays(_decoded(array.values), type=kind, mask=nulls)
    if is_list(kind):
        items = _decoded(array.values)
        return type(array).from_arrays(array.offsets, items, type=kind, mask=nulls)
    return array
