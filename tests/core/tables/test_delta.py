"""Delta in: the pinned version, its deleted rows left out, odd features by name."""

import datetime as dt
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableLocation

#: The bitmap of a deletion vector that lies inline in the log: rows 1 and 4.
ROWS_1_AND_4 = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000315c8Xg0rrl5",
    "sizeInBytes": 36,
    "cardinality": 2,
}


def pin(path):
    return pin_table(TableLocation(name=Path(path).name, uri=str(path)))


def rows_of(path, split_rows=100):
    source = open_source(*pin(path))
    return [
        row
        for found in source.read(source.splits(split_rows))
        for row in found.batch.to_pylist()
    ]


def write_log(folder, *actions, version=0):
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(action) + "\n" for action in actions)
    (log / f"{version:020d}.json").write_text(text)


def metadata(**configuration):
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("prompt", "string"))
    ]
    return {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": configuration,
            "createdTime": 0,
        }
    }


def protocol(*features):
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features),
            "writerFeatures": list(features),
        }
    }


def add(path, size, **more):
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": size,
            "modificationTime": 0,
            "dataChange": True,
            **more,
        }
    }


def test_reads_partition_columns_late_columns_and_odd_partition_values(tmp_path):
    table = tmp_path / "t ü#;x"
    first = pa.table(
        {
            "k": ["a b", "c%d", "é=1", None],
            "day": [dt.date(2024, 1, 1)] * 4,
            "v": [1, 2, 3, 4],
        }
    )
    write_deltalake(table, first, partition_by=["k", "day"])
    late = pa.table({"k": ["z"], "day": [None], "v": [5], "late": ["x"]})
    late = late.set_column(1, "day", pa.array([None], pa.date32()))
    write_deltalake(table, late, mode="append", schema_mode="merge")

    rows = sorted(rows_of(table), key=lambda row: row["v"])

    names = [column.name for column in DeltaTable(table).schema().fields]
    assert [list(row) for row in rows] == [names] * 5
    assert [row["k"] for row in rows] == ["a b", "c%d", "é=1", None, "z"]
    assert [row["late"] for row in rows] == [None, None, None, None, "x"]
    assert [row["day"] for row in rows] == [dt.date(2024, 1, 1)] * 4 + [None]


def test_reads_the_pinned_version_whatever_came_later(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"i": [1, 2]}))
    location, pinned = pin(tmp_path / "t")
    write_deltalake(tmp_path / "t", pa.table({"i": [3]}), mode="append")
    DeltaTable(tmp_path / "t").delete("i = 1")

    source = open_source(location, pinned)
    (rows,) = source.read(source.splits(10))

    assert pinned.version == 0
    assert rows.batch.column("i").to_pylist() == [1, 2]


def test_takes_a_table_without_rows(tmp_path):
    DeltaTable.create(tmp_path / "t", pa.schema([("p", pa.string())]))

    _, pinned = pin(tmp_path / "t")

    assert (pinned.rows, pinned.files) == (0, ())
    assert [column.name for column in pinned.columns] == ["p"]


@pytest.fixture
def deletion_table(tmp_path):
    """Return a table of six rows; its log says that rows 1 and 4 are deleted."""
    folder = tmp_path / "dv table"
    folder.mkdir()
    prompts = [f"{'DELETED' if i in {1, 4} else 'live'} {i}" for i in range(6)]
    pq.write_table(pa.table({"id": range(6), "prompt": prompts}), folder / "p.parquet")
    size = (folder / "p.parquet").stat().st_size
    write_log(
        folder,
        protocol("deletionVectors"),
        metadata(),
        add(
            "p.parquet",
            size,
            stats=json.dumps({"numRecords": 6}),
            deletionVector=ROWS_1_AND_4,
        ),
    )
    return folder


@pytest.mark.parametrize("split_rows", [1, 2, 3, 6])
def test_leaves_deleted_rows_out(deletion_table, split_rows):
    rows = rows_of(deletion_table, split_rows)

    assert [row["id"] for row in rows] == [0, 2, 3, 5]
    assert not any("DELETED" in row["prompt"] for row in rows)


def test_cuts_splits_before_it_leaves_deleted_rows_out(deletion_table):
    source = open_source(*pin(deletion_table))

    found = list(source.read(source.splits(1)))

    assert [rows.batch.num_rows for rows in found] == [1, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("first_actions", "named"),
    [
        (
            [
                protocol("columnMapping"),
                metadata(**{"delta.columnMapping.mode": "name"}),
            ],
            "columnMapping",
        ),
        ([protocol("variantType"), metadata()], "variantType"),
        ([protocol("typeWidening"), metadata()], "typeWidening"),
        ([protocol("newThing"), metadata()], "newThing"),
    ],
)
def test_refuses_features_that_it_does_not_read_by_their_names(
    tmp_path, first_actions, named
):
    write_log(tmp_path / "t", *first_actions)

    with pytest.raises(RequestError, match=named):
        pin(tmp_path / "t")


def test_refuses_a_deletion_vector_that_cannot_be_read(tmp_path):
    broken = ROWS_1_AND_4 | {"sizeInBytes": 40}
    write_log(
        tmp_path / "t",
        protocol("deletionVectors"),
        metadata(),
        add("p.parquet", 1, deletionVector=broken),
    )

    with pytest.raises(RequestError, match="its deletion vectors cannot be read"):
        pin(tmp_path / "t")


