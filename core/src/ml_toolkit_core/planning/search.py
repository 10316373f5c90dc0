"""The best groups of a pool and the proof of how good they are.

The quick ways come first; only where they miss their bound, and where ``highspy`` is
installed, :mod:`.refinement` is loaded. All limits are counts of work, so the same pool
always gives the same groups; a deadline can only stop the search early.
"""

import importlib
from collections.abc import Iterable, Sequence
from types import ModuleType

import attrs

from ml_toolkit_core.planning import cover, listing
from ml_toolkit_core.planning.certificate import SEARCH_WORKERS
from ml_toolkit_core.planning.pool import Pattern, Pool
from ml_toolkit_core.planning.values import Proof

#: Pools with more groups than this are large: their groups are found, not listed.
_LISTED, _LISTED_KINDS = 1_500, 64
#: With fewer groups than this, the fewest workers are found exactly too.
_LISTED_FOR_ORDER = 300


@attrs.frozen(kw_only=True)
class Found:
    """Groups of kinds, with the proven most there can be.

    Attributes:
        groups: The groups; no worker in them is superfluous.
        bound: The most groups that are possible.
        proof: Why.
        prices: One whole price for each kind, where the proof is by prices.
        cost: What any group costs at least at these prices.
    """

    groups: tuple[Pattern, ...]
    bound: int
    proof: Proof
    prices: tuple[int, ...] = ()
    cost: int = 0


def search(
    pool: Pool, *, enough: int | None = None, deadline: float | None = None
) -> Found:
    """Return as many groups as are found within the limits.

    Args:
        pool: The pool.
        enough: A number of groups that will do, or None for as many as possible.
        deadline: When to stop, on the monotonic clock, or None.
    """
    volume = pool.most_by_volume()
    goal = volume if enough is None else min(enough, volume)
    found = Found(
        groups=_tight(pool, cover.best_of_many(pool, pool.counts, goal)),
        bound=volume,
        proof=Proof.VOLUME,
    )
    listed = None
    if len(found.groups) < goal:
        listed = _listed(pool, _LISTED)
    if len(found.groups) < goal and (solver := _solver()):
        groups, proof = solver.improved(pool, found.groups, listed, volume, deadline)
        found = attrs.evolve(found, groups=_tight(pool, groups))
        if proof.bound < volume:
            found = attrs.evolve(
                found,
                bound=proof.bound,
                proof=Proof.PRICES,
                prices=proof.prices,
                cost=proof.cost,
            )
    few = sum(pool.counts) <= SEARCH_WORKERS
    if len(found.groups) < min(goal, found.bound) and few and listed is not None:
        groups = listing.most_of(pool, listed)
        found = Found(groups=_sorted(groups), bound=len(groups), proof=Proof.SEARCH)
    if enough is None and _wasteful(pool, found.groups):
        listed = _listed(pool, _LISTED_FOR_ORDER)
        if listed is not None and (solver := _solver()):
            groups = solver.leaner(pool, listed, found.groups, deadline)
            found = attrs.evolve(found, groups=_sorted(groups))
    balanced = cover.balanced(pool, [list(group) for group in found.groups])
    return attrs.evolve(found, groups=_sorted(balanced))


def _listed(pool: Pool, most: int) -> list[Pattern] | None:
    """Return all groups, or None; with many kinds there are too many for sure."""
    return listing.all_groups(pool, most) if len(pool.kinds) <= _LISTED_KINDS else None


def _wasteful(pool: Pool, groups: Sequence[Pattern]) -> bool:
    """Return whether fewer or better spread workers might form as many groups."""
    used = sum(map(len, groups))
    return (
        bool(groups)
        and len(pool.kinds) > 1
        and (
            used > pool.fewest_workers(len(groups))
            or max(map(len, groups)) > -(-used // len(groups))
        )
    )


def _solver() -> ModuleType | None:
    try:
        return importlib.import_module("ml_toolkit_core.planning.refinement")
    except ImportError:
        return None


def _sorted(groups: Iterable[Sequence[int]]) -> tuple[Pattern, ...]:
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _tight(pool: Pool, groups: Iterable[Sequence[int]]) -> tuple[Pattern, ...]:
    return _sorted(cover.trimmed(pool, list(group)) for group in groups)
