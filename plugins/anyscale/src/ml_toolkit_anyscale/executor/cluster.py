"""The Ray that replicas run on: one of the run's own, or a cluster that is there."""

import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any, Final, Protocol

import ray
from attrs import define, field
from ray.exceptions import AuthenticationError

from ml_toolkit_anyscale.executor.settings import (
    ADDRESS,
    RAY_ENVIRONMENT,
    replica_cores,
)
from ml_toolkit_core.defaults import replica_plan
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.planning.fit import plan_for
from ml_toolkit_core.values import ReplicaPlan

#: Rows on their way; more than this is spilled to the run's temporary folder.
OBJECT_STORE_BYTES: Final = 512 << 20
#: Ray puts sockets below its folder, and their paths hold 107 characters at most.
_TEMP_CHARS: Final = 40


class Cluster(Protocol):
    """Where actors can be placed."""

    def cores(self, plan: ReplicaPlan) -> Sequence[Sequence[int]]:
        """The CPU cores that each replica keeps to; empty for as Ray places it."""

    @property
    def temp(self) -> str | None:
        """A folder that ends with the run, on the replicas' machine; or None."""

    def start(self) -> None:
        """Connect this process to it.

        Raises:
            RequestError: When it cannot be reached.
        """

    def stop(self) -> None:
        """Leave it; end it when it is the run's own."""


def cluster_for(order: WorkOrder) -> Cluster:
    """Return the cluster that ``RAY_ADDRESS`` names, else one of the run's own."""
    address = os.environ.get(ADDRESS)
    return OwnRay(order) if not address else SharedRay(address)


@define
class OwnRay:
    """A Ray on this machine that starts and ends with the run."""

    _order: WorkOrder
    temp: str | None = field(default=None, init=False)

    def cores(self, plan: ReplicaPlan) -> Sequence[Sequence[int]]:
        """This process's cores, dealt out."""
        return replica_cores(plan)

    def start(self) -> None:
        """Start it in a folder of its own."""
        for name, value in RAY_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        # A local Ray asks for a token; without this one Ray keeps its own at home.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self.temp = _temp_folder()
        ray.init(
            address="local",
            num_cpus=sum(max(1, len(own)) for own in self.cores(self._order.plan)),
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=True,  # the driver's output is the run's log
            logging_level=logging.WARNING,
            _temp_dir=self.temp,
        )
        needed = self._order.plan.replicas * self._order.plan.gpus_per_replica
        if needed > ray.cluster_resources().get("GPU", 0):
            raise RequestError(shortage(self._order))

    def stop(self) -> None:
        """End it, and remove its folder."""
        if self.temp is not None:
            ray.shutdown()
            shutil.rmtree(self.temp, ignore_errors=True)
            self.temp = None


@define
class SharedRay:
    """A cluster that is there before the run and after it.

    Its nodes see the model and the output under the same paths, and have our code:
    installed, or as the job's working folder.
    """

    _address: str
    temp: str | None = field(default=None, init=False)

    def cores(self, plan: ReplicaPlan) -> Sequence[Sequence[int]]:
        """Ray places the replicas, so none keeps to cores of this machine."""
        return ((),) * plan.replicas

    def start(self) -> None:
        """Connect to it."""
        try:
            ray.init(
                address=self._address,
                log_to_driver=True,
                logging_level=logging.WARNING,
            )
        except (
            AuthenticationError,
            ConnectionError,
            RuntimeError,
            ValueError,
        ) as error:
            said = " ".join(str(error).split())[:300]
            raise RequestError(
                f"{ADDRESS}={self._address!r} cannot be reached with "
                f"RAY_AUTH_MODE={os.environ.get('RAY_AUTH_MODE')!r}: {said}. A cluster "
                "that asks for a token wants RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or "
                "RAY_AUTH_TOKEN_PATH, one that asks for none RAY_AUTH_MODE=disabled. "
                f"Unset {ADDRESS} to use a Ray of the run's own"
            ) from error

    def stop(self) -> None:
        """Disconnect; the cluster stays."""
        ray.shutdown()


def plan_here() -> ReplicaPlan:
    """Plan an order whose machines nobody knew before, from the nodes Ray reports.

    Raises:
        RequestError: When the model cannot fit on them.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = [int(node["GPU"]) for node in nodes if node.get("GPU")]
    if not gpus:
        cores = max((int(node.get("CPU", 0)) for node in nodes), default=0)
        return ReplicaPlan(
            replicas=1,
            cpus_per_replica=cores or None,
            reasons=("Ray's nodes have no GPUs: one replica on the largest node",),
        )
    # Ray does not tell the memory of a GPU, so there is one replica for each node.
    fit = plan_for(
        None,
        gpu_nodes=len(gpus),
        gpus_per_node=min(gpus),
        gpu_memory_bytes=None,
        unknown_because="Ray does not tell the memory of its GPUs",
    )
    return replica_plan(fit)


def shortage(order: WorkOrder) -> str:
    """Say what the plan's replicas need, what each node has, and what would help."""
    plan = order.plan
    each, unit = plan.gpus_per_replica, "GPU"
    if not each:
        each, unit = plan.cpus_per_replica or 1, "CPU"
    nodes = [node for node in ray.nodes() if node["Alive"]]
    nodes.sort(key=_is_head, reverse=True)  # Ray lists them as it likes
    shown = [
        f"{'head ' if _is_head(node) else ''}{node['NodeManagerHostname']}: "
        f"{_amounts(node['Resources'])}"
        for node in nodes
    ]
    free = _amounts(ray.available_resources())
    return (
        f"the plan needs {plan.replicas} x {each} {unit}, each on one node; Ray's "
        f"nodes have {'; '.join(shown)}; free now: {free}. "
        f"{_advice(nodes, plan.replicas, each, unit)}"
    )


def _advice(
    nodes: Sequence[dict[str, Any]], replicas: int, each: int, unit: str
) -> str:
    has = [int(node["Resources"].get(unit, 0)) for node in nodes]
    room = sum(amount // each for amount in has)
    if room >= replicas:
        return "Something else runs there: try again when it has ended."
    fits = f"replicas={room} fits." if room else f"No node has {each} {unit}."
    head = next(
        (own for node, own in zip(nodes, has, strict=True) if _is_head(node)), None
    )
    if unit == "GPU" and head == 0 and max(has) > 0:
        most = nodes[has.index(max(has))]["Resources"]
        return (
            "The head registers no GPU with Ray. If its machine is like the others, "
            "its cluster's config must say so: head_node: "
            f"{{resources: {{CPU: {most.get('CPU', 0):g}, GPU: {max(has)}}}}}. "
            f"Else {fits}"
        )
    return fits


def _is_head(node: dict[str, Any]) -> bool:
    return "node:__internal_head__" in node["Resources"]


def _amounts(resources: dict[str, float]) -> str:
    return ", ".join(f"{resources.get(name, 0):g} {name}" for name in ("CPU", "GPU"))


def _temp_folder() -> str:
    """Make a folder for Ray's sockets and logs, with a short path."""
    parent = tempfile.gettempdir()
    if len(parent) > _TEMP_CHARS:
        parent = "/tmp"  # noqa: S108  mkdtemp makes the name; the path must be short
    return tempfile.mkdtemp(prefix="mlt-", dir=parent)
