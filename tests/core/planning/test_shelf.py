"""A shelf of mixed cards: written as a list, planned in whole layers, told as text."""

from typing import Any

import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import (
    ReplicaPolicy,
    devices_of,
    plan_shelf,
    profile_from_config,
)
from ml_toolkit_core.planning.certificate import faults

#: Llama-3.1-8B; see ``tests/data/planning/models.json``.
PROFILE = profile_from_config(
    {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
    },
    name="llama",
)


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("24GB", [24 * 10**9]),
        ("24gb*2,80GiB", [24 * 10**9, 24 * 10**9, 80 << 30]),
        (" 1.5GB * 2 ", [1_500_000_000] * 2),
        ("512MiB,7B", [512 << 20, 7]),
    ],
)
def test_reads_a_list_of_devices(text: str, cards: list[int]) -> None:
    assert list(devices_of(text)) == cards


@pytest.mark.parametrize(
    "text", ["", "24", "24GB,", "-1GB", "24GB*0", "24XB", "1GB*999999999", "nanGB"]
)
def test_refuses_a_list_that_is_none(text: str) -> None:
    with pytest.raises(RequestError, match="devices="):
        devices_of(text)


def test_tells_who_forms_which_replica() -> None:
    shelf = plan_shelf(PROFILE, devices_of("24GB*2,12GB*2,8GB,2GB"))

    lines = shelf.lines()
    assert faults(shelf.plan, shelf.demand) == ()
    assert len(shelf.plan.replicas) == 3
    assert lines[0].startswith("llama, 8192 tokens: throughput: 3 replica(s)")
    assert lines[1] == "replica 1: device 0 (24.00 GB) 32 layer(s)"
    assert "device 2 (12.00 GB) 20 layer(s)" in lines[3]
    assert "spare: device 3 (12.00 GB), device 5 (2.00 GB)" in lines


def test_says_what_would_give_more() -> None:
    shelf = plan_shelf(PROFILE, devices_of("24GB,12GB"))

    assert shelf.advice == ("With one more device of 12.00 GB there would be 2.",)


def test_the_context_is_cut_to_what_the_model_was_made_for() -> None:
    assert plan_shelf(PROFILE, devices_of("80GB"), context=10**6).context == 131_072


@pytest.mark.parametrize("policy", ["depth", "2", ReplicaPolicy.shortest()])
def test_knows_all_policies(policy: Any) -> None:
    shelf = plan_shelf(PROFILE, devices_of("24GB*4"), policy)

    assert faults(shelf.plan, shelf.demand) == ()
    assert len(shelf.plan.replicas) == (2 if policy == "2" else 1)


def test_says_why_nothing_fits() -> None:
    with pytest.raises(RequestError, match="no pipeline of n_layers=32 fits"):
        plan_shelf(PROFILE, devices_of("4GB*2"))


def test_a_longer_context_leaves_room_for_fewer_replicas() -> None:
    cards = devices_of("24GB*4")

    short, long = (
        plan_shelf(PROFILE, cards, context=tokens).plan for tokens in (8192, 131_072)
    )

    assert len(short.replicas) == 4
    assert len(long.replicas) == 2
