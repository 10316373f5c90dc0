"""The command, as a person runs it."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import pytest

from ml_toolkit.functions.llm.inference._cli import app

TOOL = Path(sysconfig.get_path("scripts")) / "ml-toolkit"


def ml_toolkit(*arguments):
    return subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def scripted(jsonl, tmp_path):
    """Return a function that runs a scripted job over three rows."""
    rows = [{"prompt": "one"}, {"prompt": "two"}, {"prompt": None}]

    def run(command="run", *more, script=None):
        kwargs = json.dumps({"script": script or {}})
        return ml_toolkit(
            *(command, jsonl(rows), "stub/any", tmp_path / "out"),
            *("--executor", "scripted", "--output-format", "jsonl"),
            *("--engine-kwargs", kwargs, *more),
        )

    return run


def test_a_run_with_failed_rows_ends_with_3_and_says_where_they_are(scripted):
    done = scripted()

    assert done.returncode == 3
    assert "3, of which 1 failed" in done.stdout
    assert "out.errors.jsonl" in done.stdout


def test_the_screen_of_a_run_is_its_progress_and_its_summary(scripted):
    done = scripted("run", "--run-id", "seen")

    lines = done.stderr.splitlines()
    assert lines[:2] == ["run_id seen", "job local://seen"]
    assert all(line.startswith("[") for line in lines[2:])
    assert lines[-1].endswith("SUCCEEDED, done, 3/3 rows, 3 published, 1 failed")


def test_several_inputs_are_one_table(jsonl, tmp_path, read_parts):
    for name in ("b.jsonl", "a.jsonl", "c.jsonl"):
        jsonl([{"prompt": name}], name)

    done = ml_toolkit(
        *("run", *sorted(tmp_path.glob("*.jsonl")), "stub/any", tmp_path / "out"),
        *("--executor", "scripted", "--output-format", "jsonl"),
    )

    assert done.returncode == 0, done.stderr
    rows = read_parts(tmp_path / "out")
    assert [row["prompt"] for row in rows] == ["a.jsonl", "b.jsonl", "c.jsonl"]


def test_a_forgotten_output_is_not_taken_from_the_inputs(jsonl, tmp_path):
    inputs = [jsonl([{"prompt": "x"}], name) for name in ("a.jsonl", "b.jsonl")]

    done = ml_toolkit("run", *inputs, tmp_path / "model", "--executor", "scripted")

    assert done.returncode == 2
    assert "b.jsonl' is a file; a model is a folder" in done.stderr


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("wait=1", "--wait"),
        ("run_id=x", "--run-id"),
        ("timeout_s=1", "--timeout-s"),
        ("output_table=x", "OUTPUT_TABLE"),
        ("as_json=1", "--json"),
    ],
)
def test_an_option_cannot_stand_for_an_argument_of_the_run(scripted, option, place):
    done = scripted("run", "--option", option)

    assert done.returncode == 2
    assert f"see {place} in ml-toolkit run --help" in done.stderr


def test_who_stops_waiting_is_told_what_to_type(scripted):
    hang = {"hang_after": 1}
    done = scripted("run", "--run-id", "slow", "--timeout-s", "0.1", script=hang)
    again = ml_toolkit("wait", "local://slow", "--timeout-s", "0.1")
    ml_toolkit("cancel", "local://slow")

    for command in (done, again):
        assert command.returncode == 4
        last = command.stderr.splitlines()[-1]
        assert last.endswith(
            "it goes on. Follow it with: ml-toolkit wait local://slow; end it with: "
            "ml-toolkit cancel local://slow"
        )


@pytest.fixture
def interruptible():
    """Let children hear SIGINT, also where the tests are a background job.

    A shell lets what it starts with ``&`` ignore it, and children inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_who_interrupts_the_following_is_told_what_to_type(jsonl, tmp_path):
    command = [
        *(TOOL, "run", jsonl([{"prompt": "x"}]), "stub/any", tmp_path / "out"),
        *("--executor", "scripted", "--run-id", "left"),
        *("--engine-kwargs", '{"script": {"hang_after": 0}}'),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        for line in running.stderr:
            if "RUNNING, running" in line:
                break
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
    ml_toolkit("cancel", "local://left")

    assert running.returncode == 4
    assert rest.splitlines()[-1] == (
        "error: local://left goes on without you. Follow it with: ml-toolkit wait "
        "local://left; end it with: ml-toolkit cancel local://left"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("list", "--json"),
        ("logs", "local://read"),
        ("status", "local://read"),
        ("wait", "local://read"),
        ("cancel", "local://read"),
        ("backends",),
        ("run", "--help"),
    ],
)
def test_a_reader_that_has_gone_ends_a_command_quietly(scripted, command):
    scripted("run", "--run-id", "read")
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [TOOL, *command], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)

    assert done.returncode == -signal.SIGPIPE
    assert b"Error" not in done.stderr
    assert b"error" not in done.stderr


