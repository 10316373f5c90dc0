"""Durable files of this machine: written aside and synced before they get a name."""

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

#: A file that is being written has this before its name; a killed writer leaves it.
UNFINISHED: Final = ".unfinished-"


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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
