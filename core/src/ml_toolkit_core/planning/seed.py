"""The planner that people know, to the letter: greedy, with its notes and refusals.

It is a yardstick and a promise to its users; :mod:`.fleet` never answers with less.
Source: ``fleet`` module of inferencelayer 0.2.4; its outcomes are the test vectors.
"""

from heapq import heappop, heapreplace

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning.amounts import brief
from ml_toolkit_core.planning.policy import PolicyKind, ReplicaPolicy
from ml_toolkit_core.planning.values import FleetPlan, Replica

Groups = list[list[int]]


def gigabytes(number: int) -> str:
    """Return bytes as the seed prints them: a double, two digits, ties to even."""
    try:
        return f"{float(number) / 1e9:.2f}"
    except OverflowError:  # past the doubles; the seed has 64 bits and never gets here
        return f"{brief(number // 10**9)}.00"


def most_by_sum(model_bytes: int, worker_vram: tuple[int, ...]) -> int:
    """Return how often the model goes into the pool's memory taken together."""
    return sum(worker_vram) // model_bytes if model_bytes else 0


def largest_first(worker_vram: tuple[int, ...]) -> list[int]:
    """Return the workers by falling memory, ties by index."""
    return sorted(range(len(worker_vram)), key=lambda worker: -worker_vram[worker])


def plan(
    n_layers: int, model_bytes: int, worker_vram: tuple[int, ...], policy: ReplicaPolicy
) -> FleetPlan:
    """Return the seed's plan; the arguments are checked whole numbers.

    Raises:
        RequestError: With the seed's own text, if the pool cannot do it.
    """
    if not worker_vram:
        raise RequestError("no workers to plan")
    if n_layers < 1:
        raise RequestError("model has no layers")
    if model_bytes < 1:
        raise RequestError("model has zero size")
    if policy.kind is PolicyKind.SHORTEST:
        raise RequestError(
            "the seed's semantics has no policy 'shortest'; leave semantics= out"
        )
    order = largest_first(worker_vram)
    if policy.kind is PolicyKind.DEPTH:
        groups, spares, idle = _depth(n_layers, model_bytes, worker_vram, order)
        note = f"depth: 1 replica over {len(groups[0])} stage(s){idle}"
    else:
        if policy.kind is PolicyKind.THROUGHPUT:
            groups, spares = _throughput(n_layers, model_bytes, worker_vram, order)
        else:
            count = policy.count or 0
            groups, spares = _fixed(count, n_layers, model_bytes, worker_vram, order)
        spare = f" ({len(spares)} worker(s) spare)" if spares else ""
        note = f"{policy.kind}: {len(groups)} replica(s){spare}"
    return FleetPlan(
        replicas=tuple(
            Replica(
                workers=tuple(group), vram=sum(worker_vram[worker] for worker in group)
            )
            for group in groups
        ),
        spares=tuple(spares),
        note=note,
        bound=most_by_sum(model_bytes, worker_vram),
    )


def _depth(
    n_layers: int, model_bytes: int, worker_vram: tuple[int, ...], order: list[int]
) -> tuple[Groups, list[int], str]:
    group, spares = order[:n_layers], order[n_layers:]
    vram = sum(worker_vram[worker] for worker in group)
    if vram < model_bytes:
        raise RequestError(
            f"model needs {gigabytes(model_bytes)} GB but the {len(group)} usable "
            f"worker(s) hold only {gigabytes(vram)} GB — add VRAM or fewer/bigger "
            "devices"
        )
    idle = (
        f" ({len(spares)} worker(s) idle — a {brief(n_layers)}-layer model can't use "
        f"more than {brief(n_layers)} stages)"
    )
    return [group], spares, idle if spares else ""


def greedy(
    n_layers: int, model_bytes: int, worker_vram: tuple[int, ...], order: list[int]
) -> tuple[Groups, list[int]]:
    """Return groups filled biggest first, and the rest from the first that fails."""
    groups: Groups = []
    start = 0
    while start < len(order):
        end, vram = start, 0
        while end < len(order) and vram < model_bytes and end - start < n_layers:
            vram += worker_vram[order[end]]
            end += 1
        if vram < model_bytes:
            break
        groups.append(order[start:end])
        start = end
    return groups, order[start:]


def _throughput(
    n_layers: int, model_bytes: int, worker_vram: tuple[int, ...], order: list[int]
) -> tuple[Groups, list[int]]:
    groups, spares = greedy(n_layers, model_bytes, worker_vram, order)
    if not groups:
        raise RequestError(
            f"model needs {gigabytes(model_bytes)} GB per replica but no "
            f"{brief(n_layers)}-device group in the pool reaches it (ΣVRAM "
            f"{gigabytes(sum(worker_vram))} GB)"
        )
    return groups, spares


def spread(
    count: int, n_layers: int, worker_vram: tuple[int, ...], order: list[int]
) -> tuple[Groups, list[int]]:
    """Return ``count`` groups, each next worker to the lightest one with a free slot.

    What does not find a slot is returned as the rest, in order.
    """
    groups: Groups = [[] for _ in range(count)]
    lightest = [(0, index) for index in range(count)]  # a heap: it is sorted
    placed = min(len(order), count * n_layers)
    for worker in order[:placed]:
        vram, index = lightest[0]
        groups[index].append(worker)
        if len(groups[index]) == n_layers:
            heappop(lightest)
        else:
            heapreplace(lightest, (vram + worker_vram[worker], index))
    return groups, order[placed:]


def _fixed(
    count: int,
    n_layers: int,
    model_bytes: int,
    worker_vram: tuple[int, ...],
    order: list[int],
) -> tuple[Groups, list[int]]:
    if len(worker_vram) < count:
        raise RequestError(
            f"asked for {brief(count)} replicas but only {len(worker_vram)} worker(s) "
            "— need ≥ 1 per replica"
        )
    groups, spares = spread(count, n_layers, worker_vram, order)
    for number, group in enumerate(groups, start=1):
        vram = sum(worker_vram[worker] for worker in group)
        if not group:
            raise RequestError(
                f"cannot form {count} replicas: replica {number} got no workers (pool "
                "too small)"
            )
        if vram < model_bytes:
            raise RequestError(
                f"cannot form {count} replicas: replica {number} holds "
                f"{gigabytes(vram)} GB < model {gigabytes(model_bytes)} GB — fewer "
                "replicas or more VRAM (max feasible ≈ "
                f"{brief(most_by_sum(model_bytes, worker_vram))})"
            )
    return groups, spares
