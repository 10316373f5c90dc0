"""Runs entrypoints for real: each run is a process group in a folder of its own."""

import contextlib
import os
import signal
import subprocess
import threading
import zipfile
from pathlib import Path

import psutil
from attrs import define, field

from .answers import now

#: Seconds between asking a run to end and ending it.
GRACE_S = 5.0
FINAL = ("SUCCESS", "OUT_OF_RETRIES", "TERMINATED", "BROKEN")


@define(eq=False)
class Run:
    """One run of a job."""

    id: str
    log: Path
    created_at: str = field(factory=now)
    status: str = "RUNNING"


@define(eq=False)
class Job:
    """A job of the control plane."""

    id: str
    number: int
    name: str
    config: dict
    project_id: str
    tags: dict
    queue: str
    priority: int
    created_at: str = field(factory=now)
    changed_at: str = field(factory=now)
    state: str = "PENDING"
    error: str | None = None
    runs: list = field(factory=list)
    history: list = field(factory=lambda: ["PENDING"])
    stop: threading.Event = field(factory=threading.Event)
    process: object = None
    admitted: bool = False

    @property
    def ended(self):
        return self.state in FINAL


class Cluster:
    """Where runs happen.

    Args:
        folder: For the runs' folders and logs.
        path: ``PATH`` of a run: the image's ``bin`` first.
        uploads: The object store, by URI.
        changed: Called with a job and its new state.
    """

    def __init__(self, folder, path, uploads, changed):
        self._folder = Path(folder)
        self._path = path
        self._uploads = uploads
        self._changed = changed

    def play(self, job):
        """Run a job to its end; what the cluster itself cannot do is BROKEN."""
        try:
            self._play(job)
        except Exception as error:  # noqa: BLE001  a broken cluster is a state too
            self._changed(job, "BROKEN", f"{type(error).__name__}: {error}")

    def _play(self, job):
        """Run a job with its retries."""
        self._changed(job, "AWAITING_CLUSTER_START")
        for left in range(job.config.get("max_retries", 1), -1, -1):
            if job.stop.is_set():
                break
            code = self._run(job)
            if job.stop.is_set():
                break
            if code == 0:
                self._changed(job, "CLEANING_UP")
                self._changed(job, "SUCCESS")
                return
            if left:
                self._changed(job, "ERRORED", f"the entrypoint ended with {code}")
                self._changed(job, "RESTARTING")
            else:
                self._changed(
                    job, "OUT_OF_RETRIES", f"the entrypoint ended with {code}"
                )
                return
        self._changed(job, "TERMINATED")

    def new_run(self, job):
        number = len(job.runs) + 1
        folder = self._folder / job.id / f"run-{number}"
        folder.mkdir(parents=True)
        return Run(id=f"{job.id}_run{number}", log=folder / "driver.log")

    def _run(self, job):
        run = self.new_run(job)
        folder = run.log.parent
        job.runs.append(run)
        environment = job.config.get("runtime_env") or {}
        with run.log.open("wb") as log:
            process = self._start(job, environment, folder, log)
            self._changed(job, "RUNNING")
            code = self._wait(job, process)
        run.status = "SUCCEEDED" if code == 0 else "FAILED"
        return code

    def _start(self, job, environment, folder, log):
        cwd = self._unpack(environment.get("working_dir"), folder)
        home = folder / "home"
        home.mkdir()
        job.process = subprocess.Popen(  # noqa: S602  an entrypoint is a shell command
            job.config["entrypoint"],
            shell=True,
            executable="/bin/bash",
            cwd=cwd,
            env={
                "PATH": self._path,
                "HOME": str(home),
                "LANG": "C.UTF-8",
                "RAY_ADDRESS": "",  # no Ray runs here; a run may start its own
                "TMPDIR": str(home),
                **environment.get("env_vars", {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if job.stop.is_set():  # asked for before there was a process
            end(job.process)
        return job.process

    def _unpack(self, uri, folder):
        """Unpack the upload; Ray takes away its one top folder, as here."""
        work = folder / "work"
        work.mkdir()
        if uri is None:
            return work
        archive = folder / "upload.zip"
        archive.write_bytes(self._uploads[uri])
        with zipfile.ZipFile(archive) as file:
            file.extractall(work)
        (top,) = work.iterdir()
        return top

    def _wait(self, job, process):
        limit = job.config.get("timeout_s")
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            end(process)
            return "a timeout"
        finally:
            if job.stop.is_set():
                end(process)


def end(process):
    """End a process group, gently first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def alive(process):
    """Return the processes of its group that live; a zombie does not."""
    found = []
    for one in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(one.pid) == process.pid:
                found.append(one.info["status"])
    return [status for status in found if status != psutil.STATUS_ZOMBIE]
