"""A folder out: one file per split, each published whole and once."""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final, Self

import pyarrow as pa
from attrs import define, field, frozen

from ml_toolkit_core.errors import RequestError, RunFenced
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables import failures
from ml_toolkit_core.tables.claim import check_claim, claim
from ml_toolkit_core.tables.columns import kept_columns, output_schema
from ml_toolkit_core.tables.existing import check_present
from ml_toolkit_core.tables.failedlist import FailedList
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.layout import own_folder
from ml_toolkit_core.tables.partformats import NOT_AS_WRITTEN, PartFormat, part_format
from ml_toolkit_core.tables.parts import ZERO, Part, Split, Tally
from ml_toolkit_core.tables.pinned import pinned_schema
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.values import TableFormat, WriteMode

_DRIVER: Final = "driver.json"
_STAGING: Final = "staging"


@frozen(kw_only=True)
class FolderWriter:
    """Writes parts into the staging folder of one driver.

    Args:
        store: Where the output lies.
        staging: The folder.
        format: How a part lies in a file.
        suffix: Of the files' names.
    """

    store: Store
    staging: str
    format: PartFormat
    suffix: str

    def write(self, split: Split, rows: pa.Table, tally: Tally) -> Part:
        """Write the rows to a file; what a replica wrote before stays as it is."""
        data = self.format.dump(rows)
        path = f"{split.index}-{secrets.token_hex(4)}{self.suffix}"
        self.store.create(join(self.staging, path), [data])
        return Part(split=split.index, path=path, bytes=len(data), tally=tally)


