"""Delta in: one version of a table, file by file, without its deleted rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import conform, cut, parquet_batches, plain_type
from ml_toolkit_core.tables.parquet import open_parquet
from ml_toolkit_core.tables.parts import Split, SplitRows
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


def delta_pin(store: Store, location: TableLocation) -> InputPin:
    """Look at the newest version of a table.

    Raises:
        RequestError: When the table is broken, or has a feature that is not read
            here, which is named.
    """
    table = _open(store, location, None)
    _check_features(table, location.name)
    _masks(table, location.name)
    pins = []
    for path, add in sorted(_adds(table, location.name).items()):
        uri = join(location.uri, path)
        found = store.stat(uri)
        if found is None:
            raise RequestError(
                f"{location.name!r}: version {table.version()} of the table has the "
                f"file {path!r}, which is not there; was the table vacuumed or copied "
                "in part? Restore the file, or repair the table"
            )
        rows = add["num_records"]
        if rows is None:
            with store.open(uri) as handle:
                rows = open_parquet(handle, repr(path)).metadata.num_rows
        pins.append(FilePin(path=path, rows=rows, bytes=found.bytes, etag=found.etag))
    arrow: Any = table.schema().to_arrow()
    given = pa.schema(arrow)
    schema = pa.schema([(column.name, plain_type(column.type)) for column in given])
    return pin_of(schema, pins, version=table.version())


@frozen(kw_only=True)
class DeltaSource:
    """A pinned version of a Delta table."""

    files: PinnedFiles

    @property
    def schema(self) -> pa.Schema:
        """The pinned columns."""
        return self.files.schema

    def splits(self, split_rows: int) -> Sequence[Split]:
        """Cut the files; deleted rows count."""
        return self.files.splits(split_rows)

    def read(self, splits: Iterable[Split]) -> Iterator[SplitRows]:
        """Stream the rows that are not deleted, partition columns put in."""
        version: _Version | None = None
        for number, group in self.files.by_file(splits):
            version = version or _Version.of(self.files)
            wanted = list(group)
            pinned = self.files.pin.files[number]
            constants = version.constants(pinned.path)
            kept = version.kept(pinned)
            physical = [c for c in self.schema if c.name not in constants]
            with self.files.open(number) as handle:
                file = open_parquet(handle, repr(pinned.path), int96="us")
                if file.metadata.num_rows != pinned.rows:
                    raise self.files.changed(number)
                batches = parquet_batches(file, wanted)
                for split, batch in cut(batches, wanted, pa.schema(physical)):
                    self.files.check(number)
                    rows = batch
                    if kept is not None:
                        mask = kept.slice(split.start, split.stop - split.start)
                        rows = batch.filter(mask)
                    yield SplitRows(split=split, batch=self._whole(rows, constants))

    def _whole(
        self, rows: pa.RecordBatch, constants: Mapping[str, Any]
    ) -> pa.RecordBatch:
        """Put the partition's values beside the rows of its file."""
        count = rows.num_rows
        arrays = [
            pa.repeat(constants[c.name], count) if c.name in constants else rows[c.name]
            for c in self.schema
        ]
        whole = pa.RecordBatch.from_arrays(arrays, names=self.schema.names)
        return conform(whole, self.schema)


@frozen(kw_only=True)
class _Version:
    """What the log of the pinned version says of the files."""

    name: str
    partition_columns: tuple[str, ...]
    adds: Mapping[str, Mapping[str, Any]]
    masks: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, files: PinnedFiles) -> "_Version":
        table = _open(files.store, files.location, files.pin.version)
        return cls(
            name=files.location.name,
            partition_columns=tuple(table.metadata().partition_columns),
            adds=_adds(table, files.location.name),
            masks=_masks(table, files.location.name),
        )

    def constants(self, path: str) -> Mapping[str, Any]:
        """Return the partition values of a file, as Arrow scalars."""
        add = self.adds[path]
        return {name: add[f"partition.{name}"] for name in self.partition_columns}

    def kept(self, pinned: FilePin) -> Any:
        """Return which rows of a file are not deleted; None when all are kept."""
        found = [m for uri, m in self.masks.items() if uri.endswith(f"/{pinned.path}")]
        if not found:
            return None
        if len(found) > 1 or len(found[0]) > pinned.rows:
            raise RequestError(
                f"{self.name!r}: the deletion vector of {pinned.path!r} does not match "
                "its file; rewrite the table (OPTIMIZE, or REORG ... APPLY (PURGE))"
            )
        rest = pa.repeat(pa.scalar(value=True), pinned.rows - len(found[0]))
        return pc.fill_null(pa.concat_arrays([found[0], rest]), pa.scalar(value=True))


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


def _masks(table: DeltaTable, name: str) -> dict[str, Any]:
    """Return for each file with deleted rows which rows are kept, by its URI."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    try:
        vectors = pa.table(table.deletion_vectors())
    except DeltaError as error:
        raise RequestError(
            f"{name!r}: its deletion vectors cannot be read, so deleted rows could not "
            f"be told: {error}. Rewrite the table (REORG TABLE ... APPLY (PURGE))"
        ) from error
    return {
        unquote(uri.as_py()): mask.values
        for uri, mask in zip(*vectors.columns, strict=True)
    }


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
