"""A job's progress, followed and shown."""

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final, TextIO

from attrs import evolve

from ml_toolkit_core import records
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.values import JobStatus, Progress

#: What ``progress`` takes.
ProgressOption = bool | Callable[[JobStatus], None] | None

#: Seconds between two lines that tell of nothing but numbers, and of nothing new
#: while a job waits: a queue can be hours long.
_EVERY_S: Final = 5.0
_WAITING_EVERY_S: Final = 60.0


def note_lines(plan: InferencePlan) -> list[str]:
    """Return the lines that tell what is to be known of a run's tables."""
    return [f"note {note}" for note in plan.pinned.notes]


def follow(
    job: InferenceJob,
    *,
    unreachable_after_s: float,
    timeout_s: float | None = None,
    start_timeout_s: float | None = None,
    progress: ProgressOption = None,
) -> InferenceJob:
    """Wait for a job and show its progress.

    Args:
        job: The job.
        unreachable_after_s: As in ``InferenceJob.wait``.
        timeout_s: As in ``InferenceJob.wait``.
        start_timeout_s: As in ``InferenceJob.wait``.
        progress: None or True for a moving line on a terminal and plain lines
            elsewhere, False for silence, or a function that gets every status.
    """
    show: Callable[[JobStatus], None] | None
    close = _nothing
    if progress is False or (sys.stderr is None and not callable(progress)):
        show = None
    elif callable(progress):
        show = progress
    elif sys.stderr.isatty():
        # By name: a program that shows nothing does not load rich.
        display = import_module(f"{__package__}._display").Display(job)
        show, close = display, display.close
    else:
        show = progress_lines(job)
    try:
        return job.wait(
            timeout_s=timeout_s,
            start_timeout_s=start_timeout_s,
            unreachable_after_s=unreachable_after_s,
            progress=show,
        )
    finally:
        close()


def _nothing() -> None:
    pass


def progress_lines(
    job: InferenceJob,
    *,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[JobStatus], None]:
    """Return a function that prints a line when something is worth one.

    Args:
        job: Its run and handle are named in the first line.
        stream: stderr when None.
        clock: Seconds, never going back.
    """
    out = sys.stderr if stream is None else stream
    begin = clock()
    seen: tuple[object, ...] = ()
    last = begin - _EVERY_S
    waiting = False
    out.write(f"{headline(job)}\n")
    out.flush()

    def show(status: JobStatus) -> None:
        nonlocal seen, last, waiting
        now = clock()
        phase = status.progress.phase if status.progress else None
        key = (status.state, status.attempt, phase, reason(status) == "")
        every = _WAITING_EVERY_S if status.state.is_waiting else _EVERY_S
        if key == seen and now - last < every:
            return
        seen, last = key, now
        words = describe(status)
        if status.state.is_waiting:
            waiting, words = True, f"{job.handle} {status.state}"
        elif waiting and status.state.rank is not None:
            waiting, words = False, f"{words}, waited {_time(now - begin)}"
        out.write(f"[{_time(now - begin)}] {words}{reason(status)}\n")
        out.flush()

    return show


def headline(job: InferenceJob) -> str:
    """Name a job, and its run where the handle does not: a resume asks for it."""
    record = records.find(job.handle)
    if record is None or record.run_id == job.handle.job_id:
        return f"job {job.handle}"
    return f"job {job.handle} run_id={record.run_id}"


def describe(status: JobStatus) -> str:
    """Say a status in one line.

    >>> from ml_toolkit_core.values import JobState
    >>> describe(JobStatus(state=JobState.QUEUED))
    'QUEUED, progress unknown'
    """
    words = [str(status.state)]
    if status.attempt > 1:
        words.append(f"attempt {status.attempt}")
    progress = status.progress
    if progress is None:
        words.append("progress unknown")
    else:
        if status.state.is_final:  # the last rates are nobody's any more
            progress = evolve(progress, rows_per_s=None, tokens_per_s=None, eta_s=None)
        words += [progress.phase, *numbers(progress)]
    return ", ".join(words)


def reason(status: JobStatus) -> str:
    """Say why a job does not run, in the platform's words; nothing when it does.

    >>> from ml_toolkit_core.values import JobState
    >>> reason(JobStatus(state=JobState.QUEUED, message="no machine is free"))
    ': no machine is free'
    """
    asks = status.state.is_waiting or status.state.rank is None
    return f": {status.message}" if asks and status.message else ""


def numbers(progress: Progress) -> list[str]:
    """Say how far a run is, a few words each."""
    if progress.phase in {"starting", "staging", "loading"}:
        return [f"{progress.rows:,} rows"]
    words = [f"{progress.done:,}/{progress.rows:,} rows"]
    words.append(f"{progress.published:,} published")
    if progress.failed:
        words.append(f"{progress.failed:,} failed")
    if progress.rows_per_s is not None:
        words.append(f"{progress.rows_per_s:,.1f} rows/s")
    if progress.tokens_per_s is not None:
        words.append(f"{progress.tokens_per_s:,.0f} tokens/s")
    if progress.eta_s is not None:
        words.append(f"ETA {_time(progress.eta_s)}")
    return words


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
