"""Outputs of all kinds: whose they are, resuming, fences, and kills anywhere."""

import contextlib
import json
import shutil
import threading
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError, RunFenced
from ml_toolkit_core.tables.failedlist import FailedList
from ml_toolkit_core.tables.layout import is_one_file
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.sink import open_sink, output_format, owner
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableFormat, TableLocation

KINDS = ["jsonl", "delta", "parquet", "csv", "jsonl file", "csv file", "parquet file"]
all_kinds = pytest.mark.parametrize("kind", KINDS)
#: One of each sink; the formats of files differ in their content alone.
each_sink = pytest.mark.parametrize("kind", ["jsonl", "delta", "csv file"])


def rows_of(count):
    return [{"id": i, "prompt": f"p{i}"} for i in range(count)]


def location(uri, kind=None):
    return TableLocation(name=Path(uri).name, uri=str(uri), format=kind)


@pytest.fixture
def run(kit, tmp_path):
    """Return a maker of runs over seven rows in ``tmp_path/out``."""
    kit.write_jsonl(tmp_path / "in.jsonl", rows_of(7))

    def make(kind, **options):
        return kit.run_of(kind, tmp_path, **options)

    return make


@all_kinds
def test_writes_every_row_once_with_its_answer(kit, run, kind):
    one = run(kind)

    listed = one.to_end()

    assert listed is None
    rows = kit.read_output(one)
    assert [row["id"] for row in rows] == list(range(7))
    assert rows[0] == {
        "id": 0,
        "prompt": "p0",
        "generated_text": "p0",
        "error": None,
        "finish_reason": "stop",
        "prompt_tokens": 1,
        "completion_tokens": 1,
    }


@all_kinds
def test_asks_nothing_again_when_the_run_is_complete(kit, run, kind):
    run(kind).to_end()
    again = run(kind, attempt=2)

    again.to_end()

    assert again.asked == []
    assert [row["id"] for row in kit.read_output(again)] == list(range(7))


@all_kinds
def test_counts_the_published_parts_again_when_it_is_opened(run, kind):
    one = run(kind, fails=frozenset({"p3"}))
    one.to_end()

    parts = open_sink(one.order()).open()

    assert [part.split for part in parts] == [0, 1, 2, 3]
    assert sum(part.tally.done for part in parts) == 7
    assert [part.tally.failed for part in parts] == [0, 1, 0, 0]
    assert sum(part.tally.prompt_tokens for part in parts) == 6


@all_kinds
def test_lists_the_failed_rows_anew_from_the_output(kit, run, kind):
    one = run(kind, fails=frozenset({"p2", "p5"}))

    listed = [one.to_end(), run(kind, attempt=2).to_end()]

    assert listed[0] == listed[1] is not None
    assert kit.read_list(one.format, listed[0]) == [
        {
            "id": i,
            "prompt": f"p{i}",
            "kind": "too_hard",
            "error": "too_hard: the echo is mute",
            "attempts": 1,
        }
        for i in (2, 5)
    ]


@each_sink
def test_refuses_an_output_that_it_did_not_make(run, kind):
    one = run(kind)
    precious = Path(one.output)
    if "file" not in kind:
        precious.mkdir()
        precious /= "precious.txt"
    precious.write_text("x")

    with pytest.raises(
        RequestError, match=r"'.*out.*' exists already and was not made by"
    ):
        open_sink(one.order()).open()

    assert precious.read_text() == "x"


def test_refuses_a_file_in_the_place_of_its_folder(tmp_path, run):
    (tmp_path / "out").write_text('{"id": 1}\n')

    with pytest.raises(RequestError, match="exists already and was not made by"):
        open_sink(run("jsonl").order()).open()

    assert (tmp_path / "out").read_text() == '{"id": 1}\n'


@each_sink
def test_refuses_the_output_of_another_run_and_names_it(run, kind):
    run(kind).to_end()

    with pytest.raises(RequestError, match="belongs to run_id='run-1'"):
        open_sink(run(kind, run_id="run-2").order()).open()


