"""Types of CSV columns: given by name, exact, and refused cell by cell."""

import datetime as dt
import decimal
import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.partformats import part_format
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableFormat, TableLocation


def read(path, types, split_rows=100):
    options = {"types": types}
    location = TableLocation(name=path.name, uri=str(path), read_options=options)
    source = open_source(*pin_table(location))
    batches = [rows.batch for rows in source.read(source.splits(split_rows))]
    return pa.Table.from_batches(batches, source.schema)


@pytest.fixture
def write(tmp_path):
    def make(text, name="in.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return make


#: Types, and values of each.
KINDS = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "date32": st.dates(),
    "decimal128(12, 3)": st.integers(-(10**12) + 1, 10**12 - 1).map(
        lambda number: decimal.Decimal(number).scaleb(-3)
    ),
    "timestamp[us]": st.datetimes(),
    "timestamp[us, tz=UTC]": st.datetimes(timezones=st.just(dt.UTC)),
    "timestamp[s, tz=Europe/Paris]": st.datetimes(
        dt.datetime(1900, 1, 1),  # noqa: DTZ001
        timezones=st.just(dt.UTC),
    ).map(lambda moment: moment.replace(microsecond=0)),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
}
ARROW = {
    **{name: pa.type_for_alias(name) for name in KINDS if name.isalnum()},
    "decimal128(12, 3)": pa.decimal128(12, 3),
    "timestamp[us]": pa.timestamp("us"),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
    "timestamp[s, tz=Europe/Paris]": pa.timestamp("s", "Europe/Paris"),
}


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(
        st.fixed_dictionaries({k: st.none() | v for k, v in KINDS.items()}),
        min_size=1,
        max_size=6,
    )
)
def test_values_of_every_type_go_through_csv_to_parquet_unchanged(tmp_path, rows):
    schema = pa.schema(list(ARROW.items()))
    table = pa.Table.from_pylist(rows, schema)
    path = tmp_path / "in.csv"
    path.write_bytes(part_format(TableFormat.CSV, schema).dump(table))

    found = read(path, {name: name for name in KINDS}, split_rows=2)
    pq.write_table(found, tmp_path / "out.parquet")

    expected = table.replace_schema_metadata()
    assert found.schema == schema
    assert found.combine_chunks().equals(expected.combine_chunks())
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == expected.to_pylist()


def test_types_are_for_the_columns_that_are_named(write):
    path = write('id,n,price\n01,1,3e5\n,,\n"",-0,NaN\n')

    table = read(path, {"n": "int64", "price": "double"})

    assert table["id"].to_pylist() == ["01", None, ""]
    assert table["n"].to_pylist() == [1, None, 0]
    assert [str(price) for price in table["price"]] == ["300000.0", "None", "nan"]


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("int64", "0x1F"),
        ("int64", "1.0"),
        ("int64", " 1"),
        ("int64", "NA"),
        ("int64", '""'),
        ("int8", "128"),
        ("uint8", "-1"),
        ("double", "1e999"),
        ("float", "1e39"),
        ("double", "1;5"),
        ("bool", "yes"),
        ("date32", "05.01.2024"),
        ("date32", "2024-02-30"),
        ("decimal128(5, 2)", "1.234"),
        ("decimal128(5, 2)", "12345"),
        ("decimal128(38, 0)", "9" * 39),
        ("decimal128(38, 35)", "91976"),
        ("decimal128(5, 2)", f"1.{'0' * 38}1"),
        ("timestamp[us]", "2024-01-05T10:00:00Z"),
        ("timestamp[us]", "2024-01-05T10:00:00.1234567"),
        ("timestamp[us, tz=UTC]", "2024-01-05T10:00:00"),
    ],
)
def test_refuses_a_cell_that_is_no_value_of_its_type(write, kind, cell):
    path = write(f'a,b\nx,\n"y\nz",{cell}\n')

    with pytest.raises(RequestError, match="line 3 column 'b' is no") as caught:
        read(path, {"b": kind})

    assert "1 of its cells" in str(caught.value)


def test_counts_bad_cells_over_blocks_and_names_the_first(write):
    cells = ["x" if row % 1000 == 0 else str(row) for row in range(30_000)]
    path = write("n\n" + "\n".join(cells) + "\n", "in.csv.gz")

    with pytest.raises(RequestError) as caught:
        read(path, {"n": "int64"})

    text = str(caught.value)
    assert "30 of its cells are not of the types" in text
    assert "line 2 column 'n' is no int64; line 1002 column" in text
    assert text.count("line ") == 20
    assert " and 10 more" in text


def test_stops_looking_at_a_column_that_is_not_of_its_type_at_all(write):
    path = write("n\n" + "x\n" * 20_000)

    with pytest.raises(RequestError, match=r"at least 4096 of its cells"):
        read(path, {"n": "int64"})


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"prise": "double"}, "'prise', which is no column .*Did you mean 'price'"),
        ({"price": "dubble"}, "'dubble' for column 'price'.*Did you mean 'double'"),
        ({"price": "timestamp[us, tz=Mars/X]"}, "'timestamp.us, tz=Mars/X.'"),
        ({"price": "decimal128(39, 2)"}, "'decimal128.39, 2.'"),
        ({"price": 7}, "has 7 for column 'price'"),
        (["price"], "must be an object of columns and types"),
    ],
)
def test_refuses_types_and_columns_that_it_does_not_know(write, types, message):
    with pytest.raises(RequestError, match=message):
        read(write("price\n1\n"), types)


def test_types_columns_of_folders_and_of_several_files(write, tmp_path):
    write("n,t\n1,a\n", "in/day=2024-01-05/a.csv")
    write("t,late\nb,7\n", "in/day=__HIVE_DEFAULT_PARTITION__/b.csv")

    table = read(tmp_path / "in", {"day": "date32", "n": "int8", "late": "int32"})

    assert [str(kind) for kind in table.schema.types] == [
        *("int8", "string", "int32", "date32[day]")
    ]
    assert table["day"].to_pylist() == [dt.date(2024, 1, 5), None]
    with pytest.raises(RequestError, match="folder column 'day' .* is no int64"):
        read(tmp_path / "in", {"day": "int64"})


def test_reads_the_pinned_types_and_ends_when_a_cell_changes(write):
    path = write("n\n11\n12\n")
    options = {"types": {"n": "int64"}}
    location = TableLocation(name="in", uri=str(path), read_options=options)
    location, pin = pin_table(location)
    kept = path.stat()
    source = open_source(location, pin)
    path.write_text("n\n11\nxx\n")
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))

    with pytest.raises(RequestError, match="has changed since the run was planned"):
        list(source.read(source.splits(10)))
