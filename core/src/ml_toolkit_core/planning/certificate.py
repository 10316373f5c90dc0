"""The checker: is this a plan at all, and is its bound really proven?

It shares no line with the planner. It starts from the :class:`.Demand`, works in whole
numbers only, and believes nothing that a plan or a certificate says.

All three proofs rest on one step: a worker that holds the model by itself can be its
own replica, since taking it out of any group breaks at most that group. So the bound is
the number of such workers plus what the others, the *rest*, can form at most.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

from ml_toolkit_core.planning.values import Certificate, Demand, FleetPlan, Proof

#: The checker tries everything for so many workers of the rest, and no more.
SEARCH_WORKERS = 12

#: What a worker holds as the first, a middle and the last stage; and its price.
Item = tuple[int, int, int, int]


def faults(plan: FleetPlan, demand: Demand) -> tuple[str, ...]:
    """Return what is wrong with a plan, one sentence each; nothing if all is right."""
    return (*_plan_faults(plan, demand), *_bound_faults(plan, demand))


def proves(certificate: Certificate, demand: Demand) -> bool:
    """Return whether the certificate shows that no plan has more than its bound."""
    prices = certificate.prices or (0,) * len(demand.worker_vram)
    if len(prices) != len(demand.worker_vram) or min(prices, default=0) < 0:
        return False
    alone, rest = divide(demand, prices)
    more = certificate.bound + 1 - alone
    if more < 1:
        return False
    need, cap = _need(demand), demand.n_layers
    if certificate.proof is Proof.VOLUME:
        return not volume_allows(rest, more, need, cap)
    if certificate.proof is Proof.SEARCH:
        return len(rest) <= SEARCH_WORKERS and most_by_search(rest, need, cap) < more
    return (
        certificate.cost > 0
        and sum(price for *_, price in rest) < more * certificate.cost
        and not any_cheaper(rest, certificate.cost, need, cap, demand)
    )


def divide(demand: Demand, prices: Sequence[int]) -> tuple[int, list[Item]]:
    """Return how many workers hold the model alone, and what the others hold."""
    alone, rest = 0, []
    for vram, price in zip(demand.worker_vram, prices, strict=True):
        if demand.model_bytes is not None:
            holds = first = middle = last = vram
        else:
            free = vram - demand.reserve_bytes
            each = demand.layer_bytes + demand.kv_bytes_per_layer
            holds = (free - demand.embed_bytes - demand.head_bytes) // each
            # Another stage has at least one layer, so this one has at most the others.
            first, middle, last = (
                max(0, min((free - extra) // each, demand.n_layers - 1))
                for extra in (demand.embed_bytes, 0, demand.head_bytes)
            )
        if holds >= _need(demand):
            alone += 1
        elif middle > 0:
            rest.append((first, middle, last, price))
    return alone, rest


def volume_allows(rest: Sequence[Item], replicas: int, need: int, cap: int) -> bool:
    """Return whether so many replicas would not need more capacity than there is."""
    losses_first = sorted(middle - first for first, middle, *_ in rest if first > 0)
    losses_last = sorted(middle - last for _, middle, last, _ in rest if last > 0)
    middles = sorted((middle for _, middle, *_ in rest), reverse=True)
    return (
        replicas <= min(len(rest) // 2, len(losses_first), len(losses_last))
        and sum(middles[: replicas * cap])
        - sum(losses_first[:replicas])
        - sum(losses_last[:replicas])
        >= replicas * need
    )


def any_cheaper(
    rest: Sequence[Item], cost: int, need: int, cap: int, demand: Demand
) -> bool:
    """Return whether some replica of the rest costs less than ``cost``."""
    if demand.model_bytes is None:
        return least_cost(rest, need) < cost
    return cheapest_within(rest, cost - 1, need, cap) is not None


def least_cost(rest: Sequence[Item], need: int) -> float:
    """Return the cost of the cheapest pipeline, a whole number; inf if there is none.

    A table by layers: ``rows[ends][n]`` is the least cost of stages that hold ``n``
    layers or more, where ``ends`` says whether a first and a last one are among them.
    """
    rows: list[list[float]] = [[math.inf] * (need + 1) for _ in range(4)]
    rows[0][0] = 0
    for first, middle, last, price in _useful(rest, need):
        old = list(rows)
        steps = [(ends, ends, middle) for ends in range(4)]
        steps += [(0, 1, first), (2, 3, first)] if first > 0 else []
        steps += [(0, 2, last), (1, 3, last)] if last > 0 else []
        for source, target, layers in steps:
            row = old[source]
            if row[0] < math.inf:
                moved = [row[0]] * layers + row[: need + 1 - layers]
                rows[target] = list(
                    map(min, rows[target], [value + price for value in moved])
                )
    return rows[3][need]


def _useful(rest: Sequence[Item], need: int) -> Iterator[Item]:
    """Yield of equal items no more than one cheapest pipeline can need."""
    seen: dict[tuple[int, int, int], int] = defaultdict(int)
    for item in sorted(rest, key=lambda item: item[3]):
        seen[item[:3]] += 1
        if seen[item[:3]] <= need // item[1] + 3:
            yield item


def cheapest_within(
    rest: Sequence[Item], budget: int, need: int, cap: int
) -> int | None:
    """Return the least cost, up to ``budget``, of a group that holds ``need``.

    A table by cost: the most that workers of that cost hold together; first however
    many they are, then, if that is too generous, at most ``cap`` of them.
    """
    by_price: dict[int, list[int]] = defaultdict(list)
    for _, size, _, price in rest:
        if price <= budget:
            by_price[price].append(size)
    items = [
        (size, price)
        for price, sizes in by_price.items()
        for size in sorted(sizes, reverse=True)[
            : min(cap, budget // price if price else cap)
        ]
    ]
    most = [0] * (budget + 1)
    for size, price in items:
        most[price:] = map(max, most[price:], [held + size for held in most])
    if most[budget] >= need and cap < len(items):
        table = [[0] * (budget + 1) for _ in range(cap + 1)]
        for size, price in items:
            for count in range(cap, 0, -1):
                row = table[count]
                fewer = [held + size for held in table[count - 1]]
                row[price:] = map(max, row[price:], fewer)
        most = table[cap]
    return next((cost for cost, held in enumerate(most) if held >= need), None)


def most_by_search(rest: Sequence[Item], need: int, cap: int) -> int:
    """Return the most replicas of a small rest, by trying everything."""
    workers = range(len(rest))
    covers: dict[int, list[int]] = {worker: [] for worker in workers}
    for count in range(2, min(cap, len(rest)) + 1):
        for group in combinations(workers, count):
            if _holds([rest[worker] for worker in group], need):
                covers[group[0]].append(sum(1 << worker for worker in group))

    @cache
    def most(left: int) -> int:
        if not left:
            return 0
        lowest = left & -left
        here = covers[lowest.bit_length() - 1]
        fits = [cover for cover in here if cover & left == cover]
        return max([most(left & ~lowest), *(1 + most(left & ~c) for c in fits)])

    return most((1 << len(rest)) - 1)


def _holds(group: Sequence[Item], need: int) -> bool:
    total = sum(middle for _, middle, *_ in group)
    return any(
        total - one[1] + one[0] - two[1] + two[2] >= need
        for i, one in enumerate(group)
        for j, two in enumerate(group)
        if i != j and one[0] > 0 and two[2] > 0
    )


def _need(demand: Demand) -> int:
    return demand.n_layers if demand.model_bytes is None else demand.model_bytes


def _plan_faults(plan: FleetPlan, demand: Demand) -> Iterator[str]:
    used = [worker for replica in plan.replicas for worker in replica.workers]
    if sorted((*used, *plan.spares)) != list(range(len(demand.worker_vram))):
        yield "a worker is missing, unknown or used twice"
        return
    for number, replica in enumerate(plan.replicas):
        vram = [demand.worker_vram[worker] for worker in replica.workers]
        if replica.vram != sum(vram):
            yield f"replica {number}: its memory does not add up"
        if len(vram) > demand.n_layers:
            yield f"replica {number}: more workers than layers"
        if demand.model_bytes is not None:
            if sum(vram) < demand.model_bytes:
                yield f"replica {number}: does not hold the model"
        elif sum(replica.layers) != demand.n_layers or min(replica.layers) < 1:
            yield f"replica {number}: its layers are not the model's"
        elif len(replica.layers) != len(vram):
            yield f"replica {number}: layers and workers differ in number"
        else:
            yield from _stage_faults(number, replica.layers, vram, demand)


def _stage_faults(
    number: int, layers: Sequence[int], vram: Sequence[int], demand: Demand
) -> Iterator[str]:
    each = demand.layer_bytes + demand.kv_bytes_per_layer
    for stage, (count, held) in enumerate(zip(layers, vram, strict=True)):
        needed = demand.reserve_bytes + count * each
        needed += demand.embed_bytes if stage == 0 else 0
        needed += demand.head_bytes if stage == len(layers) - 1 else 0
        if needed > held:
            yield f"replica {number}: stage {stage} needs {needed} of {held} bytes"


def _bound_faults(plan: FleetPlan, demand: Demand) -> Iterator[str]:
    if len(plan.replicas) > plan.bound:
        yield "there are more replicas than the bound"
    if plan.certified and (
        plan.certificate is None or plan.bound != len(plan.replicas)
    ):
        yield "certified, but the bound is not reached"
    if plan.certificate is None:
        return
    if plan.certificate.bound != plan.bound:
        yield "the certificate is about another bound"
    if not proves(plan.certificate, demand):
        yield "the certificate does not prove the bound"