@each_sink
def test_refuses_the_same_run_with_another_identity_and_names_the_difference(run, kind):
    run(kind, model="a", limit=7).to_end()

    other = run(kind, model="b")
    with pytest.raises(
        RequestError, match="another run: limit: None here, 7 there; model uri: .*'b'"
    ):
        open_sink(other.order()).open()


@each_sink
def test_refuses_a_list_of_failed_rows_that_is_there_before_the_run(run, kind):
    one = run(kind)
    listed = Path(one.output + ("_errors" if kind == "delta" else ".errors.jsonl"))
    listed.mkdir()

    with pytest.raises(RequestError, match="would list its failed rows there"):
        open_sink(one.order()).open()

    assert owner(one.order().output) is None


@each_sink
def test_says_whose_an_output_is(tmp_path, run, kind):
    out = run(kind).order().output
    before = owner(out)
    one = run(kind)
    one.to_end()

    found = owner(out)

    assert before is None
    assert (found.run_id, dict(found.identity)) == ("run-1", one.order().identity)
    assert owner(location(tmp_path / "in.jsonl")).run_id is None


def test_sees_nothing_in_an_empty_folder_or_a_lone_ledger(tmp_path):
    (tmp_path / "out" / "_ml_toolkit" / "run-1").mkdir(parents=True)
    (tmp_path / "out" / "_ml_toolkit" / "run-1" / "ledger.json").write_text("{}")

    assert owner(location(tmp_path / "out")) is None


@each_sink
def test_fences_the_older_driver_when_a_newer_one_opens_the_run(kit, run, kind):
    old, new = run(kind), run(kind, attempt=2)
    order = old.order()
    source = open_source(order.source, order.pin)
    sink = open_sink(order)
    sink.open()
    part = old.write(sink.writer, next(source.read(source.splits(2))))
    open_sink(new.order()).open()

    with pytest.raises(RunFenced, match="attempt 1 stops"):
        sink.publish([part])

    new.to_end()
    assert [row["id"] for row in kit.read_output(new)] == list(range(7))


@each_sink
def test_fences_the_older_driver_also_when_it_writes_on(kit, run, kind):
    old, new = run(kind), run(kind, attempt=2)
    order = old.order()
    source = open_source(order.source, order.pin)
    sink = open_sink(order)
    sink.open()
    open_sink(new.order()).open()
    part = old.write(sink.writer, next(source.read(source.splits(2))))

    with pytest.raises(RunFenced):
        sink.publish([part])

    assert kit.read_output(old) == []


@each_sink
def test_fences_two_drivers_with_the_same_attempt(run, kind):
    one, two = run(kind), run(kind)
    order = one.order()
    source = open_source(order.source, order.pin)
    sinks = [open_sink(order), open_sink(order)]
    for sink in sinks:
        sink.open()
    parts = [
        a_run.write(sink.writer, next(source.read(source.splits(2))))
        for a_run, sink in zip([one, two], sinks, strict=True)
    ]
    sinks[1].publish([parts[1]])

    with pytest.raises(RunFenced):
        sinks[0].publish([parts[0]])

    (part,) = open_sink(order).open()
    assert (part.split, part.tally.done) == (0, 2)


def calls_of_a_run(kit, a_run):
    store = kit.DyingStore()
    a_run.to_end(store)
    return store.calls


@each_sink
@pytest.mark.parametrize("after", [False, True])
def test_has_each_row_once_wherever_the_first_attempt_is_killed(
    kit, run, tmp_path, kind, after
):
    fails = frozenset({"p1", "p4"})
    calls = calls_of_a_run(kit, run(kind, fails=fails))
    for lives in range(1, calls + 1):
        clean(tmp_path)
        first = run(kind, fails=fails)
        second = run(kind, fails=fails, attempt=2)
        with pytest.raises(kit.Killed):
            first.to_end(kit.DyingStore(lives, after=after))

        listed = second.to_end()

        assert [row["id"] for row in kit.read_output(second)] == list(range(7)), lives
        failed = kit.read_list(second.format, listed)
        assert [row["id"] for row in failed] == [1, 4], lives
        assert kit.strays(second) == [], lives


