"""Where a run lists its failed rows: beside its output, unless others are there."""

import contextlib
from typing import Final, Self

from attrs import frozen

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables import failures
from ml_toolkit_core.tables.deltafiles import is_table
from ml_toolkit_core.tables.jsonlines import LineFault, lines, parse
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.layout import OWN_FOLDER, own_folder
from ml_toolkit_core.tables.store import Store, join
from ml_toolkit_core.values import TableFormat

#: In the run's own folder: says that what lies beside the output is this run's list.
_NOTE: Final = "list.json"


@frozen(kw_only=True)
class FailedList:
    """The place of the list of one run.

    A note is made before the list is, and only when nothing is at its place. What is
    there without a note, or is claimed as an output, belongs to somebody else.

    Args:
        store: Where it lies.
        beside: Where the list belongs: beside the output.
        run: The run's own folder.
        is_table: Whether the list is a Delta table; else it is one file.
        replaces: Whether the run's output took the place of another, whose list then
            is nobody's any more.
    """

    store: Store
    beside: str
    run: str
    is_table: bool
    replaces: bool

    @classmethod
    def of(cls, store: Store, order: WorkOrder, *, replaces: bool = False) -> Self:
        """Return the place of the list of a run."""
        return cls(
            store=store,
            beside=failures.list_uri(order.output.uri, order.output.format),
            run=join(own_folder(order.output, order.write_mode), order.run_id),
            is_table=order.output.format is TableFormat.DELTA,
            replaces=replaces,
        )

    @property
    def inside(self) -> str:
        """Where the list goes when somebody else is at its place."""
        return join(self.run, self.beside.rpartition("/")[2])

    @property
    def is_there(self) -> bool:
        """Whether anything is at the list's place."""
        return self.store.stat(self.beside) is not None or self.store.is_folder(
            self.beside
        )

    def take(self) -> str:
        """Return where this run may write its list, whatever it finds there."""
        there = self.is_there  # before the note is looked for: the note comes first
        if self._is_others or (there and not self._is_noted and not self._is_left):
            return self.inside
        with contextlib.suppress(FileExistsError):
            self.store.create(self._note, [dumps({"list": self.beside}).encode()])
        self._remove(self.inside)
        return self.beside

    def clear(self) -> None:
        """Remove the list, and nothing that is not this run's."""
        if (self._is_noted or self._is_left) and not self._is_others:
            self._remove(self.beside)
        self.store.delete(self._note)
        self._remove(self.inside)

    def _remove(self, uri: str) -> None:
        if self.is_table:
            self.store.delete_folder(uri)
        else:
            self.store.delete(uri)

    @property
    def _is_noted(self) -> bool:
        return self.store.stat(self._note) is not None

    @property
    def _is_left(self) -> bool:
        """Whether the list of the output is there whose place this run's took."""
        if not self.replaces or not self.is_there or self._is_others:
            return False
        return failures.is_list(self._names())

    def _names(self) -> list[str]:
        """Return the columns of what is there; none when it is no table of ours."""
        if self.is_table:
            if not is_table(self.store, self.beside):
                return []
            table = self.store.open_table(self.beside)
            return [column.name for column in table.schema().fields]
        with self.store.open(self.beside) as handle:
            _, line = next(lines(handle), (0, b"{}"))
        try:
            return [*parse(line.decode())]
        except (ValueError, LineFault):
            return []

    @property
    def _is_others(self) -> bool:
        """Whether there is what cannot be a list, or some run's output is to be."""
        if self.is_table:
            is_other = self.store.stat(self.beside) is not None
        else:
            is_other = self.store.is_folder(self.beside)
        parent, _, name = self.beside.rpartition("/")
        folders = (join(self.beside, OWN_FOLDER), join(parent, OWN_FOLDER, name))
        return is_other or any(map(self.store.files, folders))

    @property
    def _note(self) -> str:
        return join(self.run, _NOTE)
