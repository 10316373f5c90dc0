"""The source of a run: a pinned table, opened for reading."""

from collections.abc import Callable, Mapping
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.csvtable import CsvSource
from ml_toolkit_core.tables.delta import DeltaSource
from ml_toolkit_core.tables.jsonl import JsonlSource
from ml_toolkit_core.tables.parquet import ParquetSource
from ml_toolkit_core.tables.parts import Source
from ml_toolkit_core.tables.pinned import PinnedFiles, pinned_schema
from ml_toolkit_core.tables.store import Store
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import InputPin, TableFormat, TableLocation

_SOURCES: Final[Mapping[TableFormat, Callable[..., Source]]] = {
    TableFormat.JSONL: JsonlSource,
    TableFormat.CSV: CsvSource,
    TableFormat.PARQUET: ParquetSource,
    TableFormat.DELTA: DeltaSource,
}


def open_source(
    location: TableLocation, pin: InputPin, *, store: Store | None = None
) -> Source:
    """Open a pinned table for reading.

    Args:
        location: The location that ``pin_table`` returned.
        pin: The pin it returned.
        store: Where the files lie; found by the URI when None.

    Raises:
        RequestError: When the location has no format that can be read.
    """
    source = _SOURCES.get(location.format) if location.format else None
    if source is None:
        raise RequestError(f"{location.name!r}: format {location.format!r} is not read")
    files = PinnedFiles(
        store=store or store_for(location.uri),
        location=location,
        pin=pin,
        schema=pinned_schema(pin),
    )
    return source(files=files)