SCENARIO = st.fixed_dictionaries(
    {
        "kills": st.lists(st.tuples(st.integers(1, 40), st.booleans()), max_size=4),
        "rows": st.integers(1, 9),
        "split_rows": st.integers(1, 4),
        "commit_parts": st.integers(1, 3),
        "fails": st.frozensets(st.integers(0, 8), max_size=4),
    }
)


@each_sink
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenario=SCENARIO)
def test_has_each_row_once_after_any_kills(kit, tmp_path_factory, kind, scenario):
    folder = tmp_path_factory.mktemp("kills")
    rows = rows_of(scenario["rows"])
    kit.write_jsonl(folder / "in.jsonl", rows)
    fails = frozenset(f"p{i}" for i in scenario["fails"] if i < len(rows))

    def attempt(number):
        return kit.run_of(
            kind,
            folder,
            split_rows=scenario["split_rows"],
            attempt=number,
            fails=fails,
        )

    for number, (lives, after) in enumerate(scenario["kills"], start=1):
        with contextlib.suppress(kit.Killed):
            attempt(number).to_end(
                kit.DyingStore(lives, after=after),
                commit_parts=scenario["commit_parts"],
            )
    last = attempt(len(scenario["kills"]) + 1)

    listed = last.to_end(commit_parts=scenario["commit_parts"])

    assert [row["id"] for row in kit.read_output(last)] == [row["id"] for row in rows]
    assert {row["prompt"] for row in kit.read_list(last.format, listed)} == fails
    assert kit.strays(last) == []
    shutil.rmtree(folder)


def clean(folder):
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "in.jsonl":
            path.unlink()


@pytest.mark.parametrize(
    ("name", "given_format", "expected"),
    [
        ("out", None, "delta"),
        ("out.delta", None, "delta"),
        ("out.jsonl", None, "jsonl"),
        ("out.jsonl/", None, "jsonl"),
        ("out.NDJSON", None, "jsonl"),
        ("out", TableFormat.JSONL, "jsonl"),
        ("out.jsonl", TableFormat.DELTA, "delta"),
    ],
)
def test_tells_the_output_format_by_what_was_said_then_by_the_name(
    tmp_path, name, given_format, expected
):
    assert output_format(location(f"{tmp_path}/{name}", given_format)) == expected


def test_tells_a_delta_output_by_its_log(tmp_path):
    (tmp_path / "out.jsonl" / "_delta_log").mkdir(parents=True)

    assert output_format(location(tmp_path / "out.jsonl")) == "delta"


@pytest.mark.parametrize("name", ["out.tsv", "out.json", "out.jsonl.gz"])
def test_refuses_outputs_that_are_not_written_and_says_which_are(name):
    with pytest.raises(RequestError, match="is not written; an output is a Delta"):
        output_format(location(f"/nowhere/{name}"))


@pytest.mark.parametrize("char", ["\t", "\n", "\r", "\x7f", "\\", "%41"])
@pytest.mark.parametrize("where", ["{}/out", "a{}b/out", "out{}"])
def test_refuses_a_delta_output_whose_path_the_library_misreads(tmp_path, char, where):
    uri = str(tmp_path / where.format(char))

    with pytest.raises(RequestError, match=r"^output_table=.*in a path for what it is"):
        output_format(location(uri))

    with pytest.raises(RequestError, match="in a path for what it is"):
        output_format(
            TableLocation(name="o", uri=f"s3://b/{char}/out", format=TableFormat.DELTA)
        )
    assert output_format(location(uri, TableFormat.JSONL)) == "jsonl"
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [None, *TableFormat])
@pytest.mark.parametrize("name", ["x" * 216, "ü" * 108, "x" * 256 + "/x", "x/" * 1800])
def test_refuses_an_output_whose_name_is_too_long(tmp_path, kind, name):
    with pytest.raises(RequestError, match=r"^output_table='.*its name is too long"):
        output_format(location(tmp_path / name, kind))


