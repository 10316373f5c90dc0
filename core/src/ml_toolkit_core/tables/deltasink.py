"""Delta out: replicas write files, one committer makes them rows of the table."""

import contextlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from attrs import define, field, frozen
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from ml_toolkit_core.errors import RequestError, RunFenced
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables import failures
from ml_toolkit_core.tables.batches import conform
from ml_toolkit_core.tables.claim import check, check_claim, claim
from ml_toolkit_core.tables.columns import kept_columns, output_schema, with_types
from ml_toolkit_core.tables.deltafiles import (
    add_action,
    is_table,
    notes,
    put_parquet,
    replace_rows,
)
from ml_toolkit_core.tables.existing import check_present
from ml_toolkit_core.tables.failedlist import FailedList
from ml_toolkit_core.tables.parts import Part, Split, Tally
from ml_toolkit_core.tables.pinned import pinned_schema
from ml_toolkit_core.tables.store import Store, join
from ml_toolkit_core.values import TableFormat, WriteMode
from ml_toolkit_core.wire import Json, from_json, to_json

#: The key in a commit's metadata under which we note its number and parts.
_NOTE: Final = "ml_toolkit"


@frozen(kw_only=True)
class DeltaWriter:
    """Writes parts as Parquet files that no version of the table has yet.

    Args:
        store: Where the output lies.
        output: The table.
        schema: Its columns.
        stem: What the names of this attempt's files have in common.
    """

    store: Store
    output: str
    schema: pa.Schema
    stem: str

    def write(self, split: Split, rows: pa.Table, tally: Tally) -> Part:
        """Write the rows as one file of the table's types."""
        path = f"part-{split.index:06d}-{self.stem}-{secrets.token_hex(4)}.parquet"
        data = with_types(rows, self.schema)
        size = put_parquet(self.store, self.output, path, data)
        return Part(split=split.index, path=path, bytes=size, tally=tally)


