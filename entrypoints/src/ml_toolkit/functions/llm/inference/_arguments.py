"""The caller's arguments, brought to the one form that a request takes."""

import os
from enum import StrEnum
from typing import Any, TypeVar

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import DuplicateIds, WriteMode

Member = TypeVar("Member", bound=StrEnum)


def path_texts(given: object) -> str | tuple[str, ...]:
    """Return paths as text, whatever kind of path they are."""
    if isinstance(given, (list, tuple)):
        return tuple(str(item) for item in given)
    return str(given)


def check_waiting(
    timeout_s: float | None, unreachable_after_s: float, progress: object
) -> None:
    """Refuse before anything runs what would only be found out while waiting."""
    seconds = {"timeout_s": timeout_s or 0, "unreachable_after_s": unreachable_after_s}
    for name, value in seconds.items():
        if not _is_number(value) or not value >= 0:  # NaN is not
            raise RequestError(f"{name}={value!r} must be a number of seconds, from 0")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise RequestError(
            f"progress={progress!r} must be None, True, False or a function"
        )


def check_start(start_timeout_s: float | None, *, wait: bool) -> None:
    """Refuse a limit on the start of a job that nobody would keep."""
    if start_timeout_s is None:
        return
    if not _is_number(start_timeout_s) or not start_timeout_s > 0:
        raise RequestError(
            f"start_timeout_s={start_timeout_s!r} must be a number of seconds above 0"
        )
    if not wait:
        raise RequestError(
            f"start_timeout_s={start_timeout_s!r} with wait=False: who waits for the "
            "job cancels it. Pass it to the wait: .wait(start_timeout_s=), or "
            "ml-toolkit wait --start-timeout-s"
        )


def _is_number(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def path_text(given: Any) -> Any:
    """Return a path as text; what is none is refused where it is checked."""
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def to_write_mode(given: str) -> WriteMode:
    """Return the mode that a text is."""
    return _member(WriteMode, given, "write_mode")


def to_duplicate_ids(given: str) -> DuplicateIds:
    """Return what to do with such ids, as a text says it."""
    return _member(DuplicateIds, given, "duplicate_ids")


def _member(kind: type[Member], given: str, argument: str) -> Member:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(repr(member.value) for member in kind)
        raise RequestError(f"{argument}={given!r} must be one of {known}") from None
