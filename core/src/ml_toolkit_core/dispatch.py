"""The one-way flow: prepare a plan, submit it once, attach to it, follow it."""

import contextlib
import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from attrs import evolve

from ml_toolkit_core import discovery, records
from ml_toolkit_core.backends import Backends
from ml_toolkit_core.errors import PluginError, RequestError, did_you_mean
from ml_toolkit_core.hookspecs import BackendHooks, Executor
from ml_toolkit_core.identity import differences
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.references import resolve_references, tables
from ml_toolkit_core.values import (
    InferenceRequest,
    InputPin,
    JobHandle,
    JobStatus,
    Missing,
    Option,
    Pinned,
)
from ml_toolkit_core.wire import Json

#: Parts that a long run is cut into, at least; few enough to keep files large.
_PARTS: Final = 512
_SPLIT_ROWS: Final = (32, 16_384)
_SPLIT_BYTES: Final = 64 * 1024**2


def prepare(
    request: InferenceRequest, backends: Backends, *, arguments: Iterable[str] = ()
) -> InferencePlan:
    """Decide everything that can be decided before paying; starts nothing.

    Args:
        request: What is asked.
        backends: Where it can run.
        arguments: The caller's own arguments, which a misspelt option may have meant.

    Raises:
        RequestError: When the request cannot work, before anything is started.
        PluginError: When the backend or executor breaks its contract.
    """
    hooks = backends.get(request.compute_type)
    options = _options(request, hooks, backends, arguments)
    request = evolve(request, backend_options=options)
    executor = load_executor(request.executor)
    target = hooks.resolve_compute(request)
    pinned = resolve_references(request)
    run_id = request.run_id or fresh_run_id()
    begun = tables("claim").begun(pinned.output, request.write_mode, run_id)
    plan = InferencePlan(
        run_id=run_id,
        request=request,
        pinned=pinned,
        target=target,
        replicas=hooks.plan_replicas(request, target, pinned),
        # A run keeps the splits that it began with, whatever this version would do.
        split_rows=begun.get("split_rows", split_rows(pinned.pin)),
        ledger_uri=f"{_own_folder(request, pinned)}/{run_id}",
    )
    order = plan.order(attempt=1)
    tables("existing").check_output(
        order.output,
        order.write_mode,
        run_id=run_id,
        identity=order.identity,
        schema=tables("columns").output_schema(
            order.pin, order.output_column, order.output.format
        ),
    )
    executor.check(order)
    return plan


def submit(plan: InferencePlan, backends: Backends) -> InferenceJob:
    """Start the plan's job, or find the one that runs already.

    Raises:
        RequestError: Nothing was started.
        SubmitUnknown: The platform's answer was lost; a job may exist.
    """
    hooks = backends.get(plan.request.compute_type)
    attempt = 1
    if plan.request.run_id is not None:
        known = _known_job(plan, hooks)
        if known is not None:
            status = hooks.poll(known)
            _check_same_run(plan, known, status)
            if not status.state.is_final:
                return InferenceJob(handle=known, hooks=hooks, plan=plan)
            attempt = status.attempt + 1
    handle = hooks.submit(plan.order(attempt), plan.target)
    records.save(handle, plan)
    return InferenceJob(handle=handle, hooks=hooks, plan=plan)


def attach(handle: str | JobHandle, backends: Backends) -> InferenceJob:
    """Get a job back from its handle or the handle's text, in any process.

    Raises:
        RequestError: When the text is no handle, or the job is not known.
    """
    handle = JobHandle.parse(str(handle))
    hooks = backends.get(handle.backend)
    hooks.poll(handle)
    return InferenceJob(handle=handle, hooks=hooks, record=records.find(handle))


