"""More groups, a tighter bound and fewer workers, where the quick ways fall short.

Reached by name from :mod:`.search`, and only where ``highspy`` is installed: a pool
whose quick answer meets its bound never loads it. All limits are counts of work; a
deadline, if there is one, ends the search early.
"""

from collections import Counter
from collections.abc import Sequence

import attrs
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

#: Pools in bytes mode with more kinds than this are refined coarsely, with so many.
_MOST_KINDS, _COARSE_KINDS = 2_000, 300
#: Steps of the simplex method in a dive.
_DIVE_STEPS = 8_000
#: Pipelines with more layers times kinds than this are not refined.
_MOST_CELLS = 5_000_000
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
    if pool.layered and pool.need * len(pool.kinds) > _MOST_CELLS:
        return best, PriceProof(bound=most_groups, prices=(), cost=0)
    if not pool.layered and len(pool.kinds) > _MOST_KINDS:
        return _coarsely(pool, best, most_groups, deadline)
    master = Master(pool, [*groups, *(listed or ())], most_groups)
    master.prove(len(best), deadline)
    if len(best) < master.proof.bound:
        dived = _completed(pool, dive(master, deadline), master.proof.bound)
        best = max(best, dived, key=len)
    few = len(pool.kinds) <= _WHOLE_KINDS and len(master.patterns) <= _WHOLE_PATTERNS
    if few and len(best) < master.proof.bound:
        best = max(best, most(pool, master.patterns, deadline), key=len)
    return best, master.proof


def _coarsely(
    pool: Pool, groups: list[Pattern], most_groups: int, deadline: float | None
) -> tuple[list[Pattern], PriceProof]:
    """Return what :func:`improved` does, from pools with fewer kinds."""
    upper, where = pool.coarsened(_COARSE_KINDS, up=True)
    master = Master(upper, (), most_groups)
    master.prove(len(groups), deadline)
    proof = master.proof
    if proof.prices:
        prices = tuple(proof.prices[there] for there in where)
        proof = attrs.evolve(proof, prices=prices)
    lower, where = pool.coarsened(_COARSE_KINDS, up=False)
    queues: list[list[int]] = [[] for _ in lower.kinds]
    for kind, there in enumerate(where):
        queues[there] += [kind] * len(pool.kinds[kind].workers)
    start = cover.fill(lower, lower.counts, small_first=False)
    coarse = Master(lower, [tuple(sorted(group)) for group in start], proof.bound)
    dived = dive(coarse, deadline) if len(groups) < proof.bound else []
    fine = [tuple(queues[kind].pop() for kind in group) for group in dived]
    return max(groups, _completed(pool, fine, proof.bound), key=len), proof


def _completed(pool: Pool, groups: list[Pattern], bound: int) -> list[Pattern]:
    """Return the groups and what can be made of the workers that they leave."""
    left = cover.left_over(pool.counts, groups)
    more = cover.best_of_many(pool, left, bound - len(groups))
    every = [list(group) for group in (*groups, *more)]
    if len(every) < bound:
        every = cover.harvested(pool, pool.counts, every)
    return [tuple(sorted(group)) for group in every[:bound]]


def dive(master: Master, deadline: float | None) -> list[Pattern]:
    """Return whole groups by fixing the whole parts and solving what is left."""
    left = master.pool.counts
    fixed: list[Pattern] = []
    last = master.steps + _DIVE_STEPS
    while not late(deadline) and master.steps < last:
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
    smallest = min(map(len, known))
    if count == 1:
        return [next(pattern for pattern in known if len(pattern) == smallest)]

    def shape(plan: Sequence[Pattern]) -> tuple[int, int]:
        return sum(map(len, plan)), max(map(len, plan))

    def improve(used: int, longest: int) -> bool:
        """Look for a plan with no more workers and no longer groups than these."""
        nonlocal best
        # While the other groups have the fewest workers, one can have so many.
        longest = min(longest, used - (count - 1) * smallest)
        allowed = [pattern for pattern in known if len(pattern) <= longest]
        costs = [float(len(pattern)) for pattern in allowed]
        picked = chosen(pool, allowed, costs, count, deadline) if allowed else []
        if picked and shape(picked) < shape(best):
            best = picked
            return True
        return False

    used, longest = shape(best)
    if used > pool.fewest_workers(count):
        improve(used - 1, longest=used)
    used, longest = shape(best)
    while longest > -(-used // count) and improve(used, longest - 1):
        used, longest = shape(best)
    return best
