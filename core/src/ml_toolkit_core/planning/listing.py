"""All groups of a small pool, and the exact answer where there are few of them."""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from ml_toolkit_core.planning.pool import Pattern, Pool


def all_groups(pool: Pool, most: int) -> list[Pattern] | None:
    """Return every group in which no worker is superfluous.

    Args:
        pool: The pool.
        most: So many groups at most, and ten times as many steps; None past that.
    """
    middles = [kind.middle for kind in pool.kinds]
    counts = pool.counts
    amounts = [size * count for size, count in zip(middles, counts, strict=True)]
    below = [*reversed(list(accumulate(reversed(amounts)))), 0]
    found: list[Pattern] = []
    steps = 0
    # A stack of (next kind, group, what it holds): no pool is too deep for it.
    stack: list[tuple[int, Pattern, int]] = [(0, (), 0)]
    while stack:
        steps += 1
        if steps > 10 * most or len(found) > most:
            return None
        start, group, total = stack.pop()
        for kind in range(start, len(middles)):
            used = group.count(kind)
            slots = pool.cap - len(group)
            reach = min(slots * middles[kind], below[kind] - used * middles[kind])
            if total + reach < pool.need:
                break
            if used == counts[kind]:
                continue
            longer, more = (*group, kind), total + middles[kind]
            if more >= pool.need and pool.holds(longer):
                found.append(longer)
            elif slots > 1:
                stack.append((kind, longer, more))
    return sorted(found)


def most_of(pool: Pool, groups: Sequence[Pattern]) -> list[Pattern]:
    """Return the most of the listed groups that fit in the pool together.

    It tries everything and is meant for a dozen workers.
    """
    starting: dict[int, list[Pattern]] = {}
    for group in groups:
        starting.setdefault(group[0], []).append(group)

    @cache
    def best(left: tuple[int, ...]) -> tuple[Pattern, ...]:
        kind = next((kind for kind, count in enumerate(left) if count), None)
        if kind is None:
            return ()
        most = best((*left[:kind], left[kind] - 1, *left[kind + 1 :]))
        for group in starting.get(kind, ()):
            rest = list(left)
            for member in group:
                rest[member] -= 1
            if min(rest) >= 0:
                most = max(most, (group, *best(tuple(rest))), key=len)
        return most

    return list(best(tuple(pool.counts)))
