"""The seed's semantics: every outcome of the seed planner, to the letter."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import ReplicaPolicy, max_replicas, plan_replicas

VECTORS = json.loads(
    Path(__file__)
    .parents[2]
    .joinpath("data/planning/seed_planner_vectors.json")
    .read_text(encoding="utf-8")
)["vectors"]


def policy_of(text: str) -> ReplicaPolicy:
    """Return the policy that a vector names; "fixed:0" is allowed here."""
    if text.startswith("fixed:"):
        return ReplicaPolicy.fixed(int(text.removeprefix("fixed:")))
    return ReplicaPolicy.parse(text)


def outcome(vector: Mapping[str, Any]) -> dict[str, object]:
    """Return what our planner answers, in the words of the vectors."""
    try:
        if vector["op"] == "max":
            return {"ok": max_replicas(vector["model_bytes"], vector["worker_vram"])}
        if vector["op"] == "parse":
            return {"ok": str(ReplicaPolicy.parse(vector["s"])).capitalize()}
        plan = plan_replicas(
            vector["n_layers"],
            vector["model_bytes"],
            vector["worker_vram"],
            policy_of(vector["policy"]),
            semantics="seed",
        )
    except RequestError as error:
        return {"err": str(error)}
    return {
        "ok": {
            "replicas": [
                {"workers": list(replica.workers), "vram": replica.vram}
                for replica in plan.replicas
            ],
            "spares": list(plan.spares),
            "note": plan.note,
        }
    }


def test_has_every_vector() -> None:
    assert len(VECTORS) == 417


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if not vector.get("optional")]
)
def test_answers_as_the_seed_does(vector: Mapping[str, Any]) -> None:
    actual = outcome(vector)

    assert vector["expect"] == actual


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if vector.get("optional")]
)
def test_answers_correctly_where_the_seed_overflows(vector: Mapping[str, Any]) -> None:
    actual = outcome(vector)

    if vector["op"] == "max":
        assert {"ok": sum(vector["worker_vram"]) // vector["model_bytes"]} == actual
    elif isinstance(answer := actual.get("ok"), dict):
        vram = vector["worker_vram"]
        used = [
            worker for replica in answer["replicas"] for worker in replica["workers"]
        ]
        assert sorted(used + answer["spares"]) == list(range(len(vram)))
        for replica in answer["replicas"]:
            assert replica["vram"] == sum(vram[worker] for worker in replica["workers"])
            assert replica["vram"] >= vector["model_bytes"]
    else:
        assert "GB" in str(actual["err"])


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("shortest", None),
        ("0", None),
        ("+", None),
        ("", None),
        ("1_000", None),
        ("0" * 5000 + "7", ReplicaPolicy.fixed(7)),
        ("9" * 5000, None),
    ],
)
def test_parses_numbers_as_rust_does(text: str, policy: ReplicaPolicy | None) -> None:
    if policy is None:
        with pytest.raises(RequestError, match="--replicas"):
            ReplicaPolicy.parse(text)
    else:
        assert policy == ReplicaPolicy.parse(text)