def test_a_run_without_a_stderr_runs_in_silence(jsonl, tmp_path):
    source = jsonl([{"prompt": "x"}])
    script = (
        "from ml_toolkit.functions.llm.inference import run_inference\n"
        f"job = run_inference({str(source)!r}, 'm/x', {str(tmp_path / 'out.csv')!r},"
        " executor='scripted')\n"
        "print(job.status().state)\n"
    )

    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, script],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.stdout == "SUCCEEDED\n"


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"handle": "x"}', "whole"])
def test_list_names_a_damaged_record_and_shows_the_others(scripted, home, damage):
    scripted("run", "--run-id", "good")
    good = home / "jobs/local/good.json"
    bad = good.with_name("bad.json")
    whole = good.read_text().replace("local://good", "no handle")
    bad.write_text(whole if damage == "whole" else damage)

    done = ml_toolkit("list")
    again = scripted("run", "--run-id", "good")

    assert "is left out" not in again.stderr
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["local://good"]
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"the record {str(bad)!r} is left out: ")


def test_a_failed_job_ends_with_1(scripted):
    done = scripted(script={"raise_after": 0})

    assert done.returncode == 1
    assert "error: local://" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "more",
    [
        ("--prompt-column", "q"),
        ("--sampling-params", "{"),
        ("--sampling-params", "[" * 9_999),
        ("--option", "x"),
        ("--no",),
        ("--start-timeout-s", "9", "--no-wait"),
        ("--start-timeout-s", "-1"),
    ],
)
def test_a_wrong_request_ends_with_2_and_no_traceback(scripted, more):
    done = scripted("run", *more)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_detached_job_is_followed_and_ended_from_other_processes(scripted):
    started = scripted("run", "--no-wait", "--run-id", "far", script={"hang_after": 1})
    status = ml_toolkit("status", "local://far", "--json")
    ended = ml_toolkit("cancel", "local://far")
    logs = ml_toolkit("logs", "local://far", "--tail", "5")

    assert (started.returncode, started.stdout.strip()) == (4, "local://far")
    assert json.loads(status.stdout)["state"] == "RUNNING"
    assert ended.stdout.startswith("CANCELLED")
    assert "run starts run_id=far" in logs.stdout


def test_plan_prints_and_starts_nothing(scripted, tmp_path):
    done = scripted("plan")

    assert done.returncode == 0
    assert "3 rows" in done.stdout
    assert not (tmp_path / "out").exists()


def test_plan_as_json_is_json(scripted):
    plan = json.loads(scripted("plan", "--json").stdout)

    assert plan["replicas"]["replicas"] == 1


def test_backends_lists_what_is_installed():
    done = ml_toolkit("backends", "--json")

    assert set(json.loads(done.stdout)) == {"anyscale", "databricks", "local"}


def test_the_version_is_that_of_the_distribution():
    done = ml_toolkit("--version")

    assert done.stdout == f"ml-toolkit {version('ml-toolkit-inference')}\n"
    assert done.returncode == 0


def test_to_cancel_a_job_that_has_ended_says_how_it_ended(scripted):
    scripted("run", "--run-id", "over")

    done = ml_toolkit("cancel", "local://over")

    assert done.stdout.startswith("SUCCEEDED, done, 3/3 rows")


def test_an_unknown_job_ends_with_2():
    assert ml_toolkit("status", "local://nobody").returncode == 2


@pytest.mark.parametrize("page", ["README.md", "docs/command-line.rst"])
def test_the_page_shows_every_command(page):
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    commands = [c.name or c.callback.__name__ for c in app.registered_commands]

    assert [name for name in commands if f"$ ml-toolkit {name}" not in text] == []


def test_the_help_imports_no_tables():
    script = (
        "import sys\n"
        "from ml_toolkit.functions.llm.inference import _cli\n"
        "print(sorted({'pyarrow', 'deltalake', 'ray', 'rich'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_fleet_plans_a_model_on_unequal_cards(tmp_path):
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))

    done = ml_toolkit("fleet", tmp_path, "--devices", "24GB*3,80GB", "--json")

    plan = json.loads(done.stdout)
    assert len(plan["replicas"]) == plan["bound"] == 4
    assert plan["certified"]
