"""What a table or model reference is, told from its text alone.

A name ``catalog.schema.table`` (back-ticks and hyphens as in Databricks SQL) is
looked up in a catalog; anything with a slash, a scheme or the suffix of a known
format, and a word without a dot, is a path. ``cat.sch.tbl`` is a name,
``./cat.sch.tbl`` is a path.
"""

import re
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import TableFormat

#: Suffixes of files, and what is in them.
FORMATS: Final[Mapping[str, TableFormat]] = {
    ".jsonl": TableFormat.JSONL,
    ".ndjson": TableFormat.JSONL,
    ".csv": TableFormat.CSV,
    ".tsv": TableFormat.CSV,
    ".parquet": TableFormat.PARQUET,
}
#: Suffixes that make a bare word a path.
FILE_SUFFIXES: Final = (*FORMATS, ".json", ".delta", ".gguf", ".txt", ".gz")
_PART: Final = r"(?:`(?:[^`]|``)+`|[A-Za-z0-9_][A-Za-z0-9_-]*)"
_THREE_PARTS: Final = re.compile(rf"({_PART})\.({_PART})\.({_PART})")


@frozen
class ThreePartName:
    """A name in a catalog, its parts without quotes.

    >>> str(ThreePartName("main", "my-schema", "t"))
    'main.`my-schema`.t'
    """

    catalog: str
    schema: str
    table: str

    @property
    def parts(self) -> tuple[str, str, str]:
        """The three parts, in order."""
        return (self.catalog, self.schema, self.table)

    def __str__(self) -> str:
        """Return the name as SQL takes it."""
        return ".".join(
            part
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", part)
            else "`" + part.replace("`", "``") + "`"
            for part in self.parts
        )


def is_path(text: str) -> bool:
    """Whether the text itself says that it is a path or URI.

    >>> is_path("cat.sch.tbl"), is_path("./cat.sch.tbl"), is_path("rows*.jsonl")
    (False, True, True)
    """
    return (
        "://" in text
        or any(character in _unquoted(text) for character in "/*?[")
        or "." not in text
        or text in {".", ".."}
        or text.startswith("~")
        or text.lower().endswith(FILE_SUFFIXES)
    )


def is_name(text: str) -> bool:
    """Whether the text is a name of three parts.

    >>> is_name("cat.sch.`a.b`"), is_name("org/model")
    (True, False)
    """
    return _THREE_PARTS.fullmatch(text.strip()) is not None


def parse_name(argument: str, text: str) -> ThreePartName:
    """Read ``catalog.schema.table``.

    Args:
        argument: The name of the argument, for the error.
        text: What was given.

    Raises:
        RequestError: When the text is neither a path nor such a name.
    """
    match = _THREE_PARTS.fullmatch(text.strip())
    if match is None:
        raise RequestError(
            f"{argument}={text!r} is neither a path nor a name of three parts; write "
            "a path with a slash (./rows.jsonl) or catalog.schema.table, with "
            "back-ticks around a part that has other characters"
        )
    return ThreePartName(*(_plain(part) for part in match.groups()))


def _unquoted(text: str) -> str:
    return re.sub(r"`(?:[^`]|``)+`", "", text)


def _plain(part: str) -> str:
    if not part.startswith("`"):
        return part
    return part[1:-1].replace("``", "`")
