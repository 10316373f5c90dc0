"""A run's two locks on this machine: one to submit it, one that its worker lives by.

A submit holds the first, a flock, and hands it down to the worker, so that there is no
moment at which the run looks free. The worker takes the second and lets the first go. A
flock is shared with every child that is forked meanwhile, in whatever thread; the
second is a POSIX lock, which dies with the one process that took it.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import define

from ml_toolkit_core.paths import make_private_folder, open_private, run_folder

_SUBMIT: Final = "lock"


@define
class SubmitLock:
    """The lock of a submit.

    Attributes:
        descriptor: Above stdin, stdout and stderr.
        is_handed_down: Whether a worker lets it go, and not the one who took it.
    """

    descriptor: int
    is_handed_down: bool = False


@contextlib.contextmanager
def hold(run_id: str) -> Iterator[SubmitLock | None]:
    """Hold the lock to submit a run; None when a submit or a new worker has it."""
    folder = make_private_folder(run_folder(run_id))
    lock = open_private(folder / _SUBMIT, os.O_RDWR | os.O_CREAT)
    if lock <= 2:  # noqa: PLR2004  a closed stdin: the child would put its own there
        low, lock = lock, fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, 3)
        os.close(low)
    try:
        # A poll holds the lock too, for microseconds: ask again before believing.
        for _ in range(100):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.001)
        else:
            yield None
            return
        held = SubmitLock(lock)
        try:
            yield held
        finally:
            if not held.is_handed_down:
                # A forked child may have it too: closing it is not enough.
                fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


def hold_while_alive(pid_file: Path, submitted: int | None) -> None:
    """Take the lock that says that this process lives, for as long as it does.

    Args:
        pid_file: Gets the process number, and the lock.
        submitted: The lock of the submit, as it was handed down; it is let go.
    """
    # Never closed here: the first close of any of its descriptors is the lock's end.
    lock = open_private(pid_file, os.O_RDWR | os.O_CREAT)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    os.write(lock, f'{{"pid": {os.getpid()}}}'.encode())
    if submitted is not None:
        fcntl.flock(submitted, fcntl.LOCK_UN)
        os.close(submitted)


def is_running(run_id: str, pid_file: Path) -> bool:
    """Whether a run is being submitted, or its worker lives."""
    # In this order: a worker takes its own lock before it lets the other go.
    return _is_held(run_folder(run_id) / _SUBMIT, fcntl.flock) or is_live(pid_file)


def is_live(pid_file: Path) -> bool:
    """Whether the worker lives that wrote this file."""
    return _is_held(pid_file, fcntl.lockf)


def _is_held(path: Path, lock: Callable[[int, int], object]) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        lock(descriptor, fcntl.LOCK_UN)
    except (BlockingIOError, PermissionError):  # POSIX names both
        return True
    finally:
        os.close(descriptor)
    return False
