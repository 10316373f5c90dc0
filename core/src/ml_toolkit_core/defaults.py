"""The core's own answers, given when a backend has none."""

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.values import (
    BackendInfo,
    ComputeTarget,
    InferenceRequest,
    JobHandle,
    JobStatus,
    Missing,
    ReplicaPlan,
)


@hookimpl(trylast=True)
def plan_replicas(request: InferenceRequest, target: ComputeTarget) -> ReplicaPlan:
    """Give every node one replica, or share the machines out as asked.

    Raises:
        RequestError: When so many replicas cannot have equal shares.
    """
    if not target.gpus_per_node:
        return _on_cores(request.replicas, target)
    if request.replicas == "depth" and target.gpu_nodes > 1:
        return ReplicaPlan(
            replicas=1,
            tensor_parallel_size=target.gpus_per_node,
            pipeline_parallel_size=target.gpu_nodes,
            gpus_per_replica=target.num_gpus,
            reasons=("one replica over all nodes, the nodes as pipeline stages",),
        )
    replicas = target.gpu_nodes
    if isinstance(request.replicas, int):
        replicas = request.replicas
    each, left = divmod(target.num_gpus, replicas)
    if left or not each or each > target.gpus_per_node or target.gpus_per_node % each:
        raise RequestError(
            f"replicas={replicas} cannot have equal shares of {target.gpu_nodes} "
            f"nodes x {target.gpus_per_node} GPUs, each within one node; "
            f"{_counts(target)} can"
        )
    return ReplicaPlan(
        replicas=replicas,
        tensor_parallel_size=each,
        gpus_per_replica=each,
        reasons=(
            "one replica per node, with all its GPUs as tensor_parallel_size"
            if replicas == target.gpu_nodes
            else f"as asked; {each} GPUs each, as tensor_parallel_size",
        ),
    )


def _on_cores(asked: str | int, target: ComputeTarget) -> ReplicaPlan:
    replicas = asked if isinstance(asked, int) else target.gpu_nodes
    cores = target.cpus_per_node
    if cores is not None and replicas > cores * target.gpu_nodes:
        raise RequestError(
            f"replicas={replicas} is more than there are CPU cores "
            f"({cores * target.gpu_nodes}); a replica needs one at least"
        )
    per_node = -(-replicas // target.gpu_nodes)
    each = None if cores is None else cores // per_node
    return ReplicaPlan(
        replicas=replicas,
        cpus_per_replica=each,
        reasons=(
            f"one replica per node, with its {cores or 'own'} CPU cores"
            if replicas == target.gpu_nodes
            else f"as asked; {each or 'an equal share of the'} CPU cores each",
        ),
    )


def _counts(target: ComputeTarget) -> str:
    per_node = target.gpus_per_node
    shares = [n for n in range(1, per_node + 1) if per_node % n == 0]
    return ", ".join(str(target.num_gpus // n) for n in reversed(shares))


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
