"""The errors of ml-toolkit; the class says who can mend it.

::

    ToolkitError
    ├── RequestError            the caller: a wrong argument, name, table or model
    │   ├── MissingExtra        the caller: a package is not installed here
    │   └── PlatformUnavailable nobody: the same call later may work
    ├── PluginError             the plugin's author
    │   └── BackendLoadError    a plugin that cannot be imported
    ├── JobError                the job ended without a result
    │   ├── AllRowsFailed       every row failed, and would again
    │   ├── StartTimeout        it waited for machines too long and was cancelled
    │   ├── ReplicaDied         an engine died or hung (far side)
    │   └── RunFenced           another driver publishes this run (far side)
    ├── StillRunning            the wait ended, the job goes on
    │   └── Unreachable         the platform does not answer; the job may go on
    └── SubmitUnknown           nobody knows yet whether the job exists
"""

import difflib
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from ml_toolkit_core.values import JobHandle


class ToolkitError(Exception):
    """The base of every error that ml-toolkit raises on purpose."""


class RequestError(ToolkitError):
    """What was asked cannot be done as asked; nothing was started."""


class MissingExtra(RequestError):
    """A package that this request needs is not installed."""


class PlatformUnavailable(RequestError):
    """The platform could not take it now; nothing was started, later it may work."""


class PluginError(ToolkitError):
    """A plugin breaks the contract; its author can mend it."""


class BackendLoadError(PluginError):
    """A plugin was found but cannot be imported; the cause is chained."""


class JobError(ToolkitError):
    """The job ended without a result.

    Attributes:
        handle: The job, or None on the far side, where the job is this process.
    """

    def __init__(self, message: str, *, handle: "JobHandle | None" = None) -> None:
        super().__init__(message)
        self.handle = handle


class AllRowsFailed(JobError):
    """Every row failed; another attempt would end the same."""


class StartTimeout(JobError):
    """The job did not begin to run within ``start_timeout_s`` and was cancelled."""


class ReplicaDied(JobError):
    """An engine died or gave no sign of life; published rows are kept."""


class RunFenced(JobError):
    """Another driver publishes the same run; this one stopped before a double."""


class StillRunning(ToolkitError):
    """The wait ended before the job did; the job goes on.

    Attributes:
        message: What happened; what to do about it is said in the caller's words.
        handle: The job, to be passed to ``attach``.
    """

    def __init__(self, message: str, *, handle: "JobHandle") -> None:
        super().__init__(message)
        self.message = message
        self.handle = handle

    def __str__(self) -> str:
        """Say what happened and, in Python's words, how to go on."""
        return (
            f"{self.message}. Follow it with attach({str(self.handle)!r}).wait(), or "
            "end it with .cancel()"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by its parts."""
        return partial(type(self), handle=self.handle), self.args


class Unreachable(StillRunning):
    """The platform has not answered for too long; the job may still run."""


class SubmitUnknown(ToolkitError):
    """The reply to a submit was lost and the look-up failed too.

    Attributes:
        run_id: The id under which the job, if it exists, can be found.
        how_to_find: A sentence that says where to look.
    """

    def __init__(self, run_id: str, how_to_find: str) -> None:
        super().__init__(
            f"run_id={run_id!r}: the platform's answer was lost, so the job may or "
            f"may not exist. {how_to_find}"
        )
        self.run_id = run_id
        self.how_to_find = how_to_find

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Pickle by its two parts."""
        return type(self), (self.run_id, self.how_to_find)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for a near miss, else nothing.

    >>> did_you_mean("temperatur", ["temperature", "top_p"])
    " Did you mean 'temperature'?"
    """
    near = difflib.get_close_matches(given, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
