"""The contract of a backend: what the core asks, and what an answer promises.

A backend is a module or an object whose functions carry ``hookimpl``, named by
an entry point in the group ``ml_toolkit.backends``; the entry point's name is the
``compute_type``. It answers ``resolve_compute``, ``submit`` and ``poll``; for all
other hooks the core has an answer of its own. An implementation may take fewer
arguments than are listed here. No hook answers None.
"""

from typing import Protocol

import pluggy

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import (
    BackendInfo,
    ComputeTarget,
    InferenceRequest,
    JobHandle,
    JobStatus,
    Missing,
    ReplicaPlan,
)

hookspec = pluggy.HookspecMarker("ml_toolkit")
hookimpl = pluggy.HookimplMarker("ml_toolkit")


class BackendHooks(Protocol):
    """What a backend can answer."""

    @hookspec(firstresult=True)
    def resolve_compute(self, request: InferenceRequest) -> ComputeTarget:
        """Choose the machines. Pure: no network, nothing is started.

        Raises:
            RequestError: When this backend has no such machines, with those it has.
        """

    @hookspec(firstresult=True)
    def plan_replicas(
        self, request: InferenceRequest, target: ComputeTarget
    ) -> ReplicaPlan:
        """Place copies of the model on the machines. Pure; the core can do it."""

    @hookspec(firstresult=True)
    def submit(self, order: WorkOrder, target: ComputeTarget) -> JobHandle:
        """Start the job: returned means that it exists.

        Raises:
            RequestError: Nothing was started; the same order will fail again.
            SubmitUnknown: The one case in which a job may exist all the same.
        """

    @hookspec(firstresult=True)
    def poll(self, handle: JobHandle) -> JobStatus:
        """Return the platform's state of the job; never wait for a change."""

    @hookspec(firstresult=True)
    def cancel(self, handle: JobHandle) -> JobStatus:
        """End the job; published rows stay. A second call changes nothing."""

    @hookspec(firstresult=True)
    def read_logs(self, handle: JobHandle, tail: int) -> tuple[str, ...]:
        """Return the last ``tail`` lines of the job's log."""

    @hookspec(firstresult=True)
    def find_job(self, run_id: str) -> JobHandle | Missing:
        """Look for a job of this run on the platform, ended ones included."""

    @hookspec(firstresult=True)
    def describe(self) -> BackendInfo:
        """Say what this backend offers and which options it takes."""
