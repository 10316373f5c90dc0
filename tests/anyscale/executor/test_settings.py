import os

from ml_toolkit_anyscale.executor.settings import (
    engine_arguments,
    replica_cores,
    replica_environment,
)
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


def test_the_caller_s_arguments_win_over_ours(make_order):
    order = make_order(engine_kwargs={"max_num_seqs": 7, "dtype": "bfloat16"})

    arguments = engine_arguments(order, has_bfloat16=False)

    assert (arguments["max_num_seqs"], arguments["dtype"]) == (7, "bfloat16")


def test_the_plan_says_how_an_engine_is_spread(make_order):
    plan = ReplicaPlan(replicas=1, tensor_parallel_size=4, gpus_per_replica=4)

    arguments = engine_arguments(make_order(plan=plan), has_bfloat16=False)

    assert arguments["tensor_parallel_size"] == 4
    assert arguments["distributed_executor_backend"] == "mp"
    assert "dtype" not in arguments


def test_float32_without_hardware_for_bfloat16(make_order):
    without = engine_arguments(make_order(), has_bfloat16=False)
    with_it = engine_arguments(make_order(), has_bfloat16=True)

    assert without["dtype"] == "float32"
    assert "dtype" not in with_it


def test_only_a_model_of_the_hub_may_ask_the_network(make_order):
    hub = ModelLocation(name="org/m", uri="org/m", kind=ModelKind.HUB, revision="abc")

    order = make_order(model=hub)

    assert "HF_HUB_OFFLINE" not in replica_environment(order, 1, "run")
    assert replica_environment(make_order(), 1, "run")["HF_HUB_OFFLINE"] == "1"
    assert engine_arguments(order, has_bfloat16=True)["revision"] == "abc"
