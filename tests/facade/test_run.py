"""run_inference with the scripted engine: a real worker process, real tables."""

import json
import os
import signal
import subprocess
import sys

import deltalake
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_toolkit.functions.llm.inference import (
    InferencePlan,
    JobError,
    JobState,
    RequestError,
    StillRunning,
    attach,
    plan_inference,
    run_inference,
)
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.values import TableLocation

ROWS = [{"id": i, "prompt": f"question {i}", "note": None} for i in range(200)]


def scripted(rows, output, *, script=None, **options):
    """Run the scripted engine over a table, quietly."""
    return run_inference(
        str(rows),
        "stub/any",
        str(output),
        **{
            "executor": "scripted",
            "engine_kwargs": {"script": script or {}, "max_num_seqs": 16},
            "output_format": "jsonl",
            "progress": False,
            **options,
        },
    )


def test_every_row_comes_back_in_order_with_all_its_columns(
    jsonl, tmp_path, read_parts
):
    result = scripted(jsonl(ROWS), tmp_path / "out").result()

    rows = read_parts(tmp_path / "out")
    assert [{k: row[k] for k in ("id", "prompt", "note")} for row in rows] == ROWS
    assert [row["generated_text"] for row in rows] == [row["prompt"] for row in ROWS]
    assert list(rows[0]) == [
        *("id", "prompt", "note", "generated_text", "error"),
        *("finish_reason", "prompt_tokens", "completion_tokens"),
    ]
    assert (result.rows, result.failed, result.requests) == (200, 0, 200)
    assert result.errors is None


def test_a_delta_table_holds_each_row_once(jsonl, tmp_path):
    scripted(jsonl(ROWS), tmp_path / "out", output_format=None)

    table = deltalake.DeltaTable(tmp_path / "out").to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == list(range(200))
    assert table.schema.field("error").type == pa.string()


def test_parquet_and_delta_are_read_too(tmp_path, read_parts):
    table = pa.table({"prompt": [f"q{i}" for i in range(70)], "n": range(70)})
    pq.write_table(table, tmp_path / "in.parquet")
    deltalake.write_deltalake(tmp_path / "in", table)

    for source in ("in.parquet", "in"):
        scripted(tmp_path / source, tmp_path / f"{source}.out")
        rows = read_parts(tmp_path / f"{source}.out")
        assert sorted(row["n"] for row in rows) == list(range(70))


def test_a_list_of_csv_files_is_one_table_of_text(tmp_path, read_parts):
    (tmp_path / "a.csv").write_bytes("n;prompt\n007;grün\n1;\n".encode("cp1252"))
    (tmp_path / "b.csv").write_bytes(b'n;prompt\nNA;""\n')

    scripted_list = [tmp_path / "a.csv", tmp_path / "b.csv"]
    run_inference(
        scripted_list,
        "stub/any",
        str(tmp_path / "out"),
        executor="scripted",
        output_format="jsonl",
        progress=False,
        read_options={"encoding": "cp1252", "delimiter": ";"},
    )

    rows = read_parts(tmp_path / "out")
    assert [(row["n"], row["prompt"]) for row in rows] == [
        ("007", "grün"),
        ("1", None),
        ("NA", ""),
    ]
    assert [row["error"] and row["error"].split(":")[0] for row in rows] == [
        None,
        "prompt_null",
        "prompt_empty",
    ]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_one_file_is_killed_resumed_and_whole(jsonl, tmp_path, suffix):
    # 300 ms a step: the first split is kept long before the 150th answer.
    script = {"die_after": 150, "sleep_ms": 300, "attempt": 1}
    call = {"script": script, "run_id": "night", "output_format": None}
    source, output = jsonl(ROWS), tmp_path / f"out.{suffix}"
    with pytest.raises(JobError, match="run_id='night' goes on"):
        scripted(source, output, **call)
    seen = output.exists()

    result = scripted(source, output, **call).result()

    assert not seen
    assert (result.rows, result.attempt) == (200, 2)
    assert result.requests < 200


