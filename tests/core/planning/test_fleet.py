"""Fleet plans: laws that hold for every pool, and refusals that help."""

import ast
import itertools
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import (
    Demand,
    FleetPlan,
    ReplicaPolicy,
    certificate,
    plan_replicas,
    plan_stages,
)
from ml_toolkit_core.planning.certificate import faults

sizes = st.integers(0, 12)
pools = st.lists(sizes, min_size=1, max_size=8)
large_pools = st.lists(st.integers(0, 24_000), min_size=1, max_size=40)


def tried(plan: Any, *args: Any, **facts: Any) -> FleetPlan | None:
    """Return the plan, or None where nothing fits."""
    try:
        answer = plan(*args, **facts)
    except RequestError:
        return None
    assert isinstance(answer, FleetPlan)
    return answer


def holds(demand: Demand, group: Sequence[int]) -> bool:
    """Return whether these workers are a replica, by trying all orders."""
    memory = [demand.worker_vram[worker] for worker in group]
    if len(group) > demand.n_layers:
        return False
    if demand.model_bytes is not None:
        return sum(memory) >= demand.model_bytes
    for ends in itertools.permutations(range(len(group)), min(2, len(group))):
        layers = []
        for place, vram in enumerate(memory):
            free = vram - demand.reserve_bytes
            free -= demand.embed_bytes if place == ends[0] else 0
            free -= demand.head_bytes if place == ends[-1] else 0
            layers.append(free // (demand.layer_bytes + demand.kv_bytes_per_layer))
        if min(layers) >= 1 and sum(layers) >= demand.n_layers:
            return True
    return False


def brute_force(demand: Demand) -> tuple[int, int]:
    """Return the most replicas, and the fewest workers that form so many."""
    everyone = range(len(demand.worker_vram))
    groups = [
        frozenset(group)
        for count in range(1, len(everyone) + 1)
        for group in itertools.combinations(everyone, count)
        if holds(demand, group)
    ]

    @cache
    def best(left: frozenset[int]) -> tuple[int, int]:
        if not left:
            return 0, 0
        lowest = min(left)
        options = [best(left - {lowest})]
        for group in groups:
            if lowest in group and group <= left:
                count, workers = best(left - group)
                options.append((count + 1, workers - len(group)))
        return max(options)

    count, workers = best(frozenset(everyone))
    return count, -workers


@given(pools, st.integers(1, 30), st.integers(1, 5))
@settings(max_examples=300, deadline=None)
def test_is_the_brute_force_optimum_on_small_pools(
    vram: list[int], model_bytes: int, n_layers: int
) -> None:
    demand = Demand(n_layers=n_layers, model_bytes=model_bytes, worker_vram=tuple(vram))
    plan = tried(plan_replicas, n_layers, model_bytes, vram)
    count, workers = brute_force(demand)

    assert count == (len(plan.replicas) if plan else 0)
    if plan:
        assert workers == sum(len(replica.workers) for replica in plan.replicas)
        assert plan.certified
        assert faults(plan, demand) == ()


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=7),
    st.integers(1, 9),
    st.integers(1, 5),
    st.tuples(*[st.integers(0, 8)] * 4),
)
@example(vram=[18, 25], n_layers=3, layer_bytes=1, other=(8, 0, 0, 8))
@settings(max_examples=300, deadline=None)
def test_stages_are_the_brute_force_optimum_on_small_pools(
    vram: list[int], n_layers: int, layer_bytes: int, other: tuple[int, int, int, int]
) -> None:
    facts: dict[str, int] = {
        "n_layers": n_layers,
        "layer_bytes": layer_bytes,
        "embed_bytes": other[0],
        "head_bytes": other[1],
        "reserve_bytes": other[2],
        "kv_bytes_per_layer": other[3],
    }
    demand = Demand(worker_vram=tuple(vram), **facts)
    plan = tried(plan_stages, worker_vram=vram, **facts)
    count, workers = brute_force(demand)

    assert count == (len(plan.replicas) if plan else 0)
    if plan:
        assert workers == sum(len(replica.workers) for replica in plan.replicas)
        assert plan.certified
        assert faults(plan, demand) == ()


