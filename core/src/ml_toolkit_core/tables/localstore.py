"""The store of this machine, and of file systems that are mounted here."""

import contextlib
import glob
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Schema,
)
from deltalake.transaction import AddAction

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.durable import (
    UNFINISHED,
    exchange,
    make_folder,
    sync_folder,
    written_aside,
)
from ml_toolkit_core.tables.store import FileInfo

#: delta-rs takes these in paths for other characters, in whatever form it gets them.
_MISREAD: Final = re.compile(r"%[0-9A-Fa-f]{2}|\\")
#: Published parts are found in the history, so our own commits never shorten it.
_KEEP_HISTORY: Final = PostCommitHookProperties(cleanup_expired_logs=False)


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

    def swap(self, source: str, target: str) -> None:
        """Rename; two folders change places."""
        old, new = Path(source), Path(target)
        make_folder(new.parent)
        if old.is_dir() and new.is_dir():
            exchange(old, new)
        else:
            old.replace(new)
        sync_folder(old.parent)
        sync_folder(new.parent)

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
        replace: pa.Schema | None = None,
    ) -> None:
        """Write the next commit."""
        table.create_write_transaction(
            [*files],
            mode="append" if replace is None else "overwrite",
            schema=table.schema() if replace is None else Schema.from_arrow(replace),
            commit_properties=commit,
            post_commithook_properties=_KEEP_HISTORY,
        )


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