@pytest.mark.parametrize("name", ["out", "out.parquet", "out.jsonl", "parts.csv/"])
def test_a_second_run_appends_and_a_third_overwrites(tmp_path, jsonl, name):
    kind = "csv" if name.startswith("parts") else None
    call = {"output_format": kind}
    output = f"{tmp_path}/{name}"

    results = [
        scripted(jsonl(ROWS[:3]), output, **call, write_mode=mode).result()
        for mode in ("append", "append")
    ]
    added = rows_there(output)
    scripted(jsonl(ROWS[:2]), output, **call, write_mode="overwrite")

    assert [result.rows for result in results] == [3, 3]
    assert added == 6
    assert rows_there(output) == 2


def rows_there(output):
    _, pinned = pin_table(TableLocation(name=output, uri=output.rstrip("/")))
    return pinned.rows


@pytest.mark.parametrize(
    ("name", "kind", "ending"),
    [
        ("out", None, "_errors"),
        ("out.jsonl", None, ".errors.jsonl"),
        ("parts", "csv", ".errors.jsonl"),
    ],
)
def test_an_overwrite_replaces_the_list_of_failed_rows_too(
    tmp_path, jsonl, name, kind, ending
):
    call = {"output_format": kind, "write_mode": "overwrite"}
    output = f"{tmp_path}/{name}"
    listed = f"{output}{ending}"

    one, other = (
        scripted(
            jsonl(ROWS[:3]), output, **call, script={"fail_if": f"question {i}"}
        ).result()
        for i in (0, 1)
    )
    there = rows_there(listed)
    none = scripted(jsonl(ROWS[:3]), output, **call).result()

    assert [one.errors, other.errors, none.errors] == [listed, listed, None]
    assert there == 1
    assert not list(tmp_path.glob("*errors*"))


@pytest.mark.parametrize("fails", [None, "question 0"])
def test_an_overwrite_leaves_what_is_no_list_in_the_place_of_one(
    tmp_path, jsonl, fails
):
    file, folder = tmp_path / "out.jsonl.errors.jsonl", tmp_path / "out_errors"
    file.write_bytes(b"\xff my own notes\n")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine", encoding="utf-8")

    for output in ("out.jsonl", "out"):
        result = scripted(
            jsonl(ROWS[:3]),
            tmp_path / output,
            output_format=None,
            write_mode="overwrite",
            script={"fail_if": fails} if fails else {},
        ).result()
        assert (result.rows, result.failed) == (3, 1 if fails else 0)

    assert file.read_bytes() == b"\xff my own notes\n"
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_an_overwrite_leaves_a_folder_that_no_job_wrote(tmp_path, jsonl):
    source = tmp_path / "months"
    source.mkdir()
    (source / "may.jsonl").write_text("{}\n", encoding="utf-8")
    call = {"output_format": "jsonl", "write_mode": "overwrite"}

    with pytest.raises(RequestError, match="neither ml-toolkit nor Spark wrote it"):
        scripted(jsonl(ROWS), source, **call)
    (source / "_SUCCESS").touch()
    scripted(jsonl(ROWS[:2]), source, **call)

    assert rows_there(str(source)) == 2


def test_an_overwrite_whose_rows_all_failed_leaves_the_old_rows(jsonl, tmp_path):
    output = tmp_path / "out.jsonl"
    scripted(jsonl(ROWS[:3]), output, output_format=None)
    before = output.read_bytes()

    with pytest.raises(JobError, match="all 200 rows failed"):
        scripted(
            jsonl(ROWS),
            output,
            output_format=None,
            write_mode="overwrite",
            script={"fail_if": "question"},
        )

    assert output.read_bytes() == before


