"""One replica: keeps an engine full across splits and writes each finished split."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from attrs import define, field

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.engine import Completion, Engine
from ml_toolkit_core.pipeline.prompts import Prompter
from ml_toolkit_core.tables.columns import with_answers
from ml_toolkit_core.tables.parts import (
    ZERO,
    Part,
    PartWriter,
    RowError,
    SplitRows,
    Tally,
)

#: A turn ends after this time even when no split is finished, so that the driver
#: hears of progress.
TURN_S: Final = 0.5
#: Finished splits that wait to be written; more would fill the memory.
WRITES: Final = 2


@define
class _OpenSplit:
    """A split some of whose rows are not answered yet."""

    rows: SplitRows
    answers: list[Completion | None]
    left: int
    prompter: Prompter
    next_row: int = 0


@define
class Replica:
    """Drives one engine.

    Args:
        order: The run's order.
        engine: The loaded model.
        writer: Writes finished splits.
        clock: Seconds, never going back.
    """

    order: WorkOrder
    engine: Engine
    writer: PartWriter
    clock: Callable[[], float] = time.monotonic
    _queue: deque[_OpenSplit] = field(factory=deque, init=False)
    _in_flight: dict[int, tuple[_OpenSplit, int]] = field(factory=dict, init=False)
    _next_key: int = field(default=0, init=False)
    _writes: deque[Future[Part]] = field(factory=deque, init=False)
    # Encoding and fsync take long, and the engine steps on meanwhile.
    _thread: ThreadPoolExecutor = field(
        factory=lambda: ThreadPoolExecutor(max_workers=1), init=False
    )

    @property
    def row_capacity(self) -> int:
        """Rows to keep here so that the engine stays full over split borders."""
        return 2 * self.engine.capacity

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self._queue or self._in_flight or self._writes)

    def take(self, rows: SplitRows) -> None:
        """Queue a split."""
        count = rows.batch.num_rows
        self._queue.append(
            _OpenSplit(
                rows=rows,
                answers=[None] * count,
                left=count,
                prompter=Prompter(self.order, rows.batch),
            )
        )

    def turn(self) -> tuple[tuple[Part, ...], Tally]:
        """Step until a split is written or half a second has gone by.

        Returns:
            The splits that were written, and what was counted.
        """
        parts: list[Part] = []
        tally = ZERO
        deadline = self.clock() + TURN_S
        while not parts and not self.is_idle:
            finished, requests, done = self._fill()
            if self._in_flight:
                for completion in self.engine.step():
                    split, row = self._in_flight.pop(completion.key)
                    split.answers[row] = completion
                    split.left -= 1
                    done.append(completion)
                    if not split.left:
                        finished.append(split)
            tally += _tally(done, requests)
            self._writes += [self._thread.submit(self._write, s) for s in finished]
            parts += self._written()
            if self.clock() >= deadline:
                break
        return tuple(parts), tally

    def _fill(self) -> tuple[list[_OpenSplit], int, list[Completion]]:
        """Give the engine requests until it is full; rows may fail on the way."""
        finished: list[_OpenSplit] = []
        failed: list[Completion] = []
        requests = 0
        while self._queue and len(self._in_flight) < self.engine.capacity:
            split = self._queue[0]
            if split.next_row < len(split.answers):
                row, key = split.next_row, self._next_key
                split.next_row += 1
                try:
                    if row in split.rows.errors:
                        raise split.rows.errors[row]
                    self.engine.add(key, split.prompter.request(row))
                except RowError as error:
                    failed.append(Completion(key=key, error=error))
                    split.answers[row] = failed[-1]
                    split.left -= 1
                else:
                    requests += 1
                    self._in_flight[key] = (split, row)
                    self._next_key += 1
            if split.next_row == len(split.answers):
                self._queue.popleft()
                if not split.left:
                    finished.append(split)
        return finished, requests, failed

    def _written(self) -> Iterator[Part]:
        """Yield what is written; wait when the engine has nothing to do."""
        if self._writes and not (self._queue or self._in_flight):
            yield self._writes.popleft().result()
        while self._writes and (len(self._writes) > WRITES or self._writes[0].done()):
            yield self._writes.popleft().result()

    def _write(self, split: _OpenSplit) -> Part:
        answers = [answer for answer in split.answers if answer is not None]
        table = with_answers(split.rows.batch, answers, self.order.output_column)
        return self.writer.write(split.rows.split, table, _tally(answers, 0))


def _tally(answers: list[Completion], requests: int) -> Tally:
    return Tally(
        done=len(answers),
        failed=sum(answer.error is not None for answer in answers),
        truncated=sum(answer.finish_reason == "length" for answer in answers),
        requests=requests,
        prompt_tokens=sum(answer.prompt_tokens or 0 for answer in answers),
        completion_tokens=sum(answer.completion_tokens or 0 for answer in answers),
    )
