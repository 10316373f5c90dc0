"""compute_type "anyscale": plans on paper, and runs jobs through the SDK."""

import logging
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import evolve

from ml_toolkit_anyscale import catalog, options
from ml_toolkit_anyscale.account import Account
from ml_toolkit_anyscale.faults import Fault, Kind, Refused
from ml_toolkit_anyscale.messages import error_of, sentence
from ml_toolkit_anyscale.parcel import Parcel
from ml_toolkit_anyscale.registered import check_registered
from ml_toolkit_anyscale.sitefile import load_site
from ml_toolkit_anyscale.states import attempt_of, job_name
from ml_toolkit_anyscale.submission import RUN_ID, submit_once
from ml_toolkit_core.bundle import COMMAND, bundle
from ml_toolkit_core.errors import MissingExtra, RequestError, Unreachable
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import (
    BackendInfo,
    ComputeTarget,
    InferenceRequest,
    JobHandle,
    JobState,
    JobStatus,
    Missing,
    ReplicaPlan,
)

if TYPE_CHECKING:
    from ml_toolkit_anyscale.jobs import Jobs

log = logging.getLogger(__name__)

NAME: Final = "anyscale"
#: Tags beside the labels: what a machine that did not submit needs to attach.
LEDGER_URI: Final = "ledger_uri"
MADE_BY: Final = "made_by"
US: Final = "ml-toolkit"
#: A driver joins the cluster's Ray and starts none of its own. A value that is set
#: stands, an empty one too.
ENTRYPOINT: Final = f'RAY_ADDRESS="${{RAY_ADDRESS-auto}}" {COMMAND}'
#: Longer ledger URIs do not travel as a tag; no limit is documented, 256 is usual.
_TAG_CHARS: Final = 256

#: Tags of jobs that were seen; a job's own never change.
_seen_tags: dict[str, dict[str, str]] = {}


@hookimpl
def describe() -> BackendInfo:
    """Say what the catalog holds, the site's own entries included."""
    known = catalog.known_shapes(load_site().shapes)
    return BackendInfo(
        doc="Anyscale Jobs, on the compute configs that the platform team registered.",
        gpu_types=catalog.gpu_types(known),
        shapes=tuple(known),
        options=options.OPTIONS,
    )


@hookimpl
def resolve_compute(request: InferenceRequest) -> ComputeTarget:
    """Choose compute config, queue and priority."""
    return options.resolve_target(request, load_site())


@hookimpl(wrapper=True)
def plan_replicas(
    target: ComputeTarget,
) -> Generator[None, ReplicaPlan, ReplicaPlan]:
    """Leave it to the core; for machines that nobody here knows, to the far side."""
    plan = yield
    if not options.is_unknown(target):
        return plan
    return ReplicaPlan(
        replicas=1,
        on_far_side=True,
        reasons=(
            f"replicas are planned on {target.name!r}, from what Ray finds there",
        ),
    )


@hookimpl
def submit(order: WorkOrder, target: ComputeTarget) -> JobHandle:
    """Send our own packages and the order, and make one job."""
    if target.options.get("image_uri") is None:
        raise RequestError(
            f"a job on Anyscale needs an image: {options.missing_image()}"
        )
    jobs = connect()
    _check_registered(jobs, target)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / US  # its name is in the upload: always the same
        bundle(order, folder)
        parcel = _parcel(order, target, folder)
        job_id = submit_once(
            jobs,
            lambda: jobs.create(parcel),
            run_id=order.run_id,
            name=parcel.name,
        )
    _seen_tags[job_id] = parcel.tags
    log.info(
        "submitted run_id=%s attempt=%d job_id=%s compute_config=%s tags=%s",
        *(order.run_id, order.attempt, job_id, parcel.compute_config, parcel.tags),
    )
    for note in target.notes:
        log.info("run_id=%s %s", order.run_id, note)
    return JobHandle(backend=NAME, job_id=job_id)


@hookimpl
def poll(handle: JobHandle) -> JobStatus:
    """Ask once; a platform that does not answer is no error, but UNKNOWN."""
    jobs = connect()
    try:
        return _status(jobs, handle)
    except Refused as refused:
        fault = refused.fault
    if fault.kind is Kind.AUTH:  # a token can be refused once by mistake
        try:
            return _status(jobs, handle)
        except Refused as refused:
            fault = refused.fault
    return _unseen(fault, jobs.host, handle)


