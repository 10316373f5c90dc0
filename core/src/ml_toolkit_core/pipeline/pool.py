"""Replicas that work side by side: the protocol, and a pool in this process."""

import queue
import threading
import time
from collections.abc import Iterable, Sequence
from pkgutil import resolve_name
from typing import Final, Protocol

from attrs import frozen

from ml_toolkit_core.errors import ReplicaDied, ToolkitError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.replica import Replica
from ml_toolkit_core.tables.parts import ZERO, Part, PartWriter, SplitRows, Tally

#: Seconds for loading a model, unless ``engine_timeout_s`` is more: loading gives no
#: sign of life, and hundreds of GB from a network disk take their time.
LOAD_S: Final = 1800.0


@frozen(kw_only=True)
class Report:
    """What one replica did since its last report.

    Args:
        replica: Its number, from 0.
        parts: Splits that are written and wait for publication.
        tally: Rows answered and tokens since the last report.
    """

    replica: int
    parts: tuple[Part, ...] = ()
    tally: Tally = ZERO


class ReplicaPool(Protocol):
    """Replicas of one model; made by ``PoolFactory``, driven by ``driver.run``.

    A ``ToolkitError`` of a replica is raised as it is, so that its class still says
    who can mend it; anything else is a ``ReplicaDied``.
    """

    @property
    def replicas(self) -> int:
        """Their number, once started: the plan's, or what the far side planned."""

    def start(self) -> int:
        """Load the model in every replica.

        Returns:
            Rows to keep with each replica so that it never waits for the driver.

        Raises:
            RequestError: When the engine refuses the model or its arguments.
            ReplicaDied: When a replica cannot load, or takes longer than ``LOAD_S``
                and the order's ``engine_timeout_s``.
        """

    def put(self, replica: int, rows: SplitRows) -> None:
        """Give a replica one more split; returns at once."""

    def reports(self, timeout_s: float) -> Sequence[Report]:
        """Wait until there is a report, or for ``timeout_s``.

        Raises:
            ReplicaDied: When a replica is gone.
        """

    def stop(self) -> None:
        """End all replicas, also those that hang."""


class PoolFactory(Protocol):
    """Makes a pool; named as ``module:attribute`` in an executor."""

    def __call__(
        self, order: WorkOrder, *, engine: str, writer: PartWriter
    ) -> ReplicaPool:
        """Make a pool of ``order.plan.replicas`` replicas of the engine so named."""


class ThreadPool:
    """Replicas as threads of this process: for engines that are plain Python."""

    def __init__(
        self,
        order: WorkOrder,
        *,
        engine: str,
        writer: PartWriter,
        load_s: float = LOAD_S,
    ) -> None:
        self._order = order
        self._load_s = load_s
        self._engine = engine
        self._writer = writer
        self._work: list[queue.SimpleQueue[SplitRows]] = []
        #: A pair is the number of a replica that is loaded, and its capacity.
        self._outbox: queue.SimpleQueue[Report | tuple[int, int] | BaseException] = (
            queue.SimpleQueue()
        )
        self._stopped = threading.Event()

    def start(self) -> int:
        """Load every replica in a thread of its own."""
        for number in range(self._order.plan.replicas):
            self._work.append(queue.SimpleQueue())
            threading.Thread(target=self._run, args=(number,), daemon=True).start()
        limit = load_limit_s(self._order, self._load_s)
        end = time.monotonic() + limit
        capacity = 0
        waiting = set(range(self._order.plan.replicas))
        while waiting:
            try:
                answer = self._outbox.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise not_loaded(waiting, limit) from None
            if not isinstance(answer, tuple):
                raise _died(answer)
            number, capacity = answer
            waiting.discard(number)
        return capacity

    @property
    def replicas(self) -> int:
        """The plan's number."""
        return self._order.plan.replicas

    def put(self, replica: int, rows: SplitRows) -> None:
        """Queue a split."""
        self._work[replica].put(rows)

    def reports(self, timeout_s: float) -> Sequence[Report]:
        """Return the reports that are there, waiting for the first."""
        reports = []
        try:
            answer = self._outbox.get(timeout=timeout_s)
            while True:
                if not isinstance(answer, Report):
                    raise _died(answer)
                reports.append(answer)
                answer = self._outbox.get_nowait()
        except queue.Empty:
            return reports

    def stop(self) -> None:
        """Let threads end; one that hangs ends with the process."""
        self._stopped.set()

    def _run(self, number: int) -> None:
        try:
            engine = resolve_name(self._engine)(self._order, number)
            replica = Replica(self._order, engine, self._writer)
            self._outbox.put((number, replica.row_capacity))
            work = self._work[number]
            while not self._stopped.is_set():
                if replica.is_idle:
                    replica.take(work.get())
                while not work.empty():
                    replica.take(work.get())
                parts, tally = replica.turn()
                self._outbox.put(Report(replica=number, parts=parts, tally=tally))
        except BaseException as error:  # noqa: BLE001  the driver raises it
            self._outbox.put(error)


def load_limit_s(order: WorkOrder, least_s: float) -> float:
    """Return the seconds that a replica may take to load its model."""
    return max(least_s, order.engine_timeout_s)


def not_loaded(replicas: Iterable[int], limit_s: float) -> ReplicaDied:
    """Say which replicas were given up, and what would wait longer."""
    numbers = ", ".join(map(str, sorted(replicas)))
    return ReplicaDied(
        f"replica {numbers} did not load within {limit_s:g} s; the log says how far it "
        "came. Where a model needs longer, raise engine_timeout_s"
    )


def _died(answer: object) -> BaseException:
    if isinstance(answer, ToolkitError):
        return answer
    died = ReplicaDied(f"a replica ended: {type(answer).__name__}: {answer}")
    died.__cause__ = answer if isinstance(answer, BaseException) else None
    return died
