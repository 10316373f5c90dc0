"""What runs: a job, where it stands, and what it made."""

import enum
import re
from typing import Self

from attrs import field, frozen
from attrs.validators import ge, matches_re, min_len

from ml_toolkit_core.errors import (
    AllRowsFailed,
    PluginError,
    RequestError,
    ToolkitError,
)
from ml_toolkit_core.values.request import NAME_PATTERN


class JobState(enum.StrEnum):
    """Where a job stands, in rank order; a state never moves backwards."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    """Unreachable, or a word this version does not know; no rank, never final."""

    @property
    def rank(self) -> int | None:
        """The place in the order of a job's life; None for ``UNKNOWN``."""
        return None if self is JobState.UNKNOWN else list(JobState).index(self)

    @property
    def is_waiting(self) -> bool:
        """Whether a job in this state has not begun to run."""
        return self in {JobState.QUEUED, JobState.STARTING}

    @property
    def has_begun(self) -> bool:
        """Whether a job in this state runs, or has run."""
        return self is JobState.RUNNING or self.is_final

    @property
    def is_final(self) -> bool:
        """Whether a job in this state has ended."""
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


@frozen(kw_only=True)
class JobHandle:
    """A job, as text that another process can use.

    >>> str(JobHandle.parse("local://run-7"))
    'local://run-7'
    """

    backend: str = field(validator=matches_re(NAME_PATTERN))
    job_id: str = field(validator=min_len(1))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``backend://job_id``.

        Raises:
            RequestError: When the text is no handle.
        """
        backend, separator, job_id = text.partition("://")
        if not separator or not job_id or not re.fullmatch(NAME_PATTERN, backend):
            raise RequestError(
                f"{text!r} is no job handle; a handle looks like 'local://<run_id>'"
            )
        return cls(backend=backend, job_id=job_id)

    def __str__(self) -> str:
        """Return ``backend://job_id``."""
        return f"{self.backend}://{self.job_id}"


@frozen(kw_only=True)
class Missing:
    """The answer of ``find_job`` when the platform has no such job.

    Args:
        reason: Why there is none, or why nobody can tell.
    """

    reason: str = "no job with this run_id"


@frozen(kw_only=True)
class Progress:
    """How far a run is, as its ledger says.

    Args:
        phase: ``starting``, ``staging``, ``loading``, ``running``, ``finishing`` or
            ``done``.
        rows: Rows of the input.
        done: Rows answered or failed, in this attempt and those before it.
        failed: Rows with an error, of ``done``.
        published: Rows a reader of the output can see.
        requests: Requests given to the engines in this attempt.
        prompt_tokens: Tokens read, of ``done``.
        completion_tokens: Tokens written, of ``done``.
        truncated: Rows with ``finish_reason="length"``, of ``done``.
        rows_per_s: Over the last part of this attempt, or None.
        tokens_per_s: Completion tokens, likewise.
        eta_s: Seconds to the end at this rate, or None.
    """

    phase: str = "starting"
    rows: int = 0
    done: int = 0
    failed: int = 0
    published: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    truncated: int = 0
    rows_per_s: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None


@frozen(kw_only=True)
class JobStatus:
    """What a platform, and then the ledger, says of a job.

    Args:
        state: Where the job stands.
        attempt: Counts submits and the platform's own retries, from 1.
        retries: How many of them the platform made of the last submit.
        message: The platform's words, for people.
        run_id: The job's run, where the platform keeps it.
        ledger_uri: The run's own folder, likewise: so that a machine which did not
            submit the job can attach to it.
        progress: Joined by dispatch; None is "progress unknown".
    """

    state: JobState
    attempt: int = field(default=1, validator=ge(1))
    retries: int = field(default=0, validator=ge(0))
    message: str = ""
    run_id: str | None = None
    ledger_uri: str | None = None
    progress: Progress | None = None


@frozen(kw_only=True)
class RunResult:
    """What a finished run made; read from its ledger, not from the table.

    Args:
        output: Where the rows lie.
        errors: Where the failed rows are listed, or None when there are none.
        rows: Rows of the output, which are the rows of the input.
        failed: Rows with an error.
        truncated: Rows cut off at ``max_tokens``.
        seconds: Wall time of the last attempt.
    """

    output: str
    errors: str | None
    rows: int
    failed: int
    truncated: int
    prompt_tokens: int
    completion_tokens: int
    requests: int
    attempt: int
    seconds: float


@frozen(kw_only=True)
class Outcome:
    """How a worker ended, in its own words.

    Args:
        state: ``SUCCEEDED`` or ``FAILED``.
        reason: Why it failed, for people.
        resumable: Whether the same ``run_id`` again goes on from here.
        result: What was made, when it succeeded.
    """

    state: JobState
    reason: str = ""
    resumable: bool = True
    result: RunResult | None = None

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Return how a run ended that ended in ``error``."""
        known = isinstance(error, ToolkitError)
        return cls(
            state=JobState.FAILED,
            reason=str(error) if known else f"{type(error).__name__}: {error}",
            resumable=not isinstance(error, RequestError | PluginError | AllRowsFailed),
        )


@frozen(kw_only=True)
class LedgerState:
    """What a run's ledger says.

    Args:
        attempt: The attempt that wrote it.
        progress: How far that attempt is.
        updated_at: When it was written, in seconds since 1970, UTC.
        outcome: How it ended, or None while it runs.
    """

    attempt: int
    progress: Progress
    updated_at: float
    outcome: Outcome | None = None
