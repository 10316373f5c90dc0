"""The far half of the pool: one replica in a process of its own."""

import logging
import os
from pkgutil import resolve_name

import ray

from ml_toolkit_core import credentials
from ml_toolkit_core.errors import ReplicaDied, ToolkitError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.pool import Report
from ml_toolkit_core.pipeline.replica import Replica
from ml_toolkit_core.tables.parts import PartWriter, SplitRows


class ReplicaActor:
    """Holds one replica; Ray calls its methods one after the other.

    Args:
        order: The run's order, as JSON text.
        number: The replica's number, from 0.
        cores: The CPU cores it keeps to; any, when there are none.
    """

    def __init__(self, order: str, number: int, cores: tuple[int, ...]) -> None:
        if cores:  # threads inherit this, so it comes before vLLM makes the first one
            os.sched_setaffinity(0, cores)
        logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
        self._order = WorkOrder.loads(order)
        self._number = number
        self._replica: Replica | None = None

    def locate(self) -> tuple[str, int]:
        """Return the address of this node and the number of this process."""
        return ray.util.get_node_ip_address(), os.getpid()

    def load(self, engine: str, writer: PartWriter) -> int:
        """Load the model.

        Returns:
            Rows to keep with this replica.
        """
        try:
            credentials.use(self._order.credentials)
            make = resolve_name(engine)
            self._replica = Replica(
                self._order, make(self._order, self._number), writer
            )
        except ToolkitError as error:
            raise _plain(error) from None
        return self._replica.row_capacity

    def turn(self, *work: SplitRows) -> Report:
        """Take splits, then step until one is finished or a moment has gone by."""
        if self._replica is None:
            raise ReplicaDied(f"replica {self._number} is not loaded")
        for rows in work:
            self._replica.take(rows)
        try:
            parts, tally = self._replica.turn()
        except ToolkitError as error:
            raise _plain(error) from None
        return Report(replica=self._number, parts=parts, tally=tally)


def _plain(error: ToolkitError) -> ToolkitError:
    """Return the error without causes, which may not survive a pickle."""
    return type(error)(*error.args)
