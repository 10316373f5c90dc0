"""What a person is told of a failure at Anyscale: what happened, and what to do."""

import re
from typing import Final

from ml_toolkit_anyscale.account import TOKEN
from ml_toolkit_anyscale.faults import Fault, Kind
from ml_toolkit_core.errors import PlatformUnavailable, RequestError

#: Words of a server's sentence, and the option to look at.
_OPTIONS: Final = {
    "compute config": "anyscale_compute_config",
    "queue": "anyscale_job_queue",
    "cloud": "anyscale_cloud",
    "project": "anyscale_project",
    "image": "anyscale_image_uri",
    "priority": "anyscale_priority",
    "tag": "anyscale_tags",
}
#: Names that somebody gave; a quote within a word is none.
_QUOTED: Final = r"""(?<!\w)(['"`]).*?\1"""


def sentence(fault: Fault, host: str) -> str:
    """Say it: what happened, where, and what to do."""
    happened = f": {fault.said}" if fault.said else ""
    status = "" if fault.status is None else f"{fault.status} "
    where = f" ({status}to {fault.call})" if fault.call else ""
    match fault.kind:
        case Kind.AUTH if fault.status == 403:  # noqa: PLR2004  HTTP
            what = "lets this token not do that"
            todo = "Ask who owns the cloud or project for the right to run jobs there"
        case Kind.AUTH:
            what = "does not accept the token"
            todo = f"Get a new one under {host}/v2/api-keys and set {TOKEN}"
        case Kind.RATE_LIMITED:
            what = "takes no more requests now"
            after = fault.retry_after_s
            todo = f"Try again {'later' if after is None else f'in {after:.0f} s'}"
        case Kind.TRANSIENT if fault.status is None:
            what = "cannot be reached"
            todo = "Check the network, HTTPS_PROXY and ANYSCALE_HOST, and try again"
        case Kind.TRANSIENT:
            what = "failed"
            todo = "The request itself may be right; try again later"
        case Kind.NOT_FOUND | Kind.INVALID:
            what = "refuses this"
            todo = _look_at(fault.said)
    return f"Anyscale at {host} {what}{happened}{where}. {todo}"


def error_of(fault: Fault, host: str) -> RequestError:
    """Return the error to raise when nothing was started."""
    text = f"{sentence(fault, host)}. No job was made"
    return PlatformUnavailable(text) if fault.passes else RequestError(text)


def _look_at(said: str) -> str:
    """Take the option whose word comes first, as a word and not as somebody's name."""
    bare = re.sub(_QUOTED, " ", said).lower().replace("_", " ")
    found = {
        place.start(): option
        for word, option in _OPTIONS.items()
        if (place := re.search(rf"\b{word}s?\b", bare))
    }
    option = found[min(found)] if found else None
    if option is None:
        return "Change the request; the same one will be refused again"
    return f"Pass another {option}=, or have what it names made at Anyscale"
