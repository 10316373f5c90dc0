"""Overwriting and appending: the old or the new, each row once, under any kill."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ml_toolkit_core.errors import RequestError, RunFenced
from ml_toolkit_core.tables.existing import check_output
from ml_toolkit_core.tables.sink import open_sink
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import WriteMode

KINDS = ["jsonl", "delta", "parquet", "csv", "jsonl file", "csv file", "parquet file"]
all_kinds = pytest.mark.parametrize("kind", KINDS)
both_modes = pytest.mark.parametrize("mode", [WriteMode.OVERWRITE, WriteMode.APPEND])
OVERWRITE, APPEND = WriteMode.OVERWRITE, WriteMode.APPEND
OLD, NEW = [100, 101, 102], list(range(7))


@pytest.fixture
def make(kit, tmp_path):
    """Return a maker of runs, of which ``old`` ones have three other rows."""
    new = [{"id": i, "prompt": f"p{i}"} for i in NEW]
    old = [{"id": i, "prompt": f"p{i}"} for i in OLD]
    sources = {
        "new": kit.write_jsonl(tmp_path / "in.jsonl", new),
        "old": kit.write_jsonl(tmp_path / "old.jsonl", old),
    }

    def run(kind, mode=WriteMode.ERROR, which="new", **options):
        options = {"run_id": f"{which}-{mode}", **options}
        one = kit.run_of(kind, tmp_path, mode=mode, **options)
        one.source = sources[which]
        return one

    return run


def ids(kit, one):
    return sorted(row["id"] for row in kit.read_output(one))


def put(one, sink, rows_per_split=2):
    order = one.order()
    source = open_source(order.source, order.pin)
    found = source.read(source.splits(rows_per_split))
    sink.publish([one.write(sink.writer, rows) for rows in found])


@all_kinds
def test_overwrites_the_old_rows_with_the_new(kit, make, kind):
    make(kind, which="old").to_end()
    one = make(kind, OVERWRITE)

    one.to_end()

    assert ids(kit, one) == NEW
    assert strays(kit, one) == []


@all_kinds
def test_appends_the_new_rows_to_the_old(kit, make, kind):
    make(kind, which="old").to_end()
    one = make(kind, APPEND)

    one.to_end()

    assert ids(kit, one) == [*NEW, *OLD]
    assert kit.strays(one) == []


@all_kinds
@both_modes
def test_makes_an_output_where_none_is_and_asks_nothing_again(kit, make, kind, mode):
    make(kind, mode).to_end()
    again = make(kind, mode, attempt=2)

    again.to_end()

    assert ids(kit, again) == NEW
    assert again.asked == []


@all_kinds
@both_modes
def test_follows_one_run_with_another(kit, make, kind, mode):
    first = make(kind, mode, which="old", run_id="one")
    first.to_end()
    second = make(kind, mode, run_id="two")

    second.to_end()

    assert ids(kit, second) == (NEW if mode is OVERWRITE else [*NEW, *OLD])


@all_kinds
def test_keeps_the_old_rows_readable_until_all_new_ones_are_there(kit, make, kind):
    make(kind, which="old").to_end()
    one = make(kind, OVERWRITE)
    sink = open_sink(one.order())
    sink.open()
    put(one, sink)

    before = ids(kit, one)
    sink.complete()

    assert before == OLD
    assert ids(kit, one) == NEW


#: One of each sink that these modes have.
SINKS = [
    ("jsonl", OVERWRITE),
    ("csv", APPEND),
    ("parquet file", OVERWRITE),
    ("jsonl file", APPEND),
    ("delta", OVERWRITE),
    ("delta", APPEND),
]


@pytest.mark.parametrize("case", SINKS, ids=" ".join)
@pytest.mark.parametrize("after", [False, True])
def test_has_the_old_or_the_new_rows_wherever_it_is_killed(
    kit, make, tmp_path, case, after
):
    kind, mode = case
    options = {"fails": frozenset({"p1"}), "split_rows": 4}
    whole = NEW if mode is OVERWRITE else [*NEW, *OLD]
    make(kind, which="old").to_end()
    saved = tmp_path.parent / f"{tmp_path.name}-saved"
    shutil.copytree(tmp_path, saved)
    store = kit.DyingStore()
    make(kind, mode, **options).to_end(store)
    for lives in range(1, store.calls + 1):
        shutil.rmtree(tmp_path)
        shutil.copytree(saved, tmp_path)
        first = make(kind, mode, **options)
        second = make(kind, mode, **options, attempt=2)
        with pytest.raises(kit.Killed):
            first.to_end(kit.DyingStore(lives, after=after))
        seen = ids(kit, first)

        listed = second.to_end()

        if is_in_one_step(kind, mode):
            assert seen in (OLD, whole), lives
        assert set(OLD) <= set(seen) or seen == whole, lives
        assert len(seen) == len(set(seen)), lives
        assert ids(kit, second) == whole, lives
        failed = [row["id"] for row in kit.read_list(second.format, listed)]
        assert failed == [1], lives
        assert strays(kit, second) == [], lives


def strays(kit, one):
    """Leave out what an older version of a Delta table holds."""
    return [name for name in kit.strays(one) if "-old-" not in name]


def is_in_one_step(kind, mode):
    return mode is OVERWRITE or "file" in kind


@pytest.mark.parametrize("kind", ["jsonl", "delta", "csv file"])
def test_stops_a_run_that_another_one_overwrites(kit, make, kind):
    slow = make(kind, run_id="slow")
    sink = open_sink(slow.order())
    sink.open()
    make(kind, OVERWRITE, which="old", run_id="fast").to_end()

    with pytest.raises(RunFenced):
        put(slow, sink)

    assert ids(kit, slow) == OLD


def test_lets_runs_append_to_one_table_side_by_side(kit, make):
    for kind in ("delta", "parquet"):
        runs = [
            make(kind, APPEND, which=which, run_id=f"{kind}-{which}")
            for which in ("old", "new")
        ]
        sinks = [open_sink(one.order()) for one in runs]
        for sink in sinks:
            sink.open()
        for one, sink in zip(runs, sinks, strict=True):
            put(one, sink)
        for sink in reversed(sinks):
            sink.complete()

        assert ids(kit, runs[0]) == [*NEW, *OLD]
        shutil.rmtree(runs[0].output)


def test_refuses_to_append_to_a_file_that_another_run_has_not_finished(make):
    open_sink(make("csv file", which="old", run_id="first").order()).open()

    with pytest.raises(RequestError, match="run_id='first' has not finished writing"):
        open_sink(make("csv file", APPEND).order()).open()


def test_refuses_to_append_to_a_file_that_changed_meanwhile(make):
    make("jsonl file", which="old").to_end()
    one = make("jsonl file", APPEND)
    sink = open_sink(one.order())
    sink.open()
    put(one, sink)
    with Path(one.output).open("a") as file:
        file.write("{}\n")
    text = Path(one.output).read_text()

    with pytest.raises(RequestError, match="was changed by somebody else while"):
        sink.complete()

    assert Path(one.output).read_text() == text


def test_refuses_to_go_on_appending_to_a_table_that_was_overwritten(make):
    open_sink(make("delta", APPEND, run_id="slow").order()).open()
    make("delta", OVERWRITE, which="old", run_id="fast").to_end()

    with pytest.raises(RequestError, match="was overwritten after run_id='slow' began"):
        open_sink(make("delta", APPEND, run_id="slow", attempt=2).order()).open()


def test_appends_to_a_csv_file_that_somebody_else_wrote(make):
    one = make("csv file", APPEND)
    header = (
        "id,prompt,generated_text,error,finish_reason,prompt_tokens,completion_tokens"
    )
    Path(one.output).write_text(f'\ufeff"id"{header[2:]}\n100,a,b,,stop,1,1')

    one.to_end()

    lines = Path(one.output).read_text().splitlines()
    assert lines[:3] == [
        f'\ufeff"id"{header[2:]}',
        "100,a,b,,stop,1,1",
        "0,p0,p0,,stop,1,1",
    ]
    assert len(lines) == 9


@pytest.mark.parametrize("kind", ["delta", "parquet", "parquet file"])
def test_compares_names_and_types_of_columns_before_it_appends(make, kind):
    one = make(kind, APPEND)
    table = pa.table(
        {"id": ["x"], "prompt": ["p"], "extra": [1], "generated_text": ["t"]}
    )
    if kind == "delta":
        write_deltalake(one.output, table)
    else:
        Path(one.output).parent.mkdir(exist_ok=True)
        if kind == "parquet":
            Path(one.output).mkdir()
        pq.write_table(
            table, Path(one.output) / "a.parquet" if kind == "parquet" else one.output
        )
    order = one.order()

    with pytest.raises(RequestError) as caught:
        open_sink(order).open()

    for fault in (
        "cannot be appended to: the output has no column 'error'",
        "has a column 'extra', which this run does not write",
        "column 'id' is string there and int64 here",
    ):
        assert fault in str(caught.value)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "csv file", "jsonl file"])
def test_compares_the_names_of_columns_before_it_appends(kit, make, kind):
    make(kind, which="old").to_end()
    one = make(kind, APPEND)
    kit.write_jsonl(Path(one.source), [{"id": 1, "prompt": "p", "more": 1}])

    with pytest.raises(RequestError, match="the output has no column 'more'"):
        open_sink(one.order()).open()


@all_kinds
def test_overwrites_columns_too(kit, make, kind):
    make(kind, which="old").to_end()
    one = make(kind, OVERWRITE)
    kit.write_jsonl(Path(one.source), [{"id": 1, "prompt": "p", "more": 1}])

    one.to_end()

    assert [row["more"] for row in kit.read_output(one)] == [1]
    if kind == "delta":
        assert "more" in [c.name for c in DeltaTable(one.output).schema().fields]


@pytest.mark.parametrize("kind", ["jsonl", "delta", "csv file"])
@both_modes
def test_leaves_a_folder_alone_that_is_no_output(make, kind, mode):
    one = make(kind, mode)
    Path(one.output).mkdir()
    (Path(one.output) / "thesis.doc").write_text("precious")
    order = one.order()

    with pytest.raises(RequestError, match=r"so it is no .* output that could be"):
        check(order)

    assert (Path(one.output) / "thesis.doc").read_text() == "precious"


@pytest.mark.parametrize("mode", [OVERWRITE, APPEND])
def test_refuses_a_partitioned_delta_table(make, mode):
    one = make("delta", mode)
    write_deltalake(one.output, pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])

    with pytest.raises(RequestError, match="has partitions by 'p', which is not writ"):
        check(one.order())


def check(order):
    schema = open_sink(order)
    schema = getattr(schema, "schema", None) or (
        schema.table.schema if hasattr(schema, "table") else schema.staged.schema
    )
    check_output(
        order.output,
        order.write_mode,
        run_id=order.run_id,
        identity=order.identity,
        schema=schema,
    )


@pytest.mark.parametrize("after", [False, True])
def test_makes_a_table_by_overwriting_nothing_wherever_it_is_killed(kit, make, after):
    store = kit.DyingStore()
    one = make("delta", OVERWRITE, split_rows=4)
    one.to_end(store)
    for lives in range(1, store.calls + 1):
        shutil.rmtree(one.output)
        with pytest.raises(kit.Killed):
            make("delta", OVERWRITE, split_rows=4).to_end(
                kit.DyingStore(lives, after=after)
            )

        make("delta", OVERWRITE, split_rows=4, attempt=2).to_end()

        assert ids(kit, one) == NEW, lives


def test_makes_a_file_again_that_a_finished_run_made_and_somebody_removed(kit, make):
    make("jsonl file", which="old").to_end()
    one = make("jsonl file")
    Path(one.output).unlink()

    one.to_end()

    assert ids(kit, one) == NEW


def test_refuses_what_is_there_and_names_the_modes(make):
    make("jsonl file", which="old").to_end()

    with pytest.raises(RequestError, match="pass write_mode='append' or 'overwrite'"):
        check(make("jsonl file").order())
