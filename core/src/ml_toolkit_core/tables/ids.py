"""The id column: which ids of a run's rows are missing or occur more than once."""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.arrowtypes import (
    Array,
    ArrowType,
    Field,
    is_bytes,
    is_text,
)
from ml_toolkit_core.tables.kinds import is_json
from ml_toolkit_core.tables.source import PinnedSource, open_source
from ml_toolkit_core.values import InputPin, TableLocation

#: Rows that are looked at together.
_ROWS: Final = 16_384
#: Ids, and rows of each, that a message names; the others are counted.
_EXAMPLES: Final = 3
#: Ids that are looked at together in a second reading; bounds memory.
_SUSPECTS: Final = 1_000_000


def id_faults(
    location: TableLocation, pin: InputPin, column: str, *, limit: int | None = None
) -> str | None:
    """Read the ids of a run's rows, and say which are missing or occur twice.

    It keeps 8 bytes for each row. Only where two of these are the same are the ids
    themselves looked at, in a second reading, so that the answer is exact.

    Args:
        location: The location that ``pin_table`` returned.
        pin: The pin it returned.
        column: The column of ids.
        limit: Rows of the run at most, from the first; all when None.

    Returns:
        A sentence that quotes no id, or None when each row has an id of its own.

    Raises:
        RequestError: When the column is of a type that is no id.
    """
    source = open_source(location, pin)
    _check_type(source.schema.field(column))
    keys, nulls = [], []
    for first, ids in _ids(source, column, limit):
        keys.append(_keys(ids.drop_null()))
        nulls.append(pc.add(pc.indices_nonzero(ids.is_null()), first))
    whole = pa.chunked_array(keys, pa.int64()).combine_chunks()
    keys.clear()
    faults = _repeated(source, column, limit, whole)
    without = pa.chunked_array(nulls, pa.int64()).combine_chunks()
    if len(without):
        faults.append(f"rows without an id: {len(without):,} ({_some(without)})")
    if not faults:
        return None
    return f"id_column={column!r}: {'; '.join(faults)}; rows are counted from 1"


def _check_type(column: Field) -> None:
    kind = column.type
    if is_json(column) or not (
        is_text(kind)
        or is_bytes(kind)
        or types.is_integer(kind)
        or types.is_decimal(kind)
        or _is_time(kind)
    ):
        what = "JSON of mixed kinds" if is_json(column) else f"of type {kind}"
        raise RequestError(
            f"id_column={column.name!r} is {what}, which tells no rows apart; an id is "
            "text, a whole number, a date or time, a decimal or binary"
        )


def _is_time(kind: ArrowType) -> bool:
    return types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind)


def _ids(
    source: PinnedSource, column: str, limit: int | None
) -> Iterator[tuple[int, Array]]:
    """Yield the ids of a run's rows, each batch with the number of its first row."""
    first = 1
    for rows in source.read(source.splits(_ROWS), columns=[column]):
        ids: Any = rows.batch.column(0)
        if limit is not None:
            ids = ids.slice(0, limit + 1 - first)
        # Not all layouts can be compared.
        if is_text(ids.type) or is_bytes(ids.type):
            ids = ids.cast(pa.large_binary())
        yield first, ids
        first += len(ids)
        if limit is not None and first > limit:
            return


def _keys(ids: Any) -> Any:
    """Return 64 bits for each id, the same for the same."""
    if types.is_integer(ids.type):
        return ids.cast(pa.int64(), safe=False)
    if _is_time(ids.type):
        return ids.view(f"int{ids.type.bit_width}").cast(pa.int64())
    hashes = array("q", map(hash, ids.to_pylist()))
    return pa.Array.from_buffers(pa.int64(), len(ids), [None, pa.py_buffer(hashes)])


def _twice(keys: Array) -> Array:
    """Return the keys that occur more than once, each once."""
    ordered = keys.take(pc.sort_indices(keys))
    return ordered[1:].filter(pc.equal(ordered[1:], ordered[:-1])).unique()


def _repeated(
    source: PinnedSource, column: str, limit: int | None, keys: Array
) -> list[str]:
    """Say how many ids occur more than once, and where some of them are."""
    twice = _twice(keys)
    count, count_rows, examples = 0, 0, list[str]()
    for start in range(0, len(twice), _SUSPECTS):
        is_suspect = pc.is_in(keys, value_set=twice.slice(start, _SUSPECTS))
        found, numbers = _suspects(_ids(source, column, limit), is_suspect)
        counts: Any = found.value_counts()
        is_repeated = pc.greater(counts.field("counts"), pa.scalar(1))
        count += pc.sum(is_repeated).as_py()
        count_rows += pc.sum(counts.field("counts").filter(is_repeated)).as_py() or 0
        for place in pc.indices_nonzero(is_repeated)[: _EXAMPLES - len(examples)]:
            is_same = pc.equal(found, counts.field("values")[place.as_py()])
            examples.append(_some(numbers.filter(is_same)))
    if not count:
        return []
    shown = "; ".join(examples) + "; ..." * (count > _EXAMPLES)
    return [
        f"ids that occur more than once: {count:,} in {count_rows:,} rows ({shown})"
    ]


def _suspects(
    batches: Iterable[tuple[int, Array]], is_suspect: Array
) -> tuple[Any, Array]:
    """Return ids, of all that are not null, and the numbers of their rows."""
    found, numbers = [], []
    at = 0
    for first, ids in batches:
        kept = ids.drop_null()
        rows = pc.add(pc.indices_nonzero(ids.is_valid()), first)
        mask = is_suspect.slice(at, len(kept))
        found.append(kept.filter(mask))
        numbers.append(rows.filter(mask))
        at += len(kept)
    return pa.concat_arrays(found), pa.concat_arrays(numbers)


def _some(rows: Array) -> str:
    more = ", ..." if len(rows) > _EXAMPLES else ""
    return f"{', '.join(map(str, rows[:_EXAMPLES].to_pylist()))}{more}"
