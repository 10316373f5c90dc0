"""Anyscale's words for where a job stands, and ours."""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from ml_toolkit_core.values import JobState

#: anyscale 0.26.112, ``HaJobStates``. Its own ``JobState`` has no word for waiting.
STATES: Final[Mapping[str, JobState]] = {
    "PENDING": JobState.QUEUED,
    "AWAITING_CLUSTER_START": JobState.STARTING,
    "UPDATING": JobState.RUNNING,
    "RUNNING": JobState.RUNNING,
    "ERRORED": JobState.RUNNING,
    "RESTARTING": JobState.RUNNING,
    "CLEANING_UP": JobState.RUNNING,
    "SUCCESS": JobState.SUCCEEDED,
    "BROKEN": JobState.FAILED,
    "OUT_OF_RETRIES": JobState.FAILED,
    "TERMINATED": JobState.CANCELLED,
}
#: Words of a run that failed and is about to be tried again.
RETRYING: Final = ("ERRORED", "RESTARTING")
#: Words of a job that has not ended.
LIVE: Final = tuple(word for word, state in STATES.items() if not state.is_final)


@frozen(kw_only=True)
class Seen:
    """A job as Anyscale shows it.

    Args:
        job_id: Anyscale's id.
        name: As we named it.
        word: Anyscale's word for its state.
        said: Anyscale's own sentence about it.
        last_run: The id of its last run, if one began.
        created_at: For people.
    """

    job_id: str
    name: str
    word: str
    said: str = ""
    last_run: str | None = None
    created_at: str = ""

    @property
    def state(self) -> JobState:
        """Our word for it; a new word of Anyscale's is no state that we know."""
        return STATES.get(self.word, JobState.UNKNOWN)

    def message(self, retries: int) -> str:
        """Say what a person should know beside the state."""
        words = []
        if self.word in RETRYING:
            words.append(f"run {retries + 1} failed and is tried again")
        elif self.state is JobState.UNKNOWN:
            words.append(f"Anyscale calls it {self.word!r}, which is not known here")
        elif self.state is JobState.STARTING:
            words.append("the cluster is starting")
        if self.said:
            words.append(self.said)
        return "; ".join(words)


def job_name(run_id: str, attempt: int) -> str:
    """Return the name of a job, which tells the submits of a run apart.

    >>> job_name("night", 2), attempt_of("ml-toolkit-night-a2")
    ('ml-toolkit-night-a2', 2)
    """
    return f"ml-toolkit-{run_id}-a{attempt}"


def attempt_of(name: str) -> int:
    """Return which submit of its run a job is; 1 for a name that is not ours."""
    number = name.rpartition("-a")[2]
    return max(1, int(number)) if number.isdecimal() else 1
