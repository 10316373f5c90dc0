"""What went wrong at Anyscale, told by HTTP status, and what a person can do."""

import enum
import json
from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen

from ml_toolkit_anyscale.calls import Call, Calls, Shut

#: Characters of a server's own sentence that are passed on.
_SAID: Final = 400


class Kind(enum.StrEnum):
    """Kinds of failure, by who can mend them."""

    AUTH = "auth"
    """The token is not accepted, or lacks a right."""
    NOT_FOUND = "not found"
    """Something that was named does not exist."""
    INVALID = "invalid"
    """The request cannot work as it is."""
    RATE_LIMITED = "rate limited"
    """Too many requests; the same one works later."""
    TRANSIENT = "transient"
    """The server or the way to it failed; the same request may work later."""


class Fate(enum.StrEnum):
    """What became of the job that a submit asked for."""

    NOT_MADE = "not made"
    """Never asked for, or clearly refused."""
    IN_DOUBT = "in doubt"
    """Asked for, and no clear answer came back."""
    PENDING = "pending"
    """Likewise, and the server may still be at it."""


@frozen(kw_only=True)
class Fault:
    """One failure.

    Args:
        kind: Who can mend it.
        status: The HTTP status, if there was one.
        call: The request.
        said: The server's own sentence, or what happened on the way.
        retry_after_s: When to come back, as the server says.
        fate: What became of the job.
    """

    kind: Kind
    status: int | None = None
    call: str = ""
    said: str = ""
    retry_after_s: float | None = None
    fate: Fate = Fate.NOT_MADE

    @property
    def passes(self) -> bool:
        """Whether the same request may work later."""
        return self.kind in {Kind.RATE_LIMITED, Kind.TRANSIENT}


class Refused(Exception):
    """A call of the SDK failed. Holds no error of the SDK: those carry secrets.

    Attributes:
        fault: What went wrong.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.said)
        self.fault = fault


def fault_of(error: BaseException, calls: Calls) -> Fault:
    """Tell what an exception of the SDK means.

    Its types do not say: a 400, a 404 and a 429 are all bare ``ValueError`` (anyscale
    0.26.112). The status is found in the exception that it was raised from, or else
    in the last call.
    """
    last = calls.last
    source = next((e for e in _chain(error) if _status(e) is not None), None)
    status = None if source is None else _status(source)
    call = "" if last is None else str(last)
    if status is not None:
        return Fault(
            kind=_kind(status),
            status=status,
            call=_upload(source) or call,
            said=_said(source),
            retry_after_s=_retry_after(source),
            fate=_fate(calls),
        )
    network = next((e for e in _chain(error) if _is_network(e)), None)
    if network is not None:
        return Fault(
            kind=Kind.TRANSIENT, call=call, said=_happened(last), fate=_fate(calls)
        )
    return Fault(
        kind=Kind.INVALID, call=call, said=str(error)[:_SAID], fate=_fate(calls)
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status", None)
    if isinstance(status, int) and status:
        return status
    code = getattr(getattr(error, "response", None), "status_code", None)
    return code if isinstance(code, int) else None


def _kind(status: int) -> Kind:
    match status:
        case 401 | 403:
            return Kind.AUTH
        case 404:
            return Kind.NOT_FOUND
        case 429:
            return Kind.RATE_LIMITED
        case 408 | 425:
            return Kind.TRANSIENT
        case _ if status >= 500:  # noqa: PLR2004  HTTP
            return Kind.TRANSIENT
        case _:
            return Kind.INVALID


def _fate(calls: Calls) -> Fate:
    created = calls.created()
    if created is None or not created.arrived:
        return Fate.NOT_MADE
    if created.timed_out or created.status in {408, 504}:
        return Fate.PENDING
    if created.status is not None and 400 <= created.status < 500:  # noqa: PLR2004  HTTP
        return Fate.NOT_MADE
    # A 5xx, a dropped connection, or a good status with a body that is none.
    return Fate.IN_DOUBT


def _said(error: BaseException | None) -> str:
    """Return the server's sentence; never a whole body, header or URL."""
    try:
        told: Any = json.loads(getattr(error, "body", None) or "")["error"]
        # A 422 has a list in "detail" and its sentence in "message".
        texts = [told.get("detail"), told.get("message")]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""
    return next((text[:_SAID] for text in texts if isinstance(text, str)), "")


def _retry_after(error: BaseException | None) -> float | None:
    headers = getattr(error, "headers", None) or {}
    try:
        return max(0.0, float(headers["Retry-After"]))
    except (KeyError, TypeError, ValueError):
        return None


def _upload(error: BaseException | None) -> str:
    """Name the upload, which is none of these calls, without its signed URL."""
    return "" if getattr(error, "response", None) is None else "PUT of the upload"


def _is_network(error: BaseException) -> bool:
    module = type(error).__module__.partition(".")[0]
    return module in {"urllib3", "requests", "http"} or isinstance(
        error, (Shut, OSError)
    )


def _happened(last: Call | None) -> str:
    if last is None or not last.arrived:
        return "no connection"
    if last.timed_out:
        return "no answer in time"
    return "the connection broke" if last.status is None else "the transfer broke"
