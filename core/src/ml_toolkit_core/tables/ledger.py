"""The ledger: how far a run is, as a small JSON file that anybody can read."""

import json
import time
from collections.abc import Callable
from typing import Final

from attrs import frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import LedgerState, Outcome, Progress
from ml_toolkit_core.wire import from_json, to_json

_FILE: Final = "ledger.json"


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
