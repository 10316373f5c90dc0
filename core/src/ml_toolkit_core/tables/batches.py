"""Record batches: plain types, one schema for all files, and exact re-chunking."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import define, field

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.arrowtypes import ArrowType, cast, rebuilt
from ml_toolkit_core.tables.parts import Split

#: Rows, and about how many bytes of them, that are decoded at a time; bounds memory
#: whatever the row groups are.
_BATCH_ROWS: Final = 4096
_BATCH_BYTES: Final = 64 * 1024**2


def plain_type(kind: ArrowType) -> ArrowType:
    """Return a type without dictionaries and extensions, which only say how.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string()))
    DataType(string)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return rebuilt(kind, plain_type)


@define
class Columns:
    """The columns of all files of a table, learnt file by file.

    Args:
        name: The table's name, for messages.
    """

    name: str
    _types: dict[str, tuple[ArrowType, str]] = field(factory=dict, init=False)
    _faults: list[str] = field(factory=list, init=False)

    def see(self, schema: pa.Schema, path: str) -> None:
        """Take the columns of one file into account."""
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        for name in twice:
            self._faults.append(f"column {name!r} stands twice in {path!r}")
        for column in schema:
            kind = plain_type(column.type)
            known, where = self._types.get(column.name, (pa.null(), path))
            if kind not in (known, pa.null()) and known != pa.null():
                self._faults.append(
                    f"column {column.name!r} is {known} in {where!r} and {kind} in "
                    f"{path!r}"
                )
            elif known == pa.null():
                self._types[column.name] = (kind, path)

    def schema(self) -> pa.Schema:
        """Return the columns in order of first appearance.

        Raises:
            RequestError: When files do not agree, or there are no columns.
        """
        if self._faults:
            raise RequestError(
                f"{self.name!r}: its files do not make one table: "
                f"{'; '.join(self._faults)}. Write them again with one schema"
            )
        if not self._types:
            raise RequestError(f"{self.name!r} has no columns")
        return pa.schema([(name, kind) for name, (kind, _) in self._types.items()])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a batch to a table's columns; those it lacks are null."""
    arrays = []
    for column in schema:
        if column.name in batch.schema.names:
            array = batch.column(column.name)
            if isinstance(array, pa.ExtensionArray):
                array = array.storage
            arrays.append(cast(array, column.type))
        else:
            arrays.append(pa.nulls(batch.num_rows, column.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def parquet_batches(
    file: pq.ParquetFile, splits: Iterable[Split], columns: Iterable[str]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield batches with their first rows, from the row groups that are needed.

    Args:
        file: The file.
        splits: Ranges of its rows, in order.
        columns: What to decode; a file may lack some of them.
    """
    names = [*columns]
    wanted = iter(splits)
    split = next(wanted, None)
    start = 0
    for group in range(file.metadata.num_row_groups):
        facts = file.metadata.row_group(group)
        stop = start + facts.num_rows
        while split is not None and split.stop <= start:
            split = next(wanted, None)
        if split is not None and split.start < stop:
            at = start
            fit = _BATCH_BYTES * facts.num_rows // max(1, facts.total_byte_size)
            size = max(1, min(_BATCH_ROWS, fit))
            for batch in file.iter_batches(size, row_groups=[group], columns=names):
                yield at, batch
                at += batch.num_rows
        start = stop


def cut(
    batches: Iterable[tuple[int, pa.RecordBatch]],
    splits: Iterable[Split],
    schema: pa.Schema,
) -> Iterator[tuple[Split, pa.RecordBatch]]:
    """Yield exactly the rows of each split, as one batch that holds no others.

    Args:
        batches: Batches of the file in order, each with its first row.
        splits: Ranges of the file in order.
        schema: What the batches are brought to.
    """
    source = iter(batches)
    first, batch = 0, pa.RecordBatch.from_pylist([], schema=schema)
    for split in splits:
        pieces = []
        at = split.start
        while at < split.stop:
            while first + batch.num_rows <= at:
                first, raw = next(source)
                batch = conform(raw, schema)
            stop = min(split.stop, first + batch.num_rows)
            pieces.append(batch.slice(at - first, stop - at))
            at = stop
        # A slice would carry the whole batch along when it is sent to a replica.
        yield split, pa.concat_batches(pieces)  # type: ignore[attr-defined]