def test_an_append_of_other_columns_is_refused_before_the_run(jsonl, tmp_path, home):
    output = tmp_path / "out.parquet"
    scripted(jsonl(ROWS[:3]), output, output_format=None)
    rows = [{"id": "text", "prompt": "p"}]

    with pytest.raises(RequestError, match="'id' is int64 there and string here"):
        scripted(jsonl(rows), output, output_format=None, write_mode="append")

    assert len(list((home / "runs").iterdir())) == 1


def test_a_row_that_fails_keeps_its_columns_and_is_listed(jsonl, tmp_path, read_parts):
    rows = [
        {"id": "good", "prompt": "fine"},
        {"id": "null", "prompt": None},
        {"id": "empty", "prompt": ""},
        {"id": "number", "prompt": 7},
        {"id": "long", "prompt": "word " * 50},
    ]

    result = scripted(
        jsonl(rows), tmp_path / "out", engine_kwargs={"script": {}, "max_model_len": 20}
    ).result()

    answered = {row["id"]: row for row in read_parts(tmp_path / "out")}
    assert [answered[row["id"]]["prompt"] for row in rows] == [
        r["prompt"] for r in rows
    ]
    assert answered["good"]["error"] is None
    assert {k: str(v["error"]).split(":")[0] for k, v in answered.items()} == {
        "good": "None",
        "null": "prompt_null",
        "empty": "prompt_empty",
        "number": "prompt_wrong_type",
        "long": "prompt_too_long",
    }
    assert "50" in answered["long"]["error"]
    assert "20" in answered["long"]["error"]
    assert answered["long"]["generated_text"] is None
    assert (result.rows, result.failed, result.requests) == (5, 4, 1)
    assert result.errors == str(tmp_path / "out.errors.jsonl")


def test_replicas_share_the_rows_and_change_no_answer(jsonl, tmp_path, read_parts):
    source = jsonl(ROWS)
    one = scripted(source, tmp_path / "one").result()

    two = scripted(source, tmp_path / "two", replicas=2).result()

    assert read_parts(tmp_path / "one") == read_parts(tmp_path / "two")
    assert one.requests == two.requests == 200


def test_a_run_whose_rows_all_failed_is_failed(jsonl, tmp_path):
    with pytest.raises(JobError, match="all 200 rows failed"):
        scripted(jsonl(ROWS), tmp_path / "out", script={"fail_if": "question"})


def test_a_killed_worker_is_failed_with_the_end_of_its_log(jsonl, tmp_path):
    script = {"die_after": 70, "sleep_ms": 20}

    with pytest.raises(
        JobError, match=r"(?s)ended without a word.*end of its log:.*phase"
    ):
        scripted(jsonl(ROWS), tmp_path / "out", script=script)


@pytest.mark.parametrize("output_format", ["jsonl", "delta"])
def test_a_killed_run_goes_on_where_it_was_published(
    jsonl, tmp_path, home, read_parts, output_format
):
    script = {"hang_after": 150, "attempt": 1}
    call = {"script": script, "run_id": "night", "output_format": output_format}
    source, output = jsonl(ROWS), tmp_path / "out"

    def kill_once_published(status):
        seen = status.progress
        if status.state is JobState.RUNNING and seen is not None and seen.published:
            record = home / "runs/night/attempt-0001/worker.json"
            os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)

    with pytest.raises(JobError, match="run_id='night' goes on"):
        scripted(source, output, **call, progress=kill_once_published)
    published = attach("local://night").status().progress.published
    before = published_ids(output, output_format, read_parts)

    result = scripted(source, output, **call).result()

    assert 0 < published < 200
    assert len(before) >= published
    ids = published_ids(output, output_format, read_parts)
    assert sorted(ids) == list(range(200))
    assert result.requests <= 200 - len(before)
    assert (result.rows, result.attempt) == (200, 2)


