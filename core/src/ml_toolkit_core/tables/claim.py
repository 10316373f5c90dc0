"""The claim: which run an output belongs to."""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.identity import differences
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.store import Store, join, read_json, store_for
from ml_toolkit_core.values import TableFormat, TableLocation
from ml_toolkit_core.wire import Json, to_json

#: Our own folder in an output; readers skip names that begin with ``_``.
OWN_FOLDER: Final = "_ml_toolkit"
_CLAIM: Final = "run.json"
#: What the name of an output that is one file ends in.
FILE_SUFFIXES: Final = {
    TableFormat.JSONL: (".jsonl", ".ndjson"),
    TableFormat.CSV: (".csv",),
    TableFormat.PARQUET: (".parquet",),
}


@frozen(kw_only=True)
class Owner:
    """Whose an output is.

    Args:
        run_id: The run that made it; None when no run of ours did.
        identity: What that run is, by part.
    """

    run_id: str | None
    identity: Mapping[str, Json]


def is_one_file(location: TableLocation) -> bool:
    """Whether an output is a file: its name ends in its format, and not in a slash.

    >>> file = TableLocation(name="x.csv", uri="/x.csv", format=TableFormat.CSV)
    >>> is_one_file(file), own_folder(file)
    (True, '/_ml_toolkit/x.csv')
    """
    suffixes = FILE_SUFFIXES.get(location.format) if location.format else None
    return suffixes is not None and location.name.lower().endswith(suffixes)


def own_folder(location: TableLocation) -> str:
    """Return our own folder of an output: in it, or beside it when it is one file."""
    if not is_one_file(location):
        return join(location.uri, OWN_FOLDER)
    parent, _, name = location.uri.rpartition("/")
    return join(parent, OWN_FOLDER, name)


def owner(location: TableLocation, *, store: Store | None = None) -> Owner | None:
    """Say whose an output is; None when nothing is there yet.

    An empty folder, or one in which a run has only begun its ledger, is nothing.
    """
    store = store or store_for(location.uri)
    claim = read_json(store, join(own_folder(location), _CLAIM))
    if claim is not None:
        return Owner(run_id=claim.get("run_id"), identity=claim.get("identity") or {})
    if store.stat(location.uri) is not None or any(
        not file.path.startswith(f"{OWN_FOLDER}/") for file in store.files(location.uri)
    ):
        return Owner(run_id=None, identity={})
    return None


def claim(store: Store, order: WorkOrder, *beside: str) -> None:
    """Make the output this run's own, or find that it is.

    Args:
        store: Where the output lies.
        order: The run.
        beside: URIs of what the run will make next to its output; nothing may be
            there before the output is claimed.

    Raises:
        RequestError: When it is not: something else is there, or another run's
            output, or the output of this ``run_id`` with another identity.
    """
    found = owner(order.output, store=store)
    if found is None:
        for uri in beside:
            if store.stat(uri) or store.is_folder(uri):
                raise RequestError(
                    f"{uri!r} exists, and this run would list its failed rows there; "
                    "remove it, or choose another output_table"
                )
        text = dumps({"run_id": order.run_id, "identity": to_json(order.identity)})
        try:
            store.create(join(own_folder(order.output), _CLAIM), [text.encode()])
        except FileExistsError:  # another driver was faster; see whose
            found = owner(order.output, store=store)
        except OSError as error:
            raise RequestError(
                f"output_table={order.output.name!r} cannot be written: "
                f"{error.strerror or error}"
            ) from error
        else:
            return
    check(found, order)


def check(found: Owner | None, order: WorkOrder) -> None:
    """Refuse an output that is not the order's own.

    Raises:
        RequestError: Naming whose it is, or in what the two runs differ.
    """
    name = order.output.name
    if found is None or found.run_id is None:
        raise RequestError(
            f"output_table={name!r} exists already and was not made by ml-toolkit; "
            "with write_mode='error' it is left as it is: choose another "
            "output_table, or remove it first"
        )
    if found.run_id != order.run_id:
        raise RequestError(
            f"output_table={name!r} exists already and belongs to "
            f"run_id={found.run_id!r}; pass run_id={found.run_id!r} to go on with that "
            "run, or choose another output_table"
        )
    changed = differences(to_json(order.identity), found.identity)
    if changed:
        raise RequestError(
            f"run_id={order.run_id!r} was another run: {'; '.join(changed)}. Pass the "
            "same arguments as before, or another run_id and output_table"
        )
