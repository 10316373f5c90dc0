"""Good groups in little time: greedy fillings, an even spread, and a local search.

Every function takes and returns groups of kinds (see :mod:`.pool`), so that a permuted
pool gives the same groups. None of them needs a solver.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heappop, heapreplace
from itertools import islice

from ml_toolkit_core.planning import seed
from ml_toolkit_core.planning.pool import Pool

Group = list[int]

#: How many candidates are tried where embedding or head spoil the first guess.
_LOOK_AHEAD = 4
#: Rounds of the local search, and pairs of workers looked at by an evening-out.
_HARVESTS, _EXCHANGES = 4, 1_500_000
#: Exchanges for balance, and exchanges weighed for each.
_BALANCINGS = 300


class Stock:
    """The workers still free, as kinds sorted by rising capacity."""

    def __init__(self, pool: Pool, counts: Sequence[int]) -> None:
        self._pool = pool
        self.kinds = [
            kind for kind in reversed(range(len(counts))) for _ in range(counts[kind])
        ]
        self._sizes = [pool.kinds[kind].middle for kind in self.kinds]

    def take(self, place: int) -> int:
        """Remove and return the kind at a place."""
        del self._sizes[place]
        return self.kinds.pop(place)

    def put(self, kinds: Iterable[int]) -> None:
        """Put workers back."""
        for kind in kinds:
            place = bisect_left(self.kinds, -kind, key=lambda other: -other)
            self.kinds.insert(place, kind)
            insort(self._sizes, self._pool.kinds[kind].middle)

    def completing(self, group: Group, total: int) -> int | None:
        """Return the place of the smallest worker that completes a group."""
        if len(group) >= self._pool.cap:
            return None
        least = self._pool.need - total
        for _ in range(_LOOK_AHEAD):
            place = bisect_left(self._sizes, least)
            if place == len(self.kinds):
                return None
            room = self._pool.room([*group, self.kinds[place]])
            if room >= self._pool.need:
                return place
            # What embedding and head take away is made up by a larger worker.
            least = self._sizes[place] + (self._pool.need - room if room else 1)
        return None

    def smallest(self, least: int) -> int:
        """Return the place of the smallest worker that holds ``least`` or more."""
        return bisect_left(self._sizes, least)


def fill(pool: Pool, counts: Sequence[int], *, small_first: bool) -> list[Group]:
    """Return groups that start with the largest worker left and are closed tightly.

    As soon as one worker can complete a group, the smallest such worker does.

    Args:
        pool: The pool.
        counts: Free workers of each kind.
        small_first: Whether the places in between go to the smallest workers, which
            saves the large ones for other groups, or to the largest.
    """
    return _fill(pool, Stock(pool, counts), small_first=small_first)


def _fill(pool: Pool, stock: Stock, *, small_first: bool) -> list[Group]:
    groups: list[Group] = []
    while group := _fill_one(pool, stock, small_first=small_first):
        groups.append(group)
    return groups


def _fill_one(pool: Pool, stock: Stock, *, small_first: bool) -> Group:
    group: Group = []
    total = 0
    while stock.kinds and len(group) < pool.cap:
        place = stock.completing(group, total) if group else None
        if place is not None:
            return [*group, stock.take(place)]
        largest = not small_first or not group
        group.append(stock.take(-1 if largest else 0))
        total += pool.kinds[group[-1]].middle
        if total >= pool.need and pool.holds(group):
            return trimmed(pool, group)
    stock.put(group)
    if small_first and len(group) == pool.cap:
        return _fill_one(pool, stock, small_first=False)
    return []


def spread(pool: Pool, counts: Sequence[int], replicas: int) -> list[Group]:
    """Return so many groups, each worker to the lightest one; some may be short."""
    groups: list[Group] = [[] for _ in range(replicas)]
    lightest = [(0, index) for index in range(replicas)]
    for kind, count in enumerate(counts):
        for _ in range(count):
            if not lightest:
                break
            held, index = lightest[0]
            groups[index].append(kind)
            if len(groups[index]) == pool.cap:
                heappop(lightest)
            else:
                heapreplace(lightest, (held + pool.kinds[kind].middle, index))
    return groups


def evened(pool: Pool, groups: list[Group]) -> bool:
    """Exchange members in place until no group is short; return whether it worked.

    A short group takes a larger worker of a group that can spare the difference.
    Only where amounts simply add up.
    """
    if not pool.flat:
        return all(map(pool.holds, groups))
    held = [pool.room(group) for group in groups]
    tries = _EXCHANGES
    for index, group in enumerate(groups):
        while held[index] < pool.need and tries > 0:
            best: tuple[int, int, int, int] | None = None
            missing = pool.need - held[index]
            for other, giver in enumerate(groups):
                spare = held[other] - pool.need
                if spare < 1:
                    continue
                tries -= len(group) * len(giver)
                gains = [
                    (min(gain, missing), -gain, place, other * pool.cap + donor)
                    for place, small in enumerate(group)
                    for donor, large in enumerate(giver)
                    if 0
                    < (gain := pool.kinds[large].middle - pool.kinds[small].middle)
                    <= spare
                ]
                best = max([*gains, *([best] if best else [])], default=None)
                if best and best[0] == missing:
                    break
            if best is None:
                return False
            other, donor = divmod(best[3], pool.cap)
            group[best[2]], groups[other][donor] = groups[other][donor], group[best[2]]
            held[index] -= best[1]
            held[other] += best[1]
    return all(map(pool.holds, groups))


def trimmed(pool: Pool, group: Group) -> Group:
    """Return the group without the workers that it can do without, smallest first."""
    kept = sorted(group)
    for kind in sorted(set(group), reverse=True):
        while kind in kept:
            fewer = list(kept)
            fewer.remove(kind)
            if not pool.holds(fewer):
                break
            kept = fewer
    return kept


def harvested(pool: Pool, counts: Sequence[int], groups: list[Group]) -> list[Group]:
    """Return groups made tighter by exchange with free workers, and new ones.

    A member is exchanged for the smallest free worker with which its group still
    holds the model; what this sets free is filled into further groups.
    """
    groups = [list(group) for group in groups]
    for _ in range(_HARVESTS):
        stock = Stock(pool, left_over(counts, groups))
        if not stock.kinds:
            break
        for index, group in enumerate(groups):
            groups[index] = _exchanged(pool, stock, trimmed(pool, group))
        more = max(
            (
                _fill(pool, Stock(pool, left_over(counts, groups)), small_first=small)
                for small in (False, True)
            ),
            key=len,
        )
        groups += more
        if not more:
            break
    return groups


def _exchanged(pool: Pool, stock: Stock, group: Group) -> Group:
    for place, kind in enumerate(group):
        spare = pool.room(group) - pool.need
        if spare < 1 or not stock.kinds:
            break
        found = stock.smallest(pool.kinds[kind].middle - spare)
        if found < len(stock.kinds) and stock.kinds[found] > kind:
            swapped = [*group[:place], stock.kinds[found], *group[place + 1 :]]
            if pool.holds(swapped):
                stock.take(found)
                stock.put([kind])
                group = swapped
    return sorted(group)


def left_over(counts: Sequence[int], groups: Iterable[Sequence[int]]) -> list[int]:
    """Return how many workers of each kind the groups leave free."""
    used = Counter(kind for group in groups for kind in group)
    return [count - used[kind] for kind, count in enumerate(counts)]


def best_of_many(pool: Pool, counts: Sequence[int], most: int) -> list[Group]:
    """Return the best groups that the quick ways find.

    Args:
        pool: The pool.
        counts: Free workers of each kind.
        most: A proven upper bound, or a number that will do.
    """
    best: list[Group] = greedy(pool, counts) if pool.flat else []
    for small_first in (False, True):
        groups = fill(pool, counts, small_first=small_first)
        if len(groups) < most:
            groups = harvested(pool, counts, groups)
        best = max(best, groups, key=_merit)
    low, high = len(best) + 1, most
    while low <= high:
        middle = (low + high) // 2
        groups = spread(pool, counts, middle)
        fits = evened(pool, groups)
        low, high = (middle + 1, high) if fits else (low, middle - 1)
        best = max(best, groups, key=_merit) if fits else best
    if len(best) < most:
        best = max(best, harvested(pool, counts, best), key=_merit)
    return best[:most]


def _merit(groups: Sequence[Group]) -> tuple[int, int, int]:
    """Return what counts: groups, then few workers, then a short longest group."""
    return (
        len(groups),
        -sum(map(len, groups)),
        -max(map(len, groups), default=0),
    )


def greedy(pool: Pool, counts: Sequence[int]) -> list[Group]:
    """Return the groups of the seed: largest first, until one cannot be completed."""
    order = [kind for kind, count in enumerate(counts) for _ in range(count)]
    sizes = tuple(pool.kinds[kind].middle for kind in order)
    groups, _ = seed.greedy(pool.cap, pool.need, sizes, list(range(len(order))))
    return [[order[place] for place in group] for group in groups]


def balanced(pool: Pool, groups: Sequence[Group]) -> list[Group]:
    """Return as large groups of the same workers, the weakest as strong as can be.

    The weakest group takes a larger worker of another one for one of its own as long as
    both then hold more than the weakest did.
    """
    groups = [list(group) for group in groups]
    rooms = [pool.room(group) for group in groups]
    for _ in range(_BALANCINGS if len(groups) > 1 else 0):
        weakest = min(range(len(groups)), key=lambda index: (rooms[index], index))
        richest = sorted(range(len(groups)), key=lambda index: (-rooms[index], index))
        swaps = (
            (other, place, donor)
            for other in richest[:_BALANCINGS]
            if rooms[other] > rooms[weakest] + 1
            for place, small in enumerate(groups[weakest])
            for donor, large in enumerate(groups[other])
            if large < small
        )
        best, change = rooms[weakest], None
        for other, place, donor in islice(swaps, _BALANCINGS):
            one, two = list(groups[weakest]), list(groups[other])
            one[place], two[donor] = two[donor], one[place]
            least = min(pool.room(one), pool.room(two))
            if least > best:
                best, change = least, (other, one, two)
        if change is None:
            break
        other, groups[weakest], groups[other] = change
        rooms[weakest], rooms[other] = pool.room(change[1]), pool.room(change[2])
    return groups