def published_ids(output, output_format, read_parts):
    if output_format == "jsonl":
        return [row["id"] for row in read_parts(output)]
    table = deltalake.DeltaTable(output).to_pyarrow_table()
    return table["id"].to_pylist()


def test_a_broken_engine_is_failed_with_its_reason(jsonl, tmp_path):
    with pytest.raises(JobError, match="the engine broke after 3 answers"):
        scripted(jsonl(ROWS), tmp_path / "out", script={"raise_after": 3})


def test_an_engine_that_cannot_load_is_failed_with_its_reason(jsonl, tmp_path):
    with pytest.raises(JobError, match="out of memory"):
        scripted(jsonl(ROWS), tmp_path / "out", script={"fail_load": "out of memory"})


def test_a_hung_engine_is_failed(jsonl, tmp_path):
    with pytest.raises(JobError, match="replica 0 gave no sign of life"):
        scripted(
            jsonl(ROWS), tmp_path / "out", script={"hang_after": 3}, engine_timeout_s=1
        )


def test_one_hung_replica_is_named_while_the_other_works(jsonl, tmp_path):
    script = {"hang_after": 3, "replica": 1, "sleep_ms": 200}

    with pytest.raises(JobError, match="replica 1 gave no sign of life for"):
        scripted(
            jsonl(ROWS),
            tmp_path / "out",
            engine_kwargs={"script": script, "max_num_seqs": 1},
            replicas=2,
            engine_timeout_s=1,
            run_id="half",
        )

    assert attach("local://half").status().progress.done < 100


def test_a_finished_run_called_again_asks_nothing(jsonl, tmp_path):
    source = jsonl(ROWS)
    scripted(source, tmp_path / "out", run_id="once")

    result = scripted(source, tmp_path / "out", run_id="once").result()

    assert (result.rows, result.requests, result.attempt) == (200, 0, 2)


def test_the_same_run_id_with_another_prompt_is_refused(jsonl, tmp_path):
    source = jsonl(ROWS)
    scripted(source, tmp_path / "out", run_id="once")

    with pytest.raises(
        RequestError, match=r"was another run: prompts .*'Q: \{prompt\}'"
    ):
        scripted(source, tmp_path / "out", run_id="once", prompt_template="Q: {prompt}")


def test_a_running_job_is_joined_and_not_started_twice(jsonl, tmp_path):
    script = {"hang_after": 3}
    source = jsonl(ROWS)
    first = scripted(source, tmp_path / "out", script=script, run_id="r", wait=False)

    second = scripted(source, tmp_path / "out", script=script, run_id="r", wait=False)

    try:
        assert first.handle == second.handle
        assert second.status().attempt == 1
        assert len(list((tmp_path / "home/runs/r").glob("attempt-*"))) == 1
    finally:
        first.cancel()


def test_a_cancelled_job_is_cancelled_for_everybody(jsonl, tmp_path):
    job = scripted(jsonl(ROWS), tmp_path / "out", script={"hang_after": 3}, wait=False)

    assert job.cancel().state is JobState.CANCELLED
    assert attach(str(job.handle)).cancel().state is JobState.CANCELLED
    with pytest.raises(JobError, match="CANCELLED"):
        job.wait()


def test_waiting_can_end_before_the_job(jsonl, tmp_path):
    with pytest.raises(StillRunning, match="timeout_s=0.1") as caught:
        scripted(jsonl(ROWS), tmp_path / "out", script={"hang_after": 3}, timeout_s=0.1)

    assert attach(str(caught.value.handle)).cancel().state is JobState.CANCELLED


def test_a_job_outlives_its_caller_and_its_callers_group(jsonl, tmp_path, read_parts):
    source = jsonl(ROWS)
    script = (
        "from ml_toolkit.functions.llm.inference import run_inference\n"
        f"run_inference({str(source)!r}, 'm/x', {str(tmp_path / 'out')!r},"
        " executor='scripted', output_format='jsonl', run_id='alone', wait=False,"
        " engine_kwargs={'script': {'sleep_ms': 20}})\n"
        "import os, signal; os.killpg(0, signal.SIGKILL)"
    )

    caller = subprocess.run(
        [sys.executable, "-c", script], check=False, start_new_session=True
    )
    job = attach("local://alone").wait()

    assert caller.returncode == -signal.SIGKILL
    assert job.result().rows == len(read_parts(tmp_path / "out")) == 200


