"""Replicas as Ray actors."""

import contextlib
import logging
import os
import re
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

import ray
from attrs import define, evolve, field
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError

from ml_toolkit_anyscale.executor.actor import ReplicaActor
from ml_toolkit_anyscale.executor.cluster import cluster_for, plan_here, shortage
from ml_toolkit_anyscale.executor.settings import replica_environment
from ml_toolkit_core.errors import ReplicaDied, RequestError, ToolkitError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.pool import LOAD_S, Report, load_limit_s, not_loaded
from ml_toolkit_core.tables.parts import PartWriter, SplitRows

log = logging.getLogger(__name__)

#: One call runs, the next one waits at the actor: it never waits for the driver.
CALLS_QUEUED: Final = 2
#: Enough for nodes that are up, and told in the first minute; Ray itself would wait
#: for ever.
PLACE_S: Final = 45.0
_LESS: Final = "Fewer replicas or a smaller max_model_len need less."


@define
class _Member:
    """One replica, seen from the driver."""

    number: int
    actor: Any
    pid: int | None = None
    splits: int = 0
    calls: int = 0
    pending: deque[SplitRows] = field(factory=deque)


class RayPool:
    """Replicas as actors, on a Ray of the run's own or on the cluster that is there.

    Args:
        order: The run's order.
        engine: The engine, as ``module:attribute``; resolved in the actors.
        writer: Writes finished splits, in the actors.
        place_s: A replica that Ray cannot place within so many seconds has no place.
        load_s: Seconds for loading the model; ``engine_timeout_s`` when that is more.
    """

    def __init__(
        self,
        order: WorkOrder,
        *,
        engine: str,
        writer: PartWriter,
        place_s: float = PLACE_S,
        load_s: float = LOAD_S,
    ) -> None:
        self._order = order
        self._place_s = place_s
        self._load_s = load_s
        self._engine = engine
        self._writer = writer
        self._members: list[_Member] = []
        self._calls: dict[Any, _Member] = {}
        self._cluster = cluster_for(order)

    def start(self) -> int:
        """Start Ray and load the model in every replica, side by side.

        Raises:
            RequestError: When the machine has not what the plan needs, or vLLM
                refuses the model or its arguments.
            ReplicaDied: When a replica cannot load, or takes too long.
        """
        self._cluster.start()
        if self._order.plan.on_far_side:
            self._order = evolve(self._order, plan=plan_here())
            log.info("planned here: %s", "; ".join(self._order.plan.reasons))
        self._make_actors()
        return self._load()

    def _make_actors(self) -> None:
        """Make the actors, and wait until each has its place."""
        plan = self._order.plan
        for number, own in enumerate(self._cluster.cores(plan)):
            threads = len(own) or (plan.cpus_per_replica or 0)
            environment = replica_environment(self._order, threads, self._cluster.temp)
            actor = ray.remote(ReplicaActor).options(
                num_cpus=max(1, threads),
                num_gpus=plan.gpus_per_replica,
                max_restarts=0,
                runtime_env={"env_vars": environment},
                # Ray's default fills one node by half before it takes another.
                scheduling_strategy="SPREAD",
            )
            member = _Member(number, actor.remote(self._order.dumps(), number, own))
            self._members.append(member)
            self._calls[member.actor.locate.remote()] = member
        for call, member in self._done(self._calls, len(self._members), self._place_s):
            node, member.pid = self._get(call, member)
            log.info("replica=%d node=%s pid=%d", member.number, node, member.pid)
        self._calls.clear()
        if any(member.pid is None for member in self._members):
            raise RequestError(
                f"{shortage(self._order)} Not all were placed within "
                f"{self._place_s:g} s"
            )

    def _load(self) -> int:
        """Load the model in all actors; return the rows to keep with each."""
        limit = load_limit_s(self._order, self._load_s)
        end = time.monotonic() + limit
        capacity = 0
        waiting = {
            member.actor.load.remote(self._engine, self._writer): member
            for member in self._members
        }
        while waiting:
            left = end - time.monotonic()
            if left <= 0:
                raise not_loaded((member.number for member in waiting.values()), limit)
            for call, member in self._done(waiting, 1, left):
                capacity = self._get(call, member)
                del waiting[call]
        return capacity

    @property
    def replicas(self) -> int:
        """The number of replicas, once started."""
        return len(self._members)

    def put(self, replica: int, rows: SplitRows) -> None:
        """Give a replica one more split; returns at once."""
        member = self._members[replica]
        member.splits += 1
        member.pending.append(rows)
        self._call(member)

    def reports(self, timeout_s: float) -> Sequence[Report]:
        """Return the reports that are there, waiting for the first.

        Raises:
            ReplicaDied: When a replica is gone.
        """
        reports = []
        for call, member in self._done(self._calls, 1, timeout_s):
            del self._calls[call]
            member.calls -= 1
            report = self._get(call, member)
            member.splits -= len(report.parts)
            reports.append(report)
            self._call(member)
        return reports

    def stop(self) -> None:
        """End all replicas, also those that hang, and Ray when it is the run's own."""
        for member in self._members:
            with contextlib.suppress(RayError, ValueError):
                ray.kill(member.actor, no_restart=True)
        # Ray asks a process to end, and a hung one stays.
        if self._cluster.temp is not None:  # then they run on this machine
            for member in self._members:
                if member.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(member.pid, signal.SIGKILL)
        self._members.clear()
        self._calls.clear()
        self._cluster.stop()

    def _call(self, member: _Member) -> None:
        """Keep calls queued at a replica that has rows to answer."""
        while member.splits and member.calls < CALLS_QUEUED:
            self._calls[member.actor.turn.remote(*member.pending)] = member
            member.pending.clear()
            member.calls += 1

    def _done(
        self, calls: dict[Any, _Member], count: int, timeout_s: float | None
    ) -> Iterator[tuple[Any, _Member]]:
        """Yield the calls that are done, waiting for ``count`` of them."""
        if not calls:
            return
        ray.wait(list(calls), num_returns=count, timeout=timeout_s)
        ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        yield from ((call, calls[call]) for call in ready)

    def _get(self, call: Any, member: _Member) -> Any:
        try:
            return ray.get(call)
        except RayError as error:
            self._raise(error, member)

    def _raise(self, error: RayError, member: _Member) -> NoReturn:
        if isinstance(error, RayTaskError):
            if isinstance(error.cause, ToolkitError):
                raise error.cause from None
            what = f"{type(error.cause).__name__}: {error.cause}"
        elif isinstance(error, OutOfMemoryError):
            used = re.search(r"was (\S+ used / \S+ limit)", str(error))
            what = f"the machine ran out of memory ({used[1] if used else ''}). {_LESS}"
        elif isinstance(error, RayActorError):
            what = _why(str(error))
        else:
            what = f"{type(error).__name__}: {error}"
        log.error("replica=%d died run_id=%s", member.number, self._order.run_id)
        raise ReplicaDied(
            f"replica {member.number} died: {' '.join(what.split())[:600]} Published "
            f"rows are kept; run again with run_id={self._order.run_id!r} to go on."
        ) from None


def _why(message: str) -> str:
    """Return the one sentence of Ray's page on a dead actor."""
    found = re.search(
        r"Worker exit detail: (.*?)(?:\. There are|$)", message, re.DOTALL
    )
    if found is None:
        return message.partition("\n")[0]
    return f"{found[1].rstrip('.')}. Its process was killed, or memory ran out. {_LESS}"
