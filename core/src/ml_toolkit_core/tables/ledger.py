"""The ledger: how far a run is, as a small JSON file that anybody can read."""

import json
import time
from collections.abc import Callable
from typing import Final

from attrs import field, frozen
from attrs.validators import in_

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.store import Store, join, read_json, store_for
from ml_toolkit_core.values import Progress, RunResult
from ml_toolkit_core.wire import from_json, to_json

_FILE: Final = "ledger.json"


@frozen(kw_only=True)
class Outcome:
    """How an attempt ended.

    Args:
        state: ``succeeded`` or ``failed``.
        reason: Why, in a sentence; empty on success.
        result: What the run made, on success.
        resumable: Whether the same call again goes on from here.
    """

    state: str = field(validator=in_(("succeeded", "failed")))
    reason: str = ""
    result: RunResult | None = None
    resumable: bool = False


@frozen(kw_only=True)
class LedgerState:
    """What a ledger says.

    Args:
        progress: How far the run is.
        attempt: Which attempt wrote it.
        updated_at: When, in seconds since 1970.
        outcome: None while the attempt goes on.
    """

    progress: Progress
    attempt: int
    updated_at: float
    outcome: Outcome | None = None


@frozen
class Ledger:
    """Writes the ledger of one run.

    Args:
        store: Where it lies.
        uri: The run's own folder.
        clock: Seconds since 1970.
    """

    store: Store
    uri: str
    clock: Callable[[], float] = time.time

    def write(
        self, progress: Progress, *, attempt: int, outcome: Outcome | None = None
    ) -> None:
        """Replace the ledger; readers see the old or the new one, whole."""
        state = LedgerState(
            progress=progress,
            attempt=attempt,
            updated_at=self.clock(),
            outcome=outcome,
        )
        text = json.dumps(to_json(state), ensure_ascii=False, indent=1)
        self.store.replace(join(self.uri, _FILE), [text.encode()])


def read_ledger(uri: str, *, store: Store | None = None) -> LedgerState | None:
    """Read the ledger in a run's own folder; None when it is missing or torn."""
    data = read_json(store or store_for(uri), join(uri, _FILE))
    if data is None:
        return None
    try:
        return from_json(LedgerState, data)
    except RequestError:
        return None