def test_a_cancelled_worker_leaves_no_process(jsonl, tmp_path):
    script = {"hang_after": 3}
    before = psutil.Process().children()
    job = scripted(jsonl(ROWS), tmp_path / "out", script=script, wait=False)
    (worker,) = [p for p in psutil.Process().children() if p not in before]

    job.cancel()

    with pytest.raises(ProcessLookupError):
        os.killpg(worker.pid, 0)


def test_a_plan_starts_nothing_and_says_what_would_run(jsonl, tmp_path, home):
    plan = plan_inference(
        str(jsonl(ROWS)), "stub/any", str(tmp_path / "out"), executor="scripted"
    )

    assert isinstance(plan, InferencePlan)
    assert "200 rows" in str(plan)
    assert "one replica per node" in str(plan)
    assert not (tmp_path / "out").exists()
    assert not home.exists()


def test_a_table_without_rows_makes_a_table_without_rows(tmp_path):
    empty = pa.table(
        {"prompt": pa.array([], pa.string()), "n": pa.array([], pa.int64())}
    )
    pq.write_table(empty, tmp_path / "empty.parquet")

    result = scripted(
        tmp_path / "empty.parquet", tmp_path / "out", output_format="delta"
    ).result()

    table = deltalake.DeltaTable(tmp_path / "out").to_pyarrow_table()
    assert (result.rows, table.num_rows) == (0, 0)
    assert table.column_names[:3] == ["prompt", "n", "generated_text"]


@pytest.mark.parametrize("limit", [1, 32, 50, 199, 200, 1000])
def test_a_limit_takes_the_first_rows(jsonl, tmp_path, read_parts, limit):
    call = {"limit": limit, "run_id": "some"}
    source = jsonl(ROWS)
    result = scripted(source, tmp_path / "out", **call).result()

    again = scripted(source, tmp_path / "out", **call).result()

    first = [row["id"] for row in read_parts(tmp_path / "out")]
    assert first == list(range(min(limit, 200)))
    assert result.rows == again.rows == min(limit, 200)
    assert again.requests == 0


def test_rows_bring_their_own_tools_and_parameters(jsonl, tmp_path, read_parts):
    rows = [
        {"prompt": "a", "tools": [{"name": "t1"}], "params": {"max_tokens": 8}},
        {"prompt": "b", "tools": [], "params": {"temperature": 0.0, "stop": ["\n"]}},
        {"prompt": "c", "tools": None, "params": None},
    ]

    scripted(
        jsonl(rows),
        tmp_path / "out",
        script={"answer": "request"},
        tools_column="tools",
        sampling_params_column="params",
    )

    asked = [json.loads(r["generated_text"]) for r in read_parts(tmp_path / "out")]
    assert [request["tools"] for request in asked] == [[{"name": "t1"}], None, None]
    assert [request["sampling_params"] for request in asked] == [
        {"max_tokens": 8},
        {"temperature": 0.0, "stop": ["\n"]},
        {},
    ]


