"""The source of a run: a pinned table, opened for reading."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, TypeAlias

import pyarrow as pa
from attrs import evolve, frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.arrowtypes import cast
from ml_toolkit_core.tables.csvtable import read_csv
from ml_toolkit_core.tables.delta import DeltaFiles
from ml_toolkit_core.tables.jsonl import read_jsonl
from ml_toolkit_core.tables.parquet import read_parquet
from ml_toolkit_core.tables.parts import Split, SplitRows
from ml_toolkit_core.tables.pinned import PinnedFiles, pinned_schema
from ml_toolkit_core.tables.store import Store
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import InputPin, TableFormat, TableLocation

#: Streams splits of one opened file, with the columns of a schema that lie in it.
ReadFile: TypeAlias = Callable[
    [PinnedFiles, int, BinaryIO, Sequence[Split], pa.Schema], Iterator[SplitRows]
]

_FORMATS: Final[Mapping[TableFormat, tuple[type[PinnedFiles], ReadFile]]] = {
    TableFormat.JSONL: (PinnedFiles, read_jsonl),
    TableFormat.CSV: (PinnedFiles, read_csv),
    TableFormat.PARQUET: (PinnedFiles, read_parquet),
    TableFormat.DELTA: (DeltaFiles, read_parquet),
}


@frozen(kw_only=True)
class PinnedSource:
    """A pinned table, whatever its format."""

    files: PinnedFiles
    read_file: ReadFile

    @property
    def schema(self) -> pa.Schema:
        """The pinned columns."""
        return self.files.schema

    def splits(self, split_rows: int) -> Sequence[Split]:
        """Cut the files; deleted rows count."""
        return self.files.splits(split_rows)

    def read(
        self, splits: Iterable[Split], *, columns: Sequence[str] | None = None
    ) -> Iterator[SplitRows]:
        """Stream the rows of splits; what lies between them is skipped.

        Args:
            splits: Which, in order.
            columns: The columns to read, in order; all when None. Parquet and Delta
                decode no others.
        """
        names = self.schema.names if columns is None else columns
        schema = pa.schema([self.schema.field(name) for name in names])
        for number, wanted in self.files.by_file(splits):
            constants = self.files.constants(number)
            own = [column for column in self.schema if column.name not in constants]
            # One at least: a batch without columns has no rows.
            asked = [column for column in own if column.name in names] or own[:1]
            with self.files.open(number) as handle:
                found = self.read_file(
                    self.files, number, handle, list(wanted), pa.schema(asked)
                )
                for rows in found:
                    self.files.check(number)
                    yield evolve(rows, batch=_whole(rows.batch, constants, schema))


def open_source(
    location: TableLocation, pin: InputPin, *, store: Store | None = None
) -> PinnedSource:
    """Open a pinned table for reading.

    Args:
        location: The location that ``pin_table`` returned.
        pin: The pin it returned.
        store: Where the files lie; found by the URI when None.

    Raises:
        RequestError: When the location has no format that can be read.
    """
    if location.format is None:
        raise RequestError(f"{location.name!r}: no format of it is known to be read")
    kind, read_file = _FORMATS[location.format]
    files = kind(
        store=store or store_for(location.uri),
        location=location,
        pin=pin,
        schema=pinned_schema(pin),
    )
    return PinnedSource(files=files, read_file=read_file)


def _whole(
    rows: pa.RecordBatch, constants: Mapping[str, Any], schema: pa.Schema
) -> pa.RecordBatch:
    """Put what is the same in all of a file beside its rows."""
    arrays = [
        cast(pa.repeat(constants[column.name], rows.num_rows), column.type)
        if column.name in constants
        else rows.column(column.name)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
