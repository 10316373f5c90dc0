"""Delta out in place of old rows: files are written first, one commit swaps them in."""

import secrets
from collections.abc import Sequence
from typing import Final, Self

from attrs import define, field

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.claim import check_claim, claim
from ml_toolkit_core.tables.deltafiles import add_action, is_table
from ml_toolkit_core.tables.deltasink import DeltaSink, DeltaWriter
from ml_toolkit_core.tables.existing import check_present
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.layout import own_folder
from ml_toolkit_core.tables.parts import Part
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.wire import from_json, to_json

_DRIVER: Final = "driver.json"
_PARTS: Final = "parts"


@define(kw_only=True)
class DeltaSwapSink:
    """The rows of one run, which replace those of the table in its last step.

    What is written is noted, one create-only file per split, in the run's own folder;
    no version of the table has it before the last step.
    """

    store: Store
    order: WorkOrder
    table: DeltaSink
    _claimed: int = field(init=False, default=0)
    _driver: str = field(init=False, factory=lambda: secrets.token_hex(8))
    _noted: dict[int, Part] = field(init=False, factory=dict)
    _is_done: bool = field(init=False, default=False)

    @classmethod
    def of(cls, order: WorkOrder, store: Store) -> Self:
        """Check the columns."""
        return cls(store=store, order=order, table=DeltaSink.of(order, store))

    @property
    def writer(self) -> DeltaWriter:
        """What replicas write with."""
        return self.table.writer

    def open(self) -> tuple[Part, ...]:
        """Claim the table, fence older drivers and find what they wrote."""
        order = self.order
        check_present(self.store, order.output, order.write_mode, self.table.schema)
        self._claimed = claim(self.store, order)
        if is_table(self.store, self.order.output.uri) and self.table.join():
            self._is_done = True
            return self.table.parts
        self.store.replace(self._uri(_DRIVER), [dumps(self._token).encode()])
        self._noted = {}
        for file in self.store.files(self._uri(_PARTS)):
            note = read_json(self.store, self._uri(_PARTS, file.path))
            if note is None:
                continue
            part = from_json(Part, note)
            if self._is_written(part):
                self._noted[part.split] = part
            else:
                self.store.delete(self._uri(_PARTS, file.path))
        self.table.remove_leftovers(part.path for part in self._noted.values())
        return self._parts()

    def publish(self, parts: Sequence[Part]) -> None:
        """Note parts where the next attempt finds them; no reader looks there."""
        self._check_fence()
        for part in parts:
            uri = self._uri(_PARTS, f"{part.split:06d}.json")
            try:
                self.store.create(uri, [dumps(to_json(part)).encode()])
            except FileExistsError as error:
                raise self.table.fenced() from error
            self._noted[part.split] = part

    def complete(self) -> None:
        """Replace all rows of the table in one commit."""
        if self._is_done:
            return
        self._check_fence()
        if not all(map(self._is_written, self._parts())):
            raise self.table.fenced()
        files = [
            add_action(part.path, part.bytes, part.tally.done)
            for part in self._parts()
            if part.tally.done
        ]
        self.table.swap(files, self._parts())
        self.store.delete_folder(self._uri(_PARTS))
        self._is_done = True

    def list_failed(self) -> str | None:
        """Write all failed rows into a table beside this one."""
        parts = self.table.parts if self._is_done else self._parts()
        return self.table.list_failed_of(parts, replaces=self._is_done)

    def _check_fence(self) -> None:
        check_claim(self.store, self.order, self._claimed)
        if read_json(self.store, self._uri(_DRIVER)) != self._token:
            raise self.table.fenced()

    def _is_written(self, part: Part) -> bool:
        uri = join(self.order.output.uri, part.path)
        return not part.tally.done or self.store.stat(uri) is not None

    def _parts(self) -> tuple[Part, ...]:
        return tuple(self._noted[split] for split in sorted(self._noted))

    def _uri(self, *path: str) -> str:
        folder = own_folder(self.order.output, self.order.write_mode)
        return join(folder, self.order.run_id, *path)

    @property
    def _token(self) -> dict[str, str]:
        return {"driver": self._driver}
