import os

import pytest

from ml_toolkit_anyscale.executor.settings import (
    CPU_ENGINE,
    engine_arguments,
    replica_cores,
    replica_environment,
    runs_on_cpu,
)
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import ModelKind, ModelLocation, ReplicaPlan


def test_replicas_keep_to_cores_of_their_own():
    there = sorted(os.sched_getaffinity(0))

    cores = replica_cores(ReplicaPlan(replicas=1, cpus_per_replica=1))

    assert cores == ((there[0],),)


def test_replicas_share_cores_when_there_are_too_few():
    there = tuple(sorted(os.sched_getaffinity(0)))

    cores = replica_cores(ReplicaPlan(replicas=len(there) + 1))

    assert cores == (there,) * (len(there) + 1)


def test_a_replica_with_gpus_keeps_to_no_cores(make_order):
    order = make_order(plan=ReplicaPlan(replicas=2, gpus_per_replica=1))

    environment = replica_environment(order, 0, "run")

    assert replica_cores(order.plan) == ((), ())
    assert "OMP_NUM_THREADS" not in environment
    assert "LD_PRELOAD" not in environment
    assert environment["RAY_worker_niceness"] == "0"


def test_the_caller_s_arguments_win_over_ours(make_order):
    order = make_order(engine_kwargs={"max_num_seqs": 7, "dtype": "bfloat16"})

    arguments = engine_arguments(order, on_cpu=True, has_bfloat16=False)

    assert (arguments["max_num_seqs"], arguments["dtype"]) == (7, "bfloat16")


def test_the_plan_says_how_an_engine_is_spread(make_order):
    plan = ReplicaPlan(replicas=1, tensor_parallel_size=4, gpus_per_replica=4)

    arguments = engine_arguments(
        make_order(plan=plan), on_cpu=False, has_bfloat16=False
    )

    assert arguments["tensor_parallel_size"] == 4
    assert arguments["distributed_executor_backend"] == "mp"
    assert "dtype" not in arguments


def test_float32_without_hardware_for_bfloat16(make_order):
    without = engine_arguments(make_order(), on_cpu=True, has_bfloat16=False)
    with_it = engine_arguments(make_order(), on_cpu=True, has_bfloat16=True)

    assert without["dtype"] == "float32"
    assert "dtype" not in with_it


def test_only_a_model_of_the_hub_may_ask_the_network(make_order):
    hub = ModelLocation(name="org/m", uri="org/m", kind=ModelKind.HUB, revision="abc")

    order = make_order(model=hub)

    assert "HF_HUB_OFFLINE" not in replica_environment(order, 1, "run")
    assert replica_environment(make_order(), 1, "run")["HF_HUB_OFFLINE"] == "1"
    assert engine_arguments(order, on_cpu=True, has_bfloat16=True)["revision"] == "abc"


#: As the planner says it of an H100.
ON_GPU = ReplicaPlan(
    replicas=2,
    gpus_per_replica=1,
    engine_kwargs={"gpu_memory_utilization": 0.9, "max_num_seqs": 1024},
)


@pytest.mark.parametrize(
    ("plan", "is_cpu_build", "expected"),
    [
        (ReplicaPlan(replicas=1), True, True),
        (ReplicaPlan(replicas=1), False, True),
        (ON_GPU, False, False),
    ],
)
def test_a_replica_runs_on_what_it_was_planned_for(plan, is_cpu_build, expected):
    assert runs_on_cpu(plan, is_cpu_build=is_cpu_build) is expected


@pytest.mark.parametrize("said", [None, "", "0", "true"])
def test_gpus_that_this_vllm_cannot_use_are_refused_with_the_switch(monkeypatch, said):
    if said is not None:
        monkeypatch.setenv(CPU_ENGINE, said)

    with pytest.raises(RequestError) as refused:
        runs_on_cpu(ON_GPU, is_cpu_build=True)

    assert "1 GPU, but the vLLM that is installed on this node is a CPU build" in str(
        refused.value
    )
    assert "set ML_TOOLKIT_CPU_ENGINE=1" in str(refused.value)


def test_cpu_cores_stand_in_for_gpus_where_the_image_says_so(monkeypatch, make_order):
    monkeypatch.setenv(CPU_ENGINE, "1")

    on_cpu = runs_on_cpu(ON_GPU, is_cpu_build=True)
    order = make_order(plan=ON_GPU, engine_kwargs={"max_model_len": 64})
    arguments = engine_arguments(order, on_cpu=on_cpu, has_bfloat16=False)

    assert on_cpu
    assert "gpu_memory_utilization" not in arguments
    assert arguments["max_num_seqs"] == 64
    assert arguments["max_model_len"] == 64
    assert arguments["dtype"] == "float32"


def test_the_plan_s_arguments_hold_on_its_gpus(make_order):
    order = make_order(plan=ON_GPU)

    arguments = engine_arguments(order, on_cpu=False, has_bfloat16=False)

    assert arguments["gpu_memory_utilization"] == 0.9
    assert arguments["max_num_seqs"] == 1024
    assert "kv_cache_memory_bytes" not in arguments
