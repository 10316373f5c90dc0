"""From a demand and a policy to a plan: the one place where all parts meet."""

import math
import time
from collections.abc import Iterable, Sequence

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning import refusals, seed
from ml_toolkit_core.planning.amounts import brief
from ml_toolkit_core.planning.pipeline import replica_of
from ml_toolkit_core.planning.policy import PolicyKind, ReplicaPolicy
from ml_toolkit_core.planning.pool import Pool, by_memory
from ml_toolkit_core.planning.search import Found, search
from ml_toolkit_core.planning.values import (
    Certificate,
    Demand,
    FleetPlan,
    Proof,
    Replica,
)


def policy_of(policy: ReplicaPolicy | str) -> ReplicaPolicy:
    """Return a policy that may be given as a word.

    Raises:
        RequestError: If it is neither a policy nor one of the words.
    """
    if isinstance(policy, ReplicaPolicy):
        return policy
    return ReplicaPolicy.parse(policy)


def plan(
    demand: Demand, policy: ReplicaPolicy, time_limit_s: float | None
) -> FleetPlan:
    """Return the plan for a demand whose numbers are checked.

    Raises:
        RequestError: If the pool is empty, the limit is no time, or the pool cannot do
            what is asked.
    """
    deadline = _deadline(time_limit_s)
    if not demand.worker_vram:
        raise RequestError(
            "worker_vram=[] names no workers; pass the bytes of one worker or more."
        )
    pool = Pool.of(demand)
    if policy.kind is PolicyKind.FIXED:
        return _fixed(demand, pool, policy.count or 0, deadline)
    if policy.kind is PolicyKind.THROUGHPUT:
        return _throughput(demand, pool, deadline)
    return _single(demand, pool, policy)


def _throughput(demand: Demand, pool: Pool, deadline: float | None) -> FleetPlan:
    found = search(pool, deadline=deadline)
    replicas = _replicas(demand, pool, found)
    if not replicas:
        raise refusals.nothing_fits(demand)
    return _plan(demand, pool, PolicyKind.THROUGHPUT, replicas, found)


def _fixed(demand: Demand, pool: Pool, count: int, deadline: float | None) -> FleetPlan:
    workers = len(demand.worker_vram)
    if count < 1:
        raise RequestError("replicas=0: nothing would run; ask for 1 replica or more.")
    if count > workers:
        raise RequestError(
            f"replicas={brief(count)} are more than the {workers} worker(s) given, and "
            f"each replica needs one or more; ask for {workers} or fewer."
        )
    found = search(pool, enough=max(0, count - len(pool.alone)), deadline=deadline)
    usable = _usable(demand, pool)
    spread, _ = seed.spread(count, demand.n_layers, demand.worker_vram, usable)
    options = [_laid_out(demand, spread)]
    built = [list(replica.workers) for replica in _replicas(demand, pool, found)]
    if len(built) >= count:
        options.append(_laid_out(demand, _strengthened(demand, usable, built[:count])))
    possible = [option for option in options if option is not None]
    if not possible:
        raise refusals.too_many(demand, count, *_reached(pool, found))
    replicas = max(possible, key=lambda option: min(replica.vram for replica in option))
    return _plan(demand, pool, PolicyKind.FIXED, replicas, found)


def _single(demand: Demand, pool: Pool, policy: ReplicaPolicy) -> FleetPlan:
    usable = _usable(demand, pool)
    low, high = 1, min(len(usable), demand.n_layers)
    # Depth takes all stages there can be; more never hold less, so bisection finds
    # the fewest.
    while policy.kind is PolicyKind.SHORTEST and low < high:
        middle = (low + high) // 2
        fits = replica_of(demand, usable[:middle]) is not None
        low, high = (low, middle) if fits else (middle + 1, high)
    replica = replica_of(demand, usable[:high])
    if replica is None:
        raise refusals.nothing_fits(demand)
    found = Found(groups=(), bound=pool.most_by_volume(), proof=Proof.VOLUME)
    return _plan(demand, pool, policy.kind, [replica], found)


def _usable(demand: Demand, pool: Pool) -> list[int]:
    """Return the workers that can hold something, by falling memory."""
    idle = set(pool.idle)
    return [worker for worker in by_memory(demand.worker_vram) if worker not in idle]


def _replicas(demand: Demand, pool: Pool, found: Found) -> list[Replica]:
    """Return groups of kinds as replicas of workers, lower indices first."""
    queues = [iter(kind.workers) for kind in pool.kinds]
    groups = [[worker] for worker in pool.alone]
    groups += [[next(queues[kind]) for kind in group] for group in found.groups]
    return _laid_out(demand, groups) or []


def _laid_out(demand: Demand, groups: Iterable[Sequence[int]]) -> list[Replica] | None:
    replicas = []
    for group in groups:
        replica = replica_of(demand, group)
        if replica is None:
            return None
        replicas.append(replica)
    return replicas


def _strengthened(
    demand: Demand, usable: Sequence[int], groups: list[list[int]]
) -> list[list[int]]:
    """Return the groups with the free workers, each given to the weakest."""
    vram = demand.worker_vram
    used = {worker for group in groups for worker in group}
    free = [worker for worker in usable if worker not in used]
    room = [
        sum(vram[worker] - demand.reserve_bytes for worker in group) for group in groups
    ]
    for worker in free:
        open_ = [i for i, group in enumerate(groups) if len(group) < demand.n_layers]
        if not open_:
            break
        weakest = min(open_, key=room.__getitem__)
        groups[weakest].append(worker)
        room[weakest] += vram[worker] - demand.reserve_bytes
    return groups


def _plan(
    demand: Demand,
    pool: Pool,
    kind: PolicyKind,
    replicas: Sequence[Replica],
    found: Found,
) -> FleetPlan:
    used = {worker for replica in replicas for worker in replica.workers}
    spares = [worker for worker in by_memory(demand.worker_vram) if worker not in used]
    certificate = _certificate(demand, pool, found)
    bound = certificate.bound
    certified = bound == len(replicas)
    workers = f" over {len(used)} of {len(demand.worker_vram)} worker(s)"
    most = "proven most" if certified else f"at most {bound} possible"
    return FleetPlan(
        replicas=tuple(replicas),
        spares=tuple(spares),
        note=f"{kind}: {len(replicas)} replica(s){workers}; {most}",
        bound=bound,
        certified=certified,
        certificate=certificate,
    )


def _certificate(demand: Demand, pool: Pool, found: Found) -> Certificate:
    prices: tuple[int, ...] = ()
    if found.proof is Proof.PRICES:
        price = dict.fromkeys(range(len(demand.worker_vram)), 0)
        for kind, each in zip(pool.kinds, found.prices, strict=True):
            price |= dict.fromkeys(kind.workers, each)
        prices = tuple(price.values())
    return Certificate(
        proof=found.proof,
        bound=found.bound + len(pool.alone),
        prices=prices,
        cost=found.cost,
    )


def _reached(pool: Pool, found: Found) -> tuple[int, int]:
    return len(found.groups) + len(pool.alone), found.bound + len(pool.alone)


def _deadline(time_limit_s: float | None) -> float | None:
    if time_limit_s is None:
        return None
    if (
        isinstance(time_limit_s, bool)
        or not isinstance(time_limit_s, int | float)
        or math.isnan(time_limit_s)
        or time_limit_s < 0
    ):
        raise RequestError(
            f"time_limit_s={time_limit_s!r} is no number of seconds, 0 or more; pass "
            "None for no limit."
        )
    return time.monotonic() + time_limit_s
