"""The core's own answers, given when a backend has none."""

from pkgutil import resolve_name
from typing import TYPE_CHECKING

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.hookspecs import hookimpl
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
)

if TYPE_CHECKING:
    from ml_toolkit_core.planning.fit import FitPlan


@hookimpl(trylast=True)
def plan_replicas(
    request: InferenceRequest, target: ComputeTarget, pinned: Pinned
) -> ReplicaPlan:
    """Fit the model on the target's GPUs, or deal the CPU cores out.

    Raises:
        RequestError: When the model, or as many copies as asked, cannot fit.
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
    count = 1 if request.replicas == "depth" else None
    if isinstance(request.replicas, int):
        count = request.replicas
    profile, unknown_because = _profile(pinned.model)
    # By name: only a plan for GPUs is worth loading the planner.
    fit: FitPlan = resolve_name("ml_toolkit_core.planning.fit:plan_for")(
        profile,
        gpu_nodes=target.gpu_nodes,
        gpus_per_node=target.gpus_per_node,
        gpu_memory_bytes=target.gpu_memory_bytes,
        replicas=count,
        unknown_because=unknown_because,
        **{
            name: request.engine_kwargs[name]
            for name in ("max_model_len", "gpu_memory_utilization")
            if name in request.engine_kwargs
        },
    )
    return replica_plan(fit)


def replica_plan(fit: "FitPlan") -> ReplicaPlan:
    """Return what of a fit a run needs."""
    return ReplicaPlan(
        replicas=fit.replicas,
        tensor_parallel_size=fit.tensor_parallel_size,
        pipeline_parallel_size=fit.pipeline_parallel_size,
        gpus_per_replica=fit.gpus_per_replica,
        kv_tokens=fit.kv_tokens,
        max_concurrent_seqs=fit.max_concurrent_seqs,
        engine_kwargs=fit.engine_kwargs,
        reasons=fit.reasons,
    )


def _profile(model: ModelLocation) -> tuple[object | None, str]:
    """Return what the model's small files say, or None and why."""
    read = resolve_name("ml_toolkit_core.planning:read_profile")
    try:
        return read(model.uri), ""
    except RequestError as error:
        return None, f"the model's facts are not known ({error})"


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
