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
