"""Where our own state lies on this machine."""

import os
from pathlib import Path


def home() -> Path:
    """Return ``ML_TOOLKIT_HOME``, by default ml-toolkit's XDG state folder."""
    given = os.environ.get("ML_TOOLKIT_HOME")
    if given:
        return Path(given).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser().absolute() / "ml-toolkit"


def warehouse() -> Path:
    """Return ``ML_TOOLKIT_WAREHOUSE``, by default ``<home>/warehouse``."""
    given = os.environ.get("ML_TOOLKIT_WAREHOUSE")
    return Path(given).expanduser().absolute() if given else home() / "warehouse"


def run_folder(run_id: str) -> Path:
    """Return the folder that keeps what this machine knows of a run."""
    return home() / "runs" / run_id


def make_private_folder(folder: Path) -> Path:
    """Make a folder, and those above it, for their owner alone; return it."""
    for missing in [p for p in (folder, *folder.parents) if not p.exists()][::-1]:
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_private(path: str | Path, flags: int) -> int:
    """Open a file that its owner alone may read; an ``opener`` of ``open``."""
    return os.open(path, flags, 0o600)


def obstacle_to_writing(path: Path) -> Path | None:
    """Return what is in the way of writing a file or folder there; None when nothing.

    Reads only. What is in the way is the nearest place that exists, when it is no
    folder or may not be written to.
    """
    there = path
    # Not Path.exists: that raises below a folder which this user may not enter.
    while not os.path.exists(there) and there != there.parent:  # noqa: PTH110
        there = there.parent
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return None if writable else there
