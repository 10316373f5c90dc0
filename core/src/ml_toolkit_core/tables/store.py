"""The store: every read, write and commit of a table goes through this protocol."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO, Protocol

import pyarrow as pa
from attrs import frozen
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from ml_toolkit_core.wire import Json


@frozen(kw_only=True)
class FileInfo:
    """One file.

    Args:
        path: Relative to the folder that was listed; ``""`` for a file itself.
        bytes: Its size.
        etag: Changes when the content changes (local files: the modification time
            in nanoseconds).
    """

    path: str
    bytes: int
    etag: str


class Store(Protocol):
    """Files and Delta tables by absolute path or URI; can be pickled.

    Attributes:
        swaps_folders: Whether :meth:`swap` takes folders.

    Whenever the process is killed, a call has happened whole or not at all; it may
    leave a file behind whose name begins with ``UNFINISHED``.
    """

    swaps_folders: bool

    def stat(self, uri: str) -> FileInfo | None:
        """Return the file at ``uri``; None when there is no file."""

    def is_folder(self, uri: str) -> bool:
        """Whether ``uri`` is a folder."""

    def files(self, uri: str) -> tuple[FileInfo, ...]:
        """Return all files below a folder, sorted by path; none if it is not there."""

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Return the files and folders that match, sorted; ``**`` is any depth."""

    def open(self, uri: str) -> BinaryIO:
        """Open a file for reading, at any place of it."""

    def create(self, uri: str, chunks: Iterable[bytes]) -> None:
        """Write a new file, whole and durable.

        Raises:
            FileExistsError: When there is one already; it is not touched.
        """

    def replace(self, uri: str, chunks: Iterable[bytes]) -> None:
        """Write a file in place of what is there; readers see the old or the new."""

    def publish(self, source: str, target: str) -> None:
        """Move a file without replacing; done before is done.

        Raises:
            FileExistsError: When ``target`` is another file.
            FileNotFoundError: When there is no ``source``.
        """

    def swap(self, source: str, target: str) -> None:
        """Put a file or a folder in place of another, or where there is none.

        A file is gone from ``source`` then; of two folders, ``source`` holds the old
        one.

        Raises:
            FileNotFoundError: When there is no ``source``.
        """

    def delete(self, uri: str) -> None:
        """Remove a file; done before is done."""

    def delete_folder(self, uri: str) -> None:
        """Remove a folder and all that is in it; done before is done."""

    def open_table(self, uri: str, version: int | None = None) -> DeltaTable:
        """Open a Delta table."""

    def create_table(
        self, uri: str, schema: pa.Schema, commit: CommitProperties
    ) -> DeltaTable:
        """Create a Delta table.

        Raises:
            DeltaError: When there is one already.
        """

    def refresh_table(self, table: DeltaTable) -> None:
        """Bring a handle to the table's newest version."""

    def commit_files(
        self,
        table: DeltaTable,
        files: Sequence[AddAction],
        commit: CommitProperties,
        *,
        replace: pa.Schema | None = None,
    ) -> None:
        """Add written files to a table in one commit; the handle stays as it is.

        Args:
            table: A handle.
            files: Files that lie in the table's folder.
            commit: What the commit carries.
            replace: The new columns, when the rows that are there go in the same
                commit.

        Raises:
            CommitFailedError: When one of the commit's applications has committed
                since the handle was refreshed.
        """


def join(uri: str, *path: str) -> str:
    """Return the URI of something below ``uri``.

    >>> join("/data/out/", "_ml_toolkit", "_run.json")
    '/data/out/_ml_toolkit/_run.json'
    """
    return "/".join([uri.rstrip("/"), *path])


def place(root: str, path: str) -> str:
    """Return the URI of a table's file; ``path`` is empty when it is the table."""
    return join(root, path) if path else root


def read_json(store: Store, uri: str) -> Mapping[str, Json] | None:
    """Return the object in a JSON file; None when it is missing, torn or no object."""
    try:
        with store.open(uri) as handle:
            data = json.loads(handle.read())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return data if isinstance(data, dict) else None
