"""The types that a caller gives to CSV columns: their names, and cells read so."""

import re
import zoneinfo
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from ml_toolkit_core.errors import RequestError, did_you_mean
from ml_toolkit_core.tables.arrowtypes import ArrowType
from ml_toolkit_core.tables.csvtext import Cell
from ml_toolkit_core.wire import Json

_NAMED: Final[Mapping[str, ArrowType]] = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date32[day]": pa.date32(),
}
_TIMESTAMP: Final = re.compile(r"timestamp\[(s|ms|us|ns)(?:, ?tz=([^\]]+))?\]")
_DECIMAL: Final = re.compile(r"decimal128\((\d{1,2}), ?(\d{1,2})\)")
_OFFSET: Final = re.compile(r"[+-]\d\d:\d\d")
_DIGITS: Final = 38
_KNOWN: Final = (*_NAMED, "decimal128(9, 2)", "timestamp[us]", "timestamp[us, tz=UTC]")


def column_types(options: Mapping[str, Json]) -> dict[str, ArrowType]:
    """Return the types in ``read_options``, by column.

    Raises:
        RequestError: When one is none that CSV is read as, with a near one.
    """
    given = options.get("types", {})
    if not isinstance(given, Mapping):
        raise RequestError(
            f"read_options['types']={given!r} must be an object of columns and types, "
            "for example {'price': 'double'}"
        )
    return {column: _type_of(column, name) for column, name in given.items()}


def check_columns(name: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    """Refuse types for columns that a table, called ``name``, does not have."""
    for column in given:
        if column not in known:
            raise RequestError(
                f"read_options['types'] has {column!r}, which is no column of {name!r}."
                f"{did_you_mean(column, known)} Columns: {', '.join(map(repr, known))}"
            )


def typed(cells: Sequence[Cell], kind: ArrowType) -> Any:
    """Read cells as values of a type; those that are null stay so.

    Raises:
        ArrowInvalid: When one is no such value, or one beyond its range.
    """
    texts: Any = pa.array(cells, pa.string())
    if types.is_integer(kind):  # Arrow takes 0xFF, which is -1 as an int8
        _must(pc.match_substring_regex(texts, r"^-?[0-9]+$"))
    values = texts.cast(kind)
    if types.is_floating(kind):  # of 1e999 Arrow makes infinity
        said = pc.match_substring_regex(texts, "inf", ignore_case=True)
        _must(pc.or_(pc.invert(pc.is_inf(values)), said))
    if types.is_decimal(kind):  # of more than 38 digits Arrow makes others
        exact = [None if cell is None else Decimal(cell) for cell in cells]
        if exact != values.to_pylist():
            raise _no_value()
    return values


def faulty(cells: Sequence[Cell], kind: ArrowType) -> list[int]:
    """Return the places of the cells that are no values of a type."""
    try:
        typed(cells, kind)
    except pa.ArrowInvalid:
        half = len(cells) // 2
        if not half:
            return [0]
        after = (half + place for place in faulty(cells[half:], kind))
        return [*faulty(cells[:half], kind), *after]
    return []


def _type_of(column: str, name: Json) -> ArrowType:
    if isinstance(name, str):
        if name in _NAMED:
            return _NAMED[name]
        found = _TIMESTAMP.fullmatch(name)
        if found and _is_zone(found[2]):
            return pa.timestamp(found[1], found[2])
        found = _DECIMAL.fullmatch(name)
        if found and 1 <= int(found[1]) <= _DIGITS and int(found[2]) <= int(found[1]):
            return pa.decimal128(int(found[1]), int(found[2]))
    raise RequestError(
        f"read_options['types'] has {name!r} for column {column!r}, which CSV is not "
        f"read as.{did_you_mean(str(name), _KNOWN)} Known: {', '.join(_KNOWN)}"
    )


def _is_zone(name: str | None) -> bool:
    if name is None or name == "UTC" or _OFFSET.fullmatch(name):
        return True
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _must(holds: Any) -> None:
    if not pc.all(holds, min_count=0).as_py():  # nulls are not looked at
        raise _no_value()


def _no_value() -> pa.ArrowInvalid:
    return pa.ArrowInvalid("a cell is no value of its column's type")
