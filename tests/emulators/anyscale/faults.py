"""What can go wrong between a client and the control plane, on purpose."""

import re
import threading

from attrs import define, field, frozen


@frozen
class Status:
    """Answer a status and do nothing."""

    code: int
    headers: dict = field(factory=dict)
    body: str = '{"error": {"detail": "injected"}}'


@frozen
class Drop:
    """Close the connection and do nothing."""


@frozen
class Lost:
    """Do what was asked, and lose the answer: close, or answer a status instead."""

    code: int | None = None
    body: str = "<html>bad gateway</html>"


@frozen
class Stall:
    """Answer nothing until the twin ends; then do what was asked, if at all."""

    does_it: bool = False


@define
class Faults:
    """Which requests go wrong, and how.

    Attributes:
        planned: Each with a pattern of ``METHOD /path`` and how often it is left.
        chaos: Asked for every other request.
    """

    planned: list = field(factory=list)
    chaos: object = None
    _lock: object = field(factory=threading.Lock)

    def plan(self, fault, pattern=".", times=1):
        """Let the next requests that match go wrong."""
        self.planned.append([re.compile(pattern), fault, times])

    def next(self, method, path):
        """Return what goes wrong with this request, or None."""
        with self._lock:
            for entry in self.planned:
                if entry[2] > 0 and entry[0].search(f"{method} {path}"):
                    entry[2] -= 1
                    return entry[1]
            return self.chaos(method, path) if self.chaos else None