@given(large_pools, st.integers(1, 120_000), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_is_never_below_the_seed_and_never_above_its_bound(
    vram: list[int], model_bytes: int, n_layers: int
) -> None:
    seed = tried(plan_replicas, n_layers, model_bytes, vram, "max", semantics="seed")
    plan = tried(plan_replicas, n_layers, model_bytes, vram)

    assert bool(seed) == bool(plan)
    if seed and plan:
        assert len(seed.replicas) <= len(plan.replicas) <= plan.bound
        demand = Demand(
            n_layers=n_layers, model_bytes=model_bytes, worker_vram=tuple(vram)
        )
        assert faults(plan, demand) == ()


@given(large_pools, st.integers(1, 120_000), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_without_the_solver_it_is_still_never_below_the_seed(
    vram: list[int], model_bytes: int, n_layers: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ml_toolkit_core.planning.refinement", None)
        seed = tried(
            plan_replicas, n_layers, model_bytes, vram, "max", semantics="seed"
        )
        plan = tried(plan_replicas, n_layers, model_bytes, vram)

    assert bool(seed) == bool(plan)
    if seed and plan:
        assert len(seed.replicas) <= len(plan.replicas) <= plan.bound
        demand = Demand(
            n_layers=n_layers, model_bytes=model_bytes, worker_vram=tuple(vram)
        )
        assert faults(plan, demand) == ()


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=30),
    st.integers(1, 40),
    st.integers(1, 20),
    st.tuples(*[st.integers(0, 30)] * 3),
)
@settings(max_examples=60, deadline=None)
def test_every_stage_holds_its_layers(
    vram: list[int], n_layers: int, layer_bytes: int, other: tuple[int, int, int]
) -> None:
    facts: dict[str, int] = {
        "n_layers": n_layers,
        "layer_bytes": layer_bytes,
        "embed_bytes": other[0],
        "head_bytes": other[1],
        "reserve_bytes": other[2],
    }
    for policy in ("max", "depth", ReplicaPolicy.shortest(), ReplicaPolicy.fixed(2)):
        plan = tried(plan_stages, worker_vram=vram, policy=policy, **facts)

        if plan:
            assert faults(plan, Demand(worker_vram=tuple(vram), **facts)) == ()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=14), st.randoms())
@settings(max_examples=40, deadline=None)
def test_a_permuted_pool_gives_the_same_plan_up_to_indices(
    vram: list[int], random: Any
) -> None:
    permuted = list(vram)
    random.shuffle(permuted)
    plans = [tried(plan_replicas, 6, 40, pool) for pool in (vram, permuted)]
    pipelines = [
        tried(plan_stages, n_layers=9, layer_bytes=4, head_bytes=3, worker_vram=pool)
        for pool in (vram, permuted)
    ]

    for one, two in (plans, pipelines):
        assert bool(one) == bool(two)
        if one and two:
            shapes = [
                [
                    ([pool[worker] for worker in replica.workers], replica.layers)
                    for replica in plan.replicas
                ]
                for pool, plan in ((vram, one), (permuted, two))
            ]
            assert shapes[0] == shapes[1]


