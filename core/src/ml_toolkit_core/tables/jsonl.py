"""JSON Lines in: the scan that fixes columns and rows, and the rows themselves."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO, Final

import pyarrow as pa
from attrs import define, field

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.compressed import unpacked, whole
from ml_toolkit_core.tables.faults import Faults
from ml_toolkit_core.tables.jsonlines import (
    LineFault,
    check_encoding,
    has_surrogates,
    lines,
    may_hold_surrogates,
    parse,
    parse_strictly,
    parse_with_texts,
    without_surrogates,
)
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.kinds import Kinds, is_json
from ml_toolkit_core.tables.parts import RowError, RowFault, Split, SplitRows
from ml_toolkit_core.tables.pinned import PinnedFiles
from ml_toolkit_core.tables.store import Store, place
from ml_toolkit_core.wire import Json

#: First lines of a file that is one indented JSON document.
_DOCUMENT_STARTS: Final = {b"[", b"{", b"[{"}
#: What a line that is not as it was checked makes its reader raise.
_NOT_AS_CHECKED: Final = (LineFault, ValueError, OverflowError, pa.ArrowException)


@define
class JsonlScan:
    """One pass over all lines of a table.

    Args:
        name: The table's name, for messages.
    """

    name: str
    columns: dict[str, Kinds] = field(factory=dict, init=False)
    _faults: Faults = field(factory=Faults, init=False)
    _is_one_document: bool = field(default=False, init=False)

    def file(self, store: Store, root: str, path: str) -> int:
        """Read one file of the table and return its rows.

        Args:
            store: Where it lies.
            root: The table.
            path: Relative to it; ``""`` when the table is the file.
        """
        rows = 0
        name = f"{self.name!r}{f', {path}' if path else ''}"
        with store.open(place(root, path)) as packed, whole(name):
            handle = unpacked(packed)
            check_encoding(name, handle)
            for number, line in lines(handle):
                rows += 1
                if rows == 1 and line.strip() in _DOCUMENT_STARTS:
                    self._is_one_document = True
                where = f"{path} line {number}" if path else f"line {number}"
                try:
                    row = parse_strictly(line)
                except LineFault as fault:
                    self._faults.note(f"{where} {fault}")
                    continue
                for key, value in row.items():
                    kinds = self.columns.get(key)
                    if kinds is None:
                        kinds = self.columns[key] = Kinds()
                    kinds.see(value, where)
        return rows

    def schema(self) -> pa.Schema:
        """Return the columns in order of first appearance.

        Raises:
            RequestError: When lines were bad, or there are no columns.
        """
        if self._faults.count:
            document = (
                " It looks like one JSON document over many lines; for a list of "
                "objects, jq -c '.[]' writes one per line."
                if self._is_one_document
                else ""
            )
            raise RequestError(
                f"{self.name!r}: {self._faults.count} of its lines cannot be read: "
                f"{self._faults}. Each line must be one JSON object; "
                f"mend or remove these lines.{document}"
            )
        if not self.columns:
            raise RequestError(
                f"{self.name!r} has no rows, so no columns; a JSON Lines table needs "
                "one JSON object per line, and a table without rows can be Parquet "
                "or Delta"
            )
        return pa.schema([kinds.field(key) for key, kinds in self.columns.items()])

    def notes(self, text_columns: Iterable[str]) -> tuple[str, ...]:
        """Return a sentence for each column of mixed kinds."""
        asked = set(text_columns)
        return tuple(
            kinds.note(key, is_text=key in asked)
            for key, kinds in self.columns.items()
            if kinds.is_mixed
        )


def read_jsonl(
    files: PinnedFiles,
    number: int,
    handle: BinaryIO,
    splits: Sequence[Split],
    schema: pa.Schema,
) -> Iterator[SplitRows]:
    """Stream the rows; lines of other splits are not parsed."""
    at = 0
    rows = lines(unpacked(handle))
    for split in splits:
        skip = split.start - at
        at = split.stop
        taken = list(islice(rows, skip, skip + split.stop - split.start))
        if len(taken) < split.stop - split.start:
            raise files.changed(number)
        try:
            found = _split_rows(split, [line for _, line in taken], schema)
        except _NOT_AS_CHECKED as error:
            raise files.changed(number, error) from None
        yield found


def _split_rows(split: Split, taken: list[bytes], schema: pa.Schema) -> SplitRows:
    exact = {column.name for column in schema if is_json(column)}
    rows: list[dict[str, Json]] = []
    errors: dict[int, RowError] = {}
    for offset, raw in enumerate(taken):
        line = raw.decode()
        row = _row_with_texts(line, exact) if exact else parse(line)
        if may_hold_surrogates(line):
            broken = [
                key for key, value in parse(line).items() if has_surrogates(value)
            ]
            row |= _mended(line, broken, exact)
            if broken:
                errors[offset] = RowError(
                    RowFault.UNREADABLE,
                    f"column {', '.join(map(repr, broken))} holds half of a "
                    "surrogate pair",
                )
        rows.append(row)
    arrays = [
        pa.array([row.get(column.name) for row in rows], column.type)
        for column in schema
    ]
    return SplitRows(
        split=split,
        batch=pa.RecordBatch.from_arrays(arrays, schema=schema),
        errors=errors,
    )


def _row_with_texts(line: str, exact: set[str]) -> dict[str, Json]:
    """Return the values of a line; the exact text for columns of JSON."""
    return {
        key: text if key in exact and value is not None else value
        for key, (value, text) in parse_with_texts(line).items()
    }


def _mended(line: str, broken: list[str], exact: set[str]) -> dict[str, Json]:
    """Return the values that hold half of a surrogate pair, without it."""
    row = parse(line)
    values = {key: without_surrogates(row[key]) for key in broken}
    return {key: dumps(v) if key in exact else v for key, v in values.items()}
