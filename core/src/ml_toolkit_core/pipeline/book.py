"""What a run counts, and tells its ledger."""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from attrs import define, field

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.ledger import Ledger
from ml_toolkit_core.tables.parts import ZERO, Part, Tally
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import Outcome, Progress

log = logging.getLogger(__name__)

#: Rates are those of the last so many seconds.
_WINDOW_S: Final = 30.0


@define(kw_only=True)
class Book:
    """Counts rows and tokens, and writes the ledger.

    Args:
        order: The run's order.
        parts: The published parts; the driver adds to them.
        tally: What this attempt counted, published or not.
        clock: Seconds, never going back.
    """

    order: WorkOrder
    parts: list[Part]
    tally: Tally = ZERO
    clock: Callable[[], float] = time.monotonic
    _ledger: Ledger = field(init=False)
    _before: Tally = field(init=False)
    _begin: float = field(init=False)
    _phase: str = field(default="starting", init=False)
    _seen: deque[tuple[float, Tally]] = field(factory=deque, init=False)

    def __attrs_post_init__(self) -> None:
        uri = self.order.ledger_uri
        self._ledger = Ledger(store_for(uri), uri)
        self._before = self.published
        self._begin = self.clock()

    @property
    def published(self) -> Tally:
        """What readers of the output see."""
        return sum((part.tally for part in self.parts), ZERO)

    @property
    def seconds(self) -> float:
        """Wall time of this attempt so far."""
        return self.clock() - self._begin

    def enter(self, phase: str) -> None:
        """Begin a phase, and tell."""
        log.info("phase=%s", phase)
        self._phase = phase
        self.tell()

    def tell(self) -> None:
        """Write how far the run is."""
        self._ledger.write(self._progress(), attempt=self.order.attempt)

    def finish(self, outcome: Outcome) -> None:
        """Write how the run ended."""
        self._ledger.write(
            self._progress(), attempt=self.order.attempt, outcome=outcome
        )

    def _progress(self) -> Progress:
        total = self._before + self.tally
        rows = self.order.rows
        rows_per_s, tokens_per_s = self._rates()
        left = max(0, rows - total.done)
        return Progress(
            phase=self._phase,
            rows=rows,
            done=total.done,
            failed=total.failed,
            published=self.published.done,
            requests=self.tally.requests,
            prompt_tokens=total.prompt_tokens,
            completion_tokens=total.completion_tokens,
            truncated=total.truncated,
            rows_per_s=rows_per_s,
            tokens_per_s=tokens_per_s,
            eta_s=left / rows_per_s if rows_per_s else None,
        )

    def _rates(self) -> tuple[float | None, float | None]:
        if self._phase != "running":
            return None, None
        now = self.clock()
        self._seen.append((now, self.tally))
        while now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        then, tally = self._seen[0]
        if now - then < 1.0:
            return None, None
        rows = self.tally.done - tally.done
        tokens = self.tally.completion_tokens - tally.completion_tokens
        return rows / (now - then), tokens / (now - then)
