"""What this machine remembers of a job, so that another process can attach."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from attrs import frozen

from ml_toolkit_core.paths import home
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.values import JobHandle
from ml_toolkit_core.wire import Json, from_json, to_json


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
    data = read_json(_path(handle))
    return None if data is None else from_json(JobRecord, data)


def jobs() -> tuple[JobRecord, ...]:
    """Return all jobs that are remembered, the newest last."""
    files = (home() / "jobs").glob("*/*.json")
    by_time = sorted(files, key=lambda file: file.stat().st_mtime_ns)
    data = [read_json(file) for file in by_time]
    return tuple(from_json(JobRecord, item) for item in data if item is not None)


def write_json(path: Path, data: object) -> None:
    """Replace a small JSON file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
