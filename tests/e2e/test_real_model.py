"""The promise, with nothing replaced: command, worker, Ray, vLLM, a real model."""

import json
import os
import signal
import subprocess
import sysconfig
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_toolkit.functions.llm.inference import JobError, JobState, attach

TOOL = Path(sysconfig.get_path("scripts")) / "ml-toolkit"
GREEDY = json.dumps({"max_tokens": 16, "temperature": 0})


def ml_toolkit(*arguments):
    return subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_a_killed_run_goes_on_and_every_country_is_answered_once(
    quickstart, tmp_path, home
):
    output = tmp_path / "answers"
    call = [
        *("run", quickstart.TABLE, quickstart.MODEL, output, "--run-id", "countries"),
        *("--prompt-template", quickstart.QUESTION, "--sampling-params", GREEDY),
    ]
    ml_toolkit(*call, "--no-wait")
    job = attach("local://countries")
    record = home / "runs/countries/attempt-0001/worker.json"

    def kill_once_published(status):
        seen = status.progress
        if status.state is JobState.RUNNING and seen is not None and seen.published:
            os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)

    with pytest.raises(JobError, match="ended without a word"):
        job.wait(progress=kill_once_published)
    before = deltalake.DeltaTable(output).to_pyarrow_table()["alpha_3"].to_pylist()
    done = ml_toolkit(*call, "--json")

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    answers = deltalake.DeltaTable(output).to_pyarrow_table().to_pylist()
    lines = quickstart.TABLE.read_text(encoding="utf-8").splitlines()
    table = [json.loads(line) for line in lines]
    by_code = {row["alpha_3"]: row for row in answers}
    assert 0 < len(before) < len(table)
    assert len(answers) == len(by_code) == len(table) == result["rows"]
    assert all(by_code[row["alpha_3"]][key] == row[key] for row in table for key in row)
    assert result["requests"] <= len(table) - len(before)
    assert "Paris" in by_code["FRA"]["generated_text"]
    assert "Tokyo" in by_code["JPN"]["generated_text"]
    screen = done.stderr.splitlines()
    assert screen[:2] == ["run_id countries", "job local://countries"]
    assert all(line.startswith("[") for line in screen[2:])


def test_chats_from_parquet_are_answered_and_bad_rows_fail_alone(
    quickstart, tmp_path, read_parts
):
    def user(text):
        return json.dumps([{"role": "user", "content": text}])

    rows = {
        "good": user("What is the capital of France?"),
        "long": user("word " * 900),
        "null": None,
        "bad": "[",
        "last": user("What is the capital of Japan?"),
    }
    table = pa.table({"id": list(rows), "messages": list(rows.values())})
    pq.write_table(table, tmp_path / "chats.parquet")

    done = ml_toolkit(
        *("run", tmp_path / "chats.parquet", quickstart.MODEL, tmp_path / "out"),
        *("--output-format", "jsonl", "--sampling-params", GREEDY, "--json"),
        *("--engine-kwargs", json.dumps({"max_model_len": 512})),
    )

    assert done.returncode == 3, done.stderr
    answers = read_parts(tmp_path / "out")
    assert [row["id"] for row in answers] == list(rows)
    errors = [str(row["error"]).partition(":")[0] for row in answers]
    assert errors == [
        *("None", "prompt_too_long", "messages_null", "messages_invalid", "None")
    ]
    assert "512" in answers[1]["error"]
    assert "Paris" in answers[0]["generated_text"]
    assert "Tokyo" in answers[4]["generated_text"]
    assert json.loads(done.stdout)["failed"] == 3
