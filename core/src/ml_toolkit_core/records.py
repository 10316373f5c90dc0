"""What this machine remembers of a job, so that another process can attach."""

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from attrs import frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.paths import home, make_private_folder
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.values import JobHandle
from ml_toolkit_core.wire import Json, from_json, to_json

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class JobRecord:
    """One line of memory for each job.

    Args:
        handle: As text.
        run_id: The job's run.
        ledger_uri: Where its ledger lies.
        output: Where its rows go.
        identity: What its run is, by part.
    """

    handle: str
    run_id: str
    ledger_uri: str
    output: str
    identity: Mapping[str, Json]


def save(handle: JobHandle, plan: InferencePlan) -> JobRecord:
    """Remember a job."""
    record = JobRecord(
        handle=str(handle),
        run_id=plan.run_id,
        ledger_uri=plan.ledger_uri,
        output=plan.pinned.output.uri,
        identity=to_json(plan.order(attempt=1).identity),
    )
    write_json(_path(handle), to_json(record))
    return record


def find(handle: JobHandle) -> JobRecord | None:
    """Return what is remembered, or None on a machine that did not submit the job."""
    path = _path(handle)
    return _read(path, log.warning) if path.exists() else None


def jobs(*, left_out: Callable[[str], None] = log.info) -> tuple[JobRecord, ...]:
    """Return all jobs that are remembered, the newest last.

    Args:
        left_out: Gets a sentence for each record that cannot be read.
    """
    files = (home() / "jobs").glob("*/*.json")
    by_time = sorted(files, key=lambda file: file.stat().st_mtime_ns)
    found = (_read(file, left_out) for file in by_time)
    return tuple(record for record in found if record is not None)


def _read(path: Path, left_out: Callable[[str], None]) -> JobRecord | None:
    try:
        record = from_json(JobRecord, json.loads(path.read_text(encoding="utf-8")))
        JobHandle.parse(record.handle)
    except (OSError, ValueError, RequestError) as error:
        left_out(f"the record {str(path)!r} is left out: {error}")
        return None
    return record


def write_json(path: Path, data: object) -> None:
    """Replace a small JSON file as a whole."""
    make_private_folder(path.parent)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, delete=False
    ) as file:
        json.dump(data, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).replace(path)


def read_json(path: Path) -> object | None:
    """Read such a file; None when it is not there or not whole."""
    try:
        data: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data


def _path(handle: JobHandle) -> Path:
    return home() / "jobs" / handle.backend / f"{quote(handle.job_id, safe='')}.json"
