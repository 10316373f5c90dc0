"""The sink of a run: where its answers go, and whose an output is."""

from typing import Final

from attrs import evolve

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.asidesink import AsideSink
from ml_toolkit_core.tables.claim import Owner, owner
from ml_toolkit_core.tables.deltasink import DeltaSink
from ml_toolkit_core.tables.deltaswap import DeltaSwapSink
from ml_toolkit_core.tables.foldersink import FolderSink
from ml_toolkit_core.tables.layout import WRITTEN, is_aside
from ml_toolkit_core.tables.parts import Sink
from ml_toolkit_core.tables.places import check_delta_path, check_name
from ml_toolkit_core.tables.store import Store, join
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import TableFormat, TableLocation, WriteMode

__all__ = ["Owner", "open_sink", "output_format", "owner"]

_WRITTEN: Final = (
    "an output is a Delta table, one file (.jsonl, .csv, .parquet), or with "
    "output_format= a folder of such files"
)
_NOT_WRITTEN: Final = (".tsv", ".json", ".gz", ".txt")


def output_format(
    location: TableLocation, *, store: Store | None = None
) -> TableFormat:
    """Tell the format in which an output is written.

    A format that was given wins; then a Delta log that is there; then the name's
    ending: ``x.jsonl`` is one file, called exactly so. All else is a Delta table.

    Raises:
        RequestError: When such an output is not built yet, or cannot have its name.
    """
    check_name(location)
    kind = _format_of(location, store)
    check_delta_path(location, kind)
    return kind


def _format_of(location: TableLocation, store: Store | None) -> TableFormat:
    name = location.name
    store = store or store_for(location.uri)
    if location.format is not None:
        return location.format
    if store.is_folder(join(location.uri, "_delta_log")):
        return TableFormat.DELTA
    base = location.uri.rstrip("/").lower()
    if base.endswith(_NOT_WRITTEN):
        raise RequestError(f"output_table={name!r} is not written; {_WRITTEN}")
    kinds = (kind for suffix, kind in WRITTEN.items() if base.endswith(suffix))
    return next(kinds, TableFormat.DELTA)


def open_sink(order: WorkOrder, *, store: Store | None = None) -> Sink:
    """Return the sink of a run; nothing is created before its ``open``.

    Args:
        order: The run.
        store: Where the output lies; found by the URI when None.

    Raises:
        RequestError: When the format cannot be written, or cannot hold the columns.
    """
    store = store or store_for(order.output.uri)
    order = evolve(
        order,
        output=evolve(order.output, format=output_format(order.output, store=store)),
    )
    is_delta = order.output.format is TableFormat.DELTA
    if is_delta and order.write_mode is WriteMode.OVERWRITE:
        return DeltaSwapSink.of(order, store)
    if is_delta:
        return DeltaSink.of(order, store)
    if is_aside(order.output, order.write_mode):
        return AsideSink.of(order, store)
    return FolderSink.of(order, store)
