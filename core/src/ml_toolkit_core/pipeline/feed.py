"""The rows that a run still has to answer, in order, up to its limit."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import define, evolve, field

from ml_toolkit_core.tables.parts import Source, Split, SplitRows


@define(kw_only=True)
class Feed:
    """Reads what is not published yet.

    Args:
        source: The pinned input.
        splits: All splits of the run, in order.
        published: Rows of the splits that are published, by index.
        limit: Rows of the run at most, counted from the input's first; None for all.
    """

    source: Source
    splits: Sequence[Split]
    published: Mapping[int, int]
    limit: int | None = None
    _todo: list[Split] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find the splits to read: none when the published ones reach the limit."""
        left = self.limit
        self._todo = []
        known = True  # whether all splits so far are published, so their rows counted
        for split in self.splits:
            if known and left is not None and left <= 0:
                break
            if split.index in self.published:
                if left is not None:
                    left -= self.published[split.index]
            else:
                known = False
                self._todo.append(split)

    @property
    def is_empty(self) -> bool:
        """Whether every row of the run is published."""
        return not self._todo

    def __iter__(self) -> Iterator[SplitRows]:
        """Yield the rows to answer, split by split."""
        reading = self.source.read(self._todo)
        if self.limit is None:
            yield from reading
            return
        left = self.limit
        todo = {split.index for split in self._todo}
        for split in self.splits:
            if left <= 0:
                return
            if split.index not in todo:
                left -= self.published.get(split.index, 0)
                continue
            rows = _first(next(reading), left)
            left -= rows.batch.num_rows
            yield rows


def _first(rows: SplitRows, count: int) -> SplitRows:
    if rows.batch.num_rows <= count:
        return rows
    few = rows.batch.slice(0, count)
    return evolve(
        rows,
        # A slice would carry the whole batch along when it is sent to a replica.
        batch=pa.concat_batches([few]),  # type: ignore[attr-defined]
        errors={row: error for row, error in rows.errors.items() if row < count},
    )
