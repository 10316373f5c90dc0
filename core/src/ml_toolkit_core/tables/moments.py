"""Dates and times as ISO 8601 text, of whatever year."""

import datetime as dt
import re
from typing import Final

from pyarrow import types

from ml_toolkit_core.tables.arrowtypes import ArrowType

#: What Arrow writes for a year beyond its calendar, which ends at 32767.
_OUT_OF_RANGE: Final = re.compile(r"<value out of range: (-?\d+)>")
#: Of a unit: how many are in a second.
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
#: After as many days the calendar is the same again, as many years later.
_CYCLE_DAYS: Final = 146_097
_CYCLE_YEARS: Final = 400
_DAY: Final = 86_400
_LAST_YEAR: Final = 9999


def moment(text: str, kind: ArrowType) -> str:
    """Return the ISO 8601 form of what Arrow writes for a date or a time.

    A year that has not four digits has a sign, as in the expanded form of ISO 8601
    (and in Java); the year 0 is the one before the year 1.

    >>> import pyarrow as pa
    >>> moment("10183-09-21", pa.date32()), moment("-0221-09-04", pa.date32())
    ('+10183-09-21', '-0221-09-04')
    >>> moment("<value out of range: 2147483647>", pa.date32())
    '+5881580-07-11'
    """
    far = _OUT_OF_RANGE.fullmatch(text)
    if far is None:
        sign = (
            "+" if text.index("-", 1) > len(str(_LAST_YEAR)) and text[0] != "-" else ""
        )
        return sign + text.replace(" ", "T")
    count = int(far[1])
    if types.is_date32(kind):
        return _date(count)
    if types.is_date64(kind):
        return _date(count // (_DAY * _PER_SECOND["ms"]))
    per_second = _PER_SECOND[kind.unit]
    seconds, fraction = divmod(count, per_second)
    days, second = divmod(seconds, _DAY)
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    digits = len(str(per_second)) - 1
    return f"{_date(days)}T{time}" + (f".{fraction:0{digits}}" if digits else "")


def _date(days: int) -> str:
    """Return the date so many days after 1970 began."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    near = dt.date.fromordinal(_EPOCH + rest)
    year = near.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" * (year > _LAST_YEAR)
    return f"{sign}{abs(year):04}-{near.month:02}-{near.day:02}"
