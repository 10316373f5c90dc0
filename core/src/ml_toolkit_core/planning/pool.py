"""A pool as the planner sees it: kinds of workers, and what each kind holds."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

import attrs

from ml_toolkit_core.planning.values import Demand

#: A group of workers as the indices of their kinds, rising; repeats are allowed.
Pattern = tuple[int, ...]


@attrs.frozen(kw_only=True)
class Kind:
    """Workers that hold the same.

    The unit is bytes in bytes mode, where the three are one number, and layers in
    stages mode, where embedding and head take room on the first and the last stage.

    Attributes:
        first: What it holds as the first stage; 0 if it cannot be one.
        middle: What it holds as a middle stage; at least 1.
        last: What it holds as the last stage; 0 if it cannot be one.
        workers: The workers of this kind, the largest first, then by index.
    """

    first: int
    middle: int
    last: int
    workers: tuple[int, ...]


@attrs.frozen(kw_only=True)
class Pool:
    """The pool without the workers about which there is nothing to decide.

    Attributes:
        need: What a replica must hold, in the unit of the kinds.
        cap: The most workers of one replica.
        kinds: Those that hold something but not all, by falling capacity.
        alone: Workers that hold the whole model: each is a replica by itself.
        idle: Workers that hold nothing.
        layered: True where the unit is layers (stages mode).
        flat: True where every worker holds the same in every place.
    """

    need: int
    cap: int
    kinds: tuple[Kind, ...]
    alone: tuple[int, ...]
    idle: tuple[int, ...]
    layered: bool
    flat: bool

    @classmethod
    def of(cls, demand: Demand) -> "Pool":
        """Return the pool of a demand whose numbers are checked."""
        need = needed(demand)
        groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        alone, idle = [], []
        for worker in by_memory(demand.worker_vram):
            holds, places = capacity(demand, demand.worker_vram[worker])
            if holds >= need:
                alone.append(worker)
            elif places[0] < 1:
                idle.append(worker)
            else:
                groups[places].append(worker)
        return cls(
            need=need,
            cap=min(demand.n_layers, len(demand.worker_vram)),
            kinds=tuple(
                Kind(
                    middle=places[0],
                    first=places[1],
                    last=places[2],
                    workers=tuple(groups[places]),
                )
                for places in sorted(groups, reverse=True)
            ),
            alone=tuple(alone),
            idle=tuple(idle),
            layered=demand.model_bytes is None,
            flat=all(len(set(places)) == 1 for places in groups),
        )

    def coarsened(self, most: int, *, up: bool) -> tuple["Pool", list[int]]:
        """Return a pool with about ``most`` kinds, for bytes mode.

        Kinds of neighbouring sizes become one that holds what the largest of them
        holds, so that a bound of that pool is one of this too; or what the smallest
        holds, so that its groups are groups here too.

        Returns:
            The pool, and for each kind here its kind there.
        """
        share = -(-sum(self.counts) // most)
        merged: list[list[Kind]] = []
        where = []
        workers = share
        for kind in self.kinds:
            if workers >= share:
                merged.append([])
                workers = 0
            merged[-1].append(kind)
            workers += len(kind.workers)
            where.append(len(merged) - 1)
        kinds = tuple(
            attrs.evolve(
                kinds[0 if up else -1],
                workers=tuple(worker for kind in kinds for worker in kind.workers),
            )
            for kinds in merged
        )
        return attrs.evolve(self, kinds=kinds), where

    @property
    def counts(self) -> list[int]:
        """How many workers there are of each kind."""
        return [len(kind.workers) for kind in self.kinds]

    def room(self, group: Sequence[int]) -> int:
        """Return what a group of two or more holds together, best order assumed."""
        total = sum(self.kinds[kind].middle for kind in group)
        if self.flat:
            return total
        ends = self.ends(group)
        if ends is None:
            return 0
        first, last = self.kinds[group[ends[0]]], self.kinds[group[ends[1]]]
        return total - (first.middle - first.first) - (last.middle - last.last)

    def holds(self, group: Sequence[int]) -> bool:
        """Return whether a group is a replica."""
        return 2 <= len(group) <= self.cap and self.room(group) >= self.need  # noqa: PLR2004 - first and last

    def ends(self, group: Sequence[int]) -> tuple[int, int] | None:
        """Return the places in ``group`` of the best first and last stage."""
        kinds = [self.kinds[kind] for kind in group]
        firsts = sorted(
            (kind.middle - kind.first, place)
            for place, kind in enumerate(kinds)
            if kind.first > 0
        )[:2]
        lasts = sorted(
            (kind.middle - kind.last, place)
            for place, kind in enumerate(kinds)
            if kind.last > 0
        )[:2]
        pairs = [
            (loss + other, place, end)
            for loss, place in firsts
            for other, end in lasts
            if place != end
        ]
        return min(pairs)[1:] if pairs else None

    def most_by_volume(self) -> int:
        """Return the most replicas of the kinds that capacity alone allows."""
        held, lost = self._volume()
        low, high = 0, min((len(held) - 1) // 2, len(lost) - 1)
        # What is left over is concave in the number of replicas: bisection is exact.
        while low < high:
            count = (low + high + 1) // 2
            have = held[min(count * self.cap, len(held) - 1)] - lost[count]
            low, high = (count, high) if have >= count * self.need else (low, count - 1)
        return low

    def fewest_workers(self, replicas: int) -> int:
        """Return how many workers so many replicas of the kinds take at least."""
        held, lost = self._volume()
        one = bisect_left(held, self.need + lost[min(1, replicas)])
        return max(
            replicas * one, bisect_left(held, replicas * self.need + lost[replicas])
        )

    def _volume(self) -> tuple[list[int], list[int]]:
        """Return what the n largest hold, and what n first and last stages lose."""
        middles, firsts, lasts = [], [], []
        for kind in self.kinds:
            count = len(kind.workers)
            middles += [kind.middle] * count
            firsts += [kind.middle - kind.first] * (count if kind.first else 0)
            lasts += [kind.middle - kind.last] * (count if kind.last else 0)
        losses = [a + b for a, b in zip(sorted(firsts), sorted(lasts), strict=False)]
        return [0, *accumulate(middles)], [0, *accumulate(losses)]


def by_memory(worker_vram: Sequence[int]) -> list[int]:
    """Return the workers by falling memory, ties by index."""
    return sorted(range(len(worker_vram)), key=lambda worker: -worker_vram[worker])


def needed(demand: Demand) -> int:
    """Return what a replica must hold: bytes, or layers in stages mode."""
    return demand.n_layers if demand.model_bytes is None else demand.model_bytes


def capacity(demand: Demand, vram: int) -> tuple[int, tuple[int, int, int]]:
    """Return what a worker holds alone, and as a middle, first and last stage."""
    if demand.model_bytes is not None:
        return vram, (vram, vram, vram)
    free = vram - demand.reserve_bytes
    each = demand.layer_bytes + demand.kv_bytes_per_layer
    # Each other stage takes a layer at least, so more than this is never used.
    middle, first, last = (
        max(0, min((free - extra) // each, demand.n_layers - 1))
        for extra in (0, demand.embed_bytes, demand.head_bytes)
    )
    alone = (free - demand.embed_bytes - demand.head_bytes) // each
    return alone, (middle, first, last)
