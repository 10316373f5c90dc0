"""A shelf of mixed cards: which of them form which copy of a model."""

import re
from collections.abc import Sequence
from typing import Final

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import planner
from ml_toolkit_core.planning.amounts import memories, size, whole
from ml_toolkit_core.planning.fit import DEFAULT_CONTEXT
from ml_toolkit_core.planning.policy import ReplicaPolicy
from ml_toolkit_core.planning.profile import ModelProfile
from ml_toolkit_core.planning.values import Demand, FleetPlan

#: Kept free on every card: libraries, activations and graphs.
DEFAULT_RESERVE_BYTES: Final = 1 << 30
_UNITS: Final = {
    "GB": 10**9,
    "MB": 10**6,
    "GIB": 1 << 30,
    "MIB": 1 << 20,
    "B": 1,
}
_DEVICE = re.compile(
    r"\s*([0-9]{1,20})(?:\.([0-9]{1,9}))?\s*([A-Za-z]+)\s*(?:\*\s*([0-9]{1,9}))?\s*"
)
#: Cards in one list; a pool larger than this was not written by hand.
_MOST_DEVICES = 100_000
#: Pools up to this size are planned again to find out what would help.
_ADVISED = 200


def devices_of(text: str) -> tuple[int, ...]:
    """Return the bytes of each card in a list such as ``24GB*3,80GB``.

    Args:
        text: Sizes with a unit (GB and MB are decimal, GiB and MiB binary), each
            perhaps with ``*`` and how many there are, with commas between.

    Raises:
        RequestError: If a part is no size, or there are too many cards.

    >>> devices_of("24GB*3, 80GiB")
    (24000000000, 24000000000, 24000000000, 85899345920)
    """
    cards: list[int] = []
    for part in text.split(","):
        found = _DEVICE.fullmatch(part)
        unit = _UNITS.get(found[3].upper()) if found else None
        if not found or unit is None:
            raise RequestError(
                f"devices={text!r}: {part.strip()!r} is no size; write 24GB, 24GB*3 or "
                "80GiB, with commas between."
            )
        fraction = found[2] or ""
        amount = int(found[1] + fraction) * unit // 10 ** len(fraction)
        count = int(found[4] or 1)
        if not 1 <= count <= _MOST_DEVICES - len(cards):
            raise RequestError(
                f"devices={text!r}: {part.strip()!r} makes it no card or more than "
                f"{_MOST_DEVICES}."
            )
        cards += [amount] * count
    return tuple(cards)


@attrs.frozen(kw_only=True)
class ShelfPlan:
    """A fleet plan with what it was made for.

    Attributes:
        profile: The model.
        demand: The question that was planned.
        plan: The answer.
        context: The longest sequence, in tokens.
        advice: What would give more replicas, a sentence each.
    """

    profile: ModelProfile
    demand: Demand
    plan: FleetPlan
    context: int
    advice: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return the plan as text: who forms which replica, spares, bound, advice."""
        vram = self.demand.worker_vram
        lines = [f"{self.profile.name}, {self.context} tokens: {self.plan.note}"]
        for number, replica in enumerate(self.plan.replicas, start=1):
            stages = ", ".join(
                f"device {worker} ({size(vram[worker])}) {layers} layer(s)"
                for worker, layers in zip(replica.workers, replica.layers, strict=True)
            )
            lines.append(f"replica {number}: {stages}")
        if self.plan.spares:
            spares = ", ".join(
                f"device {worker} ({size(vram[worker])})" for worker in self.plan.spares
            )
            lines.append(f"spare: {spares}")
        return (*lines, *self.advice, *self.profile.notes)


def demand_of(
    profile: ModelProfile,
    worker_vram: Sequence[int],
    *,
    context: int,
    sequences: int = 1,
    reserve_bytes: int = DEFAULT_RESERVE_BYTES,
) -> Demand:
    """Return the question of a model on these cards, in stages of whole layers.

    Where bytes are a band, the upper end is taken; the layers count as equal.

    Args:
        profile: The model.
        worker_vram: Memory of each card, in bytes.
        context: The longest sequence, in tokens.
        sequences: Sequences of that length that a replica holds at a time.
        reserve_bytes: Bytes kept free on each card.
    """
    end = profile.embedding_bytes
    total = profile.weight_bytes[1]
    if total <= 2 * end:  # the layers cannot be told from the ends
        end = 0
    ends = end if profile.tied_embeddings else 2 * end
    cache = sequences * profile.kv_bytes_per_sequence(context)
    return Demand(
        n_layers=profile.n_layers,
        worker_vram=memories(worker_vram),
        layer_bytes=max(1, -(-(total - ends) // profile.n_layers)),
        embed_bytes=end,
        # A tied head is a copy where it is on another card than the embedding.
        head_bytes=end,
        reserve_bytes=whole(reserve_bytes, "reserve_bytes"),
        kv_bytes_per_layer=-(-cache // profile.n_layers),
    )


def plan_shelf(  # noqa: PLR0913 - the facts of a shelf
    profile: ModelProfile,
    worker_vram: Sequence[int],
    policy: ReplicaPolicy | str = "max",
    *,
    context: int | None = None,
    sequences: int = 1,
    reserve_bytes: int = DEFAULT_RESERVE_BYTES,
    time_limit_s: float | None = None,
) -> ShelfPlan:
    """Return which cards form which replica of a model, and what would give more.

    Args:
        profile: The model.
        worker_vram: Memory of each card, in bytes; see :func:`devices_of`.
        policy: What is wanted.
        context: The longest sequence in tokens; None is 8192 or, if that is less, what
            the model was made for. More than that is cut to it.
        sequences: Sequences of that length that a replica holds at a time.
        reserve_bytes: Bytes kept free on each card.
        time_limit_s: See :func:`.plan_replicas`.

    Raises:
        RequestError: If an argument is wrong, or the cards cannot do what is asked.
    """
    asked = DEFAULT_CONTEXT if context is None else whole(context, "context", least=1)
    tokens = min(asked, profile.context_length)
    count = whole(sequences, "sequences", least=1)

    def demand(vram: Sequence[int], tokens: int) -> Demand:
        return demand_of(
            profile,
            vram,
            context=tokens,
            sequences=count,
            reserve_bytes=reserve_bytes,
        )

    question = demand(worker_vram, tokens)
    policy = planner.policy_of(policy)
    plan = planner.plan(question, policy, time_limit_s)
    advice = []
    if policy == ReplicaPolicy.throughput() and len(worker_vram) <= _ADVISED:
        have = len(plan.replicas)
        shorter = demand(worker_vram, max(1, tokens // 2))
        more = _replicas(shorter)
        if more > have:
            advice.append(f"With {tokens // 2} tokens there would be {more} replicas.")
        for card in sorted(set(worker_vram)):
            more = _replicas(demand([*worker_vram, card], tokens))
            if more > have:
                advice.append(
                    f"With one more device of {size(card)} there would be {more}."
                )
                break
    return ShelfPlan(
        profile=profile,
        demand=question,
        plan=plan,
        context=tokens,
        advice=tuple(advice),
    )


def _replicas(demand: Demand) -> int:
    try:
        return len(planner.plan(demand, ReplicaPolicy.throughput(), None).replicas)
    except RequestError:
        return 0
