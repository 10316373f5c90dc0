"""Parquet in: columns and rows from the footers, and the source that reads."""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import Columns, cut, parquet_batches
from ml_toolkit_core.tables.parts import Split, SplitRows
from ml_toolkit_core.tables.pinned import PinnedFiles, pin_of
from ml_toolkit_core.tables.store import FileInfo, Store, place
from ml_toolkit_core.values import FilePin, InputPin, TableLocation


def parquet_pin(
    store: Store, location: TableLocation, files: Iterable[FileInfo]
) -> InputPin:
    """Read the footers of all files.

    Raises:
        RequestError: When one is no Parquet file, or they do not agree.
    """
    columns = Columns(location.name)
    pins = []
    for file in files:
        path = file.path or location.name
        with store.open(place(location.uri, file.path)) as handle:
            footer = open_parquet(handle, f"{location.name!r}: {path!r}")
            columns.see(footer.schema_arrow, path)
            rows = footer.metadata.num_rows
        pins.append(
            FilePin(path=file.path, rows=rows, bytes=file.bytes, etag=file.etag)
        )
    return pin_of(columns.schema(), pins)


def open_parquet(
    handle: BinaryIO, name: str, *, int96: str | None = None
) -> pq.ParquetFile:
    """Read a footer.

    Args:
        handle: The file.
        name: What to call it in messages.
        int96: The unit of old Spark timestamps, which as nanoseconds overflow.

    Raises:
        RequestError: When there is none.
    """
    try:
        return pq.ParquetFile(handle, coerce_int96_timestamp_unit=int96)
    except (pa.ArrowException, OSError) as error:
        raise RequestError(f"{name} cannot be read as Parquet: {error}") from error


@frozen(kw_only=True)
class ParquetSource:
    """A pinned table of Parquet files."""

    files: PinnedFiles

    @property
    def schema(self) -> pa.Schema:
        """The pinned columns."""
        return self.files.schema

    def splits(self, split_rows: int) -> Sequence[Split]:
        """Cut the files."""
        return self.files.splits(split_rows)

    def read(self, splits: Iterable[Split]) -> Iterator[SplitRows]:
        """Stream the rows; row groups of other splits are not decoded."""
        for number, group in self.files.by_file(splits):
            wanted = list(group)
            with self.files.open(number) as handle:
                file = open_parquet(handle, repr(self.files.location.name))
                if file.metadata.num_rows != self.files.pin.files[number].rows:
                    raise self.files.changed(number)
                batches = parquet_batches(file, wanted)
                own = self.files.own_schema(number)
                for split, batch in cut(batches, wanted, own):
                    self.files.check(number)
                    yield SplitRows(split=split, batch=self.files.whole(number, batch))