@all_kinds
def test_writes_to_the_longest_name(kit, run, kind):
    one = run(kind, fails=frozenset({"p3"}))
    suffix = Path(one.output).suffix
    one.output = str(Path(one.output).with_name("x" * (215 - len(suffix)) + suffix))

    listed = one.to_end()

    assert [row["id"] for row in kit.read_output(one)] == list(range(7))
    assert [row["id"] for row in kit.read_list(one.format, listed)] == [3]
    FailedList.of(LocalStore(), one.order()).clear()
    assert not Path(listed).exists()


@pytest.mark.parametrize(
    ("name", "given_format", "expected"),
    [
        ("out.jsonl", None, True),
        ("out.NDJSON", None, True),
        ("out.csv", None, True),
        ("out.parquet", TableFormat.PARQUET, True),
        ("out.parquet/", TableFormat.PARQUET, False),
        ("out", TableFormat.JSONL, False),
        ("out.jsonl", TableFormat.PARQUET, False),
        ("out.jsonl", TableFormat.DELTA, False),
    ],
)
def test_tells_one_file_by_its_name(name, given_format, expected):
    given = TableLocation(name=name, uri=f"/x/{name}".rstrip("/"), format=given_format)

    located = attrs.evolve(given, format=output_format(given))

    assert is_one_file(located) is expected


def test_names_parts_so_that_their_order_is_the_order_of_the_rows(run, tmp_path):
    run("jsonl", split_rows=3).to_end()

    names = sorted(path.name for path in (tmp_path / "out").glob("*"))

    assert names == [
        "_ml_toolkit",
        "part-000000.jsonl",
        "part-000001.jsonl",
        "part-000002.jsonl",
    ]


@pytest.mark.parametrize("kind", ["jsonl file", "csv file", "parquet file"])
def test_shows_one_file_whole_at_the_end_and_nothing_before(kit, run, tmp_path, kind):
    one = run(kind)
    order = one.order()
    source = open_source(order.source, order.pin)
    sink = open_sink(order)
    sink.open()
    for rows in source.read(source.splits(2)):
        sink.publish([one.write(sink.writer, rows)])
    before = {path.name for path in tmp_path.iterdir()}

    sink.complete()

    after = {path.name for path in tmp_path.iterdir()}
    assert before == {"in.jsonl", "_ml_toolkit"}
    assert after - before == {Path(one.output).name}
    assert [row["id"] for row in kit.read_output(one)] == list(range(7))


def test_leaves_a_file_alone_that_appeared_during_the_run(run, kit):
    one = run("jsonl file")
    order = one.order()
    sink = open_sink(order)
    sink.open()
    source = open_source(order.source, order.pin)
    parts = [one.write(sink.writer, rows) for rows in source.read(source.splits(2))]
    sink.publish(parts)
    Path(one.output).write_text("theirs")

    with pytest.raises(RequestError, match="put there by somebody else"):
        sink.complete()

    assert Path(one.output).read_text() == "theirs"
    Path(one.output).unlink()
    again = run("jsonl file", attempt=2)
    again.to_end()
    assert again.asked == []
    assert len(kit.read_output(again)) == 7


def test_asks_for_another_run_when_the_file_of_a_finished_one_is_gone(run):
    one = run("csv file")
    one.to_end()
    Path(one.output).unlink()

    with pytest.raises(RequestError, match="and is gone; pass another run_id"):
        run("csv file", attempt=2).to_end()


@pytest.mark.parametrize("kind", ["parquet", "csv", "parquet file", "csv file"])
def test_shows_the_columns_of_a_table_without_rows(tmp_path, run, kind):
    (tmp_path / "in.jsonl").unlink()
    (tmp_path / "in.csv").write_text("id,prompt\n")
    one = run(kind)
    one.source = str(tmp_path / "in.csv")

    one.to_end()

    source = TableLocation(name="x", uri=one.output)
    location, pinned = pin_table(source)
    assert [column.name for column in pinned.columns][:3] == [
        "id",
        "prompt",
        "generated_text",
    ]
    assert (location.format, pinned.rows) == (one.format, 0)


