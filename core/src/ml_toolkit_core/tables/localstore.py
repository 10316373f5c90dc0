"""The store of this machine, and of file systems that are mounted here."""

import contextlib
import glob
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from ml_toolkit_core.tables.deltacommits import DeltaCommits, check_table_uri
from ml_toolkit_core.tables.durable import (
    UNFINISHED,
    exchange,
    make_folder,
    sync_folder,
    written_aside,
)
from ml_toolkit_core.tables.store import FileInfo


class LocalStore(DeltaCommits):
    """Files of this machine, or of a file system that is mounted here."""

    swaps_folders = True

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

    def table_uri(self, uri: str) -> str | Path:
        """Return the path; unlike a URL it may hold any character."""
        check_table_uri(uri)
        return Path(uri)


def _info(path: Path, name: str) -> FileInfo:
    stat = path.stat()
    return FileInfo(path=name, bytes=stat.st_size, etag=str(stat.st_mtime_ns))
