"""The store: every read, write and commit of a table goes through this protocol."""

import contextlib
import glob
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import pyarrow as pa
from attrs import frozen
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.transaction import AddAction

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.durable import (
    UNFINISHED,
    make_folder,
    sync_folder,
    written_aside,
)
from ml_toolkit_core.wire import Json

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
#: delta-rs takes these in paths for other characters, in whatever form it gets them.
_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|\\")
#: Published parts are found in the history, so our own commits never shorten it.
_KEEP_HISTORY: Final = PostCommitHookProperties(cleanup_expired_logs=False)


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

    Whenever the process is killed, a call has happened whole or not at all; it may
    leave a file behind whose name begins with ``UNFINISHED``.
    """

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
        replace: bool = False,
    ) -> None:
        """Add written files to a table in one commit; the handle stays as it is.

        Args:
            table: A handle.
            files: Files that lie in the table's folder.
            commit: What the commit carries.
            replace: Whether the rows that are there go, in the same commit.

        Raises:
            CommitFailedError: When one of the commit's applications has committed
                since the handle was refreshed.
        """


class LocalStore:
    """Files of this machine, or of a file system that is mounted here."""

    def stat(self, uri: str) -> FileInfo | None:
        """Return size and modification time."""
        path = Path(uri)
        return _info(path, "") if path.is_file() else None

    def is_folder(self, uri: str) -> bool:
        """Whether there is a folder."""
        return Path(uri).is_dir()

    def files(self, uri: str) -> tuple[FileInfo, ...]:
        """Walk the folder."""
        root = Path(uri)
        infos = []
        for folder, _, names in os.walk(root, followlinks=True):
            for name in names:
                file = Path(folder) / name
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    infos.append(_info(file, file.relative_to(root).as_posix()))
        return tuple(sorted(infos, key=lambda info: info.path.split("/")))

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Let the standard library look."""
        return tuple(sorted(glob.glob(pattern, recursive=True)))  # noqa: PTH207

    def open(self, uri: str) -> BinaryIO:
        """Open the file."""
        return Path(uri).open("rb")

    def create(self, uri: str, chunks: Iterable[bytes]) -> None:
        """Write aside, then link."""
        target = Path(uri)
        with written_aside(target, chunks) as aside:
            os.link(aside, target)
        sync_folder(target.parent)

    def replace(self, uri: str, chunks: Iterable[bytes]) -> None:
        """Write aside, then rename."""
        target = Path(uri)
        with written_aside(target, chunks) as aside:
            aside.replace(target)
        sync_folder(target.parent)

    def publish(self, source: str, target: str) -> None:
        """Link, then unlink: unlike a rename, a link never replaces."""
        old, new = Path(source), Path(target)
        make_folder(new.parent)
        try:
            os.link(old, new)
        except FileExistsError:
            if not (old.exists() and old.samefile(new)):
                raise
        sync_folder(new.parent)
        old.unlink()

    def delete(self, uri: str) -> None:
        """Unlink."""
        Path(uri).unlink(missing_ok=True)

    def delete_folder(self, uri: str) -> None:
        """Rename the folder aside, then remove it."""
        folder = Path(uri)
        doomed = folder.parent / f"{UNFINISHED}{secrets.token_hex(4)}-{folder.name}"
        with contextlib.suppress(FileNotFoundError):
            folder.rename(doomed)
            shutil.rmtree(doomed)

    def open_table(self, uri: str, version: int | None = None) -> DeltaTable:
        """Open by path; unlike a URL it may hold any character."""
        return DeltaTable(_table_path(uri), version=version)

    def create_table(
        self, uri: str, schema: pa.Schema, commit: CommitProperties
    ) -> DeltaTable:
        """Write the first commit."""
        path = _table_path(uri)
        make_folder(path)
        once = CommitProperties(
            custom_metadata=commit.custom_metadata,
            app_transactions=commit.app_transactions,
            # When it loses a race to create the table, delta-rs would try again, and
            # succeed with version 1.
            max_commit_retries=0,
        )
        return DeltaTable.create(path, schema, mode="error", commit_properties=once)

    def refresh_table(self, table: DeltaTable) -> None:
        """Read the commits that came since."""
        table.update_incremental()

    def commit_files(
        self,
        table: DeltaTable,
        files: Sequence[AddAction],
        commit: CommitProperties,
        *,
        replace: bool = False,
    ) -> None:
        """Write the next commit."""
        table.create_write_transaction(
            [*files],
            mode="overwrite" if replace else "append",
            schema=table.schema(),
            commit_properties=commit,
            post_commithook_properties=_KEEP_HISTORY,
        )


def store_for(uri: str) -> Store:
    """Return the store of a path or URI.

    Raises:
        RequestError: When no store reaches it.
    """
    scheme = _SCHEME.match(uri)
    if scheme:
        raise RequestError(
            f"{uri!r}: tables at {scheme[0]!r} are not built yet; use a path of a "
            "disk or mount that every node of the run sees"
        )
    return LocalStore()


def join(uri: str, *path: str) -> str:
    """Return the URI of something below ``uri``.

    >>> join("/data/out/", "_ml_toolkit", "run.json")
    '/data/out/_ml_toolkit/run.json'
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


def _table_path(uri: str) -> Path:
    if _MISREAD.search(uri):
        raise RequestError(
            f"{uri!r}: the Delta library takes {_MISREAD.findall(uri)[0]!r} in a path "
            "for another character; rename the folder, or use another format"
        )
    return Path(uri)


def _info(path: Path, name: str) -> FileInfo:
    stat = path.stat()
    return FileInfo(path=name, bytes=stat.st_size, etag=str(stat.st_mtime_ns))
