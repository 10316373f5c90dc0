"""Which new groups are worth more than they cost, at given prices of the workers.

Prices are whole numbers and ``unit`` is what one replica is worth: a group that costs
less would raise the value of the relaxed problem. Like :mod:`.milp` and
:mod:`.refinement`, it needs numpy, which highspy brings along.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ml_toolkit_core.planning.pool import Pattern, Pool

Ints = npt.NDArray[np.int64]

#: Groups returned at most.
_COLUMNS, _BYTES_COLUMNS = 60, 15
#: More than any cost in a table, and far from the end of 64 bits.
_NEVER = 1 << 60
#: Cells of one table by cost, and of all tables for a pool; beyond them no new groups
#: are looked for.
_CELLS, _ALL_CELLS = 60_000_000, 500_000_000


class Pricing(Protocol):
    """Finds cheap groups."""

    @property
    def units(self) -> Sequence[int]:
        """Units to price with, coarse first."""

    def cheapest(self, prices: Ints, unit: int) -> tuple[list[Pattern], int]:
        """Return groups below ``unit``, and what any group costs at least.

        The cost is exact or too low, never too high; 0 says nothing.
        """
        ...


def pricing_of(pool: Pool) -> Pricing:
    """Return the way to price that suits the pool."""
    return StagePricing(pool) if pool.layered else BytesPricing(pool)


class StagePricing:
    """Pipelines of least cost, from a table by layers.

    A kind may be used more often than there are workers of it, which makes the table
    small; the bound stays a bound.
    """

    units = (10**9,)

    def __init__(self, pool: Pool) -> None:
        self._need = pool.need
        middle, self._first, self._last = (
            np.array([getattr(kind, place) for kind in pool.kinds], dtype=np.int64)
            for place in ("middle", "first", "last")
        )
        layers = np.arange(pool.need + 1)[:, None]
        self._from_middle = np.maximum(layers - middle, 0)
        self._from_first = np.maximum(layers - self._first, 0)

    def cheapest(self, prices: Ints, unit: int) -> tuple[list[Pattern], int]:
        """Return the cheapest group for each last stage, and the least cost."""
        need = self._need
        middle = np.zeros(need + 1, dtype=np.int64)
        middle_by = np.zeros(need + 1, dtype=np.int64)
        for layers in range(1, need + 1):
            costs = prices + middle[self._from_middle[layers]]
            middle_by[layers] = best = int(costs.argmin())
            middle[layers] = costs[best]
        opened = np.where(self._first > 0, prices, _NEVER)
        table = opened + middle[self._from_first]
        front_by = table.argmin(axis=1)
        front = table[np.arange(need + 1), front_by]
        missing = np.maximum(need - self._last, 0)
        costs = np.where(self._last > 0, prices + front[missing], _NEVER)
        columns = []
        for last in np.argsort(costs, kind="stable")[:_COLUMNS].tolist():
            if costs[last] >= unit:
                break
            layers = int(missing[last])
            first = int(front_by[layers])
            group = [last, first]
            layers -= int(self._first[first])
            while layers > 0:
                group.append(int(middle_by[layers]))
                layers = int(self._from_middle[layers][group[-1]])
            columns.append(tuple(sorted(group)))
        return columns, int(costs.min())


class BytesPricing:
    """Groups of least cost, from a table by cost."""

    #: Multiples of many small numbers, since prices like 1/2 and 1/3 are common.
    units = (840, 2520)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # Memory is rounded up where 64 bits do not hold the sums: a few groups more
        # pass here, and are weighed exactly before they are used.
        largest = sum(kind.middle * len(kind.workers) for kind in pool.kinds)
        shift = max(0, largest.bit_length() - 61)
        self._need = pool.need >> shift
        self._sizes = [-(-kind.middle >> shift) for kind in pool.kinds]
        smallest = pool.kinds[-1].middle
        self._slots = min(pool.cap, -(-pool.need // smallest))
        # Where no group is as large as the cap, workers need not be counted.
        self._counted = self._slots if self._slots == pool.cap else 1
        self._cells_left = _ALL_CELLS

    def cheapest(self, prices: Ints, unit: int) -> tuple[list[Pattern], int]:
        """Return groups of different costs below ``unit``, and the least cost."""
        items = self._items(prices, unit)
        cells = len(items) * self._counted * unit
        if cells > min(_CELLS, self._cells_left):
            return [], 0
        self._cells_left -= cells
        table, taken = self._table(items, prices, unit)
        costs = np.flatnonzero(table >= self._need)
        if not len(costs):
            return [], unit
        columns: dict[Pattern, None] = {}
        for cost in costs[:: -(-len(costs) // _BYTES_COLUMNS)].tolist():
            group: list[int] = []
            count, left = self._counted, cost
            for place in reversed(range(len(items))):
                if count and taken[place, count - 1, left]:
                    group.append(items[place])
                    left -= int(prices[items[place]])
                    count -= 1 if self._counted > 1 else 0
            columns[tuple(sorted(group))] = None
        return [group for group in columns if self._pool.holds(group)], int(costs[0])

    def _items(self, prices: Ints, unit: int) -> list[int]:
        """Return the kinds, each as often as one group can use it."""
        items: list[int] = []
        used: dict[int, int] = defaultdict(int)
        for kind, price in enumerate(prices.tolist()):
            if price < unit:
                most = min(self._slots, (unit - 1) // price if price else self._slots)
                copies = min(len(self._pool.kinds[kind].workers), most - used[price])
                items += [kind] * copies
                used[price] += copies
        return items

    def _table(
        self, items: Sequence[int], prices: Ints, unit: int
    ) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the most that each cost buys, and which items were taken for it."""
        counted = self._counted
        table = np.zeros((counted + 1, unit), dtype=np.int64)
        fewer = slice(0, counted) if counted > 1 else slice(1, 2)
        taken = np.zeros((len(items), counted, unit), dtype=np.bool_)
        for place, kind in enumerate(items):
            price = int(prices[kind])
            held = table[fewer, : unit - price] + self._sizes[kind]
            taken[place, :, price:] = better = held > table[1:, price:]
            table[1:, price:] = np.where(better, held, table[1:, price:])
        return table[counted], taken
