"""The contracts: what the core asks of a plugin, and what an answer promises.

A backend is a module or an object whose functions carry ``hookimpl``, named by
an entry point in the group ``ml_toolkit.backends``; the entry point's name is the
``compute_type``. It answers ``resolve_compute``, ``submit`` and ``poll``; for all
other hooks the core has an answer of its own. An implementation may take fewer
arguments than are listed here. No hook answers None.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

import pluggy

from ml_toolkit_core.names import ThreePartName
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import (
    BackendInfo,
    ComputeTarget,
    InferenceRequest,
    JobHandle,
    JobStatus,
    Missing,
    ModelLocation,
    Pinned,
    ReplicaPlan,
    TableLocation,
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
        self, request: InferenceRequest, target: ComputeTarget, pinned: Pinned
    ) -> ReplicaPlan:
        """Place copies of the model on the machines. Starts nothing; the core can.

        Raises:
            RequestError: When the model, or as many copies as asked, cannot fit.
        """

    @hookspec(firstresult=True)
    def submit(self, order: WorkOrder, target: ComputeTarget) -> JobHandle:
        """Start the job: returned means that it exists.

        Raises:
            RequestError: Nothing was started; the same order will fail again.
            PlatformUnavailable: Nothing was started; later it may work.
            SubmitUnknown: The one case in which a job may exist all the same.
        """

    @hookspec(firstresult=True)
    def poll(self, handle: JobHandle) -> JobStatus:
        """Return the platform's state of the job; never wait for a change.

        A platform that is silent, or says a word that is not known, is a status of
        ``UNKNOWN`` with the reason in its message, and no error.

        Raises:
            RequestError: When there is no such job, or nobody may see it.
        """

    @hookspec(firstresult=True)
    def cancel(self, handle: JobHandle) -> JobStatus:
        """End the job; published rows stay. A second call changes nothing.

        Raises:
            RequestError: When there is no such job, or it cannot be ended from here.
        """

    @hookspec(firstresult=True)
    def read_logs(self, handle: JobHandle, tail: int) -> tuple[str, ...]:
        """Return the last ``tail`` lines of the job's log; none when it has none.

        Raises:
            RequestError: When there is no such job, or nobody may see it.
        """

    @hookspec(firstresult=True)
    def find_job(self, run_id: str) -> JobHandle | Missing:
        """Look for the run's newest job on the platform, ended ones included.

        Raises:
            PlatformUnavailable: When it cannot be asked now. ``Missing`` says that
                there is none, or that this platform has no way to look.
        """

    @hookspec(firstresult=True)
    def describe(self) -> BackendInfo:
        """Say what this backend offers and which options it takes."""


class Executor(Protocol):
    """What runs on the far side; named in the group ``ml_toolkit.executors``.

    Attributes:
        NEEDS: The packages that it runs on, by their import names, and what brings
            each, as people type it. Compute_type ``local`` starts no job without them.
    """

    NEEDS: Mapping[str, str]

    def check(self, order: WorkOrder) -> None:
        """Refuse, on the client and in milliseconds, what could not run.

        Raises:
            RequestError: Nothing was started.
        """

    def execute(self, order: WorkOrder) -> None:
        """Run the order to its end; the output and its ledger say what was made.

        Raises:
            RequestError: When it cannot run as it is.
            JobError: When it ended on the way.
        """


class Catalog(Protocol):
    """What a three-part name means; named in the group ``ml_toolkit.catalogs``."""

    def table(
        self, name: ThreePartName, access: Literal["read", "write"]
    ) -> TableLocation:
        """Return where a table lies; one that is written need not be there yet.

        Raises:
            RequestError: When it is not there, or not to be had.
        """

    def model(self, name: ThreePartName) -> ModelLocation:
        """Return where a model lies.

        Raises:
            RequestError: When it is not there, or not to be had.
        """
