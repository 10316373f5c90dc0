"""The far side of the wire: ``python -m ml_toolkit_core.worker order.json``.

Runs the order's executor and ends with 0 when the output is whole, else with 1.
``--outcome FILE`` also writes how it ended, for platforms that keep no exit status.
``--pid-file FILE`` takes its process number, first of all, and a lock that lasts as
long as it does; ``--submit-lock FD`` is the lock that it then lets go.
"""

import argparse
import logging
import sys
from pathlib import Path

from ml_toolkit_core import credentials, runlock
from ml_toolkit_core.dispatch import load_executor
from ml_toolkit_core.errors import ToolkitError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.records import write_json
from ml_toolkit_core.values import JobState, Outcome
from ml_toolkit_core.wire import to_json

log = logging.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    """Run one order; the exit code says whether its output is whole."""
    parser = argparse.ArgumentParser(prog="ml_toolkit_core.worker")
    parser.add_argument("order", type=Path)
    parser.add_argument("--outcome", type=Path)
    parser.add_argument("--pid-file", type=Path)
    parser.add_argument("--submit-lock", type=int)
    given = parser.parse_args(argv)
    if given.pid_file is not None:
        runlock.hold_while_alive(given.pid_file, given.submit_lock)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    outcome = run(given.order)
    if given.outcome is not None:
        write_json(given.outcome, to_json(outcome))
    log.info("run ended state=%s reason=%s", outcome.state, outcome.reason)
    return 0 if outcome.state is JobState.SUCCEEDED else 1


def run(path: Path) -> Outcome:
    """Run the executor of the order in a file, and say how it ended."""
    try:
        order = WorkOrder.load(path)
        log.info("run starts run_id=%s attempt=%d", order.run_id, order.attempt)
        credentials.use(order.credentials)
        load_executor(order.executor).execute(order)
    except ToolkitError as error:
        log.exception("run failed")
        return Outcome.of(error)
    except Exception as error:  # the far end of the wire: say it, whatever it is
        log.exception("run failed in a way that ml-toolkit does not know")
        return Outcome.of(error)
    return Outcome(state=JobState.SUCCEEDED)


if __name__ == "__main__":
    sys.exit(main())
