"""The list of failed rows: what it is called and which columns it adds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from ml_toolkit_core.tables.arrowtypes import Field
from ml_toolkit_core.tables.jsontext import dumps
from ml_toolkit_core.tables.parts import RowFault
from ml_toolkit_core.values import TableFormat

#: Rows of these kinds were never given to the model.
_NEVER_ASKED: Final = frozenset(kind for kind in RowFault if not kind.asked)

#: Columns that a list has after those of the input: see ``list_fields``.
_ADDED: Final = 3


def list_uri(output_uri: str, output_format: TableFormat | None) -> str:
    """Return where the failed rows of an output are listed."""
    ending = "_errors" if output_format is TableFormat.DELTA else ".errors.jsonl"
    return output_uri.rstrip("/") + ending


def kind_of(error: str) -> str:
    """Return the kind of an error, which stands before the first colon.

    >>> kind_of("prompt_too_long: 300 tokens, the limit is 256")
    'prompt_too_long'
    """
    return error.partition(": ")[0]


def attempts_of(error: str) -> int:
    """Return how often a failed row was given to the model."""
    return 0 if kind_of(error) in _NEVER_ASKED else 1


def list_fields(input_columns: Iterable[str]) -> list[Field]:
    """Return the fields that follow the input columns: kind, error, attempts.

    One that the input has already is called ``error_kind`` or ``error_attempts``.
    """
    taken = {name.casefold() for name in input_columns}
    fields = []
    for name, kind in (("kind", pa.string()), ("attempts", pa.int64())):
        free = name
        while free in taken:
            free = f"error_{free}"
        fields.append(pa.field(free, kind))
    return [fields[0], pa.field("error", pa.string()), fields[1]]


def is_list(names: Sequence[str]) -> bool:
    """Whether columns of these names are those of a list of failed rows.

    >>> is_list(["id", "kind", "error", "attempts"]), is_list(["kind", "error"])
    (True, False)
    """
    inputs, last = names[:-_ADDED], [*names[-_ADDED:]]
    return bool(inputs) and last == [column.name for column in list_fields(inputs)]


def list_columns(given: pa.Schema) -> int:
    """Return how many columns, at the end, make a table a list of failed rows."""
    own = list_fields(given.names[:-_ADDED])
    fits = is_list(given.names) and all(
        found.equals(column, check_metadata=True)
        for found, column in zip([*given][-_ADDED:], own, strict=True)
    )
    return _ADDED if fits else 0


def list_line(row: Mapping[str, str], inputs: Sequence[str]) -> bytes:
    """Return a failed row as a line of the list.

    Args:
        row: The values of its columns, as JSON text.
        inputs: The columns that the list keeps.
    """
    kind, error, attempts = (field.name for field in list_fields(inputs))
    fault = json.loads(row["error"])
    items = {name: row[name] for name in inputs} | {
        kind: dumps(kind_of(fault)),
        error: row["error"],
        attempts: dumps(attempts_of(fault)),
    }
    joined = ", ".join(f"{dumps(key)}: {value}" for key, value in items.items())
    return f"{{{joined}}}\n".encode()
