"""What an output holds already, and whether a run may write to it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import plain_type
from ml_toolkit_core.tables.claim import CLAIM, check, owner
from ml_toolkit_core.tables.csvtext import Dialect, records
from ml_toolkit_core.tables.deltafiles import is_table
from ml_toolkit_core.tables.deltatypes import delta_type
from ml_toolkit_core.tables.jsonlines import lines, parse
from ml_toolkit_core.tables.layout import OWN_FOLDER, is_one_file
from ml_toolkit_core.tables.store import Store, join, place
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import TableFormat, TableLocation, WriteMode
from ml_toolkit_core.wire import Json

#: What Spark puts into a folder that it has written whole.
_SUCCESS: Final = "_SUCCESS"
#: Features of a Delta table that ask nothing of rows which are added.
_HARMLESS: Final = {
    "appendOnly",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}


def check_output(  # noqa: PLR0913  who wants what, and what is there
    location: TableLocation,
    mode: WriteMode,
    *,
    run_id: str,
    identity: Mapping[str, Json],
    schema: pa.Schema,
    store: Store | None = None,
) -> None:
    """Refuse an output that a run may not write to; reads only.

    Args:
        location: The output.
        mode: What may happen to what is there.
        run_id: The run that wants it.
        identity: What that run is, by part.
        schema: Its columns as they will lie there.
        store: Where the output lies; found by the URI when None.

    Raises:
        RequestError: Naming what is there, or every column that does not fit.
    """
    store = store or store_for(location.uri)
    found = owner(location, mode, store=store)
    if mode is WriteMode.ERROR:
        if found is not None:
            check(found, location, run_id, identity)
        return
    if found is not None and found.run_id == run_id:
        check(found, location, run_id, identity)
    check_present(store, location, mode, schema)


def check_present(
    store: Store, location: TableLocation, mode: WriteMode, schema: pa.Schema
) -> None:
    """Refuse an output that a run may not append to, or not overwrite.

    Raises:
        RequestError: Naming what is there, or every column that does not fit.
    """
    if mode is WriteMode.APPEND:
        check_columns(store, location, schema)
    elif mode is WriteMode.OVERWRITE:
        check_replaceable(store, location, schema)
        _check_swap(store, location)
        _check_made(store, location)


def check_replaceable(store: Store, location: TableLocation, schema: pa.Schema) -> None:
    """Refuse to overwrite what is no table of the output's own kind.

    Raises:
        RequestError: Naming what is there instead.
    """
    uri, name = location.uri, location.name
    if location.format is TableFormat.DELTA:
        if is_table(store, uri):
            _check_table(store.open_table(uri), name, schema)
            return
        # A table that a run of ours is about to make has its files, but no log yet.
        is_begun = store.stat(join(uri, OWN_FOLDER, CLAIM)) is not None
        strangers = _strangers(store, uri, (".parquet",) if is_begun else ())
    elif is_one_file(location):
        strangers = [uri] if store.is_folder(uri) else []
    else:
        strangers = _strangers(store, uri, (f".{location.format}", ".crc", _SUCCESS))
        strangers += [uri] if store.stat(uri) is not None else []
    if strangers:
        raise RequestError(
            f"output_table={name!r} holds {strangers[0]!r}, so it is no "
            f"{location.format} output that could be overwritten; remove it yourself, "
            "or choose another output_table"
        )


def _check_swap(store: Store, location: TableLocation) -> None:
    is_folder = location.format is not TableFormat.DELTA and not is_one_file(location)
    if is_folder and not store.swaps_folders:
        raise RequestError(
            f"output_table={location.name!r}: a folder of objects cannot be "
            "overwritten in one step; write a Delta table or one file, or to another "
            "folder"
        )


def _check_made(store: Store, location: TableLocation) -> None:
    """Refuse to overwrite a folder of files that no job wrote.

    A table keeps its old versions, and one file is named by who wants it replaced; a
    folder may be somebody's source, and its files would be gone.
    """
    if location.format is TableFormat.DELTA or is_one_file(location):
        return
    paths = [file.path for file in store.files(location.uri)]
    made = any(p == _SUCCESS or p.startswith(f"{OWN_FOLDER}/") for p in paths)
    if paths and not made:
        raise RequestError(
            f"output_table={location.name!r} holds {paths[0]!r} and neither "
            f"{OWN_FOLDER!r} nor {_SUCCESS!r}, so neither ml-toolkit nor Spark wrote "
            "it; remove it yourself, or choose another output_table"
        )


def check_columns(store: Store, location: TableLocation, schema: pa.Schema) -> None:
    """Refuse to append rows whose columns are not those that are there.

    Names are compared in all formats, types in Parquet and Delta, whose files say
    them.

    Raises:
        RequestError: Naming every column that does not fit.
    """
    found = _schema_there(store, location, schema)
    if found is None:
        return
    faults = [
        *(
            f"the output has no column {n!r}"
            for n in schema.names
            if n not in found.names
        ),
        *(
            f"the output has a column {n!r}, which this run does not write"
            for n in found.names
            if n not in schema.names
        ),
    ]
    if location.format in {TableFormat.PARQUET, TableFormat.DELTA}:
        faults += [
            f"column {c.name!r} is {found.field(c.name).type} there and {c.type} here"
            for c in schema
            if c.name in found.names
            and plain_type(c.type) != plain_type(found.field(c.name).type)
        ]
    elif location.format is TableFormat.CSV and not faults:
        faults += [f"its columns are in another order: {found.names}"] * (
            found.names != schema.names
        )
    if faults:
        raise RequestError(
            f"output_table={location.name!r} cannot be appended to: {'; '.join(faults)}"
        )


def _schema_there(
    store: Store, location: TableLocation, schema: pa.Schema
) -> pa.Schema | None:
    """Return the columns of an output; None when there is none."""
    if location.format is TableFormat.DELTA:
        if not is_table(store, location.uri):
            check_replaceable(store, location, schema)
            return None
        table = store.open_table(location.uri)
        _check_table(table, location.name, schema)
        arrow: Any = table.schema().to_arrow()
        return pa.schema(
            [(c.name, delta_type(c.type) or c.type) for c in pa.schema(arrow)]
        )
    check_replaceable(store, location, schema)
    if store.stat(location.uri) is not None:
        paths = [""]
    else:
        paths = [f.path for f in store.files(location.uri) if _is_shown(f.path)]
    for path in paths:
        found = _columns(store, place(location.uri, path), location)
        if found is not None:
            return found
    return None


def _columns(store: Store, uri: str, location: TableLocation) -> pa.Schema | None:
    """Return the columns of one file; None when it has no rows that tell them."""
    try:
        with store.open(uri) as handle:
            if location.format is TableFormat.PARQUET:
                return pq.ParquetFile(handle).schema_arrow
            if location.format is TableFormat.JSONL:
                _, line = next(lines(handle), (0, b""))
                return _named(parse(line.decode())) if line else None
            with Dialect(encoding=None, delimiter=",").text(handle) as text:
                _, header = next(records(text, ","), (0, []))
                return _named(name or "" for name in header) if header else None
    except (ValueError, pa.ArrowException) as error:
        raise RequestError(
            f"output_table={location.name!r} cannot be appended to: {uri!r} is no "
            f"{location.format}: {error}"
        ) from error


def _named(names: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _check_table(table: Any, name: str, schema: pa.Schema) -> None:
    """Refuse a Delta table that asks more of its rows than we know."""
    features = set(table.protocol().writer_features or ())
    partitions = list(table.metadata().partition_columns)
    asked = sorted(features - _HARMLESS) + [f"partitions by {p!r}" for p in partitions]
    has_ntz = any(str(c.type) == "timestamp[us]" for c in schema)
    if has_ntz and "timestampNtz" not in features:
        asked.append("no timestamps without a zone")
    if asked:
        raise RequestError(
            f"output_table={name!r}: the Delta table has {', '.join(asked)}, which is "
            "not written here; choose another output_table"
        )


def _strangers(store: Store, uri: str, endings: tuple[str, ...]) -> list[str]:
    return [
        file.path
        for file in store.files(uri)
        if not file.path.startswith(f"{OWN_FOLDER}/")
        and not file.path.endswith(endings)
    ]


def _is_shown(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))
