"""Submit exactly once: no second request before the first is known to have made none.

Anyscale has no idempotency keys. Every job carries its run's id as a tag, and after a
lost reply that tag is looked up.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from ml_toolkit_anyscale.faults import Fate, Fault, Refused
from ml_toolkit_anyscale.messages import error_of, sentence
from ml_toolkit_anyscale.states import Seen
from ml_toolkit_core.errors import SubmitUnknown

log = logging.getLogger(__name__)

#: The tag that carries the run's id.
RUN_ID: Final = "run_id"
#: Seconds before the second, third and fourth request for a job.
_PAUSES_S: Final = (1.0, 4.0, 15.0)
#: Seconds before each look for a job in doubt; a list may lag behind.
_LOOKS_S: Final = (0.0, 1.0, 3.0)
#: Likewise when the server may still be making it.
_LONG_LOOKS_S: Final = (*_LOOKS_S, 10.0, 30.0)
#: The longest that one wait for a rate limit may be.
_PATIENCE_S: Final = 60.0


class Platform(Protocol):
    """The part of :class:`.jobs.Jobs` that submitting needs."""

    host: str

    def find(self, key: str, value: str) -> tuple[Seen, ...]:
        """Return the jobs with a tag."""


def submit_once(
    platform: Platform,
    create: Callable[[], str],
    *,
    run_id: str,
    name: str,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Make one job and return its id.

    Args:
        platform: Where to look for it.
        create: Asks for the job; its tags hold ``run_id``.
        run_id: The run.
        name: The job's name, which tells the submits of the run apart.
        sleep: Waits for seconds.

    Raises:
        RequestError: There is no job; the same request will fail again.
        PlatformUnavailable: There is no job; the same request may work later.
        SubmitUnknown: There may be a job; nobody can tell now.
    """
    in_doubt = False
    for pause in (*_PAUSES_S, None):
        try:
            return create()
        except Refused as refused:
            fault = refused.fault
        in_doubt = in_doubt or fault.fate is not Fate.NOT_MADE
        log.info(
            "submit failed run_id=%s kind=%s status=%s fate=%s",
            *(run_id, fault.kind, fault.status, fault.fate),
        )
        if in_doubt:
            found = _look(platform, run_id, name, fault, sleep)
            if found is not None:
                return found
        if pause is None or not fault.passes:
            break
        sleep(min(max(pause, fault.retry_after_s or 0.0), _PATIENCE_S))
    raise error_of(fault, platform.host)


def _look(
    platform: Platform,
    run_id: str,
    name: str,
    fault: Fault,
    sleep: Callable[[float], None],
) -> str | None:
    """Return the job in doubt, or None when there surely is none."""
    pending = fault.fate is Fate.PENDING
    clear = False
    why = ""
    for pause in _LONG_LOOKS_S if pending else _LOOKS_S:
        sleep(pause)
        try:
            jobs = platform.find(RUN_ID, run_id)
        except Refused as refused:
            clear, why = False, sentence(refused.fault, platform.host)
            continue
        found = next((job.job_id for job in jobs if job.name == name), None)
        if found is not None:
            log.info("submit found run_id=%s job_id=%s", run_id, found)
            return found
        clear = True
    if clear and not pending:
        return None
    why = why or "The server took too long and may still be making it"
    raise SubmitUnknown(
        run_id,
        f"{why}. Look for a job with the tag {RUN_ID}={run_id} under "
        f"{platform.host}/jobs; the same call with run_id={run_id!r} looks there first "
        "and follows it if it is there",
    )
