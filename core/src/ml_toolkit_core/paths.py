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