def test_refuses_a_deletion_vector_that_is_longer_than_its_file(tmp_path):
    folder = tmp_path / "t"
    stats = json.dumps({"numRecords": 6})  # the file has three
    action = add("p.parquet", 3, stats=stats, deletionVector=ROWS_1_AND_4)
    write_log(folder, protocol("deletionVectors"), metadata(), action)
    pq.write_table(pa.table({"id": [0, 1, 2]}), folder / "p.parquet")

    with pytest.raises(RequestError, match="vector of 'p.parquet' is longer than its"):
        pin(folder)


def test_names_a_file_that_the_log_has_and_the_folder_has_not(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"i": [1]}))
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()

    with pytest.raises(
        RequestError, match="which is not there; was the table vacuumed"
    ):
        pin(tmp_path / "t")


def test_refuses_files_outside_of_the_table(tmp_path):
    write_log(tmp_path / "t", protocol(), metadata(), add("file:///x/p.parquet", 1))

    with pytest.raises(RequestError, match="shallow clone"):
        pin(tmp_path / "t")


def test_refuses_a_broken_log(tmp_path):
    write_log(tmp_path / "t", {"nothing": 1})

    with pytest.raises(RequestError, match="cannot be opened as a Delta table"):
        pin(tmp_path / "t")


def test_refuses_a_path_that_the_delta_library_takes_for_another(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"i": [1]}))
    shutil.move(tmp_path / "t", tmp_path / "a%41")

    with pytest.raises(RequestError, match="'%41' in a path"):
        pin(tmp_path / "a%41")


def test_counts_rows_from_footers_where_the_log_does_not_say(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "prompt": ["a", "b"]}), folder / "p.parquet")
    size = (folder / "p.parquet").stat().st_size
    write_log(folder, protocol(), metadata(), add("p.parquet", size))

    _, pinned = pin(folder)

    assert pinned.rows == 2


def test_reads_old_spark_timestamps_of_every_year(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    instants = [
        dt.datetime(year, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
        for year in (1582, 1970, 2024, 9999)
    ]
    table = pa.table({"ts": pa.array(instants, pa.timestamp("us", "UTC"))})
    pq.write_table(table, folder / "p.parquet", use_deprecated_int96_timestamps=True)
    field = {"name": "ts", "type": "timestamp", "nullable": True, "metadata": {}}
    actions = metadata()
    actions["metaData"]["schemaString"] = json.dumps(
        {"type": "struct", "fields": [field]}
    )
    size = (folder / "p.parquet").stat().st_size
    write_log(folder, protocol(), actions, add("p.parquet", size))

    assert [row["ts"] for row in rows_of(folder)] == instants


def test_reads_files_that_hold_a_narrower_type_than_the_table(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    narrow = pa.table({"id": pa.array([1, 2], pa.int32()), "prompt": ["a", "b"]})
    pq.write_table(narrow, folder / "p.parquet")
    size = (folder / "p.parquet").stat().st_size
    write_log(folder, protocol(), metadata(), add("p.parquet", size))

    assert rows_of(folder) == [{"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"}]


@pytest.mark.parametrize("name", ["a b", "c#1", "d;x", "g?q=1", "h[1]", "50%", "ü-東"])
def test_reads_a_table_of_any_name_its_deleted_rows_left_out(deletion_table, name):
    folder = deletion_table.rename(deletion_table.parent / name)

    assert [row["id"] for row in rows_of(folder)] == [0, 2, 3, 5]


@pytest.mark.parametrize("folder", ["plain", "50%", "a b", "h[1]"])
def test_tells_deleted_rows_of_files_whose_names_end_alike_apart(tmp_path, folder):
    table = tmp_path / folder
    (table / "a").mkdir(parents=True)
    actions = [protocol("deletionVectors"), metadata()]
    for path, name in (("a/b.parquet", "a/b"), ("b.parquet", "b"), ("c%.parquet", "c")):
        rows = pa.table({"id": range(6), "prompt": [f"{name}{i}" for i in range(6)]})
        pq.write_table(rows, table / path)
        size = (table / path).stat().st_size
        deleted = {"deletionVector": ROWS_1_AND_4} if name != "b" else {}
        stats = json.dumps({"numRecords": 6})
        actions.append(add(path.replace("%", "%25"), size, stats=stats, **deleted))
    write_log(table, *actions)

    prompts = [row["prompt"] for row in rows_of(table)]

    assert prompts == [
        *("a/b0", "a/b2", "a/b3", "a/b5"),
        *("b0", "b1", "b2", "b3", "b4", "b5"),
        *("c0", "c2", "c3", "c5"),
    ]


def test_reads_one_column_with_its_deleted_rows_left_out(deletion_table):
    source = open_source(*pin(deletion_table))

    (found,) = source.read(source.splits(100), columns=["prompt"])

    assert found.batch.to_pydict() == {
        "prompt": ["live 0", "live 2", "live 3", "live 5"]
    }


def test_reads_a_column_that_stands_in_no_file(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": ["x"] * 3, "v": [1, 2, 3]}))
    late = pa.table({"k": ["x"], "v": [4], "late": ["z"]})
    write_deltalake(tmp_path / "t", late, mode="append", schema_mode="merge")
    write_deltalake(
        tmp_path / "p",
        pa.table({"k": ["x"] * 3, "v": [1, 2, 3]}),
        partition_by=["k"],
    )

    def column(name, which):
        source = open_source(*pin(tmp_path / which))
        found = source.read(source.splits(100), columns=[name])
        return sorted(
            (v for rows in found for v in rows.batch[name].to_pylist()), key=str
        )

    assert column("late", "t") == [None, None, None, "z"]
    assert column("k", "p") == ["x", "x", "x"]