@define(kw_only=True)
class FolderSink:
    """The parts of one run, as files of one folder.

    The newest driver owns the run: ``driver.json`` names it, and each driver stages
    in a folder of its own, which the next one removes.

    Args:
        store: Where the output lies.
        order: The run.
        schema: The columns as they lie on disk.
        format: How a part lies in a file.
        folder: Where parts are published.
    """

    store: Store
    order: WorkOrder
    schema: pa.Schema
    format: PartFormat
    folder: str
    _claimed: int = field(init=False, default=0)
    _driver: str = field(init=False, factory=lambda: secrets.token_hex(8))
    _published: dict[int, Part] = field(init=False, factory=dict)

    @classmethod
    def of(cls, order: WorkOrder, store: Store, *, folder: str | None = None) -> Self:
        """Check the columns.

        Args:
            order: The run.
            store: Where its output lies.
            folder: Where parts are published, relative to the run's own folder; the
                output itself when None.
        """
        kind = order.output.format or TableFormat.JSONL
        schema = output_schema(order.pin, order.output_column, kind)
        run = join(own_folder(order.output, order.write_mode), order.run_id)
        return cls(
            store=store,
            order=order,
            schema=schema,
            format=part_format(kind, schema),
            folder=order.output.uri if folder is None else join(run, folder),
        )

    @property
    def writer(self) -> FolderWriter:
        """What replicas write with."""
        return FolderWriter(
            store=self.store,
            staging=join(self.run, _STAGING, self._driver),
            format=self.format,
            suffix=self.suffix,
        )

    @property
    def run(self) -> str:
        """The run's own folder."""
        folder = own_folder(self.order.output, self.order.write_mode)
        return join(folder, self.order.run_id)

    @property
    def suffix(self) -> str:
        """What the names of files end in."""
        return f".{self.order.output.format}"

    def open(self) -> tuple[Part, ...]:
        """Claim the output, fence older drivers and count what they published."""
        self.claim()
        return self.take_over()

    def claim(self) -> None:
        """Make the output this run's own.

        Raises:
            RequestError: When it may not write to what is there.
        """
        order = self.order
        check_present(self.store, order.output, order.write_mode, self.schema)
        listed = failures.list_uri(order.output.uri, order.output.format)
        self._claimed = claim(self.store, order, listed)

    def take_over(self) -> tuple[Part, ...]:
        """Fence older drivers and count what they published."""
        token = {"driver": self._driver, "attempt": self.order.attempt}
        self.store.replace(join(self.run, _DRIVER), [dumps(token).encode()])
        self.store.delete_folder(join(self.run, _STAGING))
        self._published = {}
        name = re.compile(rf"{re.escape(self._stem)}(\d{{6,}}){re.escape(self.suffix)}")
        for file in self.store.files(self.folder):
            match = name.fullmatch(file.path)
            if match:
                split = int(match[1])
                self._published[split] = Part(
                    split=split,
                    path=file.path,
                    bytes=file.bytes,
                    tally=self._tally(file.path),
                )
        return self.parts

    def publish(self, parts: Sequence[Part]) -> None:
        """Move parts to where readers look, each whole, without replacing any.

        Parts become visible one by one. They are checked together before the first,
        so that only a driver which comes in between leaves some of them visible,
        each whole and once all the same.
        """
        self.check_fence()
        paths = {part.split: self._part_path(part.split) for part in parts}
        if any(self.store.stat(join(self.folder, path)) for path in paths.values()):
            raise self.fenced()
        for part in parts:
            path = paths[part.split]
            source = join(self.run, _STAGING, self._driver, part.path)
            try:
                self.store.publish(source, join(self.folder, path))
            except (FileExistsError, FileNotFoundError) as error:
                raise self.fenced() from error
            self._published[part.split] = Part(
                split=part.split, path=path, bytes=part.bytes, tally=part.tally
            )

    def complete(self) -> None:
        """Write a file without rows when there are no others, to show the columns."""
        if not self._published:
            nothing = Split(index=0, file=0, start=0, stop=0)
            part = self.writer.write(nothing, self.schema.empty_table(), ZERO)
            self.publish([part])

    def list_failed(self) -> str | None:
        """Write all failed rows, in order, into one file beside the output."""
        files = [join(self.folder, p.path) for p in self.parts if p.tally.failed]
        return list_failed(self.store, self.order, self.format, files)

    def check_fence(self) -> None:
        """Stop here when another driver has opened the run.

        Raises:
            RunFenced: Then.
        """
        check_claim(self.store, self.order, self._claimed)
        driver = read_json(self.store, join(self.run, _DRIVER)) or {}
        if driver.get("driver") != self._driver:
            raise self.fenced()

    def fenced(self) -> RunFenced:
        """Return the error to raise when another driver goes on."""
        return RunFenced(
            f"run_id={self.order.run_id!r}: another driver publishes to "
            f"{self.order.output.name!r}; attempt {self.order.attempt} stops here. "
            "What is published is whole, and the other driver goes on"
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """The published parts, in order."""
        return tuple(self._published[split] for split in sorted(self._published))

    def _tally(self, path: str) -> Tally:
        uri = join(self.folder, path)
        try:
            with self.store.open(uri) as handle:
                return self.format.tally(handle)
        except NOT_AS_WRITTEN as error:  # whose text may quote a row
            raise RequestError(
                f"{uri!r} is not as run_id={self.order.run_id!r} wrote it "
                f"({type(error).__name__}); remove it to have its rows answered again"
            ) from None

    def _part_path(self, split: int) -> str:
        """Return a name whose place among the others is that of the split."""
        order = self.order
        splits = sum(-(-file.rows // order.split_rows) for file in order.pin.files)
        return f"{self._stem}{split:0{max(6, len(str(splits - 1)))}d}{self.suffix}"

    @property
    def _stem(self) -> str:
        """What the names of this run's parts begin with."""
        is_added = self.order.write_mode is WriteMode.APPEND
        return f"part-{self.order.run_id}-" if is_added else "part-"


def list_failed(
    store: Store,
    order: WorkOrder,
    form: PartFormat,
    files: Sequence[str],
    *,
    replaces: bool = False,
) -> str | None:
    """Write the failed rows of these files into the list beside an output.

    Returns:
        Where it lies; None, and this run's older list is gone, when there are no
        files.
    """
    listed = FailedList.of(store, order, replaces=replaces)
    if not files:
        listed.clear()
        return None
    inputs = kept_columns(pinned_schema(order.pin), order.output_column).names

    def texts() -> Iterator[bytes]:
        for file in files:
            with store.open(file) as handle:
                for row in form.failed(handle):
                    yield failures.list_line(row, inputs)

    uri = listed.take()
    if uri == listed.beside and not listed.is_there:
        try:
            store.create(uri, texts())
        except FileExistsError:  # somebody put a file there meanwhile
            uri = listed.inside
        else:
            return uri
    store.replace(uri, texts())
    return uri
