"""Runs entrypoints for real: each run is a process group in a folder of its own."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import zipfile
from pathlib import Path

import psutil
from attrs import define, field

from .answers import now
from .nodes import Nodes

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
    nodes: object = None
    admitted: bool = False

    @property
    def ended(self):
        return self.state in FINAL


class Cluster:
    """Where runs happen.

    Args:
        folder: For the runs' folders and logs.
        image: The environment of a run; its ``PATH`` has the image's ``bin`` first.
        uploads: The object store, by URI.
        changed: Called with a job and its new state.
        machines: Called with a job; what Ray nodes to start for it. Without, a run has
            no Ray but one of its own.
    """

    def __init__(self, folder, image, uploads, changed, machines=None):
        self._folder = Path(folder)
        self._image = image
        self._uploads = uploads
        self._changed = changed
        self._machines = machines

    def play(self, job):
        """Run a job to its end; what the cluster itself cannot do is BROKEN."""
        try:
            self._changed(job, "AWAITING_CLUSTER_START")
            if self._machines is not None:
                job.nodes = Nodes(self._machines(job), self._image)
                job.nodes.start()
            end_state = self._play(job)
        except Exception as error:  # noqa: BLE001  a broken cluster is a state too
            end_state = ("BROKEN", f"{type(error).__name__}: {error}")
        finally:
            if job.nodes is not None:
                job.nodes.stop()
        self._changed(job, *end_state)

    def _play(self, job):
        """Run a job with its retries; return how it ended."""
        for left in range(job.config.get("max_retries", 1), -1, -1):
            if job.stop.is_set():
                break
            code = self._run(job)
            if job.stop.is_set():
                break
            if code == 0:
                self._changed(job, "CLEANING_UP")
                return ("SUCCESS",)
            if left:
                self._changed(job, "ERRORED", f"the entrypoint ended with {code}")
                self._changed(job, "RESTARTING")
            else:
                return ("OUT_OF_RETRIES", f"the entrypoint ended with {code}")
        return ("TERMINATED",)

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
                **self._image,
                "HOME": str(home),
                "TMPDIR": str(home),
                **environment.get("env_vars", {}),
                **self._ray(job, environment, cwd),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if job.stop.is_set():  # asked for before there was a process
            end(job.process)
        return job.process

    def _ray(self, job, environment, cwd):
        """Return what Ray's own job supervisor adds for an entrypoint.

        As in Ray 2.60, ``ray.dashboard.modules.job.job_supervisor``: it is an actor
        with the job's runtime environment, and its driver inherits that.
        """
        if job.nodes is None:  # no Ray runs here; a run may start its own
            return {"RAY_ADDRESS": ""}
        runtime_env = {"env_vars": environment.get("env_vars", {})}
        if "working_dir" in environment:  # each node unpacks the upload for itself
            runtime_env["working_dir"] = f"file://{cwd.parent.parent}/upload.zip"
        return {
            **job.nodes.ray_environment,
            "PYTHONPATH": str(cwd),
            "PYTHONUNBUFFERED": "1",
            "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
            "RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(
                {"runtime_env": runtime_env, "metadata": {"job_submission_id": job.id}}
            ),
            "RAY_worker_niceness": "0",
        }

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
