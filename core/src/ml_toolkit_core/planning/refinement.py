"""More groups, a tighter bound and fewer workers, where the quick ways fall short.

Reached by name from :mod:`.search`, and only where ``highspy`` is installed: a pool
whose quick answer meets its bound never loads it. All limits are counts of work; a
deadline, if there is one, ends the search early.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ml_toolkit_core.planning import cover
from ml_toolkit_core.planning.milp import (
    EPSILON,
    Master,
    PriceProof,
    chosen,
    late,
    most,
)
from ml_toolkit_core.planning.pool import Pattern, Pool

#: With more kinds than this nothing is refined.
_MOST_KINDS = 2_000
#: With more kinds or groups than this the dive is the last try for more groups.
_WHOLE_KINDS, _WHOLE_PATTERNS = 150, 2_000


def improved(
    pool: Pool,
    groups: Sequence[Pattern],
    listed: Sequence[Pattern] | None,
    most_groups: int,
    deadline: float | None,
) -> tuple[list[Pattern], PriceProof]:
    """Return more groups if there are, and the best bound.

    Args:
        pool: The pool.
        groups: The groups to improve on.
        listed: All groups there are, or None if they are too many.
        most_groups: The bound so far.
        deadline: When to stop, on the monotonic clock.
    """
    best = list(groups)
    master = Master(pool, [*groups, *(listed or ())], most_groups)
    small = len(pool.kinds) <= _MOST_KINDS
    if small:
        master.prove(len(best), deadline)
    if small and len(best) < master.proof.bound:
        dived = [list(group) for group in dive(master, deadline)]
        left = cover.left_over(pool.counts, dived)
        dived += cover.best_of_many(pool, left, master.proof.bound - len(dived))
        best = max(best, [tuple(sorted(group)) for group in dived], key=len)
    few = len(pool.kinds) <= _WHOLE_KINDS and len(master.patterns) <= _WHOLE_PATTERNS
    if few and len(best) < master.proof.bound:
        best = max(best, most(pool, master.patterns, deadline), key=len)
    return best, master.proof


def dive(master: Master, deadline: float | None) -> list[Pattern]:
    """Return whole groups by fixing the whole parts and solving what is left."""
    left = master.pool.counts
    fixed: list[Pattern] = []
    while not late(deadline):
        relaxed = master.grow()
        if relaxed.value < 1 - EPSILON:
            break
        amounts = np.floor(relaxed.amounts + EPSILON)
        if not amounts.any():
            amounts[int(relaxed.amounts.argmax())] = 1.0
        before = len(fixed)
        for place in np.flatnonzero(amounts).tolist():
            kinds = Counter(master.patterns[place])
            for _ in range(int(amounts[place])):
                if any(left[kind] < count for kind, count in kinds.items()):
                    break
                fixed.append(master.patterns[place])
                for kind, count in kinds.items():
                    left[kind] -= count
        if len(fixed) == before:
            break
        master.limit(left)
    master.limit(master.pool.counts)
    return fixed


def leaner(
    pool: Pool,
    patterns: Sequence[Pattern],
    groups: Sequence[Pattern],
    deadline: float | None,
) -> list[Pattern]:
    """Return as many groups with fewer workers, then shorter, then better balanced.

    Args:
        pool: The pool.
        patterns: The groups to choose from; with all there are the answer is the best.
        groups: The groups to improve on.
        deadline: When to stop, on the monotonic clock.
    """
    count, best = len(groups), list(groups)
    known = sorted({*patterns, *groups})

    def better(costs: Callable[[Pattern], float], allowed: list[Pattern]) -> bool:
        nonlocal best
        picked = chosen(
            pool, allowed, [costs(pattern) for pattern in allowed], count, deadline
        )
        best = picked or best
        return bool(picked)

    if sum(map(len, best)) > pool.fewest_workers(count):
        better(len, known)
    used = sum(map(len, best))
    longest = max(map(len, best))
    while longest > -(-used // count):
        shorter = [pattern for pattern in known if len(pattern) < longest]
        previous = best
        if not better(len, shorter) or sum(map(len, best)) > used:
            best = previous
            break
        longest = max(map(len, best))
    return best