@hookimpl
def cancel(handle: JobHandle) -> JobStatus:
    """Ask Anyscale to end the job; that takes it a while."""
    jobs = connect()
    try:
        status = _status(jobs, handle)
        if status.state.is_final:
            return status
        jobs.terminate(handle.job_id)
        status = _status(jobs, handle)
    except Refused as refused:
        fault = refused.fault
    else:
        asked = "Anyscale was asked to end it"
        said = f"{asked}; {status.message}" if status.message else asked
        return status if status.state.is_final else evolve(status, message=said)
    raise Unreachable(
        f"{handle}: {sentence(fault, jobs.host)}. The job may go on",
        handle=handle,
    )


@hookimpl
def read_logs(handle: JobHandle, tail: int) -> tuple[str, ...]:
    """Return the end of the last run's log."""
    jobs = connect()
    try:
        seen = jobs.see(handle.job_id)
        if seen is None:
            raise _no_such(handle, jobs.host)
        if seen.last_run is None:
            return (f"no run has begun; Anyscale calls the job {seen.word}",)
        return jobs.logs(seen.last_run, tail)
    except Refused as refused:
        fault = refused.fault
    return (f"no log: {sentence(fault, jobs.host)}",)


@hookimpl
def find_job(run_id: str) -> JobHandle | Missing:
    """Look for the newest job with the run's tag, whoever made it."""
    jobs = connect()
    try:
        found = jobs.find(RUN_ID, run_id)
    except Refused as refused:
        fault = refused.fault
    else:
        if not found:
            return Missing()
        return JobHandle(backend=NAME, job_id=found[0].job_id)
    raise error_of(fault, jobs.host)


def connect() -> "Jobs":
    """Import the SDK, which takes seconds, when it is first needed.

    Raises:
        MissingExtra: When it is not installed.
        RequestError: When there is no token.
    """
    try:
        from ml_toolkit_anyscale import jobs  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ml_toolkit"):
            raise
        raise MissingExtra(
            f"running on Anyscale needs {error.name!r}, which is not installed; "
            "pip install 'ml-toolkit-anyscale[jobs]'. Plans need no SDK: dry_run=True"
        ) from error
    return jobs.Jobs(Account.here())


def _check_registered(jobs: "Jobs", target: ComputeTarget) -> None:
    given = target.options
    shape = catalog.known_shapes(load_site().shapes).get(target.name)
    taken_as_it_is = given["raw_compute_config"] or given["job_queue"]
    if shape is None or taken_as_it_is:
        return
    try:
        found = jobs.registered(target.name, given["cloud"])
    except Refused:  # the submit will meet the same, and say it
        return
    if found is not None:
        check_registered(shape, found)


def _parcel(order: WorkOrder, target: ComputeTarget, folder: Path) -> Parcel:
    given = target.options
    tags = {
        **given["tags"],
        **target.labels,
        RUN_ID: order.run_id,
        MADE_BY: US,
    }
    if len(order.ledger_uri) <= _TAG_CHARS:
        tags[LEDGER_URI] = order.ledger_uri
    return Parcel(
        name=job_name(order.run_id, order.attempt),
        entrypoint=ENTRYPOINT,
        folder=folder,
        tags=tags,
        **{
            name: given[name]
            for name in (
                *("compute_config", "image_uri", "max_retries", "timeout_s"),
                *("priority", "job_queue", "cloud", "project"),
            )
        },
    )


def _status(jobs: "Jobs", handle: JobHandle) -> JobStatus:
    seen = jobs.see(handle.job_id)
    if seen is None:
        raise _no_such(handle, jobs.host)
    runs = jobs.count_runs(handle.job_id) if seen.last_run else 0
    retries = max(0, runs - 1)
    tags = _tags(jobs, handle.job_id)
    return JobStatus(
        state=seen.state,
        attempt=attempt_of(seen.name) + retries,
        retries=retries,
        message=seen.message(retries),
        run_id=tags.get(RUN_ID),
        ledger_uri=tags.get(LEDGER_URI),
    )


def _tags(jobs: "Jobs", job_id: str) -> dict[str, str]:
    if job_id not in _seen_tags:
        try:
            _seen_tags[job_id] = jobs.tags(job_id)
        except Refused:  # the state is known, and the next poll asks again
            return {}
    return _seen_tags[job_id]


def _unseen(fault: Fault, host: str, handle: JobHandle) -> JobStatus:
    text = sentence(fault, host)
    if fault.passes:
        return JobStatus(state=JobState.UNKNOWN, message=text)
    raise Unreachable(
        f"{handle}: {text}. The job may go on",
        handle=handle,
    )


def _no_such(handle: JobHandle, host: str) -> RequestError:
    return RequestError(
        f"{str(handle)!r}: Anyscale at {host} knows no such job, or this token may not "
        "see it; handles look like 'anyscale://prodjob_...'"
    )
