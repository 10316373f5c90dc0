"""An output that is made aside: one file, or a folder in place of another.

Parts are kept in the run's own folder; the output appears whole in one last step.
"""

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Final, Self

from attrs import define, field

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.claim import CLAIM, DONE
from ml_toolkit_core.tables.foldersink import FolderSink, FolderWriter, list_failed
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.layout import OWN_FOLDER, is_one_file
from ml_toolkit_core.tables.parts import Part
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.values import WriteMode
from ml_toolkit_core.wire import Json, from_json, to_json

_PARTS: Final = "parts"
#: What an output that is appended to was before.
_BASE: Final = "base.json"
#: Says that the new output was written to its end and waits to be put in its place.
_READY: Final = "ready.json"


@define(kw_only=True)
class AsideSink:
    """The output of one run, made in the run's own folder."""

    store: Store
    order: WorkOrder
    staged: FolderSink
    _done: tuple[Part, ...] | None = field(init=False, default=None)

    @classmethod
    def of(cls, order: WorkOrder, store: Store) -> Self:
        """Check the columns."""
        staged = FolderSink.of(order, store, folder=_PARTS)
        return cls(store=store, order=order, staged=staged)

    @property
    def writer(self) -> FolderWriter:
        """What replicas write with."""
        return self.staged.writer

    def open(self) -> tuple[Part, ...]:
        """Claim the output and find the parts, or that it is whole already."""
        self.staged.claim()
        self._settle()
        if self._done is not None:
            if not self._is_there:
                raise RequestError(
                    f"output_table={self.order.output.name!r} was made by run_id="
                    f"{self.order.run_id!r} and is gone; pass another run_id to make "
                    "it again"
                )
            return self._done
        if self._is_appended:
            base = self._base()
            if read_json(self.store, self._uri(_BASE)) is None:
                self.store.replace(self._uri(_BASE), [dumps(base).encode()])
        return self.staged.take_over()

    def publish(self, parts: Sequence[Part]) -> None:
        """Keep parts where the next attempt finds them; no reader looks there."""
        self.staged.publish(parts)

    def complete(self) -> None:
        """Make the new output of the parts, and put it in its place."""
        if self._done is not None:
            return
        self.staged.check_fence()
        if read_json(self.store, self._uri(_READY)) is None:
            token = secrets.token_hex(8)
            if self._is_file:
                self._join_parts()
            else:
                self.staged.complete()
                mine = {
                    "run_id": self.order.run_id,
                    "identity": to_json(self.order.identity),
                    "token": token,
                }
                claim = join(self._whole, OWN_FOLDER, CLAIM)
                self.store.replace(claim, [dumps(mine).encode()])
            note = {"parts": to_json(self.staged.parts), "token": token}
            self.store.replace(self._uri(_READY), [dumps(note).encode()])
        self._put_in_place()
        self._settle()

    def list_failed(self) -> str | None:
        """Write all failed rows of the run, in order, into one file beside it."""
        if self._done is None:
            return self.staged.list_failed()
        failed = [part for part in self._done if part.tally.failed]
        output = self.order.output.uri
        if self._is_file:
            files = [output] if failed else []
        else:
            files = [join(output, part.path) for part in failed]
        return list_failed(
            *(self.store, self.order, self.staged.format, files),
            replaces=self.order.write_mode is WriteMode.OVERWRITE,
        )

    def _join_parts(self) -> None:
        files = [join(self.staged.folder, part.path) for part in self.staged.parts]
        if self._is_appended and self._check_base():
            files = [self.order.output.uri, *files]
        self.store.delete(self._whole)
        opened = [partial(self.store.open, file) for file in files]
        self.store.create(self._whole, self.staged.format.join(opened))

    def _put_in_place(self) -> None:
        output = self.order.output
        try:
            if self.order.write_mode is WriteMode.ERROR:
                self.store.publish(self._whole, output.uri)
            else:
                if self._is_appended and not self._is_copied():
                    self._check_base()
                self.store.swap(self._whole, output.uri)
        except FileExistsError as error:
            raise RequestError(
                f"output_table={output.name!r} was put there by somebody else while "
                "this run went on; it is left as it is. Move it, and call again with "
                f"run_id={self.order.run_id!r}: nothing is asked again"
            ) from error
        except FileNotFoundError as error:
            raise self.staged.fenced() from error

    def _settle(self) -> None:
        """Note that the output is whole, once it is in its place; remove the parts."""
        note = read_json(self.store, self._uri(DONE))
        if note is None:
            note = read_json(self.store, self._uri(_READY))
            if note is None or not self._is_in_place(note["token"]):
                return
            self.store.replace(self._uri(DONE), [dumps(note).encode()])
        self.store.delete_folder(self.staged.folder)
        self.store.delete(self._uri(_READY))
        self._done = tuple(from_json(Part, part) for part in note["parts"])

    def _is_in_place(self, token: Json) -> bool:
        if self._is_file:
            return self.store.stat(self._whole) is None
        uri = join(self.order.output.uri, OWN_FOLDER, CLAIM)
        found = read_json(self.store, uri)
        return found is not None and found.get("token") == token

    def _is_copied(self) -> bool:
        """Whether only the end of a swap is left to do, where it is copy and delete.

        What rows were added to is larger than what it was.
        """
        old, new = self._base()["bytes"], self.store.stat(self._whole)
        return new is not None and old == new.bytes

    def _base(self) -> dict[str, Json]:
        """Return what tells the present output from others."""
        found = self.store.stat(self.order.output.uri)
        if found is None:
            return {"bytes": None, "etag": None}
        return {"bytes": found.bytes, "etag": found.etag}

    def _check_base(self) -> bool:
        """Return whether there was something to append to, which is as it was."""
        base = self._base()
        if base != read_json(self.store, self._uri(_BASE)):
            raise RequestError(
                f"output_table={self.order.output.name!r} was changed by somebody else "
                f"while run_id={self.order.run_id!r} appended to it; nothing was "
                "written to it. Pass another run_id to append to what it is now"
            )
        return base["bytes"] is not None

    def _uri(self, *path: str) -> str:
        return join(self.staged.run, *path)

    @property
    def _is_file(self) -> bool:
        return is_one_file(self.order.output)

    @property
    def _is_appended(self) -> bool:
        return self._is_file and self.order.write_mode is WriteMode.APPEND

    @property
    def _is_there(self) -> bool:
        uri = self.order.output.uri
        return self.store.stat(uri) is not None or self.store.is_folder(uri)

    @property
    def _whole(self) -> str:
        if self._is_file:
            return self._uri(f"whole{self.staged.suffix}")
        return self.staged.folder
