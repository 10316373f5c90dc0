"""Every column type comes back as it was, or is refused by name before the run."""

import base64
import datetime as dt
import decimal
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyarrow import types

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.batches import plain_type
from ml_toolkit_core.tables.columns import ANSWER_COLUMNS, output_schema, with_types
from ml_toolkit_core.tables.csvtext import records
from ml_toolkit_core.tables.deltafiles import replace_rows
from ml_toolkit_core.tables.kinds import Kinds
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.tables.partformats import part_format
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.pinned import pin_of
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableFormat, TableLocation

PAGE = Path(__file__).parents[3] / "docs/input-output.rst"
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MICROS = st.integers(-(10**15), 10**15)

#: Types of one value, and the values; what fits no range is left out.
SCALARS = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    *((kind(), st.integers(-(2**7), 2**7 - 1)) for kind in (pa.int8, pa.int16)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    *((kind(), st.integers(0, 2**8 - 1)) for kind in (pa.uint8, pa.uint16)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    *((kind(), TEXT) for kind in (pa.string, pa.large_string, pa.string_view)),
    *((kind(), st.binary(max_size=4)) for kind in (pa.binary, pa.large_binary)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    *((kind(), st.dates(dt.date(1, 1, 1))) for kind in (pa.date32, pa.date64)),
    *((pa.timestamp(unit), MICROS) for unit in ("us", "ns")),
    *((pa.timestamp(unit), st.integers(-(10**9), 10**9)) for unit in ("s", "ms")),
    *((pa.timestamp(unit, zone), MICROS)
      for unit, zone in (("us", "UTC"), ("ns", "Asia/Tokyo"))),
    (pa.timestamp("ms", "Europe/Paris"), st.integers(-(10**9), 10**9)),
    *((pa.time32(unit), st.integers(0, 86399)) for unit in ("s", "ms")),
    *((pa.time64(unit), st.integers(0, 10**10)) for unit in ("us", "ns")),
    *((pa.duration(unit), st.integers(-9999, 9999)) for unit in ("s", "ns")),
    (pa.decimal128(38, 9), st.decimals(-(10**20), 10**20, places=9)),
    (pa.decimal128(5, 2), st.decimals(-999, 999, places=2)),
    (pa.decimal256(50, 2), st.decimals(-(10**40), 10**40, places=2)),
]  # fmt: skip


def nested(inner):
    """Return strategies of (type, values) of lists, structs and maps."""
    return st.one_of(
        inner.map(lambda t: (pa.list_(t[0]), st.lists(st.none() | t[1], max_size=3))),
        inner.map(lambda t: (pa.large_list(t[0]), st.lists(t[1], max_size=2))),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda ts: (
                pa.struct([(f"f{i}", t[0]) for i, t in enumerate(ts)]),
                st.fixed_dictionaries(
                    {f"f{i}": st.none() | t[1] for i, t in enumerate(ts)}
                ),
            )
        ),
        inner.map(
            lambda t: (
                pa.map_(pa.string(), t[0]),
                st.dictionaries(TEXT, t[1], max_size=2).map(lambda d: list(d.items())),
            )
        ),
    )


#: Arrow's own casts, which the comparison needs, fail on nulls inside of lists.
KINDS = st.just(SCALARS[0]) | st.recursive(
    st.sampled_from(SCALARS[1:]), nested, max_leaves=3
)


@st.composite
def columns(draw):
    """Return a table of a few columns and rows."""
    count = draw(st.integers(1, 3))
    arrays = []
    for _ in range(draw(st.integers(1, 3))):
        kind, values = draw(KINDS)
        arrays.append(pa.array([draw(st.none() | values) for _ in range(count)], kind))
    names = [f"c{i}" for i in range(len(arrays))]
    return pa.Table.from_arrays(arrays, names=names)


def with_answers(table):
    """Put answers beside the rows."""
    rows = table.append_column("generated_text", pa.array(["x"] * table.num_rows))
    for column in ANSWER_COLUMNS:
        rows = rows.append_column(column, pa.nulls(table.num_rows, column.type))
    return rows


def schema_for(table, kind):
    """Return the columns of the output; refused ones are named in the message."""
    try:
        return output_schema(pin_of(table.schema, []), "generated_text", kind)
    except RequestError as error:
        named = set(re.findall(r"column '(\w+)' is", str(error)))
        assert named
        assert named <= set(table.column_names)
        return None


def plain(value, kind):
    """Return a value in a form in which equal values are equal."""
    if value is None:
        return None
    if types.is_map(kind):
        return [(k, plain(v, kind.item_type)) for k, v in value]
    if types.is_struct(kind):
        return {f.name: plain(value[f.name], f.type) for f in kind}
    if types.is_list(kind) or types.is_large_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if types.is_floating(kind):
        return repr(float(value))
    return value


def integers(array):
    """Return Python values; times as the integers they are."""

    def form(kind):
        if types.is_timestamp(kind):
            return pa.timestamp("ns") if kind.unit == "ns" else pa.timestamp("us")
        return kind

    for kind in (
        rebuilt_all(plain_type(array.type), form),
        rebuilt_all(plain_type(array.type), as_int),
    ):
        array = array if array.type == kind else array.cast(kind)
    return [plain(value, array.type) for value in array.to_pylist()]


def as_int(kind):
    is_64 = types.is_timestamp(kind) or types.is_time64(kind) or types.is_duration(kind)
    if is_64:
        return pa.int64()
    return pa.int32() if types.is_time32(kind) else kind


def rebuilt_all(kind, form):
    if types.is_map(kind):
        return pa.map_(
            rebuilt_all(kind.key_type, form), rebuilt_all(kind.item_type, form)
        )
    if types.is_struct(kind):
        return pa.struct([(f.name, rebuilt_all(f.type, form)) for f in kind])
    if types.is_large_list(kind):
        return pa.large_list(rebuilt_all(kind.value_type, form))
    if types.is_list(kind):
        return pa.list_(rebuilt_all(kind.value_type, form))
    return form(kind)


def ticks(text, digits):
    """Return a time of day as the number of its units."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    count = int(hours) * 3600 + int(minutes) * 60 + int(whole)
    return count * 10**digits + int(fraction.ljust(digits, "0") or 0)


def from_json(value, kind):  # noqa: C901, PLR0911  one per type
    """Read a value from its JSON form, as a reader who knows the type would."""
    if value is None:
        return None
    if types.is_map(kind):
        return [(p["key"], from_json(p["value"], kind.item_type)) for p in value]
    if types.is_struct(kind):
        return {f.name: from_json(value[f.name], f.type) for f in kind}
    if types.is_list(kind) or types.is_large_list(kind):
        return [from_json(item, kind.value_type) for item in value]
    if types.is_floating(kind):
        return float(value)
    if types.is_decimal(kind):
        return decimal.Decimal(value)
    if types.is_date(kind):
        return dt.date.fromisoformat(value)
    if types.is_timestamp(kind):
        bare = pa.timestamp(kind.unit)
        return pa.scalar(value.removesuffix("Z")).cast(bare).value
    if types.is_time(kind):
        return ticks(value, _DIGITS[kind.unit])
    if types.is_binary(kind) or types.is_large_binary(kind):
        return base64.b64decode(value)
    return base64.b64decode(value) if types.is_fixed_size_binary(kind) else value


def check_text(table, column, found):
    """Compare what a text format gave for a column with what was put in."""
    kind = table.schema.field(column).type
    back = [from_json(value, kind) for value in found]

    assert integers(pa.array(back, kind)) == integers(
        table.column(column).combine_chunks()
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns())
def test_json_lines_hold_every_value_or_refuse_its_column(table):
    schema = schema_for(table, TableFormat.JSONL)
    assume(schema is not None)

    data = part_format(TableFormat.JSONL, schema).dump(with_answers(table))

    rows = [json.loads(line, parse_constant=pytest.fail) for line in data.splitlines()]
    for column in table.column_names:
        check_text(table, column, [row[column] for row in rows])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns())
def test_csv_holds_every_value_or_refuses_its_column(table):
    schema = schema_for(table, TableFormat.CSV)
    assume(schema is not None)

    data = part_format(TableFormat.CSV, schema).dump(with_answers(table))

    (_, header), *rows = records(io.StringIO(data.decode(), newline=""), ",")
    for position, column in enumerate(table.column_names):
        kind = table.schema.field(column).type
        is_bare = types.is_nested(kind) or types.is_integer(kind) or kind == pa.bool_()
        cells = [cells[position] for _, cells in rows]
        values = [json.loads(c) if c and is_bare else c for c in cells]
        assert header[position] == column
        check_text(table, column, values)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns())
def test_parquet_holds_every_value_or_refuses_its_column(table):
    schema = schema_for(table, TableFormat.PARQUET)
    assume(schema is not None)

    data = part_format(TableFormat.PARQUET, schema).dump(with_answers(table))

    back = pq.read_table(io.BytesIO(data))
    for column in table.column_names:
        found = (
            back.column(column).combine_chunks().cast(table.schema.field(column).type)
        )
        assert integers(found) == integers(table.column(column).combine_chunks())


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()])
def test_parquet_holds_views_inside_of_lists_structs_and_maps(view):
    """Arrow writes no slice of views, which it makes itself inside of null structs."""
    struct = pa.struct([("a", view)])
    table = pa.table(
        {
            "struct": pa.array([{"a": b"x"}, None, {"a": b"y"}], struct),
            "list": pa.array([[{"a": b"x"}], None, [None]], pa.list_(struct)),
            "map": pa.array([[(b"k", None)], None, []], pa.map_(view, struct)),
        }
    )
    schema = schema_for(table, TableFormat.PARQUET)

    for rows in (table, table.slice(1)):
        data = part_format(TableFormat.PARQUET, schema).dump(with_answers(rows))
        back = pq.read_table(io.BytesIO(data)).select(table.column_names)
        assert back.to_pylist() == rows.to_pylist()


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns())
def test_delta_holds_every_value_or_refuses_its_column(tmp_path_factory, table):
    schema = schema_for(table, TableFormat.DELTA)
    assume(schema is not None)
    folder = str(tmp_path_factory.mktemp("t") / "t")
    rows = with_types(with_answers(table), schema)

    replace_rows(LocalStore(), folder, schema, rows.to_batches())

    location, pinned = pin_table(TableLocation(name="t", uri=folder))
    source = open_source(location, pinned)
    (found,) = source.read(source.splits(100))
    for column in table.column_names:
        back = found.batch.column(column).cast(schema.field(column).type)
        kind = plain_type(table.schema.field(column).type)
        given_ = table.column(column).combine_chunks().cast(schema.field(column).type)
        assert integers(back) == integers(given_), kind


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=columns())
def test_parquet_gives_every_value_that_is_in_it(tmp_path_factory, table):
    # Arrow itself cannot write every struct of views, so nobody has such files.
    assume(not any(re.search("struct<.*view", str(c.type)) for c in table.schema))
    path = tmp_path_factory.mktemp("t") / "in.parquet"
    pq.write_table(table, path)

    source = open_source(*pin_table(TableLocation(name="t", uri=str(path))))
    (found,) = source.read(source.splits(100))

    there = pq.read_table(path)
    assert found.batch.schema.names == table.column_names
    for column in table.column_names:
        expected = integers(there.column(column).combine_chunks())
        assert integers(found.batch.column(column)) == expected


NAMED = {
    str(kind): kind
    for kind in [
        *(kind for kind, _ in SCALARS),
        pa.float16(),
        pa.time64("us"),
        pa.month_day_nano_interval(),
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
    ]
}
OUT = {
    "Parquet": TableFormat.PARQUET,
    "Delta": TableFormat.DELTA,
    "JSON Lines": TableFormat.JSONL,
    "CSV": TableFormat.CSV,
}


def rst_table(title):
    """Return the rows of the list-table that follows a title of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"{title}\n{'-' * len(title)}\n")[1]
    body = text.split(".. list-table::")[1].split("\n\n\n")[0]
    cells = re.findall(
        r"^   ([*]| ) - (.*)$", body.split("\n\nIn CSV")[0], re.MULTILINE
    )
    rows = []
    for mark, cell in cells:
        if mark == "*":
            rows.append([])
        rows[-1].append(cell)
    return rows


