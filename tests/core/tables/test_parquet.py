"""Parquet in: one schema over all files, streamed by row group, cut exactly."""

import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableLocation


def pin(path):
    return pin_table(TableLocation(name=path.name, uri=str(path)))


def source_of(path):
    return open_source(*pin(path))


def test_keeps_types_and_odd_names_as_they_are(tmp_path):
    table = pa.table(
        {
            "a.b": pa.array([1], pa.uint64()),
            "": pa.array(["x"]),
            "t": pa.array([1000], pa.timestamp("ns", "Europe/Paris")),
            "d": pa.array(["x"]).dictionary_encode(),
            "l": pa.array([[{"k": None}]], pa.list_(pa.struct([("k", pa.int8())]))),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    source = source_of(tmp_path / "in.parquet")

    (rows,) = source.read(source.splits(10))

    assert rows.batch.schema.names == ["a.b", "", "t", "d", "l"]
    assert rows.batch.to_pylist() == table.to_pylist()
    assert rows.batch.schema.field("t").type == pa.timestamp("ns", "Europe/Paris")
    assert rows.batch.schema.field("d").type == pa.string()


def test_takes_a_table_without_rows(tmp_path):
    pq.write_table(pa.table({"p": pa.array([], pa.string())}), tmp_path / "in.parquet")

    location, pinned = pin(tmp_path / "in.parquet")

    assert pinned.rows == 0
    assert [column.name for column in pinned.columns] == ["p"]
    assert open_source(location, pinned).splits(10) == []


def test_gives_files_of_a_folder_one_schema(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "n": pa.nulls(1)}), folder / "1.parquet")
    pq.write_table(pa.table({"n": ["x"], "late": [True]}), folder / "2.parquet")
    source = source_of(folder)

    rows = [
        row
        for found in source.read(source.splits(5))
        for row in found.batch.to_pylist()
    ]

    assert rows == [
        {"a": 1, "n": None, "late": None},
        {"a": None, "n": "x", "late": True},
    ]


def test_names_every_column_on_which_files_disagree(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "b": [1.0]}), folder / "1.parquet")
    pq.write_table(pa.table({"a": ["x"], "b": [True]}), folder / "2.parquet")

    with pytest.raises(
        RequestError,
        match=r"'a' is int64 in '1.parquet' and string in '2.parquet'; column 'b'",
    ):
        pin(folder)


def test_refuses_a_column_that_stands_twice(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "in.parquet")

    with pytest.raises(RequestError, match="column 'a' stands twice"):
        pin(tmp_path / "in.parquet")


def test_refuses_a_file_that_is_no_parquet(tmp_path):
    (tmp_path / "in.parquet").write_text("x" * 50)

    with pytest.raises(RequestError, match="cannot be read as Parquet"):
        pin(tmp_path / "in.parquet")


def test_names_a_file_whose_pages_are_broken(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": [f"text {i}" for i in range(9999)]}), path)
    data = bytearray(path.read_bytes())
    data[100:20_000] = bytes(19_900)
    path.write_bytes(data)
    source = source_of(path)

    with pytest.raises(RequestError, match=r"in.parquet' cannot be read to its end"):
        list(source.read(source.splits(5000)))


def test_refuses_a_file_that_was_replaced_after_the_pin(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    source = source_of(path)
    pq.write_table(pa.table({"a": [1, 2]}), path)

    with pytest.raises(RequestError, match="has changed since the run was planned"):
        list(source.read(source.splits(1)))


def test_sends_a_split_without_the_rows_around_it(tmp_path):
    pq.write_table(pa.table({"a": ["x" * 100] * 4000}), tmp_path / "in.parquet")
    source = source_of(tmp_path / "in.parquet")

    (rows,) = source.read([source.splits(10)[7]])

    assert len(pickle.dumps(rows)) < 4000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=3),
    group_rows=st.integers(1, 20),
    split_rows=st.integers(1, 25),
    data=st.data(),
)
def test_gives_exactly_the_rows_of_the_splits_asked_for(
    tmp_path_factory, sizes, group_rows, split_rows, data
):
    folder = tmp_path_factory.mktemp("t")
    first = 0
    for number, size in enumerate(sizes):
        pq.write_table(
            pa.table({"i": pa.array(range(first, first + size), pa.int64())}),
            folder / f"{number}.parquet",
            row_group_size=group_rows,
        )
        first += size
    source = source_of(folder)
    splits = source.splits(split_rows)
    asked = [split for split in splits if data.draw(st.booleans())]

    found = list(source.read(asked))

    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    assert [rows.split for rows in found] == asked
    assert [rows.batch.column("i").to_pylist() for rows in found] == [
        list(range(starts[s.file] + s.start, starts[s.file] + s.stop)) for s in asked
    ]
    assert sum(split.stop - split.start for split in splits) == sum(sizes)
    assert all(0 < split.stop - split.start <= split_rows for split in splits)


def test_reads_one_column_without_decoding_the_others(tmp_path):
    path = tmp_path / "in.parquet"
    table = pa.table({"id": [1, 2], "doc": ["a" * 99, "b" * 99]})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    doc = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[doc.data_page_offset : doc.data_page_offset + 20] = b"\xff" * 20
    path.write_bytes(data)
    source = source_of(path)

    (rows,) = source.read(source.splits(10), columns=["id"])

    assert rows.batch.to_pydict() == {"id": [1, 2]}
    with pytest.raises(RequestError, match="cannot be read to its end"):
        list(source.read(source.splits(10)))
