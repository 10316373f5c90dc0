"""The relaxed and the exact problem over groups, solved with HiGHS.

The only planning module that needs ``highspy``; see :mod:`.refinement`.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import attrs
import highspy
import numpy as np
import numpy.typing as npt

from ml_toolkit_core.planning.pool import Pattern, Pool
from ml_toolkit_core.planning.pricing import pricing_of

Floats = npt.NDArray[np.float64]

EPSILON = 1e-6
#: Rounds of new groups for the bound, and for each step of a dive.
_ROUNDS, _DIVE_ROUNDS = 400, 15
_INERTIA = 0.7
#: Work of a proof: rounds times kinds, and steps of the simplex method.
_PROOF_WORK, _PROOF_STEPS = 60_000, 8_000
#: Nodes of a search for whole groups.
_NODES = 200
#: Prices this little below a whole number are that number.
_ROUND_UP = 1e-3
#: The largest unit in which prices may turn out whole, and units times kinds tried.
_LARGEST_UNIT, _UNIT_CELLS = 6_000, 2_000_000


@attrs.frozen(kw_only=True)
class Relaxed:
    """The best fractional plan: ``value`` replicas, prices of kinds, how often each."""

    value: float
    prices: Floats
    amounts: Floats


@attrs.frozen(kw_only=True)
class PriceProof:
    """No plan has more replicas than ``bound``: they would cost more than all workers.

    Attributes:
        bound: The most replicas of the kinds.
        prices: The price of one worker of each kind.
        cost: What any group costs at least.
    """

    bound: int
    prices: tuple[int, ...]
    cost: int


class Master:
    """The relaxed problem over the groups known so far; it grows."""

    def __init__(self, pool: Pool, patterns: Iterable[Pattern], most: int) -> None:
        self.pool = pool
        self.patterns: list[Pattern] = []
        self.proof = PriceProof(bound=most, prices=(), cost=0)
        self.steps = 0
        self._known: set[Pattern] = set()
        self._pricing = pricing_of(pool)
        self._solver = _solver()
        for count in pool.counts:
            self._solver.addRow(0.0, float(count), 0, [], [])
        self.add(patterns)

    def add(self, patterns: Iterable[Pattern]) -> int:
        """Add groups that are new; return how many were."""
        before = len(self.patterns)
        for pattern in patterns:
            if pattern not in self._known:
                self._known.add(pattern)
                self.patterns.append(pattern)
                _add_column(self._solver, -1.0, Counter(pattern))
        return len(self.patterns) - before

    def limit(self, counts: Sequence[int]) -> None:
        """Let only so many workers of each kind be used."""
        for kind, count in enumerate(counts):
            self._solver.changeRowBounds(kind, 0.0, float(count))

    def solve(self) -> Relaxed:
        """Return the best fractional plan over the groups known."""
        self._solver.run()
        self.steps += self._solver.getInfo().simplex_iteration_count
        solution = self._solver.getSolution()
        return Relaxed(
            value=-self._solver.getObjectiveValue(),
            prices=np.maximum(-np.array(solution.row_dual), 0.0),
            amounts=np.array(solution.col_value),
        )

    def prove(self, enough: int, deadline: float | None) -> None:
        """Add groups until the bound is ``enough``, or no better bound is in sight."""
        relaxed = self.solve()
        units = list(self._pricing.units)
        steady = relaxed.prices
        for _ in range(min(_ROUNDS, _PROOF_WORK // len(self.pool.kinds))):
            hopeless = relaxed.value > self.proof.bound - EPSILON
            if self.proof.bound <= enough or hopeless or late(deadline):
                break
            if self.steps > _PROOF_STEPS:
                break
            # Prices jump from round to round; a running mean needs far fewer rounds.
            steady = _INERTIA * steady + (1 - _INERTIA) * relaxed.prices
            if self.add(self._priced(steady, units[0])) or self.add(
                self._priced(relaxed.prices, units[0])
            ):
                relaxed = self.solve()
            elif len(units) > 1:
                del units[0]
            else:
                self._priced(relaxed.prices, _whole_unit(relaxed.prices))
                break

    def grow(self) -> Relaxed:
        """Add groups for the workers that :meth:`limit` leaves."""
        relaxed = self.solve()
        for _ in range(_DIVE_ROUNDS):
            if not self.add(self._priced(relaxed.prices, self._pricing.units[0])):
                break
            relaxed = self.solve()
        return relaxed

    def _priced(self, prices: Floats, unit: int) -> list[Pattern]:
        """Return groups below their price; keep the bound that the prices prove."""
        whole = np.floor(prices * unit + _ROUND_UP).astype(np.int64)
        columns, cost = self._pricing.cheapest(whole, unit)
        if cost > 0:
            worth = sum(
                count * price
                for count, price in zip(self.pool.counts, whole.tolist(), strict=True)
            )
            if worth // cost < self.proof.bound:
                self.proof = PriceProof(
                    bound=worth // cost, prices=tuple(whole.tolist()), cost=cost
                )
        return columns


def _whole_unit(prices: Floats) -> int:
    """Return the unit in which the prices are nearest to whole numbers."""
    largest = max(1, min(_LARGEST_UNIT, _UNIT_CELLS // len(prices)))
    units = np.arange(1, largest + 1)[:, None]
    errors = np.abs(units * prices - np.rint(units * prices)).max(axis=1)
    good = np.flatnonzero(errors < _ROUND_UP)
    return int(good[0] if len(good) else errors.argmin()) + 1


def most(
    pool: Pool, patterns: Sequence[Pattern], deadline: float | None
) -> list[Pattern]:
    """Return the most groups that the given patterns allow together."""
    return chosen(pool, patterns, [-1.0] * len(patterns), None, deadline)


def chosen(
    pool: Pool,
    patterns: Sequence[Pattern],
    costs: Sequence[float],
    replicas: int | None,
    deadline: float | None,
) -> list[Pattern]:
    """Return groups of least cost, ``replicas`` of them where that is not None."""
    solver = _solver()
    solver.setOptionValue("mip_max_nodes", _NODES)
    # Costs are whole numbers: a plan less than one from the bound is the best.
    solver.setOptionValue("mip_abs_gap", 0.99)
    solver.setOptionValue("mip_rel_gap", 0.0)
    if deadline is not None:
        solver.setOptionValue("time_limit", max(0.01, deadline - time.monotonic()))
    for count in pool.counts:
        solver.addRow(0.0, float(count), 0, [], [])
    if replicas is not None:
        solver.addRow(float(replicas), float(replicas), 0, [], [])
    for pattern, cost in zip(patterns, costs, strict=True):
        kinds: dict[int, int] = dict(Counter(pattern))
        if replicas is not None:
            kinds[len(pool.kinds)] = 1
        _add_column(solver, cost, kinds)
    columns = np.arange(len(patterns), dtype=np.int32)
    whole = np.full(len(patterns), highspy.HighsVarType.kInteger)
    solver.changeColsIntegrality(len(patterns), columns, whole)
    solver.run()
    feasible = highspy.SolutionStatus.kSolutionStatusFeasible
    if solver.getInfo().primal_solution_status != feasible:
        return []
    amounts = solver.getSolution().col_value
    return [
        pattern
        for pattern, amount in zip(patterns, amounts, strict=True)
        for _ in range(round(amount))
    ]


def _add_column(solver: highspy.Highs, cost: float, rows: Mapping[int, int]) -> None:
    solver.addCol(
        cost,
        0.0,
        highspy.kHighsInf,
        len(rows),
        np.array(list(rows), dtype=np.int32),
        np.array(list(rows.values()), dtype=np.float64),
    )


class _Quiet(highspy.Highs):  # type: ignore[misc]  # the vendor is untyped to us
    """A solver that does not greet: the greeting goes to standard output."""

    def enableCallbacks(self) -> None:  # noqa: N802 - the vendor's name
        """Be silent before the constructor says its first word."""
        self.silent()
        super().enableCallbacks()


def _solver() -> highspy.Highs:
    solver = _Quiet()
    for option, value in (
        ("threads", 1),
        ("parallel", "off"),
        ("random_seed", 0),
        ("dual_feasibility_tolerance", 1e-9),
    ):
        solver.setOptionValue(option, value)
    return solver


def late(deadline: float | None) -> bool:
    """Return whether the time is up."""
    return deadline is not None and time.monotonic() >= deadline
