"""A submitted job, as the caller holds it."""

import time
from collections.abc import Callable
from typing import Final

from attrs import define, evolve, field

from ml_toolkit_core.errors import (
    JobError,
    RequestError,
    StartTimeout,
    StillRunning,
    ToolkitError,
    Unreachable,
)
from ml_toolkit_core.hookspecs import BackendHooks
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.records import JobRecord
from ml_toolkit_core.references import tables
from ml_toolkit_core.values import (
    JobHandle,
    JobState,
    JobStatus,
    LedgerState,
    Outcome,
    RunResult,
)

#: Seconds between polls: the first ones, and those of a long run.
_POLL_S: Final = (0.2, 5.0)
_TAIL_LINES: Final = 15
#: A job that was cancelled before it ran is seen to its end for so long.
_CONFIRM_S: Final = 60.0


@define
class InferenceJob:
    """One job: follow it, end it, read its result.

    Attributes:
        handle: For ``attach``; its text does in any process.
        plan: What was decided; None for a job that was attached to.
    """

    handle: JobHandle
    _hooks: BackendHooks = field(repr=False)
    plan: InferencePlan | None = field(default=None, repr=False)
    _record: JobRecord | None = field(default=None, repr=False)
    _last: JobStatus | None = field(default=None, init=False, repr=False)
    _told: JobStatus | None = field(default=None, init=False, repr=False)

    def status(self) -> JobStatus:
        """Return where the job stands now, with its progress where it can be read."""
        seen = clamp(self._last, self._hooks.poll(self.handle))
        self._told = seen if seen.run_id or seen.ledger_uri else self._told
        if seen.state is not JobState.UNKNOWN:
            self._last = seen
        ledger = self._ledger()
        return seen if ledger is None else evolve(seen, progress=ledger.progress)

    def wait(  # noqa: PLR0913  each limit counts something else
        self,
        *,
        timeout_s: float | None = None,
        start_timeout_s: float | None = None,
        unreachable_after_s: float = 1800,
        progress: Callable[[JobStatus], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> "InferenceJob":
        """Follow the job to its end and return it.

        Args:
            timeout_s: Bounds this waiting, not the job.
            start_timeout_s: Seconds of this waiting in which the job may be
                ``QUEUED`` or ``STARTING``; then it is cancelled. While it is
                ``UNKNOWN`` nothing is decided; should it wait still when it is seen
                again, that time counts too.
            unreachable_after_s: How long a silent platform is ridden out.
            progress: Called with every status that was seen.
            clock: Seconds, never going back.
            sleep: Waits for seconds.

        Raises:
            RequestError: When a limit is no number of seconds.
            JobError: When the job failed or was cancelled.
            StartTimeout: After ``start_timeout_s``; the job is cancelled.
            StillRunning: After ``timeout_s``, the job goes on; or after
                ``start_timeout_s``, when it could not be cancelled.
            Unreachable: After ``unreachable_after_s``; the job may go on.
        """
        check_limits(timeout_s, start_timeout_s, unreachable_after_s)
        begin = heard = clock()
        while True:
            status = self.status()
            now = clock()
            if progress is not None:
                progress(status)
            if status.state.is_final:
                if status.state is not JobState.SUCCEEDED:
                    raise self._failure(status)
                return self
            if status.state is not JobState.UNKNOWN:
                heard = now
            elif now - heard >= unreachable_after_s:
                raise Unreachable(
                    f"{self.handle}: no answer for {now - heard:.0f} s "
                    f"({status.message}). The job may still run",
                    handle=self.handle,
                )
            limits = [timeout_s]
            if status.state.is_waiting and start_timeout_s is not None:
                if now - begin >= start_timeout_s:
                    late = f"{now - begin:.0f} s, start_timeout_s={start_timeout_s:g}"
                    self._end_waiting(late, clock, sleep)
                    sleep(_POLL_S[0])
                    continue
                limits.append(start_timeout_s)
            if timeout_s is not None and now - begin >= timeout_s:
                raise StillRunning(
                    f"{self.handle} is {status.state} after timeout_s={timeout_s:g}"
                    f"{f' ({status.message})' if status.message else ''}; it goes on",
                    handle=self.handle,
                )
            pause = min(max((now - begin) / 20, _POLL_S[0]), _POLL_S[1])
            left = [begin + limit - now for limit in limits if limit is not None]
            sleep(max(0.0, min([pause, *left])))

    def cancel(self) -> JobStatus:
        """End the job; rows that are published stay."""
        self._last = clamp(self._last, self._hooks.cancel(self.handle))
        return self._last

    def logs(self, tail: int = 100) -> tuple[str, ...]:
        """Return the last lines of the job's log."""
        return self._hooks.read_logs(self.handle, tail)

    def result(self) -> RunResult:
        """Return what a finished job made, from its ledger; reads no table.

        Raises:
            JobError: When the job failed or was cancelled.
            StillRunning: When it has not ended yet.
            RequestError: When its ledger cannot be read from here.
        """
        status = self.status()
        if not status.state.is_final:
            raise StillRunning(
                f"{self.handle} is {status.state} and has no result yet",
                handle=self.handle,
            )
        if status.state is not JobState.SUCCEEDED:
            raise self._failure(status)
        outcome = self._outcome(status)
        if outcome is None or outcome.result is None:
            raise RequestError(
                f"{self.handle} succeeded, but its ledger cannot be read from this "
                "machine; read the output table itself"
            )
        return outcome.result

    def _end_waiting(
        self, late: str, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        """Cancel a job that has not begun, and raise; return when it has begun."""
        seen = self.status()  # the one before was shown, and showing takes its time
        if not seen.state.is_waiting:
            return
        reason = seen.message or "the platform gives no reason"
        said = f"{self.handle} is still {seen.state} after {late}: {reason}"
        try:
            after = self.cancel()
        except ToolkitError as error:
            if self.status().state.has_begun:
                return
            # What to do next is said once, in the words of whoever reads it.
            why = error.message if isinstance(error, StillRunning) else str(error)
            raise StillRunning(
                f"{said}. It may still start and run, because it could not be "
                f"cancelled: {why.rstrip('.')}",
                handle=self.handle,
            ) from error
        until = clock() + _CONFIRM_S
        while not after.state.is_final and clock() < until:
            sleep(_POLL_S[0])
            after = self.status()
        if after.state is JobState.CANCELLED:
            raise StartTimeout(
                f"{said}. It was cancelled; rows that are published stay."
                f"{self._go_on()}",
                handle=self.handle,
            )
        if not after.state.is_final:
            raise StillRunning(
                f"{said}. It may still run: the platform was asked to end it and calls "
                f"it {after.state} {_CONFIRM_S:.0f} s later",
                handle=self.handle,
            )

    def _failure(self, status: JobStatus) -> JobError:
        outcome = self._outcome(status) if status.state is JobState.FAILED else None
        reason = (outcome.reason if outcome else "") or status.message
        said = f"{self.handle} is {status.state}: {reason or 'no reason was given'}"
        if outcome is None and status.state is JobState.FAILED:
            tail = self.logs(_TAIL_LINES)
            if tail:
                said = "\n".join([f"{said}\nthe end of its log:", *tail])
        if outcome is None or outcome.resumable:
            said += self._go_on()
        return JobError(said, handle=self.handle)

    def _go_on(self) -> str:
        known = self._known()
        run_id = (known.run_id if known else None) or "the same"
        return f"\nThe same call with run_id={run_id!r} goes on where it ended."

    def _known(self) -> InferencePlan | JobRecord | JobStatus | None:
        """What knows the run and its ledger: the plan, a record, or the platform."""
        if self.plan is not None:
            return self.plan
        return self._record or self._told

    def _ledger(self) -> LedgerState | None:
        known = self._known()
        if known is None or known.ledger_uri is None:
            return None
        try:
            state: LedgerState | None = tables("ledger").read_ledger(known.ledger_uri)
        except (OSError, RequestError):  # the platform's state is known all the same
            return None
        return state

    def _outcome(self, status: JobStatus) -> Outcome | None:
        ledger = self._ledger()
        # A later attempt that was killed early leaves the ledger of the one before.
        # The platform's own retries play the same order, which keeps its number.
        if ledger is None or ledger.attempt != status.attempt - status.retries:
            return None
        return ledger.outcome


def check_limits(
    timeout_s: float | None, start_timeout_s: float | None, unreachable_after_s: float
) -> None:
    """Refuse what :meth:`InferenceJob.wait` cannot count.

    Raises:
        RequestError: When a limit is no number of seconds.
    """
    given = {
        "timeout_s": 0 if timeout_s is None else timeout_s,
        "start_timeout_s": 1 if start_timeout_s is None else start_timeout_s,
        "unreachable_after_s": unreachable_after_s,
    }
    for name, value in given.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not value >= 0:  # NaN is not
            raise RequestError(f"{name}={value!r} must be a number of seconds, from 0")
    if start_timeout_s == 0:
        raise RequestError("start_timeout_s=0 must be a number of seconds above 0")


def clamp(last: JobStatus | None, seen: JobStatus) -> JobStatus:
    """Keep a state from moving backwards.

    A platform's retry (a higher attempt) shows as RUNNING; a state of unknown rank
    is passed on as it is.

    >>> clamp(
    ...     JobStatus(state=JobState.RUNNING), JobStatus(state=JobState.QUEUED)
    ... ).state.value
    'RUNNING'
    """
    if last is None or seen.state.rank is None:
        return seen
    if last.state.is_final:
        return last
    rank = last.state.rank
    if rank is not None and seen.state.rank < rank:
        return evolve(seen, state=last.state, attempt=max(last.attempt, seen.attempt))
    return seen