def test_a_run_keeps_the_splits_that_it_began_with(jsonl, tmp_path, read_parts):
    source, output = jsonl(ROWS), tmp_path / "out"
    call = {"run_id": "old", "script": {"raise_after": 100, "attempt": 1}}
    with pytest.raises(JobError):
        scripted(source, output, **call)
    # As an older version would have left it, which cut the input into other splits.
    claim = output / "_ml_toolkit" / "_run.json"
    was = json.loads(claim.read_text())
    was["identity"]["split_rows"] = 64
    claim.write_text(json.dumps(was))
    for part in output.glob("part-*.jsonl"):
        part.unlink()
    record = tmp_path / "home" / "jobs" / "local" / "old.json"
    remembered = json.loads(record.read_text())
    remembered["identity"]["split_rows"] = 64
    record.write_text(json.dumps(remembered))

    result = scripted(source, output, **call).result()

    assert result.rows == 200
    assert [row["id"] for row in read_parts(output)] == list(range(200))
    assert len(list(output.glob("part-*.jsonl"))) == 4


def test_the_same_run_id_with_another_output_is_refused(jsonl, tmp_path):
    source = jsonl(ROWS)
    scripted(source, tmp_path / "one", run_id="twice")

    with pytest.raises(RequestError, match="'twice' is another run .*output uri: "):
        scripted(source, tmp_path / "two", run_id="twice")

    assert not (tmp_path / "two").exists()


def test_a_handle_is_as_good_as_its_text(jsonl, tmp_path):
    job = scripted(jsonl(ROWS), tmp_path / "out")

    assert attach(job.handle).result() == attach(str(job.handle)).result()


def test_a_ledger_that_cannot_be_read_is_no_error(jsonl, tmp_path):
    job = scripted(jsonl(ROWS), tmp_path / "out", run_id="r")
    ledger = tmp_path / "out" / "_ml_toolkit" / "r" / "ledger.json"
    ledger.unlink()
    ledger.mkdir()

    status = attach("local://r").status()

    assert (status.state, status.progress) == (JobState.SUCCEEDED, None)
    with pytest.raises(RequestError, match="its ledger cannot be read"):
        job.result()


