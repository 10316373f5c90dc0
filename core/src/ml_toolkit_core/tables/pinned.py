"""The pinned files of a table: how they are cut into splits, checked and opened."""

import base64
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
from attrs import frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.compressed import DAMAGED
from ml_toolkit_core.tables.kinds import is_json
from ml_toolkit_core.tables.members import folder_values
from ml_toolkit_core.tables.parts import Split
from ml_toolkit_core.tables.store import Store, place
from ml_toolkit_core.values import Column, FilePin, InputPin, TableLocation


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as it stands in a pin."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def pinned_schema(pin: InputPin) -> pa.Schema:
    """Return the schema that stands in a pin."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(pin.arrow_schema)))


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return what a pin says of each column."""
    return tuple(
        Column(name=column.name, type=str(column.type), json=is_json(column))
        for column in schema
    )


def pin_of(
    schema: pa.Schema,
    files: Iterable[FilePin],
    *,
    version: int | None = None,
    notes: tuple[str, ...] = (),
    row_bytes: int | None = None,
) -> InputPin:
    """Return the pin of these columns and files."""
    return InputPin(
        version=version,
        files=tuple(files),
        columns=columns_of(schema),
        arrow_schema=schema_text(schema),
        notes=notes,
        row_bytes=row_bytes,
    )


@frozen(kw_only=True)
class PinnedFiles:
    """The files of one pinned table."""

    store: Store
    location: TableLocation
    pin: InputPin
    schema: pa.Schema
    #: The unit that old Spark timestamps are read in; nanoseconds when None.
    int96: ClassVar[str | None] = None

    def splits(self, split_rows: int) -> Sequence[Split]:
        """Cut every file into ranges of at most ``split_rows`` rows."""
        ranges = (
            (number, start, min(start + split_rows, file.rows))
            for number, file in enumerate(self.pin.files)
            for start in range(0, file.rows, split_rows)
        )
        return [
            Split(index=index, file=number, start=start, stop=stop)
            for index, (number, start, stop) in enumerate(ranges)
        ]

    def by_file(self, splits: Iterable[Split]) -> Iterator[tuple[int, Iterator[Split]]]:
        """Group splits, which come in order, by file."""
        return groupby(splits, key=lambda split: split.file)

    def constants(self, number: int) -> Mapping[str, Any]:
        """Return the columns that stand in a file's folders, as Arrow scalars."""
        folders = folder_values(self.pin.files[number].path)
        return {name: pa.scalar(text, pa.string()) for name, text in folders.items()}

    def live_rows(self, number: int) -> Any:  # noqa: ARG002  a Delta table's need it
        """Return which rows of a file are in the table; None when all are."""
        return None

    @contextlib.contextmanager
    def open(self, number: int) -> Iterator[BinaryIO]:
        """Open a file for reading.

        Raises:
            RequestError: When it is not what was pinned, or turns out to be broken.
        """
        self.check(number)
        uri = place(self.location.uri, self.pin.files[number].path)
        try:
            with self.store.open(uri) as handle:
                yield handle
        except (pa.ArrowException, OSError, *DAMAGED) as error:
            self.check(number)
            # Arrow's own texts quote values.
            why = (
                type(error).__name__ if isinstance(error, pa.ArrowException) else error
            )
            raise RequestError(
                f"{self.location.name!r}: {uri!r} cannot be read to its end: {why}"
            ) from None

    def check(self, number: int) -> None:
        """Look whether a file is still what was pinned, after each read from it.

        Raises:
            RequestError: When it is not: what was read may be of both contents.
        """
        pinned = self.pin.files[number]
        found = self.store.stat(place(self.location.uri, pinned.path))
        if found is None or (found.bytes, found.etag) != (pinned.bytes, pinned.etag):
            raise self.changed(number)

    def changed(self, number: int, error: Exception | None = None) -> RequestError:
        """Return the error to raise when a file is not what was pinned.

        Args:
            number: The file.
            error: What reading it raised. Its type alone is told, and it is not the
                cause: its text may quote a row.
        """
        why = f" ({type(error).__name__})" if error is not None else ""
        path = self.pin.files[number].path
        return RequestError(
            f"{self.location.name!r}: {f'its file {path!r}' if path else 'the file'} "
            f"has changed since the run was planned{why}; rows that are answered "
            "already would not match the rest. Put the old file back, or start a new "
            "run"
        )
