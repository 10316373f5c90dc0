"""CSV in: the scan that fixes columns and rows, and the rows themselves."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO, Final

import pyarrow as pa

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.arrowtypes import ArrowType
from ml_toolkit_core.tables.batches import Columns
from ml_toolkit_core.tables.compressed import unpacked, whole
from ml_toolkit_core.tables.csvtext import Cell, Dialect, RecordFault, records
from ml_toolkit_core.tables.csvtypes import (
    column_types,
    faulty,
    typed,
)
from ml_toolkit_core.tables.faults import Faults
from ml_toolkit_core.tables.jsonlines import encoding_of
from ml_toolkit_core.tables.parts import Split, SplitRows
from ml_toolkit_core.tables.pinned import PinnedFiles, pin_of
from ml_toolkit_core.tables.store import FileInfo, Store, place
from ml_toolkit_core.values import FilePin, InputPin, TableLocation

#: Bad cells after which no more are looked for: each costs a search of its block.
_COUNTED: Final = 1000
#: Records that are looked at together.
_BLOCK: Final = 4096


def csv_pin(
    store: Store, location: TableLocation, files: Iterable[FileInfo]
) -> InputPin:
    """Read all files to their end.

    Raises:
        RequestError: When one is no CSV file, or has no header.
    """
    columns = Columns(location.name)
    types = column_types(location.read_options)
    pins = []
    for file in files:
        path = file.path or location.name
        name = repr(path) if path == location.name else f"{location.name!r}: {path!r}"
        dialect = Dialect.of(location.read_options, path)
        with store.open(place(location.uri, file.path)) as handle, whole(name):
            header, rows = _scan(name, unpacked(handle), dialect, types)
        kinds = [(column, types.get(column, pa.string())) for column in header]
        columns.see(pa.schema(kinds), path)
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
            header = _header(found)
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
        except (RecordFault, UnicodeDecodeError, pa.ArrowInvalid) as error:
            raise files.changed(number, error) from None


def _header(found: Iterator[tuple[int, list[Cell]]]) -> list[str]:
    """Take the first record; a column without a name is called ``""``."""
    return [cell or "" for cell in next(found, (0, []))[1]]


def _batch(
    columns: Mapping[str, Sequence[Cell]], schema: pa.Schema, rows: int
) -> pa.RecordBatch:
    arrays = [
        typed(columns[column.name], column.type)
        if column.name in columns
        else pa.nulls(rows, column.type)
        for column in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _scan(
    name: str, handle: BinaryIO, dialect: Dialect, types: Mapping[str, ArrowType]
) -> tuple[list[str], int]:
    """Return the header of a file and the number of its records."""
    encoding = encoding_of(handle)
    if encoding and not dialect.encoding:
        raise RequestError(
            f"{name}: the file is {encoding}, not UTF-8 text; pass "
            "read_options={'encoding': ...} with the name of its encoding, for example "
            "'utf-16'"
        )
    rows = 0
    faults, misfits = Faults(), Faults()
    header: list[str] = []
    block: list[tuple[int, list[Cell]]] = []
    try:
        with dialect.text(handle) as text:
            found = records(text, dialect.delimiter)
            header = _header(found)
            for line, cells in found:
                rows += 1
                if len(cells) != len(header):
                    faults.note(
                        f"line {line} has {len(cells)} cells, the header {len(header)}"
                    )
                elif types and misfits.count < _COUNTED:
                    block.append((line, cells))
                if len(block) == _BLOCK:
                    _note_misfits(misfits, block, header, types)
                    block.clear()
        _note_misfits(misfits, block, header, types)
    except RecordFault as fault:
        faults.note(str(fault))
    except UnicodeDecodeError as error:
        raise _not_of_its_encoding(name, handle, dialect, error) from error
    if faults.count:
        raise RequestError(
            f"{name}: {faults.count} of its records cannot be read: {faults}. "
            "Each record must have a cell for each column, and quotes around cells "
            f"with line breaks, quotes or the delimiter {dialect.delimiter!r} (another "
            "one is read_options={'delimiter': ...})"
        )
    if misfits.count:
        least = "at least " if misfits.count >= _COUNTED else ""
        raise RequestError(
            f"{name}: {least}{misfits.count} of its cells are not of the types in "
            f"read_options['types']: {misfits}. Mend them, or give the column "
            "another type; without one it is text. Null is an empty cell"
        )
    return header, rows


def _note_misfits(
    misfits: Faults,
    block: Sequence[tuple[int, Sequence[Cell]]],
    header: Sequence[str],
    types: Mapping[str, ArrowType],
) -> None:
    """Note which cells of some records are not of their column's type."""
    for at, name in enumerate(header):
        if name in types:
            kind = types[name]
            for row in faulty([cells[at] for _, cells in block], kind):
                misfits.note(f"line {block[row][0]} column {name!r} is no {kind}")


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
