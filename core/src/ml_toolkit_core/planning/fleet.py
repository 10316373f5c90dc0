"""How many copies of a model a mixed pool of workers holds."""

import enum
from collections.abc import Sequence

from ml_toolkit_core.planning import seed
from ml_toolkit_core.planning.amounts import memories, whole
from ml_toolkit_core.planning.policy import ReplicaPolicy
from ml_toolkit_core.planning.values import FleetPlan


class Semantics(enum.StrEnum):
    """What a plan means."""

    BYTES = "bytes"
    """Memory adds up; as many replicas as possible, with a proven bound."""
    SEED = "seed"
    """Memory adds up; the answers of the seed planner, to the letter."""


def max_replicas(model_bytes: int, worker_vram: Sequence[int]) -> int:
    """Return how often the model goes into the memory of the pool taken together.

    It is an upper bound only; :func:`plan_replicas` says how many are possible.

    Args:
        model_bytes: Bytes that one replica needs; for 0 the answer is 0.
        worker_vram: Usable bytes of each worker.

    Raises:
        RequestError: If an amount is negative or no whole number.

    >>> max_replicas(2_000_000_000, [2_000_000_000] * 4)
    4
    """
    return seed.most_by_sum(whole(model_bytes, "model_bytes"), memories(worker_vram))


def plan_replicas(
    n_layers: int,
    model_bytes: int,
    worker_vram: Sequence[int],
    policy: ReplicaPolicy | str,
    *,
    semantics: Semantics | str = Semantics.SEED,
) -> FleetPlan:
    policy = ReplicaPolicy.parse(policy) if isinstance(policy, str) else policy
    n_layers = whole(n_layers, "n_layers")
    model_bytes = whole(model_bytes, "model_bytes")
    worker_vram = memories(worker_vram)
    return seed.plan(n_layers, model_bytes, worker_vram, policy)
