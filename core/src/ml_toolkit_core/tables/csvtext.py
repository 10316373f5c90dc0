"""CSV as text: records with their lines, and cells that tell null from empty."""

import contextlib
import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, TextIO, TypeAlias

from attrs import frozen

from ml_toolkit_core.errors import RequestError, did_you_mean
from ml_toolkit_core.wire import Json

#: A cell's text; None for one in which nothing is written, not even quotes.
Cell: TypeAlias = str | None

_UTF8: Final = "utf-8-sig"  # with or without a byte-order mark
_OPTIONS: Final = ("encoding", "delimiter", "types")
#: Longer cells make the csv module fail; ours are as long as they are.
_CELL_CHARACTERS: Final = 2**31 - 1
_NEEDS_QUOTES: Final = re.compile(r'^$|^\s|\s$|[",\r\n]')


@frozen(kw_only=True)
class Dialect:
    """How a CSV file is written.

    Args:
        encoding: A codec of Python's; None for UTF-8.
        delimiter: Between two cells.
    """

    encoding: str | None
    delimiter: str

    @classmethod
    def of(cls, options: Mapping[str, Json], path: str) -> "Dialect":
        """Read the options for a file; ``.tsv`` files have tabs by themselves.

        Raises:
            RequestError: When they are not what a CSV file can have.
        """
        for key in options:
            if key not in _OPTIONS:
                raise RequestError(
                    f"read_options has {key!r}, which CSV does not take."
                    f"{did_you_mean(key, _OPTIONS)} Known: {', '.join(_OPTIONS)}"
                )
        tab = path.lower().removesuffix(".gz").endswith(".tsv")
        delimiter = options.get("delimiter", "\t" if tab else ",")
        is_one = isinstance(delimiter, str) and len(delimiter) == 1
        if not is_one or delimiter in '"\r\n':
            raise RequestError(
                f"read_options['delimiter']={delimiter!r} must be one character that "
                "is no quote and no line break, for example ';'"
            )
        return cls(encoding=_encoding(options.get("encoding")), delimiter=delimiter)

    @contextlib.contextmanager
    def text(self, handle: BinaryIO) -> Iterator[TextIO]:
        """Open the text of a file; line breaks stay as they are."""
        text = io.TextIOWrapper(handle, encoding=self.encoding or _UTF8, newline="")
        try:
            yield text
        finally:
            with contextlib.suppress(ValueError):  # the file is closed already
                text.detach()


class RecordFault(Exception):
    """A record is no CSV; says on which line it begins and what is wrong."""

    def __init__(self, line: int, fault: str) -> None:
        super().__init__(f"line {line} {fault}")


def records(text: TextIO, delimiter: str) -> Iterator[tuple[int, list[Cell]]]:
    """Yield the records with the lines on which they begin; blank lines are none.

    Raises:
        RecordFault: When quotes are not as they must be.
        UnicodeDecodeError: When the text is not of its encoding.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _CELL_CHARACTERS))
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in text:
            taken.append(line)
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    first = 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            fault = (
                "begins a record whose quotes are never closed"
                if "unexpected end" in str(error)
                else "has a quoted cell with text after its closing quote"
            )
            raise RecordFault(first, fault) from error
        if cells is None:
            return
        if cells:
            yield first, _told_apart(cells, "".join(taken), delimiter)
        first += len(taken)
        taken.clear()


def csv_line(cells: list[Cell]) -> str:
    r"""Return a record as it is written, after RFC 4180; null is nothing at all.

    >>> csv_line(["a", None, "", "b,c"])
    'a,,"","b,c"\r\n'
    """
    return ",".join(map(_cell, cells)) + "\r\n"


def _cell(text: Cell) -> str:
    if text is None:
        return ""
    if _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def _told_apart(cells: list[str], raw: str, delimiter: str) -> list[Cell]:
    """Make null of each empty cell that has no quotes."""
    if "" not in cells:
        return [*cells]
    if '""' not in raw:
        return [cell or None for cell in cells]
    end = re.escape(delimiter)
    written = re.findall(rf'("(?:[^"]|"")*"|[^{end}\r\n]*)(?:{end}|\r|\n|$)', raw)
    return [
        cell if cell or mark else None
        for cell, mark in zip(cells, written, strict=False)
    ]


def _encoding(given: Json) -> str | None:
    if given is None:
        return None
    try:
        "".encode(given)
    except (LookupError, TypeError):
        raise RequestError(
            f"read_options['encoding']={given!r} is no encoding that Python knows; "
            "write for example 'cp1252', 'latin-1' or 'utf-16'"
        ) from None
    plain = str(given).lower().replace("-", "").replace("_", "")
    return None if plain == "utf8" else str(given)