def test_a_worker_that_cannot_read_its_order_says_so(jsonl, tmp_path):
    script = {"hang_after": 3}
    job = scripted(jsonl(ROWS), tmp_path / "out", script=script, run_id="r", wait=False)
    job.cancel()
    folder = tmp_path / "home/runs/r/attempt-0001"
    (folder / "order.json").write_text("{")

    done = subprocess.run(
        [
            *(sys.executable, "-m", "ml_toolkit_core.worker", folder / "order.json"),
            *("--outcome", folder / "outcome.json"),
        ],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 1
    assert "not JSON" in json.loads((folder / "outcome.json").read_text())["reason"]


def test_a_caller_without_stdin_starts_one_job(jsonl, tmp_path):
    source = jsonl(ROWS)
    script = (
        "import os\n"
        "from ml_toolkit.functions.llm.inference import attach, run_inference\n"
        "for low in (0, 1, 2):\n"
        "    os.close(low)\n"
        f"run_inference({str(source)!r}, 'm/x', {str(tmp_path / 'out')!r},"
        " executor='scripted', output_format='jsonl', run_id='low', wait=False,"
        " engine_kwargs={'script': {'hang_after': 3}})\n"
    )

    subprocess.run([sys.executable, "-c", script], check=False)
    job = attach("local://low")

    assert job.status().state is JobState.RUNNING
    assert job.cancel().state is JobState.CANCELLED


def test_a_job_can_be_cancelled_as_soon_as_it_is_submitted(jsonl, tmp_path):
    script = {"hang_after": 3}
    job = scripted(jsonl(ROWS), tmp_path / "out", script=script, wait=False)

    assert job.cancel().state is JobState.CANCELLED


def test_a_run_that_would_fail_again_is_not_told_to_go_on(jsonl, tmp_path):
    with pytest.raises(JobError) as failed:
        scripted(jsonl(ROWS), tmp_path / "out", script={"fail_if": "question"})

    assert "goes on where it ended" not in str(failed.value)


def test_a_part_that_was_changed_from_outside_is_not_called_a_success(jsonl, tmp_path):
    source, output = jsonl(ROWS), tmp_path / "out"
    scripted(source, output, run_id="r")
    part = output / "part-000000.jsonl"
    part.write_text("".join(part.read_text().splitlines(keepends=True)[:5]))

    with pytest.raises(JobError, match="has 173 rows and the input 200"):
        scripted(source, output, run_id="r")


def test_values_that_cannot_be_read_fail_alone(tmp_path, read_parts):
    deep = "[" * 100_000
    table = pa.table(
        {
            "q": ["a", None, "c"],
            "messages": ['[{"role": "user", "content": "x"}]', deep, None],
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")

    scripted(tmp_path / "in.parquet", tmp_path / "out", messages_column="messages")

    errors = [row["error"] for row in read_parts(tmp_path / "out")]
    assert errors[0] is None
    assert "nests too deep" in errors[1]
    assert errors[2].startswith("messages_null")


def test_notes_ids_that_occur_twice_and_goes_on_when_asked_to(jsonl, tmp_path, capfd):
    rows = jsonl([{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}])
    options = {"id_column": "id", "duplicate_ids": "warn", "progress": None}
    note = "ids that occur more than once: 1 in 2 rows (1, 2)"

    plan = scripted(rows, tmp_path / "out", dry_run=True, **options)
    job = scripted(rows, tmp_path / "out", **options)

    assert note in str(plan)
    assert any(note in text for text in plan.to_json()["pinned"]["notes"])
    assert f"note id_column='id': {note}" in capfd.readouterr().err
    assert job.result().rows == 2


@pytest.mark.parametrize(
    "quiet", [{"progress": False}, {"progress": [].append}, {"wait": False}]
)
def test_a_job_has_its_notes_where_nothing_is_printed(jsonl, tmp_path, capfd, quiet):
    rows = jsonl([{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}])
    options = {"id_column": "id", "duplicate_ids": "warn", "progress": None}

    job = scripted(rows, tmp_path / "out", **options | quiet)
    job.wait()

    assert any("more than once" in note for note in job.plan.notes)
    assert "note" not in capfd.readouterr().err


def test_a_process_forked_while_a_job_is_submitted_does_not_keep_it_running(
    jsonl, tmp_path
):
    source = jsonl(ROWS)
    script = (
        "import os, sys\n"
        "from ml_toolkit.functions.llm.inference import run_inference\n"
        "forked = []\n"
        "end, keep = os.pipe()\n"
        "def fork_once(event, _):\n"
        "    if event == 'subprocess.Popen' and not forked:\n"
        "        forked.append(os.fork())\n"
        "        if not forked[0]:\n"
        "            os.close(keep)\n"
        "            os.read(end, 1)\n"  # until its parent has ended
        "            os._exit(0)\n"
        "sys.addaudithook(fork_once)\n"
        f"job = run_inference({str(source)!r}, 'm/x', {str(tmp_path / 'out')!r},"
        " executor='scripted', output_format='jsonl', run_id='forked',"
        " progress=False, timeout_s=60)\n"
        "print(len(forked), job.status().state)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.stdout == "1 SUCCEEDED\n", done.stderr


def test_what_this_machine_keeps_of_a_job_is_for_its_owner_alone(jsonl, tmp_path, home):
    before = os.umask(0o022)
    try:
        scripted(jsonl(ROWS), tmp_path / "out")
    finally:
        os.umask(before)

    kept = [home, *home.rglob("*")]
    assert {"order.json", "worker.log", "worker.json"} <= {p.name for p in kept}
    assert [p for p in kept if p.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("error", "(jsonl)"),
        ("overwrite", "(jsonl, overwritten if it is there)"),
        ("append", "(jsonl, added to what is there)"),
    ],
)
def test_the_plan_says_what_becomes_of_an_output_that_is_there(
    jsonl, tmp_path, mode, said
):
    plan = scripted(jsonl(ROWS), tmp_path / "out", write_mode=mode, dry_run=True)

    assert f"/out {said}\n" in str(plan)
