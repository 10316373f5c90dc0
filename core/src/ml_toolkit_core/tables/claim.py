"""The claim: which run an output belongs to."""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from ml_toolkit_core.errors import RequestError, RunFenced
from ml_toolkit_core.identity import differences
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.layout import OWN_FOLDER, is_aside, is_one_file, own_folder
from ml_toolkit_core.tables.store import Store, join, read_json
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import TableLocation, WriteMode
from ml_toolkit_core.wire import Json, to_json

#: The claim of the first run; ``run-000002.json`` is that of the one that took over.
CLAIM: Final = "_run.json"
_LATER: Final = re.compile(r"_run-(\d{6,})\.json")
#: In a run's own folder: how an output that is made aside was put in its place.
DONE: Final = "done.json"


@frozen(kw_only=True)
class Owner:
    """Whose an output is.

    Args:
        run_id: The run that made it; None when no run of ours did.
        identity: What that run is, by part.
        number: How many runs have taken the output, this one included.
    """

    run_id: str | None
    identity: Mapping[str, Json]
    number: int = 0


def owner(
    location: TableLocation,
    mode: WriteMode = WriteMode.ERROR,
    *,
    store: Store | None = None,
) -> Owner | None:
    """Say whose an output is; None when nothing is there yet.

    An empty folder, or one in which a run has only begun its ledger, is nothing; and
    so is a file that a finished run made and somebody removed.
    """
    store = store or store_for(location.uri)
    last = _last(store, own_folder(location, mode))
    there = store.stat(location.uri) is not None or any(
        not file.path.startswith(f"{OWN_FOLDER}/") for file in store.files(location.uri)
    )
    if last is not None:
        done = join(own_folder(location, mode), last.run_id or "", DONE)
        removed = is_aside(location, mode) and not there and store.stat(done)
        return None if removed else last
    return Owner(run_id=None, identity={}) if there else None


def claim(store: Store, order: WorkOrder, *beside: str) -> int:
    """Make the output this run's own, or find that it is.

    Args:
        store: Where the output lies.
        order: The run.
        beside: URIs of what the run will make next to its output; nothing may be
            there before the output is claimed.

    Returns:
        How many runs have taken the output.

    Raises:
        RequestError: When it is not: something else is there, or another run's
            output, or the output of this ``run_id`` with another identity.
    """
    mode, folder = order.write_mode, own_folder(order.output, order.write_mode)
    if mode is WriteMode.APPEND and not is_one_file(order.output):
        return _join(store, order, folder)
    while True:
        last = _last(store, folder)
        if last is not None and last.run_id == order.run_id:
            check(last, order.output, order.run_id, order.identity)
            return last.number
        if mode is WriteMode.ERROR:
            found = owner(order.output, mode, store=store)
            if found is not None:
                check(found, order.output, order.run_id, order.identity)
            for uri in beside:
                if last is None and (store.stat(uri) or store.is_folder(uri)):
                    raise RequestError(
                        f"{uri!r} exists, and this run would list its failed rows "
                        "there; remove it, or choose another output_table"
                    )
        if mode is WriteMode.APPEND and last is not None:
            _check_done(store, order, folder, last)
        number = last.number + 1 if last is not None else 1
        if _create(store, order, join(folder, _name(number)), {}):
            return number


def begun(
    location: TableLocation,
    mode: WriteMode,
    run_id: str,
    *,
    store: Store | None = None,
) -> Mapping[str, Json]:
    """Return the identity with which a run claimed an output; empty when it has not."""
    store = store or store_for(location.uri)
    folder = own_folder(location, mode)
    last = _last(store, folder)
    if last is not None and last.run_id == run_id:
        return last.identity
    joined = read_json(store, join(folder, run_id, CLAIM)) or {}
    return joined.get("identity") or {}


def check_claim(store: Store, order: WorkOrder, number: int) -> None:
    """Stop when another run has taken the output since.

    Raises:
        RunFenced: Then.
    """
    folder = own_folder(order.output, order.write_mode)
    if store.stat(join(folder, _name(number + 1))) is not None:
        raise RunFenced(
            f"run_id={order.run_id!r}: another run overwrites "
            f"{order.output.name!r}; this one stops here"
        )


def check(
    found: Owner | None,
    output: TableLocation,
    run_id: str,
    identity: Mapping[str, Json],
) -> None:
    """Refuse an output that is not this run's own.

    Args:
        found: Whose the output is.
        output: Where it lies.
        run_id: The run that wants it.
        identity: What that run is, by part.

    Raises:
        RequestError: Naming whose it is, or in what the two runs differ.
    """
    name = output.name
    modes = "pass write_mode='append' or 'overwrite', or choose another output_table"
    if found is None or found.run_id is None:
        raise RequestError(
            f"output_table={name!r} exists already and was not made by ml-toolkit; "
            f"with write_mode='error' it is left as it is: {modes}"
        )
    if found.run_id != run_id:
        raise RequestError(
            f"output_table={name!r} exists already and belongs to "
            f"run_id={found.run_id!r}; pass run_id={found.run_id!r} to go on with that "
            f"run; with write_mode='error' it is left as it is: {modes}"
        )
    changed = differences(to_json(identity), found.identity)
    if changed:
        raise RequestError(
            f"run_id={run_id!r} was another run: {'; '.join(changed)}. Pass the same "
            "arguments as before, or another run_id and output_table"
        )


def _join(store: Store, order: WorkOrder, folder: str) -> int:
    """Note a run that appends beside others; return how many have overwritten."""
    uri = join(folder, order.run_id, CLAIM)
    while True:
        last = _last(store, folder)
        number = last.number if last is not None else 0
        found = read_json(store, uri)
        if found is not None:
            mine = Owner(run_id=order.run_id, identity=found.get("identity") or {})
            check(mine, order.output, order.run_id, order.identity)
            if found.get("after") != number:
                raise RequestError(
                    f"output_table={order.output.name!r} was overwritten after "
                    f"run_id={order.run_id!r} began to append to it; pass another "
                    "run_id to append all rows again"
                )
            return number
        if last is not None and last.run_id == order.run_id:
            check(last, order.output, order.run_id, order.identity)
        if _create(store, order, uri, {"after": number}):
            return number


def _check_done(store: Store, order: WorkOrder, folder: str, last: Owner) -> None:
    if store.stat(join(folder, last.run_id or "", DONE)) is None:
        raise RequestError(
            f"output_table={order.output.name!r}: run_id={last.run_id!r} has not "
            f"finished writing it; pass run_id={last.run_id!r} to go on with that run "
            "first"
        )


def _create(store: Store, order: WorkOrder, uri: str, more: Mapping[str, Json]) -> bool:
    claimed = {"run_id": order.run_id, "identity": to_json(order.identity), **more}
    try:
        store.create(uri, [dumps(claimed).encode()])
    except FileExistsError:  # another driver was faster; see whose
        return False
    except OSError as error:
        raise RequestError(
            f"output_table={order.output.name!r} cannot be written: "
            f"{error.strerror or error}"
        ) from error
    return True


def _last(store: Store, folder: str) -> Owner | None:
    """Return the run that took an output last."""
    names = [file.path for file in store.files(folder)]
    later = [int(match[1]) for match in map(_LATER.fullmatch, names) if match]
    number = max(later, default=int(CLAIM in names))
    if not number:
        return None
    found = read_json(store, join(folder, _name(number))) or {}
    return Owner(
        run_id=found.get("run_id"),
        identity=found.get("identity") or {},
        number=number,
    )


def _name(number: int) -> str:
    return CLAIM if number == 1 else f"_run-{number:06d}.json"
