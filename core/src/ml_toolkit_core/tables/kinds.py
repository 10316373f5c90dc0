"""Column types of JSON Lines, learnt from what is written in all rows."""

import enum
from typing import Final

import pyarrow as pa
from attrs import define, field

from ml_toolkit_core.tables.arrowtypes import ArrowType, Field
from ml_toolkit_core.wire import Json

#: Field metadata of a column whose values are carried as JSON text.
JSON_KEY: Final = b"ml_toolkit.json"
_INT64: Final = range(-(2**63), 2**63)
#: Every whole number in it is a float64 too; Arrow takes no others as such.
_EXACT: Final = range(-(2**53), 2**53 + 1)


class Rounded(float):
    """A number whose text has digits that no float64 keeps."""


class Kind(enum.StrEnum):
    """What a JSON value is, in the words of a message."""

    NULL = "null"
    BOOL = "true or false"
    INT = "whole numbers"
    FLOAT = "fractions"
    HUGE = "numbers beyond 64 bits"
    LONG = "numbers of more digits than 64 bits keep"
    TEXT = "text"
    LIST = "lists"
    OBJECT = "objects"


_KINDS: Final = {
    type(None): Kind.NULL,
    bool: Kind.BOOL,
    int: Kind.INT,
    float: Kind.FLOAT,
    Rounded: Kind.LONG,
    str: Kind.TEXT,
    list: Kind.LIST,
    dict: Kind.OBJECT,
}
_SCALARS: Final[dict[Kind, ArrowType]] = {
    Kind.BOOL: pa.bool_(),
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.TEXT: pa.string(),
}
#: One value of such a kind tells as much as many.
_ALL_ALIKE: Final = {Kind.NULL, Kind.BOOL, Kind.TEXT, Kind.OBJECT}
_NUMBERS: Final = {Kind.INT, Kind.FLOAT}
#: Numbers that only JSON holds.
_JSON_NUMBERS: Final = {Kind.HUGE, Kind.LONG}


@define
class Kinds:
    """The kinds of value in one column.

    Attributes:
        first: Where each kind was seen first.
    """

    first: dict[Kind, str] = field(factory=dict)
    _settled: set[type] = field(factory=set, init=False)
    _exact: bool = True
    _items: "Kinds | None" = None

    def see(self, value: Json, where: str) -> None:
        """Take one more value into account."""
        if type(value) in self._settled:
            return
        kind = _KINDS[type(value)]
        if kind is Kind.INT and value not in _EXACT:
            self._exact = False
            if value not in _INT64:
                kind = Kind.HUGE
        elif kind is Kind.FLOAT and value in (float("inf"), float("-inf")):
            kind = Kind.HUGE  # 1e999; Infinity itself is refused
        elif kind is Kind.LIST:
            self._items = self._items or Kinds()
            for item in value:
                self._items.see(item, where)
        elif kind in _ALL_ALIKE:
            self._settled.add(type(value))
        if kind not in self.first:
            self.first[kind] = where

    @property
    def arrow_type(self) -> ArrowType | None:
        """The Arrow type that holds every value exactly; None when only JSON does."""
        kinds = self.first.keys() - {Kind.NULL}
        if not kinds:
            return pa.string()
        if kinds == _NUMBERS:
            return pa.float64() if self._exact else None
        if kinds == {Kind.LIST} and self._items is not None:
            item = self._items.arrow_type
            return None if item is None or pa.types.is_list(item) else pa.list_(item)
        return _SCALARS.get(kinds.pop()) if len(kinds) == 1 else None

    @property
    def is_mixed(self) -> bool:
        """Whether values of one row and another cannot be compared."""
        kinds = self.first.keys() - {Kind.NULL}
        return self.arrow_type is None and (
            len(kinds) > 1 or not kinds.isdisjoint(_JSON_NUMBERS)
        )

    def field(self, name: str) -> Field:
        """Return the Arrow field of a column of these kinds."""
        if self.arrow_type is None:
            return pa.field(name, pa.string(), metadata={JSON_KEY: b"1"})
        return pa.field(name, self.arrow_type)

    def note(self, name: str, *, is_text: bool) -> str:
        """Return a sentence for people who did not expect a mixed column."""
        seen = " and ".join(
            f"{kind} (first on {where})"
            for kind, where in self.first.items()
            if kind is not Kind.NULL
        )
        fate = " Rows without text in it will be error rows." if is_text else ""
        return (
            f"Column {name!r} holds {seen}: its values are kept as the JSON they are; "
            f"a Delta output stores them as text, where text stays as it is.{fate}"
        )


def is_json(column: Field) -> bool:
    """Whether a column's values are carried as JSON text."""
    return JSON_KEY in (column.metadata or {})