def test_writes_csv_that_tells_null_from_empty_and_keeps_line_breaks(kit, tmp_path):
    rows = [
        {"id": 1, "prompt": 'a\r\n"b", c', "e": "", "n": None, "m": {"x": [1.50, "ü"]}},
        {"id": 2, "prompt": "p", "e": None, "n": 0.5, "m": None},
    ]
    kit.write_jsonl(tmp_path / "in.jsonl", rows)
    one = kit.run_of("csv file", tmp_path, fails=frozenset({"p"}))

    one.to_end()

    text = Path(one.output).read_bytes().decode()
    assert text == (
        "id,prompt,e,n,m,generated_text,error,finish_reason,prompt_tokens,"
        "completion_tokens\r\n"
        '1,"a\r\n""b"", c","",,"{""x"": [1.5, ""\\u00fc""]}",'
        '"a\r\n""b"", c",,stop,1,1\r\n'
        "2,p,,0.5,,,too_hard: the echo is mute,,,\r\n"
    )


def test_refuses_a_published_part_that_somebody_edited(run, tmp_path):
    run("jsonl").to_end()
    (tmp_path / "out" / "part-000001.jsonl").write_text('{"id": 2}\n')

    with pytest.raises(RequestError, match=r"part-000001.jsonl' is not as run_id="):
        open_sink(run("jsonl").order()).open()


def test_says_that_an_output_cannot_be_written(kit, tmp_path):
    source = kit.write_jsonl(tmp_path / "in.jsonl", rows_of(1))
    run = kit.Run(source, str(tmp_path / "in.jsonl" / "out"))

    with pytest.raises(RequestError, match="cannot be written: Not a directory"):
        open_sink(run.order()).open()


def test_writes_a_list_of_failed_rows_whose_own_columns_have_our_names(kit, tmp_path):
    source = kit.write_jsonl(
        tmp_path / "in.jsonl", [{"prompt": "p", "kind": {"a": 1}, "attempts": 7}]
    )
    run = kit.Run(source, str(tmp_path / "out"), fails=frozenset({"p"}))

    (row,) = kit.read_jsonl(run.to_end())

    assert row == {
        "prompt": "p",
        "kind": {"a": 1},
        "attempts": 7,
        "error_kind": "too_hard",
        "error": "too_hard: the echo is mute",
        "error_attempts": 1,
    }


def test_counts_no_attempt_for_a_row_that_was_never_asked(kit, tmp_path):
    source = kit.write_jsonl(tmp_path / "in.jsonl", ['{"prompt": "\\ud83d"}'])

    (row,) = kit.read_jsonl(kit.Run(source, str(tmp_path / "out")).to_end())

    assert (row["kind"], row["attempts"]) == ("unreadable", 0)


def test_removes_its_list_when_no_row_fails_any_more(run, tmp_path):
    listed = Path(run("jsonl", fails=frozenset({"p3"})).to_end())
    (tmp_path / "out" / "part-000001.jsonl").unlink()
    was_there = listed.exists()

    assert run("jsonl", attempt=2).to_end() is None
    assert (was_there, listed.exists()) == (True, False)


@each_sink
def test_forgets_the_list_that_it_removed(run, kind):
    one = run(kind, fails=frozenset({"p3"}))
    place = Path(one.to_end())
    listed = FailedList.of(LocalStore(), one.order())
    listed.clear()
    removed = not place.exists()
    place.write_text("theirs")

    listed.clear()

    assert removed
    assert place.read_text() == "theirs"


@each_sink
@pytest.mark.parametrize("fails", [frozenset(), frozenset({"p3"})])
def test_leaves_alone_what_appeared_at_the_place_of_its_list(kit, run, kind, fails):
    one = run(kind, fails=fails)
    place = Path(one.output + ("_errors" if kind == "delta" else ".errors.jsonl"))
    open_sink(one.order()).open()
    place.write_text("theirs")

    listed = [one.to_end(), run(kind, fails=fails, attempt=2).to_end()]

    assert place.read_text() == "theirs"
    assert listed[0] == listed[1]
    assert [row["prompt"] for row in kit.read_list(one.format, listed[1])] == [*fails]
    place.unlink()
    again = run(kind, fails=fails, attempt=3).to_end()
    assert again == (str(place) if fails else None)
    assert listed[0] is None or not Path(listed[0]).exists()