def word_for(kind, output):
    """Return what the page says of a type in an output."""
    given_ = pa.schema([("c", kind)])
    try:
        schema = output_schema(pin_of(given_, []), "generated_text", output)
    except RequestError:
        return "refused"
    if output in {TableFormat.PARQUET, TableFormat.DELTA}:
        found = schema.field("c").type
        return "same" if found == kind else f"``{found}``"
    if kind == pa.null():
        return "null"
    for test, word in (
        (types.is_boolean, "true or false"),
        (types.is_integer, "number"),
        (types.is_floating, "number"),
        (types.is_decimal, "exact text"),
        (types.is_date, "ISO 8601"),
        (types.is_time, "ISO 8601"),
        (lambda k: types.is_timestamp(k) and k.tz, "ISO 8601, ``Z``"),
        (types.is_timestamp, "ISO 8601"),
        (types.is_map, "list of objects"),
        (types.is_struct, "object"),
        (types.is_list, "list"),
    ):
        if test(kind):
            is_json = output is TableFormat.CSV and types.is_nested(kind)
            return "JSON text" if is_json else word
    return "base64" if "binary" in str(kind) else "text"


def test_the_table_of_types_says_what_happens_to_each():
    header, *rows = rst_table("Types")
    said = {
        name: dict(zip(header[1:], cells, strict=True))
        for names, *cells in rows
        for name in re.findall(r"``(.*?)``", names)
    }

    assert header[1:] == list(OUT)
    assert set(said) == set(NAMED)
    for name, kind in NAMED.items():
        assert said[name] == {
            title: word_for(kind, output) for title, output in OUT.items()
        }, name


def test_the_table_of_json_values_says_which_columns_they_make():
    _, *rows = rst_table("Types in JSON Lines")

    assert len(rows) >= 8
    for written, said in rows:
        kinds = Kinds()
        for value in re.findall(r"``(.*?)``", written):
            kinds.see(json.loads(value), "line 1")
        found = kinds.arrow_type
        assert said == ("exact JSON" if found is None else f"``{found}``"), written


def test_delta_tables_of_others_give_every_value(tmp_path):
    table = pa.table({"a": pa.array([2**63 - 1]), "s": pa.array([{"x": [1, None]}])})
    write_deltalake(tmp_path / "t", table)

    source = open_source(*pin_table(TableLocation(name="t", uri=str(tmp_path / "t"))))
    (found,) = source.read(source.splits(10))

    assert found.batch.to_pylist() == table.to_pylist()
    assert DeltaTable(tmp_path / "t").version() == 0