def load_executor(name: str) -> Executor:
    """Import an executor.

    Raises:
        RequestError: When there is none of this name.
        PluginError: When it cannot be imported or does not keep the contract.
    """
    executor: Executor = discovery.load(discovery.EXECUTORS, name)
    for member in ("NEEDS", "check", "execute"):
        value = getattr(executor, member, None)
        if not (isinstance(value, Mapping) if member == "NEEDS" else callable(value)):
            raise PluginError(
                f"executor {name!r} has no {member}; see "
                "ml_toolkit_core.hookspecs.Executor"
            )
    return executor


def fresh_run_id() -> str:
    """Return an id that no other run has, starting with today's date."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def split_rows(pin: InputPin) -> int:
    """Return how many rows a split has at most, from the pinned input alone.

    A power of two, so that about 512 splits cover the input, within 32 and 16,384
    rows and at most 64 MiB of the input, decoded where its files say how large
    that is; a row that is larger is a split of its own.
    """
    low, high = _SPLIT_ROWS
    rows = low
    while rows < high and rows * _PARTS < pin.rows:
        rows *= 2
    if pin.rows:
        per_row = max(1, pin.bytes // pin.rows, pin.row_bytes or 0)
        while rows > 1 and rows * per_row > _SPLIT_BYTES:
            rows //= 2
    return rows


def _options(
    request: InferenceRequest,
    hooks: BackendHooks,
    backends: Backends,
    arguments: Iterable[str],
) -> dict[str, Json]:
    """Check the options against the backend's list and drop their prefix."""
    known = {option.name: option for option in hooks.describe().options}
    prefix = f"{request.compute_type}_"
    options: dict[str, Json] = {}
    for given, value in request.backend_options.items():
        name = given.removeprefix(prefix)
        if given.startswith(prefix) and name in known:
            options[name] = _typed(given, value, known[name])
            continue
        owners = [n for n in backends.names() if given.startswith(f"{n}_")]
        owner = next((n for n in owners if n != request.compute_type), None)
        if owner is not None:
            raise RequestError(
                f"{given!r} is an option of backend {owner!r}, but "
                f"compute_type={request.compute_type!r}; drop it, or pass "
                f"compute_type={owner!r}"
            )
        names = [*(prefix + n for n in known), *arguments]
        raise RequestError(f"{given!r} is no option.{did_you_mean(given, names)}")
    return options


def _typed(given: str, value: Json, option: Option) -> Json:
    """Return an option's value; text, as a command line has it, may be JSON."""
    if isinstance(value, str) and option.type is not str:
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    is_bool = isinstance(value, bool)
    if not isinstance(value, option.type) or (is_bool and option.type is not bool):
        raise RequestError(
            f"{given}={value!r} must be of type {option.type.__name__}: {option.doc}"
        )
    return value


def _known_job(plan: InferencePlan, hooks: BackendHooks) -> JobHandle | None:
    """Ask the platform, then this machine's own records, for a job of this run."""
    found = hooks.find_job(plan.run_id)
    if not isinstance(found, Missing):
        return found
    for record in reversed(records.jobs()):
        handle = JobHandle.parse(record.handle)
        if (handle.backend, record.run_id) == (plan.request.compute_type, plan.run_id):
            return handle
    return None


def _check_same_run(plan: InferencePlan, known: JobHandle, status: JobStatus) -> None:
    """Refuse a ``run_id`` that names another run, wherever that one writes."""
    record = records.find(known)
    if record is not None:
        changed = differences(plan.order(attempt=1).identity, record.identity)
    elif status.ledger_uri not in {None, plan.ledger_uri}:
        changed = [f"output: {plan.ledger_uri!r} here, {status.ledger_uri!r} there"]
    else:
        changed = []
    if changed:
        raise RequestError(
            f"run_id={plan.run_id!r} is another run ({known}): {'; '.join(changed)}. "
            "Pass the same arguments as before, or another run_id"
        )


def _own_folder(request: InferenceRequest, pinned: Pinned) -> str:
    folder: str = tables("layout").own_folder(pinned.output, request.write_mode)
    return folder
