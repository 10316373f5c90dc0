"""Delta in: one version of a table, file by file, without its deleted rows."""

from collections.abc import Container, Mapping
from functools import cached_property
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import plain_type
from ml_toolkit_core.tables.parquet import open_parquet, row_bytes
from ml_toolkit_core.tables.pinned import PinnedFiles, pin_of
from ml_toolkit_core.tables.store import Store, join
from ml_toolkit_core.values import FilePin, InputPin, TableLocation

#: Features a reader must know; what they ask for is done here, or asks for nothing.
_READER_FEATURES: Final = {
    "columnMapping",  # refused below, when it is in use
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
#: Files, those of the most rows, whose footers say how wide rows are.
_FOOTERS: Final = 16


def delta_pin(store: Store, location: TableLocation) -> InputPin:
    """Look at the newest version of a table.

    Raises:
        RequestError: When the table is broken, or has a feature that is not read
            here, which is named.
    """
    table = _open(store, location, None)
    _check_features(table, location.name)
    adds = _adds(table, location.name)
    # Refuse before the run what could not be read in it.
    masks = _masks(table, location.name, adds)
    pins, widest = [], 0
    sizes = {path: add["num_records"] or 0 for path, add in adds.items()}
    looked_at = sorted(sizes, key=sizes.__getitem__)[-_FOOTERS:]
    for path, add in sorted(adds.items()):
        uri = join(location.uri, path)
        found = store.stat(uri)
        if found is None:
            raise RequestError(
                f"{location.name!r}: version {table.version()} of the table has the "
                f"file {path!r}, which is not there; was the table vacuumed or copied "
                "in part? Restore the file, or repair the table"
            )
        rows = add["num_records"]
        if rows is None or path in looked_at:
            with store.open(uri) as handle:
                footer = open_parquet(handle, repr(path))
            rows = footer.metadata.num_rows
            widest = max(widest, row_bytes(footer))
        if len(masks.get(path, ())) > rows:
            raise RequestError(
                f"{location.name!r}: the deletion vector of {path!r} is longer than "
                "its file; rewrite the table (OPTIMIZE, or REORG ... APPLY (PURGE))"
            )
        pins.append(FilePin(path=path, rows=rows, bytes=found.bytes, etag=found.etag))
    arrow: Any = table.schema().to_arrow()
    given = pa.schema(arrow)
    schema = pa.schema([(column.name, plain_type(column.type)) for column in given])
    return pin_of(schema, pins, version=table.version(), row_bytes=widest)


@frozen(kw_only=True)
class DeltaFiles(PinnedFiles):
    """The files of a pinned version, with what its log says of them."""

    int96: ClassVar[str | None] = "us"

    @cached_property
    def _table(self) -> DeltaTable:
        return _open(self.store, self.location, self.pin.version)

    @cached_property
    def _adds(self) -> Mapping[str, Mapping[str, Any]]:
        return _adds(self._table, self.location.name)

    @cached_property
    def _masks(self) -> Mapping[str, Any]:
        return _masks(self._table, self.location.name, self._adds)

    @cached_property
    def _partitions(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().partition_columns)

    def constants(self, number: int) -> Mapping[str, Any]:
        """Return the partition values of a file."""
        add = self._adds[self.pin.files[number].path]
        return {name: add[f"partition.{name}"] for name in self._partitions}

    def live_rows(self, number: int) -> Any:
        """Return which rows of a file are not deleted."""
        pinned = self.pin.files[number]
        mask = self._masks.get(pinned.path)
        if mask is None:
            return None
        rest = pa.repeat(pa.scalar(value=True), pinned.rows - len(mask))
        return pc.fill_null(pa.concat_arrays([mask, rest]), pa.scalar(value=True))


def _open(store: Store, location: TableLocation, version: int | None) -> DeltaTable:
    try:
        return store.open_table(location.uri, version)
    except RequestError:
        raise
    except Exception as error:  # delta-rs raises bare ones too
        what = "" if version is None else f" at version {version}"
        raise RequestError(
            f"{location.name!r} cannot be opened as a Delta table{what}: {error}"
        ) from error


def _check_features(table: DeltaTable, name: str) -> None:
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    asked = set(table.protocol().reader_features or ())
    unread = sorted(asked - _READER_FEATURES)
    if mode != "none":
        unread.append("columnMapping")
    if unread:
        raise RequestError(
            f"{name!r}: the Delta table uses {', '.join(unread)}, which is not read "
            "here; write a copy without it (CREATE TABLE ... AS SELECT) and pass that"
        )


def _masks(table: DeltaTable, name: str, adds: Container[str]) -> dict[str, Any]:
    """Return for each file with deleted rows which rows are kept, by its path.

    Raises:
        RequestError: When they cannot be read, or are of a file that is not there.
    """
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    try:
        vectors = pa.table(table.deletion_vectors())
    except DeltaError as error:
        raise RequestError(
            f"{name!r}: its deletion vectors cannot be read, so deleted rows could not "
            f"be told: {error}. Rewrite the table (REORG TABLE ... APPLY (PURGE))"
        ) from error
    masks = {
        unquote(uri.as_py().removeprefix(table.table_uri)): mask.values
        for uri, mask in zip(*vectors.columns, strict=True)
    }
    strange = [path for path in masks if path not in adds]
    if strange:
        raise RequestError(
            f"{name!r}: rows are deleted of {strange[0]!r}, which is no file of the "
            "table; rewrite the table (REORG TABLE ... APPLY (PURGE))"
        )
    return masks


def _adds(table: DeltaTable, name: str) -> dict[str, dict[str, Any]]:
    """Return what the log says of each file, by its path on disk."""
    actions = pa.table(table.get_add_actions(flatten=True))
    keys = [
        key
        for key in actions.column_names
        if key == "num_records" or key.startswith("partition.")
    ]
    adds: dict[str, dict[str, Any]] = {}
    for row, encoded in enumerate(actions.column("path")):
        path = unquote(encoded.as_py())
        if path.startswith("/") or "://" in path:
            raise RequestError(
                f"{name!r}: the Delta table refers to files outside of its folder "
                f"(a shallow clone): {path!r}; pass a full copy of it"
            )
        adds[path] = {key: actions.column(key)[row] for key in keys}
        adds[path]["num_records"] = adds[path]["num_records"].as_py()
    return adds
