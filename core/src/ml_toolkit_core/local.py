"""compute_type "local": jobs as process groups of this machine.

A worker holds a lock for as long as it lives. So any process can tell a running job
from one that was killed, and no process number is ever trusted on its own.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from attrs import evolve

from ml_toolkit_core import discovery, machine
from ml_toolkit_core.dispatch import load_executor
from ml_toolkit_core.errors import MissingExtra, RequestError
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.identity import differences
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.paths import (
    home,
    make_private_folder,
    obstacle_to_writing,
    open_private,
    run_folder,
)
from ml_toolkit_core.records import read_json
from ml_toolkit_core.runlock import hold, is_live, is_running
from ml_toolkit_core.values import (
    RUN_ID_PATTERN,
    BackendInfo,
    ComputeTarget,
    InferenceRequest,
    JobHandle,
    JobState,
    JobStatus,
    Missing,
    Outcome,
)
from ml_toolkit_core.wire import from_json

NAME: Final = "local"
_PID_FILE: Final = "worker.json"
#: Seconds that a cancelled worker gets to end by itself.
_GRACE_S: Final = 10.0


@hookimpl
def describe() -> BackendInfo:
    """Say what this machine has."""
    gpus = machine.gpus()
    cores = machine.cores()
    shape = f"{cores} CPU cores, {len(gpus)} GPUs"
    return BackendInfo(
        doc="This machine; the job outlives the caller.",
        gpu_types=tuple(sorted(set(gpus))),
        shapes=(shape,),
    )


@hookimpl
def resolve_compute(request: InferenceRequest) -> ComputeTarget:
    """Take this machine, if it has what is asked for."""
    _check_home()
    gpus = machine.gpus()
    cores = machine.cores()
    wrong_type = request.gpu_type is not None and not any(
        request.gpu_type.strip().lower() in gpu.lower() for gpu in gpus
    )
    if wrong_type or (request.num_gpus or 0) > len(gpus):
        others = [name for name in discovery.found(discovery.BACKENDS) if name != NAME]
        have = f"{len(gpus)} x {gpus[0]}" if gpus else "no GPU"
        raise RequestError(
            f"gpu_type={request.gpu_type!r}, num_gpus={request.num_gpus!r}: this "
            f"machine has {have} and {cores} CPU cores. Leave both out to use it as it "
            f"is, or pass another compute_type: {', '.join(map(repr, others))}"
        )
    used = len(gpus) if request.num_gpus is None else request.num_gpus
    return ComputeTarget(
        name="this machine",
        gpu_nodes=1,
        gpus_per_node=used,
        gpu_type=gpus[0] if used else None,
        cpus_per_node=cores,
    )


@hookimpl
def submit(order: WorkOrder) -> JobHandle:
    """Start a worker in a process group of its own, and return at once.

    Raises:
        RequestError: When this run's job lives already and is another one.
    """
    handle = JobHandle(backend=NAME, job_id=order.run_id)
    _check_output(order)
    _check_engine(order.executor)
    with hold(order.run_id) as lock:
        last = _last_attempt(order.run_id)
        # This run is being submitted just now, or its worker lives.
        if lock is None or (last and is_live(last / _PID_FILE)):
            _check_same(order, last)
            return handle
        # Under the lock: nobody can have begun an attempt since it was counted.
        number = max(order.attempt, 1 + (_number(last) if last else 0))
        order = evolve(order, attempt=number)
        folder = run_folder(order.run_id) / f"attempt-{number:04d}"
        make_private_folder(folder)
        order_file = folder / "order.json"
        with open(order_file, "w", encoding="utf-8", opener=open_private) as file:
            file.write(order.dumps())
        lock.is_handed_down = True
        with open(folder / "worker.log", "ab", opener=open_private) as log:
            worker = subprocess.Popen(  # noqa: S603  our own interpreter and module
                [
                    *(sys.executable, "-P", "-m", "ml_toolkit_core.worker"),
                    *(str(order_file), "--outcome", str(folder / "outcome.json")),
                    *("--pid-file", str(folder / _PID_FILE)),
                    *("--submit-lock", str(lock.descriptor)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                pass_fds=(lock.descriptor,),
            )
        _children[worker.pid] = worker
    return handle


@hookimpl
def poll(handle: JobHandle) -> JobStatus:
    """Tell a running worker, an ended one and a killed one apart."""
    folder, attempt = _attempt(handle)
    _reap()
    if is_running(handle.job_id, folder / _PID_FILE):
        return JobStatus(state=JobState.RUNNING, attempt=attempt)
    data = read_json(folder / "outcome.json")
    if data is not None:
        outcome = from_json(Outcome, data)
        return JobStatus(state=outcome.state, attempt=attempt, message=outcome.reason)
    if (folder / "cancelled").exists():
        return JobStatus(
            state=JobState.CANCELLED, attempt=attempt, message="cancelled by the user"
        )
    return JobStatus(
        state=JobState.FAILED,
        attempt=attempt,
        message=f"the worker ended without a word: killed, or out of memory. Its log "
        f"is {str(folder / 'worker.log')!r}",
    )


@hookimpl
def cancel(handle: JobHandle) -> JobStatus:
    """End the worker's process group, gently first."""
    folder, _ = _attempt(handle)
    if is_running(handle.job_id, folder / _PID_FILE):
        (folder / "cancelled").touch()
        _end(handle.job_id, folder)
        if is_running(handle.job_id, folder / _PID_FILE):
            raise RequestError(
                f"{handle} does not end: its worker hears no signal. Its process "
                f"number is in {str(folder / 'worker.json')!r}"
            )
    return poll(handle)


