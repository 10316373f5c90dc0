"""Durable files of this machine: written aside and synced before they get a name."""

import contextlib
import ctypes
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

#: A file that is being written has this before its name; a killed writer leaves it.
UNFINISHED: Final = ".unfinished-"
#: ``AT_FDCWD`` and ``RENAME_EXCHANGE`` of Linux (man 2 renameat2).
_HERE: Final = -100
_EXCHANGE: Final = 2


@contextlib.contextmanager
def written_aside(target: Path, chunks: Iterable[bytes]) -> Iterator[Path]:
    """Write a durable file next to ``target``, to be put in its place."""
    make_folder(target.parent)
    aside = target.parent / f"{UNFINISHED}{secrets.token_hex(4)}-{target.name}"
    try:
        with aside.open("xb") as handle:
            handle.writelines(chunks)
            handle.flush()
            os.fsync(handle.fileno())
        yield aside
    finally:
        aside.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, durably."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def exchange(one: Path, other: Path) -> None:
    """Let two folders change places in one step, which only Linux and its disks do.

    Raises:
        OSError: When they cannot.
    """
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise OSError(errno.ENOTSUP, "two folders cannot change places on this system")
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one), None, str(other))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
