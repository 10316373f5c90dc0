"""What a replica runs with: its environment, its cores, and vLLM's arguments."""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import ModelKind, ReplicaPlan
from ml_toolkit_core.wire import Json

log = logging.getLogger(__name__)

#: Names a cluster, as for Ray's own tools.
ADDRESS: Final = "RAY_ADDRESS"
#: Set to 1 where replicas that were planned for GPUs shall run on CPU cores.
CPU_ENGINE: Final = "ML_TOOLKIT_CPU_ENGINE"
#: Cut off far too early by vLLM's own 16.
MAX_TOKENS: Final = 256
#: Without GPUs; vLLM's own default is a share of all memory, for each replica.
CPU_KV_CACHE_BYTES: Final = 1 << 30
#: Without GPUs; measured on 2 cores: more is no faster and the first rows come later.
CPU_MAX_NUM_SEQS: Final = 64

#: Ray's 15 leaves a replica 1/28 of a core that anything else wants too.
NICENESS: Final = "RAY_worker_niceness"

#: Set in the driver before Ray starts; what the environment says already stays.
RAY_ENVIRONMENT: Final[Mapping[str, str]] = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    NICENESS: "0",
}


def choose_auth_mode() -> None:
    """Show a cluster the token that is here; to be called before Ray is imported.

    Ray 2.60 shows a token to a cluster of its own only, unless ``RAY_AUTH_MODE`` says
    otherwise (measured: ``InvalidAuthToken`` in spite of a token file).
    """
    given = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ)
    has_token = given or (Path.home() / ".ray" / "auth_token").exists()
    if os.environ.get(ADDRESS) and has_token:
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def replica_environment(
    order: WorkOrder, cores: int, temp: str | None
) -> dict[str, str]:
    """Return the environment of a replica's process.

    Args:
        order: The run's order.
        cores: CPU cores that the replica keeps to; 0 when it has GPUs.
        temp: A folder that ends with the run; vLLM leaves small files behind.
    """
    environment = {
        "DO_NOT_TRACK": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_COLOR": "1",
        NICENESS: "0",  # a cluster that is there was started without it
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine lives in the actor
        "VLLM_NO_USAGE_STATS": "1",
    }
    if temp is not None:
        environment["TMPDIR"] = temp
    if order.model.kind is not ModelKind.HUB:
        environment["HF_HUB_OFFLINE"] = "1"
    if cores:
        # Else Ray says 1, and vLLM takes one thread less than there are cores.
        environment["OMP_NUM_THREADS"] = str(cores)
        library = Path(sys.prefix) / "lib" / "libiomp5.so"
        if library.exists():
            environment["LD_PRELOAD"] = str(library)
    return environment


def replica_cores(plan: ReplicaPlan) -> tuple[tuple[int, ...], ...]:
    """Deal this process's CPU cores out, one set for each replica.

    When there are fewer cores than replicas ask for, all share all. A replica with
    GPUs keeps to no cores, and its set is empty.
    """
    replicas = plan.replicas
    if plan.gpus_per_replica:
        return ((),) * replicas
    cores = sorted(os.sched_getaffinity(0))
    each = plan.cpus_per_replica or max(1, len(cores) // replicas)
    if each * replicas > len(cores):
        return (tuple(cores),) * replicas
    return tuple(tuple(cores[i * each : (i + 1) * each]) for i in range(replicas))


def runs_on_cpu(plan: ReplicaPlan, *, is_cpu_build: bool) -> bool:
    """Return whether a replica runs on CPU cores.

    Args:
        plan: The run's plan.
        is_cpu_build: Whether the vLLM that is installed here knows CPUs alone.

    Raises:
        RequestError: When the plan is for GPUs that this vLLM cannot use, unless
            ``ML_TOOLKIT_CPU_ENGINE=1`` says that this is meant.
    """
    if not plan.gpus_per_replica:
        return True
    if not is_cpu_build:
        return False
    if os.environ.get(CPU_ENGINE) == "1":
        log.warning(
            "%s=1: planned for %d GPU, runs on CPU cores",
            CPU_ENGINE,
            plan.gpus_per_replica,
        )
        return True
    raise RequestError(
        f"the plan gives each replica {plan.gpus_per_replica} GPU, but the vLLM that "
        "is installed on this node is a CPU build. Use an image with a vLLM for these "
        f"GPUs; to run on their nodes' CPU cores all the same, set {CPU_ENGINE}=1 in it"
    )


def engine_arguments(
    order: WorkOrder, *, on_cpu: bool, has_bfloat16: bool
) -> dict[str, Json]:
    """Return vLLM's ``EngineArgs`` by name; what the caller said wins.

    Args:
        order: The run's order.
        on_cpu: Whether this replica runs on CPU cores. What a plan says of the memory
            of GPUs does not hold there, and is left out.
        has_bfloat16: Whether this machine multiplies bfloat16 in hardware.
    """
    arguments: dict[str, Json] = {
        "disable_log_stats": True,
        "max_model_len": -1,  # the model's own, lowered to what fits into memory
        "trust_remote_code": False,
        "use_tqdm_on_load": False,
    }
    plan = order.plan
    if order.model.kind is ModelKind.HUB and order.model.revision:
        arguments["revision"] = order.model.revision
    if on_cpu:
        arguments |= {
            "enforce_eager": True,
            "kv_cache_memory_bytes": CPU_KV_CACHE_BYTES,
            "max_num_seqs": CPU_MAX_NUM_SEQS,
        }
        if not has_bfloat16:  # bfloat16 is 5.6 times slower without the hardware
            arguments["dtype"] = "float32"
    if not (on_cpu and plan.gpus_per_replica):
        arguments |= plan.engine_kwargs
    if plan.tensor_parallel_size * plan.pipeline_parallel_size > 1:
        # Inside a Ray actor vLLM might look for a placement group that is not there.
        arguments["distributed_executor_backend"] = "mp"
    return arguments | {
        **order.engine_kwargs,
        "model": order.model.uri,
        "pipeline_parallel_size": plan.pipeline_parallel_size,
        "tensor_parallel_size": plan.tensor_parallel_size,
    }
