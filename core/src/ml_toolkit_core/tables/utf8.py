"""Text that is no UTF-8: found in batches of any type, and mended row by row."""

from typing import Any

import pyarrow as pa
from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import ArrowType, is_list, is_text, rebuilt
from ml_toolkit_core.tables.parts import RowError, RowFault


def mend_text(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, RowError]]:
    """Replace what is no UTF-8 by U+FFFD, and say which rows had some.

    Writers of Parquet need not look at text, and Arrow does not when it reads.
    """
    arrays: list[Any] = []
    broken: dict[int, list[str]] = {}
    for column, array in zip(batch.schema, batch.columns, strict=True):
        found = [] if _is_sound(array) else _broken_rows(array)
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
        value = array.slice(row, 1).cast(_as_bytes(array.type)).to_pylist()[0]
        pieces += [
            array.slice(at, row - at),
            pa.array([_as_text(value, array.type)], array.type),
        ]
        at = row + 1
    return pa.concat_arrays([*pieces, array.slice(at)])


def _as_bytes(kind: ArrowType) -> ArrowType:
    if not is_text(kind):
        return rebuilt(kind, _as_bytes)
    return pa.large_binary() if types.is_large_string(kind) else pa.binary()


def _as_text(value: Any, kind: ArrowType) -> Any:
    """Return a value of a type whose text is still bytes."""
    if value is None:
        return None
    if is_text(kind):
        return value.decode(errors="replace")
    if types.is_struct(kind):
        return {item.name: _as_text(value[item.name], item.type) for item in kind}
    if types.is_map(kind):
        return [
            (_as_text(key, kind.key_type), _as_text(item, kind.item_type))
            for key, item in value
        ]
    if is_list(kind):
        return [_as_text(item, kind.value_type) for item in value]
    return value
