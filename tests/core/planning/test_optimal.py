"""The proven optima: every one is reached, and certified by the separate checker."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import (
    Certificate,
    Demand,
    FleetPlan,
    Proof,
    plan_replicas,
    plan_stages,
)
from ml_toolkit_core.planning.certificate import faults

VECTORS = json.loads(
    Path(__file__)
    .parents[2]
    .joinpath("data/planning/optimal_replicas_vectors.json")
    .read_text(encoding="utf-8")
)["vectors"]


def demand_of(vector: Mapping[str, Any]) -> Demand:
    """Return the question of a vector."""
    names = {field.name for field in attrs.fields(Demand)} & set(vector)
    facts = {name: vector[name] for name in names}
    return Demand(**{**facts, "worker_vram": tuple(facts["worker_vram"])})


def planned(demand: Demand) -> FleetPlan:
    """Return the plan for a demand, in the mode that it is."""
    if demand.model_bytes is not None:
        return plan_replicas(
            demand.n_layers, demand.model_bytes, demand.worker_vram, "max"
        )
    return plan_stages(
        n_layers=demand.n_layers,
        layer_bytes=demand.layer_bytes,
        embed_bytes=demand.embed_bytes,
        head_bytes=demand.head_bytes,
        reserve_bytes=demand.reserve_bytes,
        worker_vram=demand.worker_vram,
    )


@pytest.mark.parametrize("vector", VECTORS)
def test_reaches_and_certifies_the_optimum(vector: Mapping[str, Any]) -> None:
    demand = demand_of(vector)
    if not vector["max_replicas"]:
        with pytest.raises(RequestError, match="fit"):
            planned(demand)
        return

    plan = planned(demand)

    assert vector["max_replicas"] == len(plan.replicas) == plan.bound
    assert plan.certified
    assert faults(plan, demand) == ()


# One plan for each kind of proof, taken apart below.
PROVEN = {
    Proof.VOLUME: Demand(n_layers=28, model_bytes=10, worker_vram=(9, 9, 1, 1, 3)),
    Proof.PRICES: Demand(n_layers=28, model_bytes=13, worker_vram=(6,) * 8),
}


@pytest.mark.parametrize("proof", [Proof.VOLUME, Proof.PRICES])
def test_proves_by(proof: Proof) -> None:
    plan = planned(PROVEN[proof])

    assert plan.certified
    assert plan.certificate is not None
    assert proof is plan.certificate.proof


@pytest.mark.parametrize("demand", PROVEN.values())
def test_the_checker_rejects_a_smaller_bound(demand: Demand) -> None:
    plan = planned(demand)
    assert plan.certificate is not None
    certificate = attrs.evolve(plan.certificate, bound=plan.bound - 1)
    lie = attrs.evolve(
        plan, bound=plan.bound - 1, certificate=certificate, replicas=plan.replicas[1:]
    )
    lie = attrs.evolve(lie, spares=(*plan.spares, *plan.replicas[0].workers))

    assert "the certificate does not prove the bound" in faults(lie, demand)


@pytest.mark.parametrize(
    "change",
    [
        lambda cert: attrs.evolve(cert, cost=cert.cost + 1),
        lambda cert: attrs.evolve(cert, cost=0),
        lambda cert: attrs.evolve(cert, prices=cert.prices[1:]),
        lambda cert: attrs.evolve(cert, prices=(-1, *cert.prices[1:])),
        lambda cert: attrs.evolve(cert, prices=tuple(9 * p for p in cert.prices)),
        lambda cert: attrs.evolve(cert, prices=tuple(p // 2 for p in cert.prices)),
        lambda cert: attrs.evolve(cert, proof=Proof.VOLUME),
        lambda cert: Certificate(proof=Proof.VOLUME, bound=cert.bound),
        lambda cert: Certificate(proof=Proof.SEARCH, bound=cert.bound - 1),
    ],
)
def test_the_checker_rejects_a_mutated_certificate(change: Any) -> None:
    demand = PROVEN[Proof.PRICES]
    plan = planned(demand)
    mutated = attrs.evolve(plan, certificate=change(plan.certificate))

    assert faults(plan, demand) == ()
    assert faults(mutated, demand)


def test_the_checker_rejects_a_higher_cost_on_every_vector() -> None:
    checked = 0
    for vector in VECTORS:
        if vector["max_replicas"]:
            demand = demand_of(vector)
            plan = planned(demand)
            cert = plan.certificate
            if cert and cert.proof is Proof.PRICES:
                raised = attrs.evolve(cert, cost=2 * cert.cost)
                checked += 1
                assert faults(attrs.evolve(plan, certificate=raised), demand)

    assert checked > 3


def test_the_checker_rejects_a_plan_that_is_none() -> None:
    demand = Demand(
        n_layers=5, layer_bytes=10, embed_bytes=5, worker_vram=(35, 25, 9, 60)
    )
    plan = planned(demand)
    first, second = plan.replicas
    split = next(replica for replica in plan.replicas if len(replica.workers) > 1)
    place = plan.replicas.index(split)

    def with_split(**changes: object) -> FleetPlan:
        replicas = list(plan.replicas)
        replicas[place] = attrs.evolve(split, **changes)  # type: ignore[arg-type]
        return attrs.evolve(plan, replicas=tuple(replicas))

    assert faults(plan, demand) == ()
    assert faults(attrs.evolve(plan, spares=()), demand)
    assert faults(attrs.evolve(plan, replicas=(first, second, second)), demand)
    assert faults(with_split(layers=(4, 1)), demand)
    assert faults(with_split(layers=(5, 0)), demand)
    assert faults(with_split(layers=(5,)), demand)
    assert faults(with_split(vram=1), demand)
    assert faults(attrs.evolve(plan, certificate=None), demand)
    assert faults(attrs.evolve(plan, bound=3), demand)


@pytest.mark.parametrize("head_bytes", [0, 70])
def test_certifies_pipelines_over_many_different_workers(head_bytes: int) -> None:
    vram = tuple((7919 * i) % 5_011 + 100 for i in range(176))
    demand = Demand(
        n_layers=126, layer_bytes=30, head_bytes=head_bytes, worker_vram=vram
    )

    plan = planned(demand)

    assert plan.certified
    assert faults(plan, demand) == ()
