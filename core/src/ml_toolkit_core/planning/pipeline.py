"""One replica laid out: which worker is which stage, and how many layers it holds."""

from collections.abc import Sequence

from ml_toolkit_core.planning.pool import capacity
from ml_toolkit_core.planning.values import Demand, Replica


def replica_of(demand: Demand, workers: Sequence[int]) -> Replica | None:
    """Return the replica that these workers form, or None if they cannot.

    Args:
        demand: The question.
        workers: Indices into the pool, in any order.
    """
    vram = demand.worker_vram
    workers = sorted(workers, key=lambda worker: (-vram[worker], worker))
    total = sum(vram[worker] for worker in workers)
    if not 1 <= len(workers) <= demand.n_layers:
        return None
    if demand.model_bytes is not None:
        held = total >= demand.model_bytes
        return Replica(workers=tuple(workers), vram=total) if held else None
    ordered = _ordered(demand, workers)
    layers = _split(demand, ordered) if ordered else None
    if layers is None:
        return None
    return Replica(workers=tuple(ordered), vram=total, layers=layers)


def _ordered(demand: Demand, workers: Sequence[int]) -> list[int]:
    """Return the workers as stages: the ends where embedding and head cost least."""
    if len(workers) == 1:
        return list(workers)
    places = [capacity(demand, demand.worker_vram[worker])[1] for worker in workers]
    firsts = sorted(
        (middle - first, place)
        for place, (middle, first, _) in enumerate(places)
        if first > 0
    )[:2]
    lasts = sorted(
        (middle - last, place)
        for place, (middle, _, last) in enumerate(places)
        if last > 0
    )[:2]
    pairs = [
        (loss + other, first, last)
        for loss, first in firsts
        for other, last in lasts
        if first != last
    ]
    if not pairs:
        return []
    _, first, last = min(pairs)
    between = [
        worker for place, worker in enumerate(workers) if place not in {first, last}
    ]
    return [workers[first], *between, workers[last]]


def _split(demand: Demand, workers: Sequence[int]) -> tuple[int, ...] | None:
    """Return the layers of each stage, so that the tightest has most room per layer.

    The stage with the least room per layer sets how long the contexts of the whole
    pipeline can be.
    """
    each = demand.layer_bytes + demand.kv_bytes_per_layer
    free = [demand.worker_vram[worker] - demand.reserve_bytes for worker in workers]
    free[0] -= demand.embed_bytes
    free[-1] -= demand.head_bytes
    if min(free) < each or sum(room // each for room in free) < demand.n_layers:
        return None

    def with_room(room: int) -> list[int]:
        """Return how many layers each stage holds with so much room beside each."""
        return [max(1, held // (each + room)) for held in free]

    low, high = 0, max(free)
    while low < high:
        room = (low + high + 1) // 2
        enough = sum(with_room(room)) >= demand.n_layers
        low, high = (room, high) if enough else (low, room - 1)
    layers, fewer = with_room(low), with_room(low + 1)
    # One byte more room would be too much; until then the tightest stages give.
    excess = sum(layers) - demand.n_layers
    tightest = [
        held - count * (each + low) for held, count in zip(free, layers, strict=True)
    ]
    for stage in sorted(range(len(free)), key=tightest.__getitem__):
        given = min(excess, layers[stage] - fewer[stage])
        layers[stage] -= given
        excess -= given
    return tuple(layers)