@define(kw_only=True)
class DeltaSink:
    """The output table of one run.

    Each commit carries the run's next transaction number, which Delta gives to one
    driver only. A driver that opens the run takes a number first: from then on all
    older drivers are fenced.
    """

    store: Store
    order: WorkOrder
    schema: pa.Schema
    _table: DeltaTable | None = field(init=False, default=None)
    _claimed: int = field(init=False, default=0)
    _commits: int = field(init=False, default=0)
    _published: dict[int, Part] = field(init=False, factory=dict)

    @classmethod
    def of(cls, order: WorkOrder, store: Store) -> Self:
        """Check the columns."""
        schema = output_schema(order.pin, order.output_column, TableFormat.DELTA)
        return cls(store=store, order=order, schema=schema)

    @property
    def writer(self) -> DeltaWriter:
        """What replicas write with."""
        return DeltaWriter(
            store=self.store,
            output=self.order.output.uri,
            schema=self.schema,
            stem=f"{self.order.run_id}-{self.order.attempt}",
        )

    def open(self) -> tuple[Part, ...]:
        """Claim the table, fence older drivers and find what they published."""
        uri = self.order.output.uri
        order = self.order
        check_present(self.store, order.output, order.write_mode, self.schema)
        self._claimed = claim(self.store, self.order, self._list_uri)
        if is_table(self.store, uri):
            self._take_over(self.store.open_table(uri))
        else:
            try:
                self._table = self.store.create_table(uri, self.schema, self._note(0))
            except DeltaError:  # another driver was faster
                self._take_over(self.store.open_table(uri))
        self._published = self._noted_parts()
        self.remove_leftovers(part.path for part in self._published.values())
        return self.parts

    def join(self) -> bool:
        """Open the table as it is; return whether this run has committed to it."""
        self._table = self.store.open_table(self.order.output.uri)
        version = self._table.transaction_version(self.order.run_id)
        if version is None:
            return False
        self._commits = version
        self._published = self._noted_parts()
        return True

    def swap(self, files: Sequence[AddAction], parts: Sequence[Part]) -> None:
        """Put these files in place of all rows, making the table if there is none."""
        uri = self.order.output.uri
        if not is_table(self.store, uri):
            with contextlib.suppress(DeltaError):  # another driver was faster
                self.store.create_table(uri, self.schema, CommitProperties())
        table = self.store.open_table(uri)
        if table.transaction_version(self.order.run_id) is not None:
            raise self.fenced()
        try:
            self.store.commit_files(
                table, files, self._note(0, parts), replace=self.schema
            )
        except CommitFailedError as error:
            raise self.fenced() from error
        self.join()

    def publish(self, parts: Sequence[Part]) -> None:
        """Add the parts in one commit; a part without rows adds no file."""
        check_claim(self.store, self.order, self._claimed)
        table = self._handle()
        self.store.refresh_table(table)
        if table.transaction_version(self.order.run_id) != self._commits:
            raise self.fenced()
        self._commit(table, parts)
        self._published |= {part.split: part for part in parts}

    def complete(self) -> None:
        """Do nothing: each commit made its parts rows of the table."""

    def list_failed(self) -> str | None:
        """Write all failed rows into a table beside this one."""
        return self.list_failed_of(self.parts)

    def list_failed_of(
        self, parts: Sequence[Part], *, replaces: bool = False
    ) -> str | None:
        """Write the failed rows of these parts into a table beside this one."""
        listed = FailedList.of(self.store, self.order, replaces=replaces)
        failed = [part.path for part in parts if part.tally.failed]
        if not failed:
            listed.clear()
            return None
        given = pinned_schema(self.order.pin)
        inputs = list(self.schema)[: len(kept_columns(given, self.order.output_column))]
        fields = failures.list_fields(column.name for column in inputs)
        schema = pa.schema([*inputs, *fields])
        uri = listed.take()
        rows = self._failed_rows(schema, failed)
        replace_rows(self.store, uri, schema, rows)
        return uri

    def _take_over(self, table: DeltaTable) -> None:
        version = table.transaction_version(self.order.run_id)
        if version is None and self.order.write_mode is WriteMode.ERROR:
            # Somebody made a table here after the claim.
            check(None, self.order.output, self.order.run_id, self.order.identity)
        self._commits = -1 if version is None else version
        self._commit(table, ())
        self._table = table

    def _commit(self, table: DeltaTable, parts: Sequence[Part]) -> None:
        files = [
            add_action(part.path, part.bytes, part.tally.done)
            for part in parts
            if part.tally.done
        ]
        try:
            self.store.commit_files(table, files, self._note(self._commits + 1, parts))
        except CommitFailedError as error:
            raise self.fenced() from error
        self._commits += 1
        self.store.refresh_table(table)

    def _note(self, number: int, parts: Sequence[Part] = ()) -> CommitProperties:
        note = {
            "run_id": self.order.run_id,
            "attempt": self.order.attempt,
            "commit": number,
            "parts": to_json(parts),
        }
        return CommitProperties(
            custom_metadata={_NOTE: json.dumps(note)},
            app_transactions=[Transaction(self.order.run_id, number)],
        )

    def _noted_parts(self) -> dict[int, Part]:
        """Return the published parts, as the history of the table notes them."""
        uri, run_id = self.order.output.uri, self.order.run_id
        found = [n for n in notes(self.store, uri, _NOTE) if n["run_id"] == run_id]
        numbers = sorted(note["commit"] for note in found)
        if numbers and numbers[-1] > self._commits:
            raise self.fenced()
        if numbers != list(range(self._commits + 1)):
            raise RequestError(
                f"output_table={self.order.output.name!r}: the table's history no "
                f"longer tells all {self._commits} commits of run_id="
                f"{self.order.run_id!r}, so nobody can say which rows are there; "
                "run again with another run_id and another output_table"
            )
        parts: list[Json] = [part for note in found for part in note["parts"]]
        return {part["split"]: from_json(Part, part) for part in parts}

    def remove_leftovers(self, published: Iterable[str]) -> None:
        """Remove files that older attempts wrote and did not publish."""
        run_id = re.escape(self.order.run_id)
        ours = re.compile(rf"(\..*-)?part-\d{{6,}}-{run_id}-\d+-[0-9a-f]{{8}}\.parquet")
        kept = set(published)
        for file in self.store.files(self.order.output.uri):
            if ours.fullmatch(file.path) and file.path not in kept:
                self.store.delete(join(self.order.output.uri, file.path))

    def _failed_rows(
        self, schema: pa.Schema, failed: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        paths = set(failed)
        if self.order.write_mode is WriteMode.ERROR:
            # All rows are ours, also those that somebody has put into other files.
            clean = {part.path for part in self.parts if not part.tally.failed}
            actions = pa.table(self._handle().get_add_actions(flatten=True))
            paths = {unquote(str(path)) for path in actions["path"].to_pylist()} - clean
        for path in sorted(paths):
            with self.store.open(join(self.order.output.uri, path)) as handle:
                for raw in pq.ParquetFile(handle).iter_batches():
                    batch = conform(raw, self.schema)
                    yield _listed(batch.filter(pc.is_valid(batch["error"])), schema)

    def _handle(self) -> DeltaTable:
        if self._table is None:
            raise RuntimeError("open() comes first")
        return self._table

    def fenced(self) -> RunFenced:
        """Return the error to raise when another driver goes on."""
        return RunFenced(
            f"run_id={self.order.run_id!r}: another driver commits to "
            f"{self.order.output.name!r}; attempt {self.order.attempt} stops here. "
            "What is published is whole, and the other driver goes on"
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The published parts, in order."""
        return tuple(self._published[split] for split in sorted(self._published))

    @property
    def _list_uri(self) -> str:
        return failures.list_uri(self.order.output.uri, TableFormat.DELTA)


def _listed(failed: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return failed rows of the output as rows of the list."""
    errors = [str(error) for error in failed["error"].to_pylist()]
    added = [
        pa.array([failures.kind_of(error) for error in errors], pa.string()),
        failed["error"],
        pa.array([failures.attempts_of(error) for error in errors], pa.int64()),
    ]
    inputs = failed.columns[: len(schema) - len(added)]
    return pa.RecordBatch.from_arrays([*inputs, *added], schema=schema)