@given(pools, st.integers(1, 30), st.integers(1, 5), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_fixed_is_possible_exactly_up_to_the_optimum(
    vram: list[int], model_bytes: int, n_layers: int, count: int
) -> None:
    demand = Demand(n_layers=n_layers, model_bytes=model_bytes, worker_vram=tuple(vram))
    most, _ = brute_force(demand)
    fixed = ReplicaPolicy.fixed(count)
    if count > most:
        with pytest.raises(RequestError):
            plan_replicas(n_layers, model_bytes, vram, fixed)
        return

    plan = plan_replicas(n_layers, model_bytes, vram, fixed)

    assert count == len(plan.replicas)
    assert faults(plan, demand) == ()


def test_fixed_gives_spare_workers_to_the_weakest_replica() -> None:
    plan = plan_replicas(28, 10, [10, 12, 5, 3, 0], ReplicaPolicy.fixed(2))

    assert [replica.vram for replica in plan.replicas] == [15, 15]
    assert plan.spares == (4,)


def test_fixed_says_the_proven_most() -> None:
    with pytest.raises(RequestError, match=r"replicas=3 .* at most 2 \(proven\)"):
        plan_replicas(28, 10, [9, 9, 1, 1], ReplicaPolicy.fixed(3))


def test_depth_takes_all_that_hold_something_and_shortest_the_fewest() -> None:
    vram = [20, 0, 30, 25]

    depth = plan_replicas(28, 40, vram, "depth")
    shortest = plan_replicas(28, 40, vram, ReplicaPolicy.shortest())

    assert depth.replicas[0].workers == (2, 3, 0)
    assert depth.spares == (1,)
    assert shortest.replicas[0].workers == (2, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"worker_vram": []}, "no workers"),
        ({"n_layers": 0}, "n_layers=0"),
        ({"model_bytes": 0}, "model_bytes=0"),
        ({"n_layers": 2.0}, r"n_layers=2\.0"),
        ({"model_bytes": True}, "model_bytes=True"),
        ({"n_layers": -1}, "n_layers=-1"),
        ({"worker_vram": [5, float("nan")]}, r"worker_vram\[1\]=nan"),
        ({"worker_vram": [5, -2]}, r"worker_vram\[1\]=-2"),
        ({"worker_vram": [5, "6"]}, r"worker_vram\[1\]='6'"),
        ({"worker_vram": 5}, "worker_vram=5"),
        ({"policy": ReplicaPolicy.fixed(0)}, "replicas=0"),
        ({"policy": ReplicaPolicy.fixed(4)}, "replicas=4 are more than the 3"),
        ({"policy": ReplicaPolicy.fixed(10**5000)}, r"replicas=2\^16609"),
        ({"policy": "many"}, "many"),
        ({"policy": None}, "None"),
        ({"semantics": "stages"}, "plan_stages"),
        ({"time_limit_s": float("nan")}, "time_limit_s=nan"),
        ({"time_limit_s": -1}, "time_limit_s=-1"),
        ({"model_bytes": 10**5000}, "model needs"),
        ({"model_bytes": 100}, r"100 bytes .* hold only 23 bytes; 77 bytes more"),
    ],
)
def test_refuses_with_what_was_given(changes: dict[str, Any], words: str) -> None:
    facts = {
        "n_layers": 4,
        "model_bytes": 10,
        "worker_vram": [9, 9, 5],
        "policy": "max",
    }

    with pytest.raises(RequestError, match=words):
        plan_replicas(**{**facts, **changes})


def test_huge_numbers_do_not_overflow() -> None:
    big = 10**5000

    plan = plan_replicas(10**40, 2 * big, [big, big, big, big + 1, 3 * big], "max")

    assert 3 == len(plan.replicas) == plan.bound


def test_a_time_limit_returns_the_best_so_far() -> None:
    vram = [(7919 * i) % 20_011 + 4_000 for i in range(200)]

    plan = plan_replicas(28, 65_000, vram, "max", time_limit_s=0)
    unlimited = plan_replicas(28, 65_000, vram, "max")

    assert len(plan.replicas) <= len(unlimited.replicas) <= plan.bound


def test_importing_the_planner_loads_no_solver() -> None:
    code = (
        "import sys, ml_toolkit_core.planning, ml_toolkit_core.planning.certificate\n"
        "ml_toolkit_core.planning.plan_replicas(4, 3, [2, 2, 2, 2], 'max')\n"
        "print([m for m in ('highspy', 'numpy') if m in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_the_checker_imports_nothing_of_the_solver() -> None:
    source = Path(certificate.__file__).read_text(encoding="utf-8")
    ours = {
        node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and "ml_toolkit" in (node.module or "")
    }

    assert ours == {"ml_toolkit_core.planning.values"}
