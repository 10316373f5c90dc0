"""The sink of a run: where its answers go, and whose an output is."""

from collections.abc import Callable, Mapping
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.claim import Owner, owner
from ml_toolkit_core.tables.deltasink import DeltaSink
from ml_toolkit_core.tables.jsonlsink import JsonlSink
from ml_toolkit_core.tables.parts import Sink
from ml_toolkit_core.tables.store import Store, join, store_for
from ml_toolkit_core.values import TableFormat, TableLocation

__all__ = ["Owner", "open_sink", "output_format", "owner"]

_SINKS: Final[Mapping[TableFormat, Callable[[WorkOrder, Store], Sink]]] = {
    TableFormat.JSONL: JsonlSink.of,
    TableFormat.DELTA: DeltaSink.of,
}
_WRITTEN: Final = (
    "an output is a Delta table, or a folder of JSON Lines parts (a name that ends "
    "in .jsonl, or output_format='jsonl')"
)
_SUFFIXES: Final = {".jsonl": TableFormat.JSONL, ".ndjson": TableFormat.JSONL}
_NOT_WRITTEN: Final = (".parquet", ".csv", ".tsv", ".json", ".gz")


def output_format(
    location: TableLocation, *, store: Store | None = None
) -> TableFormat:
    """Tell the format in which an output is written.

    A format that was given wins; then a Delta log that is there; then the name's
    ending: ``x.jsonl`` is a folder of JSON Lines parts, called exactly so. All else
    is a Delta table.

    Raises:
        RequestError: When such an output is not built yet.
    """
    name = location.name
    store = store or store_for(location.uri)
    if location.format in (TableFormat.JSONL, TableFormat.DELTA):
        return location.format
    if location.format is not None:
        raise RequestError(
            f"output_format={location.format.value!r} is not built yet; {_WRITTEN}"
        )
    if store.is_folder(join(location.uri, "_delta_log")):
        return TableFormat.DELTA
    base = location.uri.rstrip("/").rpartition("/")[2].lower()
    if base.endswith(_NOT_WRITTEN):
        raise RequestError(f"output_table={name!r} is not built yet; {_WRITTEN}")
    suffix = f".{base.rpartition('.')[2]}"
    return _SUFFIXES.get(suffix, TableFormat.DELTA)


def open_sink(order: WorkOrder, *, store: Store | None = None) -> Sink:
    """Return the sink of a run; nothing is created before its ``open``.

    Args:
        order: The run.
        store: Where the output lies; found by the URI when None.

    Raises:
        RequestError: When the format cannot be written, or cannot hold the columns.
    """
    store = store or store_for(order.output.uri)
    return _SINKS[output_format(order.output, store=store)](order, store)
