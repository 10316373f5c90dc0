"""How a part of an output lies in a file: written, counted, listed and joined."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, Protocol, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import frozen
from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import ArrowType, is_text, rebuilt
from ml_toolkit_core.tables.columns import with_types
from ml_toolkit_core.tables.csvtext import Cell, Dialect, csv_line, records
from ml_toolkit_core.tables.jsonlines import lines, parse_with_texts
from ml_toolkit_core.tables.jsontext import (
    NOT_FINITE,
    dumps,
    has_json_form,
    json_columns,
    json_lines,
)
from ml_toolkit_core.tables.kinds import is_json
from ml_toolkit_core.tables.parts import Tally
from ml_toolkit_core.values import TableFormat

#: Opens a file for reading.
Opener: TypeAlias = Callable[[], BinaryIO]
#: The values of a row as JSON text, by column.
RowTexts: TypeAlias = Mapping[str, str]

_CHUNK: Final = 1 << 20
_TOKENS: Final = ("prompt_tokens", "completion_tokens")
_COUNTED: Final = ("error", "finish_reason", *_TOKENS)
#: What a file that is not as it was written makes its reader raise.
NOT_AS_WRITTEN: Final = (ValueError, KeyError, TypeError, pa.ArrowException)


class PartFormat(Protocol):
    """A format of files; can be pickled."""

    def dump(self, rows: pa.Table) -> bytes:
        """Return a file of these rows."""

    def tally(self, handle: BinaryIO) -> Tally:
        """Count the rows of a file.

        Raises:
            NOT_AS_WRITTEN: When it is no such file.
        """

    def failed(self, handle: BinaryIO) -> Iterator[RowTexts]:
        """Yield the rows of a file that have an error."""

    def join(self, files: Iterable[Opener]) -> Iterator[bytes]:
        """Yield one file of the rows of all of these, in order, piece by piece."""


def part_format(kind: TableFormat, schema: pa.Schema) -> PartFormat:
    """Return the format of an output with these columns."""
    return _FORMATS[kind](schema=schema)


@frozen(kw_only=True)
class JsonlFormat:
    """JSON Lines."""

    schema: pa.Schema

    def dump(self, rows: pa.Table) -> bytes:
        """Write a line for each row."""
        return b"".join(json_lines(rows))

    def tally(self, handle: BinaryIO) -> Tally:
        """Parse every line."""
        rows = (json.loads(line) for _, line in lines(handle))
        return _tally([row[name] for name in _COUNTED] for row in rows)

    def failed(self, handle: BinaryIO) -> Iterator[RowTexts]:
        """Take the exact text of each value."""
        for _, line in lines(handle):
            row = parse_with_texts(line.decode())
            if row["error"][0] is not None:
                yield {name: text for name, (_, text) in row.items()}

    def join(self, files: Iterable[Opener]) -> Iterator[bytes]:
        """Put lines after lines."""
        for opened in files:
            with opened() as handle:
                yield from _whole_lines(handle)


@frozen(kw_only=True)
class CsvFormat:
    """CSV after RFC 4180, with a header in every file."""

    schema: pa.Schema

    @property
    def header(self) -> bytes:
        """The record of names."""
        return csv_line([*self.schema.names]).encode()

    def dump(self, rows: pa.Table) -> bytes:
        """Write a record for each row."""
        texts = "".join(map(csv_line, _csv_rows(rows)))
        return self.header + texts.encode()

    def tally(self, handle: BinaryIO) -> Tally:
        """Parse every record."""
        return _tally(
            [row["error"], row["finish_reason"], *map(_number, map(row.get, _TOKENS))]
            for row in self._rows(handle)
        )

    def failed(self, handle: BinaryIO) -> Iterator[RowTexts]:
        """Take cells as text, or as the numbers and JSON that they are."""
        bare = {c.name for c in self.schema if not is_json(c) and _is_bare(c.type)}
        for row in self._rows(handle):
            if row["error"] is not None:
                yield {
                    name: cell
                    if cell and name in bare and cell not in NOT_FINITE
                    else dumps(cell)
                    for name, cell in row.items()
                }

    def join(self, files: Iterable[Opener]) -> Iterator[bytes]:
        """Keep the first header."""
        is_first = True
        for opened in files:
            with opened() as handle:
                if handle.read(len(self.header)) != self.header:
                    handle.seek(0)  # not ours, with a header in its own way
                elif is_first:
                    yield self.header
                yield from _whole_lines(handle)
            is_first = False
        if is_first:
            yield self.header

    def _rows(self, handle: BinaryIO) -> Iterator[dict[str, Cell]]:
        with Dialect(encoding=None, delimiter=",").text(handle) as text:
            found = (cells for _, cells in records(text, ","))
            header = [name or "" for name in next(found)]
            for cells in found:
                yield dict(zip(header, cells, strict=True))


@frozen(kw_only=True)
class ParquetFormat:
    """Parquet."""

    schema: pa.Schema

    def dump(self, rows: pa.Table) -> bytes:
        """Write the rows with the types of the output."""
        buffer = pa.BufferOutputStream()
        pq.write_table(with_types(rows, self.schema), buffer)
        return buffer.getvalue().to_pybytes()

    def tally(self, handle: BinaryIO) -> Tally:
        """Read the columns that count."""
        batches = pq.ParquetFile(handle).iter_batches(columns=[*_COUNTED])
        columns = ([batch[name].to_pylist() for name in _COUNTED] for batch in batches)
        return _tally(row for batch in columns for row in zip(*batch, strict=True))

    def failed(self, handle: BinaryIO) -> Iterator[RowTexts]:
        """Give every value its JSON form, durations as counts, or else its text."""
        for batch in pq.ParquetFile(handle).iter_batches():
            rows = pa.Table.from_batches([batch.filter(pc.is_valid(batch["error"]))])
            for number, column in enumerate(rows.schema):
                if has_json_form(column.type):
                    continue
                found = rows.column(number)
                if has_json_form(kind := _counts(column.type)):
                    found = found.cast(kind)
                else:
                    values = found.to_pylist()
                    written = [None if v is None else str(v) for v in values]
                    found = pa.chunked_array([pa.array(written, pa.string())])
                rows = rows.set_column(number, column.name, found)
            for columns in json_columns(rows):
                for texts in zip(*columns, strict=True):
                    yield dict(zip(rows.column_names, texts, strict=True))

    def join(self, files: Iterable[Opener]) -> Iterator[bytes]:
        """Write the row groups of all files into one."""
        pipe = _Pipe()
        with pq.ParquetWriter(cast(BinaryIO, pipe), self.schema) as writer:
            for opened in files:
                with opened() as handle:
                    for batch in pq.ParquetFile(handle).iter_batches():
                        rows = pa.Table.from_batches([batch])
                        writer.write_table(with_types(rows, self.schema))
                        yield pipe.taken()
        yield pipe.taken()


class _Pipe(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._at += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._at

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data


_FORMATS: Final[Mapping[TableFormat, Callable[..., PartFormat]]] = {
    TableFormat.JSONL: JsonlFormat,
    TableFormat.CSV: CsvFormat,
    TableFormat.PARQUET: ParquetFormat,
}


def _counts(kind: ArrowType) -> ArrowType:
    """Return a type with whole numbers in place of durations."""
    return pa.int64() if types.is_duration(kind) else rebuilt(kind, _counts)


def _csv_rows(rows: pa.Table) -> Iterator[list[Cell]]:
    """Yield cells: text as it is, all else as its JSON without quotes around it."""
    plain = [is_text(column.type) and not is_json(column) for column in rows.schema]
    for batch in rows.to_batches():
        texts = next(json_columns(pa.Table.from_batches([batch])), [])
        columns = [
            batch.column(number).to_pylist() if is_plain else map(_unquoted, found)
            for number, (is_plain, found) in enumerate(zip(plain, texts, strict=True))
        ]
        yield from map(list, zip(*columns, strict=True))


def _is_bare(kind: ArrowType) -> bool:
    """Whether the JSON of values of a type is no text, but for some numbers."""
    return (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_nested(kind)
    )


def _unquoted(text: str) -> Cell:
    if text.startswith('"'):
        return str(json.loads(text))
    return None if text == "null" else text


def _whole_lines(handle: BinaryIO) -> Iterator[bytes]:
    """Yield a file in pieces; its last line ends too."""
    last = b"\n"
    while piece := handle.read(_CHUNK):
        last = piece
        yield piece
    if not last.endswith(b"\n"):
        yield b"\n"


def _tally(rows: Iterable[Sequence[Any]]) -> Tally:
    """Add up the columns that count, row by row."""
    done = failed = truncated = asked = answered = 0
    for error, reason, prompt_tokens, completion_tokens in rows:
        done += 1
        failed += error is not None
        truncated += reason == "length"
        asked += prompt_tokens or 0
        answered += completion_tokens or 0
    return Tally(
        done=done,
        failed=failed,
        truncated=truncated,
        prompt_tokens=asked,
        completion_tokens=answered,
    )


def _number(cell: Cell) -> int | None:
    return None if cell is None else int(cell)
