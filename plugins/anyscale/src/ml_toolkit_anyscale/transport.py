"""What the SDK sends and hears: with a time limit on each request, and on record.

The SDK sends without any time limit. It keeps a connection pool for each of its two
APIs; a :class:`Gate` is put in the pool's place.
"""

from typing import Any, Final
from urllib.parse import urlsplit

import urllib3
from attrs import define, field

#: Ends the path of the one request that makes a job.
CREATE: Final = "/decorated_ha_jobs/create"


class Shut(Exception):
    """A request after the time for all of them was up; it was not sent."""


@define
class Call:
    """One request.

    Attributes:
        method: The HTTP method.
        path: Without the query, which can hold a signature.
        status: The answer's status; None when there was none.
        arrived: False when it surely never reached the server.
        timed_out: Whether the server took too long, and may still be at it.
    """

    method: str
    path: str
    status: int | None = None
    arrived: bool = True
    timed_out: bool = False

    def __str__(self) -> str:
        """Return method and path."""
        return f"{self.method} {self.path}"


@define
class Wire:
    """The requests of one client, in order.

    Attributes:
        timeout_s: For one request to connect, and again for it to be answered.
        calls: All requests.
        shut: Nothing is sent any more: a thread that was given up on cannot make a
            job later.
    """

    timeout_s: float
    calls: list[Call] = field(factory=list)
    shut: bool = False

    @property
    def last(self) -> Call | None:
        """The last request, if there was one."""
        return self.calls[-1] if self.calls else None

    def created(self) -> Call | None:
        """Return the last request that asked for a job."""
        asked = [call for call in self.calls if call.path.endswith(CREATE)]
        return asked[-1] if asked else None


class Gate:
    """Stands in for a connection pool of the SDK.

    Args:
        pool: What really sends.
        wire: Where requests are recorded.
    """

    def __init__(self, pool: urllib3.PoolManager, wire: Wire) -> None:
        self._pool = pool
        self._wire = wire

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Send one request, once.

        Raises:
            Shut: When the wire is shut.
            urllib3.exceptions.HTTPError: When there was no answer.
        """
        if self._wire.shut:
            raise Shut
        call = Call(method, urlsplit(url).path)
        self._wire.calls.append(call)
        limit = self._wire.timeout_s
        # The SDK's own retries wait for up to two minutes and say so on stderr.
        options |= {
            "timeout": urllib3.Timeout(connect=limit, read=limit),
            "retries": False,
        }
        try:
            answer = self._pool.request(method, url, **options)
        except urllib3.exceptions.ReadTimeoutError:
            call.timed_out = True
            raise
        except (
            urllib3.exceptions.ConnectTimeoutError,
            urllib3.exceptions.NewConnectionError,
        ):
            call.arrived = False
            raise
        call.status = answer.status
        return answer
