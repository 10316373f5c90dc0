"""The id column: exact about what occurs twice, in every format, within a limit."""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.ids import id_faults
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.values import TableLocation


def faults(path, **options):
    return id_faults(
        *pin_table(TableLocation(name="t", uri=str(path))), "id", **options
    )


@pytest.fixture
def table(tmp_path):
    def write(ids):
        path = tmp_path / "in.parquet"
        pq.write_table(pa.table({"id": ids, "prompt": ["p"] * len(ids)}), path)
        return path

    return write


def test_says_how_many_and_where_and_quotes_no_id(table):
    found = faults(table(["a", None, "b", "a", "c", "b", "a", "a"]))

    assert found == (
        "id_column='id': ids that occur more than once: 2 in 6 rows (1, 4, 7, ...; "
        "3, 6); rows without an id: 1 (2); rows are counted from 1"
    )


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([1, 2, -1], pa.int8()),
        pa.array([2**64 - 1, 0, 1], pa.uint64()),
        # One hash in Python.
        pa.array([-1, -2, 2**61 - 2, 2**61 - 3]),
        pa.array([decimal.Decimal(-1), decimal.Decimal(-2)], pa.decimal128(38, 0)),
        pa.array([dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
        pa.array([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)]),  # noqa: DTZ001
        pa.array([dt.time(1), dt.time(2)]),
        pa.array([b"a", b"b", b""]),
        pa.array(["a", "b", ""], pa.large_string()),
        pa.array(["a", "b", "c"]).dictionary_encode(),
    ],
)
def test_takes_ids_of_every_type_that_tells_rows_apart(table, ids):
    twice = pa.concat_arrays([ids, ids[-1:]])

    assert faults(table(ids)) is None
    assert f"once: 1 in 2 rows ({len(ids)}, {len(ids) + 1})" in faults(table(twice))


@pytest.mark.parametrize(
    ("ids", "what"),
    [
        (pa.array([1.5]), "of type double"),
        (pa.array([True]), "of type bool"),
        (pa.array([[1]]), "of type list"),
        (pa.array([{"a": 1}]), "of type struct"),
        (pa.nulls(1), "of type null"),
    ],
)
def test_refuses_types_that_tell_no_rows_apart(table, ids, what):
    with pytest.raises(RequestError, match=f"'id' is {what}.*an id is text"):
        faults(table(ids))


def test_refuses_a_column_of_mixed_json(kit, tmp_path):
    path = kit.write_jsonl(tmp_path / "in.jsonl", [{"id": 1}, {"id": "a"}])

    with pytest.raises(RequestError, match="'id' is JSON of mixed kinds"):
        faults(path)


def test_looks_at_the_rows_of_the_run_alone(table):
    path = table(["a", "b", "c", "a"])

    assert faults(path, limit=3) is None
    assert "(1, 4)" in faults(path, limit=4)


def test_leaves_deleted_rows_out_and_takes_partition_columns(tmp_path):
    rows = pa.table({"id": ["a", "b", "a"], "n": [1, 2, 3]})
    write_deltalake(tmp_path / "t", rows, partition_by=["id"])
    before = faults(tmp_path / "t")
    DeltaTable(tmp_path / "t").delete("n = 3")

    assert "once: 1 in 2 rows" in before
    assert faults(tmp_path / "t") is None


def test_reads_text_formats_and_several_files(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "1.csv").write_text("prompt,id\np,01\np,1\n")
    (tmp_path / "c" / "2.csv").write_text("id,prompt\n1,p\n,p\n")

    assert faults(tmp_path / "c") == (
        "id_column='id': ids that occur more than once: 1 in 2 rows (2, 3); rows "
        "without an id: 1 (4); rows are counted from 1"
    )


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.none() | st.text("ab", max_size=3), max_size=40))
def test_counts_what_a_plain_count_counts(table, ids):
    counts = {i: ids.count(i) for i in ids if i is not None and ids.count(i) > 1}
    expected = f"{len(counts)} in {sum(counts.values())} rows"

    found = faults(table(pa.array(ids, pa.string()))) or ""

    assert (f"once: {expected}" in found) == bool(counts)
    assert (f"without an id: {ids.count(None)} " in found) == (None in ids)


def test_keeps_few_ids_in_memory_however_many_rows_have_them(table):
    rows = 300_000
    wide = pa.array(["a" * 1000, "b" * 1000])
    path = table(pa.DictionaryArray.from_arrays([0, 1] * (rows // 2), wide))
    given = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(given)
    pa.set_memory_pool(pool)
    try:
        found = faults(path)
    finally:
        pa.set_memory_pool(given)

    assert "once: 2 in 300,000 rows (1, 3, 5, ...; 2, 4, 6, ...)" in found
    assert 0 < pool.max_memory() < rows * 1000 / 2
