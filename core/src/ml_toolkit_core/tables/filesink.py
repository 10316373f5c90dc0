"""One file out: parts are staged beside it, and it appears whole at the end."""

from collections.abc import Sequence
from functools import partial
from typing import Final, Self

from attrs import define, field

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables import failures
from ml_toolkit_core.tables.claim import claim
from ml_toolkit_core.tables.foldersink import FolderSink, FolderWriter, list_failed
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.parts import Part
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.wire import from_json, to_json

_DONE: Final = "done.json"
_PARTS: Final = "parts"
#: Says that ``whole`` was written to its end, so that it is gone only when published.
_READY: Final = "ready.json"


@define(kw_only=True)
class FileSink:
    """The output file of one run, joined from parts in the run's own folder."""

    store: Store
    order: WorkOrder
    staged: FolderSink
    _done: tuple[Part, ...] | None = field(init=False, default=None)

    @classmethod
    def of(cls, order: WorkOrder, store: Store) -> Self:
        """Check the columns."""
        listed = failures.list_uri(order.output.uri, order.output.format)
        staged = FolderSink.of(
            order, store, folder=None, claim_=partial(claim, store, order, listed)
        )
        staged.folder = join(staged.run, _PARTS)
        return cls(store=store, order=order, staged=staged)

    @property
    def writer(self) -> FolderWriter:
        """What replicas write with."""
        return self.staged.writer

    def open(self) -> tuple[Part, ...]:
        """Claim the file's name and find the parts, or that it is whole already."""
        self.staged.claim()
        self._settle()
        if self._done is not None:
            if self.store.stat(self.order.output.uri) is None:
                raise RequestError(
                    f"output_table={self.order.output.name!r} was made by run_id="
                    f"{self.order.run_id!r} and is gone; pass another run_id to make "
                    "it again"
                )
            return self._done
        return self.staged.open()

    def publish(self, parts: Sequence[Part]) -> None:
        """Keep parts where the next attempt finds them; no reader looks there."""
        self.staged.publish(parts)

    def complete(self) -> None:
        """Join the parts to one file, and let readers see it."""
        if self._done is not None:
            return
        self.staged.check_fence()
        if read_json(self.store, self._uri(_READY)) is None:
            self.store.delete(self._whole)
            files = [
                partial(self.store.open, join(self.staged.folder, part.path))
                for part in self.staged.parts
            ]
            self.store.create(self._whole, self.staged.format.join(files))
            note = dumps({"parts": to_json(self.staged.parts)})
            self.store.replace(self._uri(_READY), [note.encode()])
        try:
            self.store.publish(self._whole, self.order.output.uri)
        except FileExistsError as error:
            raise RequestError(
                f"output_table={self.order.output.name!r} was put there by somebody "
                "else while this run went on; it is left as it is. Move it, and call "
                f"again with run_id={self.order.run_id!r}: nothing is asked again"
            ) from error
        except FileNotFoundError as error:
            raise self.staged.fenced() from error
        self._settle()

    def list_failed(self) -> str | None:
        """Write all failed rows, in order, into one file beside this one."""
        if self._done is None:
            return self.staged.list_failed()
        failed = any(part.tally.failed for part in self._done)
        files = [self.order.output.uri] if failed else []
        return list_failed(self.store, self.order, self.staged.format, files)

    def _settle(self) -> None:
        """Note that the file is whole, once it is published; remove the parts."""
        note = read_json(self.store, self._uri(_DONE))
        if note is None:
            note = read_json(self.store, self._uri(_READY))
            if note is None or self.store.stat(self._whole) is not None:
                return
            self.store.replace(self._uri(_DONE), [dumps(note).encode()])
        self.store.delete_folder(self.staged.folder)
        self.store.delete(self._uri(_READY))
        self._done = tuple(from_json(Part, part) for part in note["parts"])

    def _uri(self, *path: str) -> str:
        return join(self.staged.run, *path)

    @property
    def _whole(self) -> str:
        return self._uri(f"whole{self.staged.suffix}")
