"""Jobs that run, cost money, and that nobody here follows."""

from attrs import frozen

from ml_toolkit_anyscale import backend
from ml_toolkit_anyscale.faults import Refused
from ml_toolkit_anyscale.messages import error_of
from ml_toolkit_core import records
from ml_toolkit_core.values import JobHandle, JobState


@frozen(kw_only=True)
class Orphan:
    """A job of ours that runs, and that this machine does not remember.

    Args:
        handle: For ``attach``.
        name: At Anyscale.
        state: Where it stands.
        created_at: As Anyscale says it.
    """

    handle: JobHandle
    name: str
    state: JobState
    created_at: str


def find_orphans() -> tuple[Orphan, ...]:
    """Return the jobs of ml-toolkit that run and that this machine does not remember.

    They are followed from elsewhere, or by nobody.

    Raises:
        RequestError: When Anyscale cannot be asked.
    """
    jobs = backend.connect()
    try:
        found = jobs.find(backend.MADE_BY, backend.US, live=True)
    except Refused as refused:
        fault = refused.fault
    else:
        orphans = [
            Orphan(
                handle=JobHandle(backend=backend.NAME, job_id=seen.job_id),
                name=seen.name,
                state=seen.state,
                created_at=seen.created_at,
            )
            for seen in found
        ]
        return tuple(o for o in orphans if records.find(o.handle) is None)
    raise error_of(fault, jobs.host)
