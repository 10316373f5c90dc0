"""Parquet in: columns and rows from the footers, and the rows themselves."""

from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import Columns, cut, parquet_batches
from ml_toolkit_core.tables.parts import Split, SplitRows
from ml_toolkit_core.tables.pinned import PinnedFiles, pin_of
from ml_toolkit_core.tables.store import FileInfo, Store, place
from ml_toolkit_core.tables.utf8 import mend_text
from ml_toolkit_core.values import FilePin, InputPin, TableLocation


def parquet_pin(
    store: Store, location: TableLocation, files: Iterable[FileInfo]
) -> InputPin:
    """Read the footers of all files.

    Raises:
        RequestError: When one is no Parquet file, or they do not agree.
    """
    columns = Columns(location.name)
    pins, widest = [], 0
    for file in files:
        path = file.path or location.name
        with store.open(place(location.uri, file.path)) as handle:
            footer = open_parquet(handle, f"{location.name!r}: {path!r}")
            columns.see(footer.schema_arrow, path)
            rows = footer.metadata.num_rows
            widest = max(widest, row_bytes(footer))
        pins.append(
            FilePin(path=file.path, rows=rows, bytes=file.bytes, etag=file.etag)
        )
    return pin_of(columns.schema(), pins, row_bytes=widest)


def row_bytes(file: pq.ParquetFile) -> int:
    """Return the bytes of a row, not compressed, in the row group of the widest."""
    groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
    return max(
        (g.total_byte_size // g.num_rows for g in groups if g.num_rows), default=0
    )


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


def read_parquet(
    files: PinnedFiles,
    number: int,
    handle: BinaryIO,
    splits: Sequence[Split],
    schema: pa.Schema,
) -> Iterator[SplitRows]:
    """Stream the rows that are not deleted; other row groups are not decoded."""
    pinned = files.pin.files[number]
    name = repr(pinned.path or files.location.name)
    file = open_parquet(handle, name, int96=files.int96)
    if file.metadata.num_rows != pinned.rows:
        raise files.changed(number)
    live = files.live_rows(number)
    batches = parquet_batches(file, splits, schema.names)
    for split, batch in cut(batches, splits, schema):
        rows = batch
        if live is not None:
            rows = batch.filter(live.slice(split.start, split.stop - split.start))
        rows, errors = mend_text(rows)
        yield SplitRows(split=split, batch=rows, errors=errors)