@hookimpl
def read_logs(handle: JobHandle, tail: int) -> tuple[str, ...]:
    """Return the end of the worker's log."""
    folder, _ = _attempt(handle)
    try:
        with (folder / "worker.log").open(encoding="utf-8", errors="replace") as log:
            return tuple(line.rstrip("\n") for line in deque(log, maxlen=tail))
    except FileNotFoundError:
        return ()


@hookimpl
def find_job(run_id: str) -> JobHandle | Missing:
    """Look for the run's folder on this machine."""
    if not any(run_folder(run_id).glob("attempt-*")):
        return Missing()
    return JobHandle(backend=NAME, job_id=run_id)


#: Workers that this process started: an ended child stays a zombie until it is asked.
_children: dict[int, subprocess.Popen[bytes]] = {}


def _reap() -> None:
    for pid, worker in list(_children.items()):
        if worker.poll() is not None:
            del _children[pid]


def _last_attempt(run_id: str) -> Path | None:
    """Return the folder of a run's last attempt on this machine."""
    return max(run_folder(run_id).glob("attempt-*"), default=None)


def _number(attempt: Path) -> int:
    return int(attempt.name.removeprefix("attempt-"))


def _check_same(order: WorkOrder, attempt: Path | None) -> None:
    """Refuse to join a job that answers another request.

    Raises:
        RequestError: Naming the difference.
    """
    if attempt is None or not (attempt / "order.json").exists():
        return
    running = WorkOrder.load(attempt / "order.json")
    changed = differences(order.identity, running.identity)
    if changed:
        raise RequestError(
            f"run_id={order.run_id!r} runs already, for another request: "
            f"{'; '.join(changed)}. Pass another run_id"
        )


def _attempt(handle: JobHandle) -> tuple[Path, int]:
    """Return the folder of the last attempt, and its number."""
    known = re.fullmatch(RUN_ID_PATTERN, handle.job_id)
    folder = _last_attempt(handle.job_id) if known else None
    if folder is None:
        raise RequestError(
            f"{str(handle)!r}: this machine knows no such job; jobs of compute_type "
            "'local' can be followed on the machine that runs them, under the same "
            "ML_TOOLKIT_HOME"
        )
    return folder, _number(folder)


def _end(run_id: str, folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        told = False
        deadline = time.monotonic() + _GRACE_S
        while is_running(run_id, folder / _PID_FILE) and time.monotonic() < deadline:
            # A worker that has only just begun says its number in a moment.
            record = read_json(folder / _PID_FILE)
            pid = record.get("pid") if isinstance(record, dict) else None
            # Its own lock says that it lives, so its process group is still its own.
            if isinstance(pid, int) and not told and is_live(folder / _PID_FILE):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, number)
                told = True
            _reap()
            time.sleep(0.02)


def _check_home() -> None:
    """Refuse a home that cannot be written, before anything is started."""
    there = obstacle_to_writing(home())
    if there is not None:
        raise RequestError(
            f"ML_TOOLKIT_HOME={str(home())!r} cannot be written ({str(there)!r}); set "
            "it to a folder of yours"
        )


def _check_engine(name: str) -> None:
    """Refuse an executor whose packages are not here: the worker is this Python.

    Raises:
        MissingExtra: Naming the first package, and what brings it.
    """
    for package, brings_it in load_executor(name).NEEDS.items():
        if find_spec(package) is None:
            raise MissingExtra(
                f"executor={name!r} needs {package!r} on this machine, which is not "
                f"installed; {brings_it}, or pass another compute_type"
            )


def _check_output(order: WorkOrder) -> None:
    """Refuse an output that this user cannot write to, before anything is started."""
    places = {order.output.uri: "", order.ledger_uri: "the ledger of "}
    for uri, what in places.items():
        is_file = os.path.isfile(uri)  # noqa: PTH113  Path.is_file can raise
        there = obstacle_to_writing(Path(uri).parent if is_file else Path(uri))
        if "://" not in uri and there is not None:
            why = "is not yours to write to" if there.is_dir() else "is no folder"
            raise RequestError(
                f"{what}output_table={order.output.name!r} cannot be written: "
                f"{str(there)!r} {why}; choose another output_table"
            )