@pytest.mark.parametrize("fails", [frozenset(), frozenset({"p3"})])
@pytest.mark.parametrize("is_listed", [False, True])
def test_leaves_another_run_alone_whose_output_has_the_name_of_its_list(
    kit, run, fails, is_listed
):
    one = run("delta", fails=fails)
    open_sink(one.order()).open()
    if is_listed:
        one.to_end()
        shutil.rmtree(f"{one.output}_errors", ignore_errors=True)
    other = run("delta", run_id="run-2")
    other.output = f"{one.output}_errors"
    other.to_end()

    listed = [one.to_end(), run("delta", fails=fails, attempt=2).to_end()]

    assert [row["id"] for row in kit.read_output(other)] == list(range(7))
    other.attempt = 2
    assert other.to_end() is None
    for uri in listed:
        assert {row["prompt"] for row in kit.read_list(one.format, uri)} == fails


def test_leaves_another_run_alone_whose_file_is_not_there_yet(kit, run):
    one = run("csv file", fails=frozenset({"p3"}))
    open_sink(one.order()).open()
    other = run("jsonl file", run_id="run-2")
    other.output = f"{one.output}.errors.jsonl"
    open_sink(other.order()).open()

    listed = one.to_end()
    other.to_end()

    assert [row["id"] for row in kit.read_output(other)] == list(range(7))
    assert [row["id"] for row in kit.read_jsonl(listed)] == [3]


@pytest.mark.parametrize("kind", ["jsonl", "csv file"])
def test_leaves_a_file_alone_that_appears_while_it_writes_its_list(kit, run, kind):
    place = Path(f"{run(kind).output}.errors.jsonl")

    class Slow(LocalStore):
        def create(self, uri, chunks):
            if uri == str(place):
                place.write_text("theirs")
            super().create(uri, chunks)

    listed = run(kind, fails=frozenset({"p3"})).to_end(Slow())

    assert place.read_text() == "theirs"
    assert [row["id"] for row in kit.read_jsonl(listed)] == [3]


def test_leaves_json_in_the_output_as_the_json_it_was(kit, tmp_path):
    line = '{"prompt": "p", "m": {"n":  1.50}, "mixed": "a", "l": [1, null]}'
    source = kit.write_jsonl(tmp_path / "in.jsonl", [line, '{"prompt":"q","mixed":1}'])
    run = kit.Run(source, str(tmp_path / "out"))

    run.to_end()

    text = (tmp_path / "out" / "part-000000.jsonl").read_text()
    assert text.startswith(line[:-1])
    assert json.loads(text.splitlines()[1])["mixed"] == 1


@each_sink
def test_has_each_row_once_when_drivers_of_one_run_race(kit, run, kind):
    racers = [run(kind, attempt=1 + number % 2, split_rows=1) for number in range(4)]
    start = threading.Barrier(len(racers))

    def race(racer):
        start.wait()
        # The slower ones are fenced; their staging folder may be gone already.
        with contextlib.suppress(RunFenced, FileNotFoundError):
            racer.to_end(commit_parts=1)

    threads = [threading.Thread(target=race, args=(racer,)) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = run(kind, attempt=3, split_rows=1)
    last.to_end()

    assert [row["id"] for row in kit.read_output(last)] == list(range(7))


def test_keeps_two_runs_with_one_output_apart_when_they_race(kit, run):
    racers = [run("jsonl", run_id=f"run-{number}") for number in range(4)]
    start = threading.Barrier(len(racers))
    refused = []

    def race(racer):
        start.wait()
        try:
            racer.to_end()
        except RequestError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=race, args=(racer,)) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(refused) == 3
    assert all("belongs to run_id=" in text for text in refused)
    assert [row["id"] for row in kit.read_output(racers[0])] == list(range(7))
