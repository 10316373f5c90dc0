"""How many copies of a model a mixed pool of workers holds, and who forms which."""

import enum
from collections.abc import Sequence

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import planner, seed
from ml_toolkit_core.planning.amounts import memories, whole
from ml_toolkit_core.planning.policy import ReplicaPolicy
from ml_toolkit_core.planning.values import Demand, FleetPlan


class Semantics(enum.StrEnum):
    """What a plan promises."""

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


def plan_replicas(  # noqa: PLR0913 - the facts of a fleet
    n_layers: int,
    model_bytes: int,
    worker_vram: Sequence[int],
    policy: ReplicaPolicy | str = "max",
    *,
    semantics: Semantics | str = Semantics.BYTES,
    time_limit_s: float | None = None,
) -> FleetPlan:
    """Return which workers form which replica when memory simply adds up.

    A replica is a group of at most ``n_layers`` workers whose memory adds up to the
    model. Whether whole layers fit too, :func:`.plan_stages` says.

    Among plans with as many replicas, those with fewer workers come first, then those
    whose largest replica has fewer, then the better balanced ones, then lower indices.
    The order is exact where all groups can be listed and ``highspy`` is installed, and
    a good try otherwise. The same workers in another order give the same plan.

    Args:
        n_layers: Layers of the model, 1 or more: the most workers of one replica.
        model_bytes: Bytes of the model that each replica must hold, 1 or more.
        worker_vram: Usable memory of each worker in bytes, 0 or more each.
        policy: What is wanted, as a policy or in the words of
            :meth:`ReplicaPolicy.parse`.
        semantics: ``bytes`` for the most replicas possible, ``seed`` for the answers
            of the seed planner to the letter.
        time_limit_s: Seconds after which the best plan so far is returned, with the
            bound proven so far; None leaves only the built-in limits of work, with
            which equal questions have equal answers.

    Raises:
        RequestError: If an argument is wrong, or the pool cannot do what is asked; it
            says what failed and what would work.

    >>> plan = plan_replicas(28, 10, [9, 9, 1, 1])
    >>> [replica.workers for replica in plan.replicas], plan.bound, plan.certified
    ([(0, 2), (1, 3)], 2, True)
    """
    policy = planner.policy_of(policy)
    n_layers = whole(n_layers, "n_layers")
    model_bytes = whole(model_bytes, "model_bytes")
    memory = memories(worker_vram)
    if semantics == Semantics.SEED:
        return seed.plan(n_layers, model_bytes, memory, policy)
    if semantics != Semantics.BYTES:
        raise RequestError(
            f"semantics={semantics!r} is unknown; it is 'bytes' or 'seed'. Whole "
            "layers are planned by plan_stages()."
        )
    if n_layers < 1:
        raise RequestError("n_layers=0: the model has no layers; pass 1 or more.")
    if model_bytes < 1:
        raise RequestError("model_bytes=0: the model has no size; pass 1 or more.")
    demand = Demand(n_layers=n_layers, model_bytes=model_bytes, worker_vram=memory)
    return planner.plan(demand, policy, time_limit_s)


def plan_stages(  # noqa: PLR0913 - the facts of a pipeline
    *,
    n_layers: int,
    layer_bytes: int,
    worker_vram: Sequence[int],
    embed_bytes: int = 0,
    head_bytes: int = 0,
    reserve_bytes: int = 0,
    kv_bytes_per_layer: int = 0,
    policy: ReplicaPolicy | str = "max",
    time_limit_s: float | None = None,
) -> FleetPlan:
    """Return which workers form which pipeline of whole layers, and how it is split.

    Every stage holds one layer or more, with its KV cache and beside the reserve; the
    first stage also holds the embedding and the last one the head. The layers are split
    so that the tightest stage of a pipeline keeps most room per layer.

    Plans are ordered as those of :func:`plan_replicas` are.

    Args:
        n_layers: Layers of the model, 1 or more.
        layer_bytes: Weights of one layer in bytes, 1 or more.
        worker_vram: Memory of each worker in bytes, 0 or more each.
        embed_bytes: Bytes of the embedding, on the first stage.
        head_bytes: Bytes of the head, on the last stage.
        reserve_bytes: Bytes kept free on every stage.
        kv_bytes_per_layer: Bytes of KV cache for one layer, in all sequences together.
        policy: What is wanted.
        time_limit_s: Seconds after which the best plan so far is returned; see
            :func:`plan_replicas`.

    Raises:
        RequestError: If an argument is wrong, or the pool cannot do what is asked.

    >>> plan = plan_stages(n_layers=5, layer_bytes=10, worker_vram=[30, 25, 9])
    >>> plan.replicas[0].workers, plan.replicas[0].layers, plan.spares
    ((0, 1), (3, 2), (2,))
    """
    demand = Demand(
        n_layers=whole(n_layers, "n_layers", least=1),
        layer_bytes=whole(layer_bytes, "layer_bytes", least=1),
        embed_bytes=whole(embed_bytes, "embed_bytes"),
        head_bytes=whole(head_bytes, "head_bytes"),
        reserve_bytes=whole(reserve_bytes, "reserve_bytes"),
        kv_bytes_per_layer=whole(kv_bytes_per_layer, "kv_bytes_per_layer"),
        worker_vram=memories(worker_vram),
    )
    return planner.plan(demand, planner.policy_of(policy), time_limit_s)
