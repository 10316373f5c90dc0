"""Splits of the input and parts of the output: the units of work and publication."""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, Self

import pyarrow as pa
from attrs import field, frozen

from ml_toolkit_core.errors import ToolkitError


class RowFault(enum.StrEnum):
    """Why a row cannot be answered; see the table in docs/input-output.rst."""

    PROMPT_NULL = "prompt_null"
    PROMPT_EMPTY = "prompt_empty"
    PROMPT_WRONG_TYPE = "prompt_wrong_type"
    PROMPT_INVALID = "prompt_invalid"
    PROMPT_TOO_LONG = "prompt_too_long"
    MESSAGES_NULL = "messages_null"
    MESSAGES_EMPTY = "messages_empty"
    MESSAGES_INVALID = "messages_invalid"
    TOOLS_INVALID = "tools_invalid"
    SAMPLING_PARAMS_INVALID = "sampling_params_invalid"
    UNREADABLE = "unreadable"
    REQUEST_REFUSED = "request_refused"
    ENGINE_ERROR = "engine_error"

    @property
    def asked(self) -> bool:
        """Whether the row was given to the model before it failed."""
        return self is RowFault.ENGINE_ERROR


class RowError(ToolkitError):
    """One row cannot be answered; it becomes an error row, never a failed run.

    Args:
        kind: The cause.
        message: A sentence without the row's own text.
    """

    def __init__(self, kind: RowFault, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message

    def __reduce__(self) -> tuple[type[Self], tuple[RowFault, str]]:
        """Pickle by kind and message: replicas live in other processes."""
        return type(self), (self.kind, self.message)


@frozen(kw_only=True)
class Split:
    """A range of rows of one input file, the same on every machine and attempt.

    Args:
        index: The place of this split in the run, from 0.
        file: The place of its file in the pin.
        start: The first row of the file that is in the split.
        stop: The first that is not.
    """

    index: int
    file: int
    start: int
    stop: int


@frozen(kw_only=True)
class SplitRows:
    """The rows of one split.

    Args:
        split: Which.
        batch: The rows; fewer than the range where a deletion mask applies.
        errors: Rows that could not be read as they are, by offset in ``batch``.
    """

    split: Split
    batch: pa.RecordBatch
    errors: Mapping[int, RowError] = field(factory=dict)


@frozen(kw_only=True)
class Tally:
    """Counts that add up.

    >>> (Tally(done=2) + Tally(done=1, failed=1)).done
    3
    """

    done: int = 0
    failed: int = 0
    truncated: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        """Add field by field."""
        return Tally(
            done=self.done + other.done,
            failed=self.failed + other.failed,
            truncated=self.truncated + other.truncated,
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
        )


@frozen(kw_only=True)
class Part:
    """One split of the output, written and not yet, or already, published.

    Args:
        split: The index of the split.
        path: The file, relative to where its sink keeps such files.
        bytes: Its size.
        tally: What its rows count; ``requests`` is 0 in it.
    """

    split: int
    path: str
    bytes: int
    tally: Tally


#: Nothing counted.
ZERO: Final = Tally()


class Source(Protocol):
    """A pinned input, read in order."""

    @property
    def schema(self) -> pa.Schema:
        """The columns as batches carry them; see ``Column.json``."""

    def splits(self, split_rows: int) -> Sequence[Split]:
        """Cut the pinned files into ranges of at most ``split_rows`` rows. Pure."""

    def read(self, splits: Iterable[Split]) -> Iterator[SplitRows]:
        """Stream the rows of ``splits``, which come in order; others are skipped.

        Raises:
            RequestError: When a file is no longer as it was pinned.
        """


class PartWriter(Protocol):
    """Writes parts where replicas run; can be pickled."""

    def write(self, split: Split, rows: pa.Table, tally: Tally) -> Part:
        """Write the rows aside, durably, where no reader sees them yet."""


class Sink(Protocol):
    """The output of one run; the one source of truth for what is done."""

    @property
    def writer(self) -> PartWriter:
        """What replicas write with."""

    def open(self) -> tuple[Part, ...]:
        """Create the output or find this run's own, and return the published parts.

        Raises:
            RequestError: When the output is not this run's.
        """

    def publish(self, parts: Sequence[Part]) -> None:
        """Make parts visible, each whole and once.

        Raises:
            RunFenced: When another driver has published for this run meanwhile;
                nothing of ``parts`` is visible then.
        """

    def complete(self) -> None:
        """Make the output whole, once all parts are published; done before is done.

        Raises:
            RunFenced: When another driver has opened the run meanwhile.
        """

    def list_failed(self) -> str | None:
        """Write the list of failed rows anew from the output.

        Returns:
            Where the list lies, or None when no row failed (a list of an earlier
            attempt is then removed).
        """
