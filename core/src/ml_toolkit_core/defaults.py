"""The core's own answers, given when a backend has none."""

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.values import (
    BackendInfo,
    ComputeTarget,
    JobHandle,
    JobStatus,
    Missing,
    ReplicaPlan,
)


@hookimpl(trylast=True)
def plan_replicas(target: ComputeTarget) -> ReplicaPlan:
    """Give every node one replica, with all its GPUs."""
    if target.gpus_per_node:
        what = f"its {target.gpus_per_node} GPUs as tensor_parallel_size"
    else:
        what = f"its {target.cpus_per_node or 'own'} CPU cores"
    return ReplicaPlan(
        replicas=target.gpu_nodes,
        tensor_parallel_size=max(1, target.gpus_per_node),
        gpus_per_replica=target.gpus_per_node,
        cpus_per_replica=None if target.gpus_per_node else target.cpus_per_node,
        reasons=(f"one replica per node, with {what}",),
    )


@hookimpl(trylast=True)
def cancel(handle: JobHandle) -> JobStatus:
    """Refuse: the backend does not say how."""
    raise RequestError(
        f"{str(handle)!r} cannot be cancelled from here: backend {handle.backend!r} "
        "does not offer it; use the platform's own page"
    )


@hookimpl(trylast=True)
def read_logs(handle: JobHandle) -> tuple[str, ...]:
    """Point to the platform."""
    return (f"backend {handle.backend!r} does not pass on logs",)


@hookimpl(trylast=True)
def find_job(run_id: str) -> Missing:
    """Say that nobody can tell."""
    return Missing(reason=f"this backend cannot look up run_id={run_id!r}")


@hookimpl(trylast=True)
def describe() -> BackendInfo:
    """Say nothing."""
    return BackendInfo()
