"""What the SDK sends and hears: with a time limit on each request, and on record.

The SDK sends without any time limit. It keeps a connection pool for each of its two
APIs; a :class:`Gate` is put in the pool's place.
"""

from typing import Any
from urllib.parse import urlsplit

import urllib3

from ml_toolkit_anyscale.calls import Call, Calls, Shut


class Gate:
    """Stands in for a connection pool of the SDK.

    Args:
        pool: What really sends.
        calls: Where requests are recorded.
    """

    def __init__(self, pool: urllib3.PoolManager, calls: Calls) -> None:
        self._pool = pool
        self._calls = calls

    def request(self, method: str, url: str, **options: Any) -> Any:
        """Send one request, once.

        Raises:
            Shut: When nothing is sent any more.
            urllib3.exceptions.HTTPError: When there was no answer.
        """
        if self._calls.shut:
            raise Shut
        call = Call(method, urlsplit(url).path)
        self._calls.made.append(call)
        limit = self._calls.timeout_s
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
