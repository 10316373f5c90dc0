"""The columns of an output: those of the input, then the answers."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.pipeline.engine import Completion
from ml_toolkit_core.tables.arrowtypes import (
    Array,
    ArrowType,
    ChunkedArray,
    Field,
    cast,
)
from ml_toolkit_core.tables.deltatypes import DELTA_NAME_BREAKERS, delta_type
from ml_toolkit_core.tables.failures import list_columns
from ml_toolkit_core.tables.jsonlines import without_surrogates
from ml_toolkit_core.tables.jsontext import has_json_form
from ml_toolkit_core.tables.kinds import is_json
from ml_toolkit_core.tables.parquettypes import parquet_type
from ml_toolkit_core.tables.pinned import pinned_schema
from ml_toolkit_core.values import InputPin, TableFormat

#: The columns after the answer's own, in order; the same in every part.
ANSWER_COLUMNS: Final = (
    pa.field("error", pa.string()),
    pa.field("finish_reason", pa.string()),
    pa.field("prompt_tokens", pa.int64()),
    pa.field("completion_tokens", pa.int64()),
)


def answer_fields(output_column: str) -> list[Field]:
    """Return the fields of the answers."""
    return [pa.field(output_column, pa.string()), *ANSWER_COLUMNS]


def answer_arrays(
    answers: Sequence[Completion], output_column: str
) -> tuple[list[Field], list[Array]]:
    """Return the answers of a split as columns.

    Half a surrogate pair, which no file can hold, becomes U+FFFD.
    """
    columns: list[list[str | int | None]] = [
        [without_surrogates(answer.text) for answer in answers],
        [
            without_surrogates(str(answer.error)) if answer.error else None
            for answer in answers
        ],
        [answer.finish_reason for answer in answers],
        [answer.prompt_tokens for answer in answers],
        [answer.completion_tokens for answer in answers],
    ]
    fields = answer_fields(output_column)
    arrays = [
        pa.array(values, column.type)
        for values, column in zip(columns, fields, strict=True)
    ]
    return fields, arrays


def with_answers(
    rows: pa.RecordBatch, answers: Sequence[Completion], output_column: str
) -> pa.Table:
    """Put the answers of a split beside the columns of its rows that are kept."""
    schema = kept_columns(rows.schema, output_column)
    fields, arrays = answer_arrays(answers, output_column)
    return pa.Table.from_arrays(
        [*(rows.column(name) for name in schema.names), *arrays],
        schema=pa.schema([*schema, *fields]),
    )


def kept_columns(given: pa.Schema, output_column: str) -> pa.Schema:
    """Return an input's columns without those that describe an earlier run.

    An output ends in an answer and what is said of it, a list of failed rows in what
    is said of them. An earlier answer is kept, unless the new one takes its name.
    """
    said = [column.name for column in ANSWER_COLUMNS]
    before, last = given.names[: -len(said)], given.names[-len(said) :]
    # A column that was asked with, and the answer to it.
    if last == said and len(before) > 1:
        count = len(said) + (before[-1] == output_column)
    else:
        count = list_columns(given)
    return pa.schema([*given][: len(given) - count])


def left_out_note(pin: InputPin, output_column: str) -> str | None:
    """Return a sentence on the columns that are not kept; None when all are."""
    given = pinned_schema(pin)
    left = given.names[len(kept_columns(given, output_column)) :]
    if not left:
        return None
    return (
        f"The input comes from an earlier run: its {', '.join(map(repr, left))} "
        "describe that run and are left out of the output."
    )


def output_schema(
    pin: InputPin, output_column: str, output_format: TableFormat
) -> pa.Schema:
    """Return the columns of the output as they lie on disk.

    Args:
        pin: The pinned input.
        output_column: Where the answer goes.
        output_format: In JSON Lines and CSV a column of JSON keeps its mark; in a
            Delta table or Parquet it is text.

    Raises:
        RequestError: When columns clash, or the format cannot hold one of them
            exactly, naming all of these.
    """
    given = kept_columns(pinned_schema(pin), output_column)
    answers = answer_fields(output_column)
    if output_format is TableFormat.DELTA:
        faults = [
            *_clashes(given, answers, str.casefold),
            *_unfit_names([*given, *answers]),
            *_unfit_types(
                given, output_format, lambda c: delta_type(c.type) is not None
            ),
        ]
        written = [pa.field(c.name, delta_type(c.type) or c.type) for c in given]
    else:
        fits = parquet_type if output_format is TableFormat.PARQUET else _text_type
        faults = [
            *_clashes(given, answers, str),
            *_unfit_types(given, output_format, lambda c: fits(c.type) is not None),
        ]
        written = [c.with_type(fits(c.type) or c.type) for c in given]
        if output_format is TableFormat.PARQUET:
            written = [c.remove_metadata() for c in written]
    if faults:
        raise RequestError(
            f"the output cannot take these columns as {output_format}: "
            f"{'; '.join(faults)}"
        )
    return pa.schema([*written, *answers])


def with_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Bring rows to the types of a Delta or Parquet output.

    Text in a column of JSON stays as it is, without its quotes; all other values
    there are their JSON.
    """
    arrays = [
        _json_as_text(array) if is_json(column) else cast(array, wanted.type)
        for array, column, wanted in zip(rows.columns, rows.schema, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _text_type(kind: ArrowType) -> ArrowType | None:
    return kind if has_json_form(kind) else None


def _json_as_text(texts: ChunkedArray) -> ChunkedArray:
    values = [
        json.loads(text) if text is not None and text.startswith('"') else text
        for text in texts.to_pylist()
    ]
    return pa.chunked_array([pa.array(values, pa.string())])


def _clashes(
    given: pa.Schema, answers: Iterable[Field], same: Callable[[str], str]
) -> list[str]:
    """Say which columns meet; ``same`` maps names that are one to one key."""
    faults = []
    input_keys: dict[str, str] = {}
    for name in given.names:
        first = input_keys.setdefault(same(name), name)
        if first != name:
            faults.append(
                f"columns {first!r} and {name!r} differ by case only, which is one "
                "column there: rename one"
            )
    answer_keys: dict[str, str] = {}
    for position, column in enumerate(answers):
        name = column.name
        if same(name) in answer_keys:
            faults.append(
                f"output_column={answer_keys[same(name)]!r} meets the output's own "
                f"{name!r}: pass another output_column="
            )
        elif same(name) in input_keys:
            advice = "pass another output_column=" if not position else "rename it"
            faults.append(
                f"input column {input_keys[same(name)]!r} meets the output's "
                f"{name!r}: {advice}"
            )
        answer_keys.setdefault(same(name), name)
    return faults


def _unfit_names(columns: Iterable[Field]) -> list[str]:
    """Say which names a Delta table without column mapping cannot have."""
    unfit = [name for column in columns for name in _names(column) if _is_unfit(name)]
    if not unfit:
        return []
    return [
        (
            f"the names {', '.join(map(repr, unfit))} are empty or have one of "
            f"{DELTA_NAME_BREAKERS!r} in them, which Spark cannot open: rename them or "
            "pass output_format='jsonl'"
        )
    ]


def _is_unfit(name: str) -> bool:
    return not name or any(character in name for character in DELTA_NAME_BREAKERS)


def _names(column: Field) -> list[str]:
    """Return the names of a column and of all fields inside it, for people."""
    names = [column.name]
    if pa.types.is_struct(column.type):
        names += [name for item in column.type for name in _names(item)]
    elif pa.types.is_nested(column.type) and not pa.types.is_map(column.type):
        names += _names(column.type.field(0))[1:]
    return names


def _unfit_types(
    given: pa.Schema, output_format: TableFormat, fits: Callable[[Field], bool]
) -> list[str]:
    """Say which types the format cannot hold without loss."""
    return [
        f"column {column.name!r} is {column.type}, which {output_format} cannot hold "
        "exactly: cast or drop it"
        for column in given
        if not fits(column)
    ]
