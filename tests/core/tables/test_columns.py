"""Output columns: clashes, names and types are refused before a run, all at once."""

import datetime as dt
import decimal
import json

import pyarrow as pa
import pytest

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.pipeline.engine import Completion
from ml_toolkit_core.tables.columns import (
    ANSWER_COLUMNS,
    answer_arrays,
    output_schema,
    with_types,
)
from ml_toolkit_core.tables.deltafiles import replace_rows
from ml_toolkit_core.tables.deltatypes import delta_type
from ml_toolkit_core.tables.jsontext import json_lines
from ml_toolkit_core.tables.kinds import JSON_KEY
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.tables.parts import RowError
from ml_toolkit_core.tables.pinned import pin_of
from ml_toolkit_core.values import TableFormat

DELTA, JSONL = TableFormat.DELTA, TableFormat.JSONL


def schema_of(columns, output_column="generated_text", kind=DELTA):
    return output_schema(pin_of(pa.schema(columns), []), output_column, kind)


def test_gives_every_part_the_same_answer_columns_even_when_all_are_null():
    answers = [Completion(key=0, text=None)]

    fields, arrays = answer_arrays(answers, "out")

    assert [(field.name, str(field.type)) for field in fields] == [
        ("out", "string"),
        ("error", "string"),
        ("finish_reason", "string"),
        ("prompt_tokens", "int64"),
        ("completion_tokens", "int64"),
    ]
    assert [array.type for array in arrays] == [field.type for field in fields]
    assert tuple(fields[1:]) == ANSWER_COLUMNS


def test_writes_an_error_as_its_text_and_mends_half_surrogate_pairs():
    answers = [
        Completion(key=0, text="a\ud83d", finish_reason="stop", prompt_tokens=3),
        Completion(key=1, error=RowError("prompt_null", "there is no prompt")),
    ]

    _, arrays = answer_arrays(answers, "out")

    assert [array.to_pylist() for array in arrays] == [
        ["a\ufffd", None],
        [None, "prompt_null: there is no prompt"],
        ["stop", None],
        [3, None],
        [None, None],
    ]


@pytest.mark.parametrize("kind", [DELTA, JSONL])
def test_names_every_input_column_that_meets_an_output_column(kind):
    columns = [("generated_text", pa.string()), ("error", pa.string())]

    with pytest.raises(RequestError) as caught:
        schema_of(columns, kind=kind)

    assert "'generated_text'" in str(caught.value)
    assert "'error'" in str(caught.value)


@pytest.mark.parametrize("kind", [DELTA, JSONL])
def test_refuses_an_answer_column_that_is_called_like_another(kind):
    with pytest.raises(RequestError, match="output_column='error' meets the output's"):
        schema_of([("p", pa.string())], "error", kind)


def test_compares_names_without_case_with_types_and_names_both_pairs():
    columns = [
        ("prompt", pa.string()),
        ("Prompt", pa.string()),
        ("GENERATED_TEXT", pa.string()),
    ]

    with pytest.raises(RequestError) as caught:
        schema_of(columns)

    assert "'prompt' and 'Prompt'" in str(caught.value)
    assert "'GENERATED_TEXT' meets the output's 'generated_text'" in str(caught.value)


def test_keeps_names_that_differ_by_case_in_json_lines():
    columns = [("prompt", pa.string()), ("Prompt", pa.string())]

    assert schema_of(columns, kind=JSONL).names[:2] == ["prompt", "Prompt"]


def test_lists_every_name_that_delta_cannot_take_nested_ones_too():
    columns = [
        ("user prompt", pa.string()),
        ("cost (EUR)", pa.float64()),
        ("a.b", pa.string()),
        ("", pa.string()),
        ("x;y,z{w}", pa.string()),
        ("s", pa.list_(pa.struct([("k=v", pa.string())]))),
    ]

    with pytest.raises(RequestError) as caught:
        schema_of(columns)

    for name in ("'user prompt'", "'cost (EUR)'", "''", "'x;y,z{w}'", "'k=v'"):
        assert name in str(caught.value)
    assert "'a.b'" not in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint64(),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
        pa.time64("us"),
        pa.duration("s"),
        pa.decimal256(50, 2),
        pa.month_day_nano_interval(),
        pa.list_(pa.uint64()),
        pa.struct([("a", pa.timestamp("ns"))]),
        pa.map_(pa.string(), pa.time32("s")),
    ],
    ids=str,
)
def test_refuses_types_that_delta_would_change_by_column(kind):
    with pytest.raises(
        RequestError, match=r"column 'c' is .*, which delta cannot hold"
    ):
        schema_of([("c", kind)])


@pytest.mark.parametrize(
    "kind", [pa.duration("s"), pa.month_day_nano_interval()], ids=str
)
def test_refuses_types_that_json_has_no_form_for_by_column(kind):
    with pytest.raises(
        RequestError, match=r"column 'c' is .*, which jsonl cannot hold"
    ):
        schema_of([("c", kind)], kind=JSONL)


