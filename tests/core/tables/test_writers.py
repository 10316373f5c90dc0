"""Writers travel to replicas, and what they write is nobody's until it is published."""

import pickle
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.sink import open_sink
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableFormat


@pytest.fixture(params=[TableFormat.JSONL, TableFormat.DELTA])
def run(request, kit, tmp_path):
    """Return a run over five rows."""
    source = kit.write_jsonl(
        tmp_path / "in.jsonl", [{"id": i, "prompt": f"p{i}"} for i in range(5)]
    )
    return kit.Run(source, str(tmp_path / "out"), format=request.param)


def test_writes_parts_in_another_process_that_nobody_sees_yet(kit, run):
    order = run.order()
    source = open_source(order.source, order.pin)
    sink = open_sink(order)
    sink.open()
    writer = pickle.loads(pickle.dumps(sink.writer))

    parts = [run.write(writer, rows) for rows in source.read(source.splits(2))]
    seen_before = kit.read_output(run)
    sink.publish(parts)

    assert seen_before == []
    assert [row["id"] for row in kit.read_output(run)] == list(range(5))


def test_publishes_parts_in_any_order(kit, run):
    order = run.order()
    source = open_source(order.source, order.pin)
    sink = open_sink(order)
    sink.open()
    parts = [run.write(sink.writer, rows) for rows in source.read(source.splits(2))]

    for part in reversed(parts):
        sink.publish([part])

    assert [row["id"] for row in kit.read_output(run)] == list(range(5))
    assert [part.split for part in open_sink(order).open()] == [0, 1, 2]


def test_leaves_a_split_unpublished_until_all_of_its_rows_are_there(kit, run):
    order = run.order()
    source = open_source(order.source, order.pin)
    sink = open_sink(order)
    sink.open()
    rows = next(source.read(source.splits(2)))
    run.write(sink.writer, rows)
    second = [run.write(sink.writer, rows)]

    sink.publish(second)

    assert [row["id"] for row in kit.read_output(run)] == [0, 1]


def test_names_delta_files_by_split_run_and_attempt(kit, tmp_path):
    source = kit.write_jsonl(tmp_path / "in.jsonl", [{"prompt": "p"}])
    run = kit.Run(
        source,
        str(tmp_path / "out"),
        format=TableFormat.DELTA,
        run_id="r.1-x",
        attempt=3,
    )

    run.to_end()

    (file,) = (tmp_path / "out").glob("*.parquet")
    assert file.name.startswith("part-000000-r.1-x-3-")
    assert pq.read_schema(file).names == [
        "prompt",
        "generated_text",
        "error",
        "finish_reason",
        "prompt_tokens",
        "completion_tokens",
    ]


def test_gives_all_parts_one_schema_when_a_column_is_null_in_most(kit, tmp_path):
    rows = [{"prompt": f"p{i}", "note": None if i < 8 else "late"} for i in range(10)]
    source = kit.write_jsonl(tmp_path / "in.jsonl", rows)
    run = kit.Run(
        source,
        str(tmp_path / "out"),
        format=TableFormat.DELTA,
        fails=frozenset({"p9"}),
    )

    run.to_end()

    schemas = [pq.read_schema(file) for file in (tmp_path / "out").glob("*.parquet")]
    assert len(schemas) == 5
    assert all(schema.equals(schemas[0]) for schema in schemas)
    assert str(schemas[0].field("note").type) == "string"
    assert str(schemas[0].field("error").type) == "string"


def test_leaves_a_table_alone_that_appeared_after_the_claim(kit, tmp_path):
    source = kit.write_jsonl(tmp_path / "in.jsonl", [{"id": 1, "prompt": "p"}])
    run = kit.Run(source, str(tmp_path / "out"), format=TableFormat.DELTA)
    run.to_end()
    shutil.rmtree(tmp_path / "out" / "_delta_log")
    write_deltalake(tmp_path / "out", pa.table({"id": [7]}))

    with pytest.raises(RequestError, match="was not made by ml-toolkit"):
        open_sink(run.order()).open()

    assert DeltaTable(tmp_path / "out").version() == 0


def test_removes_the_files_of_killed_writers_and_no_others(kit, tmp_path):
    source = kit.write_jsonl(tmp_path / "in.jsonl", [{"id": 1, "prompt": "p"}])
    run = kit.Run(source, str(tmp_path / "out"), format=TableFormat.DELTA)
    run.to_end()
    (published,) = (file.name for file in (tmp_path / "out").glob("*.parquet"))
    killed = [
        "part-000000-run-1-1-0123abcd.parquet",
        ".unfinished-0123abcd-part-000000-run-1-1-0123abcd.parquet",
    ]
    others = ["part-000000-run-10-1-0123abcd.parquet", "part-000000.parquet"]
    for name in [*killed, *others]:
        (tmp_path / "out" / name).touch()

    open_sink(run.order()).open()

    left = {file.name for file in (tmp_path / "out").iterdir() if file.is_file()}
    assert left == {published, *others}


@pytest.mark.parametrize(
    "name", ["a b", "c#1", "d;x", "g?q=1", "h[1]", "a|b", "50%", "ü-東"]
)
def test_writes_to_exactly_the_name_that_was_asked_for(kit, tmp_path, run, name):
    run.output = str(tmp_path / name)
    run.fails = frozenset({"p0"})

    listed = run.to_end()

    assert [row["id"] for row in kit.read_output(run)] == list(range(5))
    assert [row["id"] for row in kit.read_list(run.format, listed)] == [0]
    assert {path.name for path in tmp_path.iterdir()} == {
        "in.jsonl",
        name,
        listed.rpartition("/")[2],
    }
