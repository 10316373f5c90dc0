"""The pin: what a table is and holds at the time a run is planned."""

from collections.abc import Iterable

import attrs
import pyarrow as pa

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.names import FORMATS
from ml_toolkit_core.tables import compressed
from ml_toolkit_core.tables.csvtable import csv_pin
from ml_toolkit_core.tables.csvtypes import check_columns, column_types, faulty
from ml_toolkit_core.tables.delta import delta_pin
from ml_toolkit_core.tables.jsonl import JsonlScan
from ml_toolkit_core.tables.members import (
    READ,
    find_files,
    folder_values,
    is_delta,
    some,
    with_folder_columns,
)
from ml_toolkit_core.tables.parquet import parquet_pin
from ml_toolkit_core.tables.pinned import columns_of, pin_of, pinned_schema, schema_text
from ml_toolkit_core.tables.store import FileInfo, Store
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import FilePin, InputPin, TableFormat, TableLocation


def pin_table(
    location: TableLocation,
    *,
    text_columns: Iterable[str] = (),
    store: Store | None = None,
) -> tuple[TableLocation, InputPin]:
    """Look at a table: its format, columns, files and rows.

    Args:
        location: Where it lies.
        text_columns: Columns that are asked as text; the note on one of mixed kinds
            says what becomes of its other values.
        store: Where the files lie; found by the URI when None.

    Returns:
        The location with its format and the folder that its files are in, and the
        pin.

    Raises:
        RequestError: When the table is not there or cannot be read, with all that
            is wrong.
    """
    store = store or store_for(location.uri)
    try:
        return _pin(store, location, text_columns)
    except OSError as error:
        raise RequestError(
            f"input_table={location.name!r} cannot be read: {error.strerror or error}"
        ) from error


def _pin(
    store: Store, location: TableLocation, text_columns: Iterable[str]
) -> tuple[TableLocation, InputPin]:
    if location.format is TableFormat.DELTA or (
        location.format is None
        and not location.members
        and is_delta(store, location.uri)
    ):
        location = attrs.evolve(location, format=TableFormat.DELTA)
        _check_options(location)
        return location, delta_pin(store, location)
    location, files = find_files(store, location)
    location = attrs.evolve(location, format=_format(location, files))
    _check_options(location)
    if location.format is TableFormat.PARQUET:
        pin = parquet_pin(store, location, files)
    elif location.format is TableFormat.CSV:
        pin = csv_pin(store, location, files)
    else:
        pin = _jsonl_pin(store, location, files, text_columns)
    schema = with_folder_columns(location, pinned_schema(pin), files)
    if location.format is TableFormat.CSV:
        schema = _with_given_types(location, schema, files)
    columns, text = columns_of(schema), schema_text(schema)
    return location, attrs.evolve(pin, columns=columns, arrow_schema=text)


def _with_given_types(
    location: TableLocation, schema: pa.Schema, files: Iterable[FileInfo]
) -> pa.Schema:
    """Give the columns of CSV, those of folders too, the types that the caller names.

    Raises:
        RequestError: When one is for no column, or a folder's name is no such value.
    """
    types = column_types(location.read_options)
    check_columns(location.name, types, schema.names)
    for file in files:
        for key, text in folder_values(file.path).items():
            if key in types and faulty([text], types[key]):
                raise RequestError(
                    f"{location.name!r}: the folder column {key!r} of {file.path!r} is "
                    f"no {types[key]}, as read_options['types'] has it"
                )
    return pa.schema([(c.name, types.get(c.name, c.type)) for c in schema])


def _jsonl_pin(
    store: Store,
    location: TableLocation,
    files: Iterable[FileInfo],
    text_columns: Iterable[str],
) -> InputPin:
    scan = JsonlScan(location.name)
    pins = tuple(
        FilePin(
            path=file.path,
            rows=scan.file(store, location.uri, file.path),
            bytes=file.bytes,
            etag=file.etag,
        )
        for file in files
    )
    schema = scan.schema()
    return pin_of(schema, pins, notes=scan.notes(text_columns))


def _check_options(location: TableLocation) -> None:
    if location.read_options and location.format is not TableFormat.CSV:
        raise RequestError(
            f"read_options has {', '.join(map(repr, location.read_options))}, but "
            f"{location.name!r} is {location.format}, which takes none; they are for "
            "CSV"
        )


def _format(location: TableLocation, files: tuple[FileInfo, ...]) -> TableFormat:
    """Tell the format by the names of the files, which must agree."""
    name = location.name
    given = location.format
    if given is not None:
        if len(files) == 1 and not files[0].path:
            return given
        others = [f.path for f in files if FORMATS.get(_suffix(f.path)) is not given]
        if others:
            raise RequestError(
                f"{name!r}: the folder holds files that are not {given}: "
                f"{some(others)}; move them elsewhere or name the files to read"
            )
        return given
    found = {_by_suffix(name, file.path or location.uri) for file in files}
    if len(found) > 1:
        raise RequestError(
            f"{name!r}: the folder mixes {' and '.join(sorted(found))} files; a table "
            "is of one format: pass input_format= with a folder of that format alone"
        )
    return found.pop()


def _by_suffix(name: str, path: str) -> TableFormat:
    suffix = _suffix(path)
    kind = FORMATS.get(suffix)
    if kind is not None and not (
        kind is TableFormat.PARQUET and path.lower().endswith(compressed.SUFFIX)
    ):
        return kind
    given = repr(name) if name.endswith(suffix) else f"{name!r} ({path!r})"
    raise RequestError(
        f"{given}: no format is known for {suffix or 'a file without a suffix'!r}; "
        f"{READ}. If it is one of them, say so with input_format="
    )


def _suffix(path: str) -> str:
    """Return the suffix that says the format, which may stand before ``.gz``."""
    base = path.rpartition("/")[2].lower()
    stem, dot, suffix = base.removesuffix(compressed.SUFFIX).rpartition(".")
    return f".{suffix}" if dot and stem else ""