INSTANT = dt.datetime(2024, 3, 31, 1, 30, 0, 123456, tzinfo=dt.UTC)
HELD = [
    (pa.bool_(), True),
    (pa.int8(), -128),
    (pa.uint8(), 255),
    (pa.uint16(), 65535),
    (pa.uint32(), 2**32 - 1),
    (pa.int64(), -(2**63)),
    (pa.float16(), 0.5),
    (pa.float32(), 0.25),
    (pa.float64(), 0.1),
    (pa.string(), "ü\n"),
    (pa.large_string(), "x"),
    (pa.string_view(), "x"),
    (pa.binary(), b"\x00\xff"),
    (pa.large_binary(), b"x"),
    (pa.binary(2), b"xy"),
    (pa.date32(), dt.date(1582, 10, 15)),
    (pa.date64(), dt.date(9999, 12, 31)),
    (pa.timestamp("s"), dt.datetime(2024, 10, 27, 2, 30)),  # noqa: DTZ001
    (pa.timestamp("us"), dt.datetime(2024, 10, 27, 2, 30, 0, 1)),  # noqa: DTZ001
    (pa.timestamp("us", "Europe/Paris"), INSTANT),
    (pa.timestamp("ms", "UTC"), INSTANT.replace(microsecond=123000)),
    (pa.decimal128(38, 9), decimal.Decimal("12345678901234567890.123456789")),
    (pa.decimal32(5, 2), decimal.Decimal("-123.45")),
    (pa.dictionary(pa.int8(), pa.string()), "x"),
    (pa.list_(pa.uint8()), [1, None]),
    (pa.large_list(pa.string()), ["a"]),
    (pa.list_(pa.int64(), 2), [1, 2]),
    (
        pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string()))]),
        {"a": 1, "b": ["x"]},
    ),
    (pa.map_(pa.string(), pa.uint8()), [("k", 1)]),
]


@pytest.mark.parametrize(("kind", "value"), HELD, ids=lambda x: str(x)[:40])
def test_holds_a_value_in_delta_as_it_was(kit, tmp_path, kind, value):
    if kind == pa.float16():
        given = pa.array([value, None], pa.float32()).cast(kind)
    else:
        given = pa.array([value, None], kind)
    schema = pa.schema([("id", pa.int64()), ("c", delta_type(kind))])
    rows = with_types(pa.table({"id": [0, 1], "c": given}), schema)

    replace_rows(LocalStore(), str(tmp_path / "t"), schema, rows.to_batches())

    found = [row["c"] for row in kit.read_delta(tmp_path / "t")]
    assert found == [value, None]


def test_makes_text_of_json_with_types_and_leaves_text_as_it_is():
    mixed = pa.field("m", pa.string(), metadata={JSON_KEY: b"1"})
    values = ['"say \\"hi\\""', "1.50", '{"a":  1}', None, "null"]
    rows = pa.table([pa.array(values)], schema=pa.schema([mixed]))

    found = with_types(rows, pa.schema([("m", pa.string())]))

    assert found.column("m").to_pylist() == [
        'say "hi"',
        "1.50",
        '{"a":  1}',
        None,
        "null",
    ]
    assert found.schema.field("m").metadata is None


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.float64(), 1e300, "1e+300"),
        (pa.uint64(), 2**64 - 1, "18446744073709551615"),
        (pa.decimal128(38, 9), decimal.Decimal("-1E-9"), '"-0.000000001"'),
        (pa.timestamp("ns"), 1711848600123456789, '"2024-03-31T01:30:00.123456789"'),
        (pa.timestamp("us", "Asia/Tokyo"), INSTANT, '"2024-03-31T01:30:00.123456Z"'),
        (pa.date32(), dt.date(1, 2, 3), '"0001-02-03"'),
        (pa.time64("ns"), 1, '"00:00:00.000000001"'),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (
            pa.list_(pa.timestamp("us", "Asia/Tokyo")),
            [0],
            '["1970-01-01T00:00:00.000000Z"]',
        ),
        (pa.list_(pa.timestamp("s")), [0, None], '["1970-01-01T00:00:00", null]'),
        (pa.map_(pa.string(), pa.int8()), [("a", 1)], '[{"key": "a", "value": 1}]'),
        (pa.struct([("a", pa.float32())]), {"a": float("inf")}, '{"a": "Infinity"}'),
        (pa.dictionary(pa.int8(), pa.string()), "x", '"x"'),
    ],
    ids=str,
)
def test_writes_a_value_as_strict_json(kind, value, text):
    lines = list(json_lines(pa.table({"c": pa.array([value, None], kind)})))

    assert lines == [f'{{"c": {text}}}\n'.encode(), b'{"c": null}\n']
    json.loads(lines[0], parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "names",
    [
        ["a", "error"],
        ["a", "finish_reason", "error", "prompt_tokens", "completion_tokens"],
        ["a", "error", "finish_reason", "prompt_tokens", "completion_tokens", "b"],
        ["a", "kind", "error", "attempts", "b"],
        ["error", "finish_reason", "prompt_tokens", "completion_tokens"],
        ["a", "error", "finish_reason", "prompt_tokens", "completion_tokens"],
        # A list's attempts are numbers.
        ["a", "kind", "error", "attempts"],
    ],
)
def test_refuses_what_does_not_end_as_an_output_of_ours_does(names):
    with pytest.raises(RequestError, match="input column 'error' meets the output's"):
        schema_of([(name, pa.string()) for name in names])


@pytest.mark.parametrize(
    ("before", "kind", "attempts"),
    [
        ([], pa.string(), pa.int64()),
        ([("a", pa.string())], pa.int64(), pa.int64()),
        ([("a", pa.string())], pa.string(), pa.float64()),
    ],
)
def test_keeps_columns_that_no_list_of_failed_rows_has(before, kind, attempts):
    own = [("kind", kind), ("error", pa.string()), ("attempts", attempts)]

    with pytest.raises(RequestError, match="input column 'error' meets the output's"):
        schema_of([*before, *own])


def test_leaves_out_what_a_list_of_failed_rows_says_of_them():
    inputs = [("kind", pa.int64()), ("a", pa.string())]
    own = [("error_kind", pa.string()), ("error", pa.string())]

    found = schema_of([*inputs, *own, ("attempts", pa.int64())])

    assert found.names[:3] == ["kind", "a", "generated_text"]
