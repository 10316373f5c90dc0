"""Runs a work order: feeds splits to replicas and publishes what they finish."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pkgutil import resolve_name
from typing import Final

from attrs import define, field

from ml_toolkit_core.errors import AllRowsFailed, JobError, ReplicaDied
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.book import Book
from ml_toolkit_core.pipeline.feed import Feed
from ml_toolkit_core.pipeline.pool import PoolFactory, ReplicaPool
from ml_toolkit_core.tables.parts import Part, Sink, Split, SplitRows
from ml_toolkit_core.tables.sink import open_sink
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import JobState, Outcome, RunResult

log = logging.getLogger(__name__)

#: Seconds between two publications at least, so that a fast run makes few commits.
PUBLISH_S: Final = 1.0
#: Bytes of rows that a replica holds, from which on it gets no more; bounds memory.
GIVEN_BYTES: Final = 512 * 1024**2


def run(
    order: WorkOrder,
    *,
    pool: str,
    engine: str,
    stage: Callable[[WorkOrder], WorkOrder] | None = None,
) -> RunResult:
    """Answer every row that is not published yet, and publish it.

    Args:
        order: What to do.
        pool: The ``module:attribute`` of a :class:`.PoolFactory`.
        engine: The ``module:attribute`` of an :class:`.EngineFactory`.
        stage: Brings the model to this machine, and returns the order with its new
            place; called only when there are rows to answer.

    Returns:
        What the whole run made, attempts before this one included.

    Raises:
        RequestError: When the input, the output or the model is not as ordered.
        JobError: When an engine died, another driver publishes this run, or all
            rows failed. What is published stays.
    """
    sink = open_sink(order)
    # Opening claims the output: only then is the run's ledger ours to write.
    book = Book(order=order, parts=list(sink.open()))
    try:
        source = open_source(order.source, order.pin)
        splits = source.splits(order.split_rows)
        feed = Feed(
            source=source,
            splits=splits,
            published={part.split: part.tally.done for part in book.parts},
            limit=order.limit,
        )
        if not feed.is_empty:
            if stage is not None:
                book.enter("staging")
                order = stage(order)
            factory: PoolFactory = resolve_name(pool)
            replicas = factory(order, engine=engine, writer=sink.writer)
            _answer(order, iter(feed), sink, replicas, book)
        if order.limit is None:
            _check_whole(order, splits, book)
        result = _finish(order, sink, book)
    except Exception as error:
        book.finish(Outcome.of(error))
        raise
    book.finish(Outcome(state=JobState.SUCCEEDED, result=result))
    return result


def _answer(
    order: WorkOrder,
    feed: Iterator[SplitRows],
    sink: Sink,
    replicas: ReplicaPool,
    book: Book,
) -> None:
    try:
        book.enter("loading")
        capacity = replicas.start()
        book.enter("running")
        _Run(
            order=order,
            pool=replicas,
            capacity=capacity,
            feed=feed,
            sink=sink,
            book=book,
        ).drive()
    finally:
        replicas.stop()


def _check_whole(order: WorkOrder, splits: Sequence[Split], book: Book) -> None:
    """Refuse to call a run done whose output is not the whole input, once.

    Raises:
        JobError: Saying what is missing or too many.
    """
    wanted = Counter(split.index for split in splits)
    there = Counter(part.split for part in book.parts)
    if wanted != there:
        raise JobError(
            f"the output has other splits than the input: missing "
            f"{sorted(wanted - there)[:10]}, too many {sorted(there - wanted)[:10]}"
        )
    # A Delta version may have deleted rows, which its pinned files still count.
    if order.pin.version is None and book.published.done != order.pin.rows:
        raise JobError(
            f"the output has {book.published.done:,} rows and the input "
            f"{order.pin.rows:,}; a part of the output was changed from outside"
        )


def _finish(order: WorkOrder, sink: Sink, book: Book) -> RunResult:
    book.enter("finishing")
    total = book.published
    if total.done and total.failed == total.done:
        errors = sink.list_failed()
        raise AllRowsFailed(
            f"all {total.done:,} rows failed; the reasons are listed in {errors!r}"
        )
    sink.complete()
    errors = sink.list_failed()
    book.enter("done")
    return RunResult(
        output=order.output.uri,
        errors=errors,
        rows=total.done,
        failed=total.failed,
        truncated=total.truncated,
        prompt_tokens=total.prompt_tokens,
        completion_tokens=total.completion_tokens,
        requests=book.tally.requests,
        attempt=order.attempt,
        seconds=book.seconds,
    )


@define(kw_only=True)
class _Run:
    """One attempt's loop: feed, hear, publish."""

    order: WorkOrder
    pool: ReplicaPool
    capacity: int
    feed: Iterator[SplitRows]
    sink: Sink
    book: Book
    clock: Callable[[], float] = time.monotonic
    _given: list[int] = field(init=False)
    _heard: list[float] = field(init=False)
    # By split: its replica, rows and bytes.
    _open: dict[int, tuple[int, int, int]] = field(factory=dict, init=False)
    _written: list[Part] = field(factory=list, init=False)
    _exhausted: bool = field(default=False, init=False)

    def drive(self) -> None:
        told = published = self.clock()
        self._given = [0] * self.pool.replicas
        self._heard = [told] * self.pool.replicas
        while True:
            self._feed()
            if not self._open and self._exhausted:
                break
            reports = self.pool.reports(timeout_s=1.0)
            now = self.clock()
            for report in reports:
                self._heard[report.replica] = now
                self._given[report.replica] -= report.tally.done
                self.book.tally += report.tally
                self._accept(report.parts)
            self._look_for_hung(now)
            if self._written and now - published >= PUBLISH_S:
                self._publish()
                published = now
            if now - told >= 1.0:
                self.book.tell()
                told = now
        self._publish()

    def _feed(self) -> None:
        while not self._exhausted:
            replica = min(range(len(self._given)), key=self._given.__getitem__)
            held = sum(size for to, _, size in self._open.values() if to == replica)
            if self._given[replica] >= self.capacity or held >= GIVEN_BYTES:
                return
            rows = next(self.feed, None)
            if rows is None:
                self._exhausted = True
                return
            if replica not in self._busy:
                self._heard[replica] = self.clock()
            batch = rows.batch
            self._open[rows.split.index] = (replica, batch.num_rows, batch.nbytes)
            self._given[replica] += rows.batch.num_rows
            self.pool.put(replica, rows)

    @property
    def _busy(self) -> set[int]:
        """The replicas that rows are with."""
        return {replica for replica, _, _ in self._open.values()}

    def _look_for_hung(self, now: float) -> None:
        limit = self.order.engine_timeout_s
        for replica in sorted(self._busy):
            silent = now - self._heard[replica]
            if silent > limit:
                left = sum(n for to, n, _ in self._open.values() if to == replica)
                raise ReplicaDied(
                    f"replica {replica} gave no sign of life for {silent:.0f} s "
                    f"(engine_timeout_s={limit:g}); {left:,} rows were with it"
                )

    def _accept(self, parts: tuple[Part, ...]) -> None:
        for part in parts:
            _, expected, _ = self._open.pop(part.split)
            if part.tally.done != expected:
                raise JobError(
                    f"split {part.split} had {expected} rows and came back with "
                    f"{part.tally.done}; it was not published"
                )
            self._written.append(part)

    def _publish(self) -> None:
        if not self._written:
            return
        self.sink.publish(self._written)
        log.info("published splits=%d", len(self._written))
        self.book.parts += self._written
        self._written.clear()
