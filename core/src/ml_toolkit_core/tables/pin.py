"""The pin: what a table is and holds at the time a run is planned."""

from collections.abc import Iterable
from typing import Final

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.delta import delta_pin
from ml_toolkit_core.tables.jsonl import JsonlScan
from ml_toolkit_core.tables.parquet import parquet_pin
from ml_toolkit_core.tables.pinned import pin_of
from ml_toolkit_core.tables.store import FileInfo, Store, join, store_for
from ml_toolkit_core.values import FilePin, InputPin, TableFormat, TableLocation

_SUFFIXES: Final = {
    ".jsonl": TableFormat.JSONL,
    ".ndjson": TableFormat.JSONL,
    ".parquet": TableFormat.PARQUET,
}
_READ: Final = (
    "JSON Lines (.jsonl, .ndjson) and Parquet (.parquet) files, folders of either, "
    "and Delta tables are read"
)


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
        The location with its format, and the pin.

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
    kind = location.format or _format(store, location)
    location = attrs.evolve(location, format=kind)
    if kind is TableFormat.DELTA:
        return location, delta_pin(store, location)
    files = _files(store, location, kind)
    if kind is TableFormat.PARQUET:
        return location, parquet_pin(store, location, files)
    return location, _jsonl_pin(store, location, files, text_columns)


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


def _format(store: Store, location: TableLocation) -> TableFormat:
    """Tell the format by what is there."""
    name, uri = location.name, location.uri
    if store.stat(join(uri, "_delta_log")) or store.is_folder(join(uri, "_delta_log")):
        return TableFormat.DELTA
    if store.stat(uri) is not None:
        return _by_suffix(name, uri)
    found = {_by_suffix(name, file.path) for file in _visible(store, location)}
    if len(found) > 1:
        raise RequestError(
            f"{name!r}: the folder mixes {' and '.join(sorted(found))} files; a table "
            "is of one format: pass input_format= with a folder of that format alone"
        )
    return found.pop()


def _files(
    store: Store, location: TableLocation, kind: TableFormat
) -> tuple[FileInfo, ...]:
    """Return the table's files in the order of their rows."""
    single = store.stat(location.uri)
    if single is not None:
        return (single,)
    files = _visible(store, location)
    strangers = [f.path for f in files if _SUFFIXES.get(_suffix(f.path)) is not kind]
    if strangers:
        raise RequestError(
            f"{location.name!r}: the folder holds files that are not {kind}: "
            f"{_some(strangers)}; move them elsewhere or name the files to read"
        )
    return files


def _visible(store: Store, location: TableLocation) -> tuple[FileInfo, ...]:
    """Return the files of a folder but the hidden ones, at least one."""
    name, uri = location.name, location.uri
    if not store.is_folder(uri):
        raise RequestError(
            f"input_table={name!r}: there is nothing at {uri!r}; {_READ}"
        )
    files = tuple(
        file
        for file in store.files(uri)
        if not any(part.startswith(("_", ".")) for part in file.path.split("/"))
    )
    if not files:
        raise RequestError(
            f"input_table={name!r}: the folder {uri!r} has no files in it; {_READ}"
        )
    keyed = [file.path for file in files if "=" in file.path.rpartition("/")[0]]
    if keyed:
        raise RequestError(
            f"{name!r}: the folder is partitioned by folder names ({_some(keyed)}), "
            "whose columns would be lost; make it a Delta table, or name one folder"
        )
    return files


def _by_suffix(name: str, path: str) -> TableFormat:
    suffix = _suffix(path)
    kind = _SUFFIXES.get(suffix)
    if kind is not None:
        return kind
    given = repr(name) if name.endswith(suffix) else f"{name!r} ({path!r})"
    if suffix == ".csv":
        raise RequestError(f"{given}: CSV is not read yet; it comes later. {_READ}")
    raise RequestError(
        f"{given}: no format is known for {suffix or 'a file without a suffix'!r}; "
        f"{_READ}. If it is one of them, say so with input_format="
    )


def _suffix(path: str) -> str:
    stem, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return f".{suffix.lower()}" if dot and stem else ""


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""  # noqa: PLR2004
    return f"{', '.join(map(repr, paths[:3]))}{more}"
