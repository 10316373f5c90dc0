"""The record of what the SDK sent and heard; knows no network library."""

from typing import Final

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
class Calls:
    """The requests of one client, in order.

    Attributes:
        timeout_s: For one request to connect, and again for it to be answered.
        made: All requests.
        shut: Nothing is sent any more: a thread that was given up on cannot make a
            job later.
    """

    timeout_s: float
    made: list[Call] = field(factory=list)
    shut: bool = False

    @property
    def last(self) -> Call | None:
        """The last request, if there was one."""
        return self.made[-1] if self.made else None

    def created(self) -> Call | None:
        """Return the last request that asked for a job."""
        asked = [call for call in self.made if call.path.endswith(CREATE)]
        return asked[-1] if asked else None
