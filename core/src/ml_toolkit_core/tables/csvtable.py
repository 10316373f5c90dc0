"""CSV in: the scan that fixes columns and rows, and the rows themselves."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO, Final

import pyarrow as pa

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import Columns
from ml_toolkit_core.tables.compressed import unpacked, whole
from ml_toolkit_core.tables.csvtext import Cell, Dialect, RecordFault, records
from ml_toolkit_core.tables.jsonlines import encoding_of
from ml_toolkit_core.tables.parts import Split, SplitRows
from ml_toolkit_core.tables.pinned import PinnedFiles, pin_of
from ml_toolkit_core.tables.store import FileInfo, Store, place
from ml_toolkit_core.values import FilePin, InputPin, TableLocation

#: Bad records that a message lists; the others are counted.
_LISTED: Final = 20


def csv_pin(
    store: Store, location: TableLocation, files: Iterable[FileInfo]
) -> InputPin:
    """Read all files to their end.

    Raises:
        RequestError: When one is no CSV file, or has no header.
    """
    columns = Columns(location.name)
    pins = []
    for file in files:
        path = file.path or location.name
        name = repr(path) if path == location.name else f"{location.name!r}: {path!r}"
        dialect = Dialect.of(location.read_options, path)
        with store.open(place(location.uri, file.path)) as handle, whole(name):
            header, rows = _scan(name, unpacked(handle), dialect)
        columns.see(pa.schema([(column, pa.string()) for column in header]), path)
        pins.append(
            FilePin(path=file.path, rows=rows, bytes=file.bytes, etag=file.etag)
        )
    return pin_of(columns.schema(), pins)


def read_csv(
    files: PinnedFiles,
    number: int,
    handle: BinaryIO,
    splits: Sequence[Split],
    schema: pa.Schema,
) -> Iterator[SplitRows]:
    """Stream the rows; records of other splits are skipped."""
    path = files.pin.files[number].path or files.location.name
    dialect = Dialect.of(files.location.read_options, path)
    with dialect.text(unpacked(handle)) as text:
        try:
            found = records(text, dialect.delimiter)
            _, header = next(found, (0, []))
            at = 0
            for split in splits:
                rows = [
                    cells
                    for _, cells in islice(found, split.start - at, split.stop - at)
                    if len(cells) == len(header)
                ]
                at = split.stop
                if len(rows) < split.stop - split.start:
                    raise files.changed(number)
                columns = dict(zip(header, zip(*rows, strict=True), strict=True))
                yield SplitRows(split=split, batch=_batch(columns, schema, len(rows)))
        except (RecordFault, UnicodeDecodeError) as error:
            raise files.changed(number, error) from None


def _batch(
    columns: Mapping[Cell, Sequence[Cell]], schema: pa.Schema, rows: int
) -> pa.RecordBatch:
    arrays = [
        pa.array(columns[column.name], pa.string())
        if column.name in columns
        else pa.nulls(rows, column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _scan(name: str, handle: BinaryIO, dialect: Dialect) -> tuple[list[str], int]:
    """Return the header of a file and the number of its records."""
    encoding = encoding_of(handle)
    if encoding and not dialect.encoding:
        raise RequestError(
            f"{name}: the file is {encoding}, not UTF-8 text; pass "
            "read_options={'encoding': ...} with the name of its encoding, for example "
            "'utf-16'"
        )
    rows, faults = 0, []
    header: list[Cell] | None = None
    try:
        with dialect.text(handle) as text:
            for line, cells in records(text, dialect.delimiter):
                if header is None:
                    header = cells
                    continue
                rows += 1
                if len(cells) != len(header):
                    faults.append(
                        f"line {line} has {len(cells)} cells, the header {len(header)}"
                    )
    except RecordFault as fault:
        faults.append(str(fault))
    except UnicodeDecodeError as error:
        raise _not_of_its_encoding(name, handle, dialect, error) from error
    if faults:
        more = f" and {len(faults) - _LISTED} more" * (len(faults) > _LISTED)
        raise RequestError(
            f"{name}: {len(faults)} of its records cannot be read: "
            f"{'; '.join(faults[:_LISTED])}{more}. Each record must have a cell for "
            "each column, and quotes around cells with line breaks, quotes or the "
            f"delimiter {dialect.delimiter!r} (another one is "
            "read_options={'delimiter': ...})"
        )
    return [cell or "" for cell in header or ()], rows


def _not_of_its_encoding(
    name: str, handle: BinaryIO, dialect: Dialect, error: UnicodeDecodeError
) -> RequestError:
    """Say where the text is not of its encoding, which is worth a second reading."""
    if dialect.encoding:
        return RequestError(
            f"{name}: the file is not {dialect.encoding} (byte "
            f"0x{error.object[error.start]:02x} has no meaning there); pass another "
            "read_options={'encoding': ...}"
        )
    handle.seek(0)
    where = ""
    for number, line in enumerate(handle, start=1):
        try:
            line.decode()
        except UnicodeDecodeError as fault:
            where = (
                f"line {number} has the byte 0x{line[fault.start]:02x} at position "
                f"{fault.start}"
            )
            break
    return RequestError(
        f"{name}: the file is not UTF-8 text: {where}; pass "
        "read_options={'encoding': 'cp1252'} or what it is in"
    )
