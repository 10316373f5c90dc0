"""The id column: which ids of a run's rows are missing or occur more than once."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
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
#: Ids that are counted together in a second reading; bounds its memory, whatever
#: the rows that each of them has.
_SUSPECTS: Final = 1_000_000


def id_faults(
    location: TableLocation, pin: InputPin, column: str, *, limit: int | None = None
) -> str | None:
    """Read the ids of a run's rows, and say which are missing or occur twice.

    It keeps 8 bytes for each row, and sorts them. Only where two of these are the same
    are the ids themselves counted, in a second reading, so that the answer is exact,
    and found, in a third, so that some rows can be named.

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
    without: Any = pa.chunked_array(nulls, pa.int64()).combine_chunks()
    if len(without):
        faults.append(
            f"rows without an id: {len(without):,} "
            f"({_some(without[: _EXAMPLES + 1].to_pylist())})"
        )
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
    is_again: Any = pc.equal(ordered[1:], ordered[:-1])
    # Hashing what is sorted would take the most memory of all.
    before = pa.concat_arrays([pa.array([False]), is_again])[: len(is_again)]
    return ordered[1:].filter(pc.and_not(is_again, before))


def _repeated(
    source: PinnedSource, column: str, limit: int | None, keys: Array
) -> list[str]:
    """Say how many ids occur more than once, and where some of them are."""
    twice = _twice(keys)
    count, count_rows = 0, 0
    examples: Any = None
    for start in range(0, len(twice), _SUSPECTS):
        is_suspect = pc.is_in(keys, value_set=twice.slice(start, _SUSPECTS))
        counts = _counts(_ids(source, column, limit), is_suspect)
        repeated = counts.filter(pc.greater(counts["rows"], pa.scalar(1)))
        count += len(repeated)
        count_rows += pc.sum(repeated["rows"]).as_py() or 0
        if not examples:
            examples = repeated["id"][:_EXAMPLES].combine_chunks()
    if not count:
        return []
    places = _places(_ids(source, column, limit), examples)
    shown = "; ".join(map(_some, places)) + "; ..." * (count > len(places))
    return [
        f"ids that occur more than once: {count:,} in {count_rows:,} rows ({shown})"
    ]


def _counts(batches: Iterable[tuple[int, Array]], is_suspect: Array) -> pa.Table:
    """Return the suspected ids, in order, and the number of rows of each.

    Args:
        batches: The ids of all rows.
        is_suspect: Of each id that is not null, whether it is to be counted.
    """
    counts: list[pa.Table] = []
    at = 0
    for _, ids in batches:
        given: Any = ids.drop_null()
        found = given.filter(is_suspect.slice(at, len(given))).value_counts()
        at += len(given)
        counts.append(pa.table(found.flatten(), names=["id", "rows"]))
        if sum(map(len, counts)) > 2 * _SUSPECTS:
            counts = [_added(counts)]
    return _added(counts)


def _added(counts: Iterable[pa.Table]) -> pa.Table:
    """Add up the numbers of rows of the same ids."""
    groups = pa.concat_tables(counts).group_by("id", use_threads=False)
    return groups.aggregate([("rows", "sum")]).rename_columns(["id", "rows"])


def _places(batches: Iterable[tuple[int, Array]], wanted: Array) -> list[list[int]]:
    """Return the first rows of each of some ids, one more than are shown."""
    places: list[list[int]] = [[] for _ in wanted]
    for first, ids in batches:
        for rows, one in zip(places, wanted, strict=True):
            found: Any = pc.add(pc.indices_nonzero(pc.equal(ids, one)), first)
            rows.extend(found[: _EXAMPLES + 1 - len(rows)].to_pylist())
        if all(len(rows) > _EXAMPLES for rows in places):
            break
    return places


def _some(rows: Sequence[int]) -> str:
    more = ", ..." if len(rows) > _EXAMPLES else ""
    return f"{', '.join(map(str, rows[:_EXAMPLES]))}{more}"
