"""The caller's arguments, brought to the one form that a request takes."""

import os
from typing import Any

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import WriteMode


def texts(given: object) -> str | tuple[str, ...]:
    """Return paths as text, whatever kind of path they are."""
    if isinstance(given, (list, tuple)):
        return tuple(str(item) for item in given)
    return str(given)


def check_waiting(
    progress: object, start_timeout_s: float | None, *, wait: bool
) -> None:
    """Refuse before anything runs what would only be found out while waiting."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise RequestError(
            f"progress={progress!r} must be None, True, False or a function"
        )
    if start_timeout_s is not None and not wait:
        raise RequestError(
            f"start_timeout_s={start_timeout_s!r} with wait=False: who waits for the "
            "job cancels it. Pass it to the wait: .wait(start_timeout_s=), or "
            "ml-toolkit wait --start-timeout-s"
        )


def place(given: Any) -> Any:
    """Return a path as text; what is none is refused where it is checked."""
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def write_mode(given: str) -> WriteMode:
    try:
        return WriteMode(given)
    except ValueError:
        modes = ", ".join(repr(mode.value) for mode in WriteMode)
        raise RequestError(f"write_mode={given!r} must be one of {modes}") from None
