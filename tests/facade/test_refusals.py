"""Bad requests: each is refused before anything starts, with a message that helps."""

import json
import math
import os
import subprocess
import sys

import pytest

from ml_toolkit.functions.llm.inference import RequestError, run_inference

ROWS = [{"id": 1, "prompt": "a"}, {"id": 2, "prompt": "b"}]


@pytest.fixture
def call(jsonl, tmp_path, home):
    """Return a function that runs a request with one thing wrong."""
    good = {
        "input_table": str(jsonl(ROWS)),
        "model": "stub/any",
        "output_table": str(tmp_path / "out"),
        "executor": "scripted",
    }

    def run(**wrong):
        try:
            run_inference(**{**good, **wrong})
        finally:
            assert not (home / "runs").exists()

    return run


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"compute_type": "lokal"}, "compute_type='lokal' .*Did you mean 'local'"),
        ({"compute_type": "Local!"}, "'compute_type' must match"),
        ({"compute_type": "anyscale"}, "'anyscale' needs both.* h100 with 8, 16, 32"),
        (
            {"compute_type": "databricks"},
            "'databricks' cannot run jobs in this version",
        ),
        ({"promt_column": "q"}, "'promt_column' is no option.*'prompt_column'"),
        ({"anyscale_team": "yoda"}, "an option of backend 'anyscale'"),
        ({"executor": "ray-vlm"}, "executor='ray-vlm' .*Did you mean 'ray-vllm'"),
        ({"input_table": "gone.jsonl"}, "'gone.jsonl'"),
        ({"input_table": "sch.tbl"}, "neither a path nor a name of three parts"),
        ({"input_table": "gone"}, "there is nothing at"),
        ({"input_table": "cat.sch.tbl"}, "is not in the local warehouse"),
        ({"input_table": []}, r"input_table=\(\) must be a path or a name"),
        ({"input_table": ["a.jsonl", 7]}, "nothing at .*a.jsonl"),
        ({"input_table": ["rows.jsonl", "cat.sch.tbl"]}, "not in the local warehouse"),
        ({"read_options": {"delimiter": ";"}}, "rows.jsonl' is jsonl, which takes no"),
        ({"prompt_column": "promt"}, "no column 'promt'.*Did you mean 'prompt'"),
        ({"prompt_column": "id"}, "prompt_column='id' is of type int64"),
        ({"prompt_template": "{idd}"}, r"field \{idd\}.*Did you mean 'id'"),
        ({"output_column": "id"}, "'id'"),
        ({"id_column": "idd"}, "id_column: .* no column 'idd'.*Did you mean 'id'"),
        ({"duplicate_ids": "warn"}, "says nothing without id_column="),
        (
            {"id_column": "id", "duplicate_ids": "drop"},
            "duplicate_ids='drop' must be one of 'error', 'warn'",
        ),
        ({"duplicate_ids": ["warn"]}, r"duplicate_ids=\['warn'\] must be one of"),
        ({"input_format": "jsnl"}, "input_format='jsnl' .*Did you mean 'jsonl'"),
        (
            {"write_mode": "upsert"},
            "must be one of 'error', 'overwrite', 'append'",
        ),
        ({"num_gpus": 64}, "this machine has"),
        ({"timeout_s": "abc"}, "timeout_s='abc' must be a number of seconds"),
        ({"timeout_s": -1}, "timeout_s=-1 must be a number of seconds"),
        ({"unreachable_after_s": math.nan}, "unreachable_after_s=nan must be a number"),
        ({"start_timeout_s": 0}, "start_timeout_s=0 must be .* above 0"),
        (
            {"start_timeout_s": 9, "wait": False},
            "start_timeout_s=9 with wait=False: who waits for the job cancels it",
        ),
        ({"engine_timeout_s": math.inf}, "engine_timeout_s=inf must be .* a year"),
        ({"engine_timeout_s": "600"}, "engine_timeout_s='600' must be a number of"),
        ({"output_table": "o\0.jsonl"}, "output_table=.* has a null byte"),
        ({"model": "m\0"}, "model=.* has a null byte"),
        ({"progress": "yes"}, "progress='yes' must be"),
        ({"model": None}, "model=None must be text"),
        ({"executor": ["x"]}, r"executor=\['x'\] must be text"),
        ({"prompt_column": b"q"}, "prompt_column=b'q' must be text"),
        ({"system_prompt": "\ud800"}, "system_prompt=.* cannot be written as UTF-8"),
        ({"num_gpus": 0}, "num_gpus"),
        ({"run_id": "no spaces"}, "'run_id' must match"),
        ({"engine_kwargs": {"scrip": {}}}, "Did you mean 'script'"),
        ({"sampling_params": {"stop": object()}}, r"\['stop'\]"),
        (
            {"executor": "ray-vllm", "sampling_params": {"max_token": 3}},
            "'max_token' is no name of vLLM .*Did you mean 'max_tokens'",
        ),
        (
            {"executor": "ray-vllm", "engine_kwargs": {"max_modellen": 3}},
            "'max_modellen' is no name of vLLM .*Did you mean 'max_model_len'",
        ),
        (
            {"executor": "ray-vllm", "sampling_params": {"temperature": -1}},
            "temperature must be",
        ),
        ({"model": "./nowhere"}, "model='./nowhere': there is no such folder"),
        ({"model": "models/a/b"}, "there is no such folder, and a Hugging Face id"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_would_work(call, wrong, message):
    with pytest.raises(RequestError, match=message):
        call(**wrong)


def test_gpus_that_are_not_there_are_answered_with_other_backends(call):
    with pytest.raises(RequestError, match="'anyscale', 'databricks'"):
        call(gpu_type="h100", num_gpus=16)


def test_a_model_folder_without_config_is_refused(call, tmp_path):
    (tmp_path / "model").mkdir()

    with pytest.raises(RequestError, match="has no config.json"):
        call(model=str(tmp_path / "model"))


def test_an_output_that_exists_is_refused_and_not_touched(call, tmp_path):
    precious = tmp_path / "out" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("mine")

    with pytest.raises(RequestError, match="exists already"):
        call(output_table=str(tmp_path / "out"))

    assert precious.read_text() == "mine"


@pytest.mark.parametrize("source", ["rows.json*", "./ro*"])
def test_an_output_that_a_glob_of_the_input_takes_in_is_refused(
    call, tmp_path, monkeypatch, source
):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RequestError, match="are the same place or lie in one another"):
        call(input_table=source, output_table="./rows.jsonx")


@pytest.mark.parametrize("output", ["rows.jsonl", "./rows.jsonl", "rows.jsonl/inside"])
def test_output_and_input_are_never_the_same_place(call, tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RequestError, match="are the same place or lie in one another"):
        call(output_table=output, output_format="jsonl")


@pytest.mark.parametrize("target", ["link", "gone"])
@pytest.mark.parametrize("name", ["link", "link/out.jsonl", "link/a/b"])
def test_an_output_behind_a_link_that_leads_nowhere_is_refused(
    call, tmp_path, name, target
):
    (tmp_path / "link").symlink_to(target)

    with pytest.raises(RequestError, match="/link' is a link that leads nowhere"):
        call(output_table=str(tmp_path / name), output_format="jsonl")


def test_a_file_whose_name_is_no_text_is_refused(call, tmp_path):
    (tmp_path / "in").mkdir()
    name = os.fsdecode(b"\xff.jsonl")
    (tmp_path / "in" / name).write_text('{"prompt": "x"}\n')

    with pytest.raises(RequestError, match="is no UTF-8; rename it"):
        call(input_table=str(tmp_path / "in"))


def test_an_empty_table_is_refused(call, jsonl):
    with pytest.raises(RequestError, match="no rows"):
        call(input_table=str(jsonl([], "empty.jsonl")))


def test_all_bad_lines_are_named_in_one_message(call, tmp_path):
    bad = tmp_path / "bad.jsonl"
    lines = ['{"prompt": "a"}', "[1]", '"text"', "null", '{"prompt": "b"}', '{"pro']
    bad.write_text("\n".join(lines))

    with pytest.raises(RequestError) as caught:
        call(input_table=str(bad))

    assert all(f"{number}" in str(caught.value) for number in (2, 3, 4, 6))


def test_nothing_to_ask_is_refused_with_the_columns(call, jsonl):
    with pytest.raises(RequestError, match="nothing says what to ask.*'q'"):
        call(input_table=str(jsonl([{"q": "a"}], "q.jsonl")))


def test_chats_for_a_base_model_are_refused_before_weights_load(call, jsonl, tmp_path):
    model = tmp_path / "base"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "x"}))
    chats = jsonl([{"messages": [{"role": "user", "content": "hi"}]}], "chats.jsonl")

    with pytest.raises(RequestError, match="has no chat template"):
        call(input_table=str(chats), model=str(model), executor="ray-vllm")


def test_a_home_that_cannot_be_written_is_refused(call, tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("ML_TOOLKIT_HOME", str(file / "home"))

    with pytest.raises(RequestError, match="ML_TOOLKIT_HOME=.* cannot be written"):
        call()


@pytest.mark.parametrize("options", [{}, {"output_format": "jsonl"}])
@pytest.mark.parametrize("name", ["file/out", "file/more/out.jsonl"])
def test_an_output_below_a_file_is_refused(call, tmp_path, name, options):
    (tmp_path / "file").touch()

    with pytest.raises(RequestError, match="cannot be written: .*/file' is no folder"):
        call(output_table=str(tmp_path / name), **options)


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
@pytest.mark.parametrize("name", ["theirs", "theirs/out", "theirs/out.jsonl"])
def test_an_output_in_somebody_elses_folder_is_refused(tmp_path, name, mode):
    (tmp_path / "theirs").mkdir(mode=0o755)
    script = (
        "import os, shutil, sys, tempfile\n"
        "from pathlib import Path\n"
        "from ml_toolkit.functions.llm.inference import run_inference\n"
        # Root may write anywhere; os.access asks for the real user.
        "os.chmod(sys.argv[1], 0o555) if os.getuid() else os.setreuid(65534, -1)\n"
        "here = Path(tempfile.mkdtemp(dir='/tmp'))\n"
        "here.chmod(0o777)\n"
        "os.environ['ML_TOOLKIT_HOME'] = str(here / 'home')\n"
        "(here / 'rows.jsonl').write_text('{\"prompt\": \"a\"}')\n"
        "try:\n"
        "    run_inference(str(here / 'rows.jsonl'), 'm/x', sys.argv[2],"
        " executor='scripted', output_format='jsonl', write_mode=sys.argv[3])\n"
        "finally:\n"
        "    print((here / 'home').exists())\n"
        "    shutil.rmtree(here)\n"
    )

    done = subprocess.run(
        [
            *(sys.executable, "-c", script),
            *(str(tmp_path / "theirs"), str(tmp_path / name), mode),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"cannot be written: {str(tmp_path / 'theirs')!r}" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("ml_toolkit_core.errors.RequestE")
    assert done.stdout == "False\n"


@pytest.mark.parametrize("package", ["ray", "vllm"])
def test_an_executor_whose_packages_are_not_here_is_planned_and_not_started(
    jsonl, tmp_path, home, package
):
    script = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"  # as the import system says: not there
        "from ml_toolkit.functions.llm.inference import run_inference\n"
        "print(run_inference(*sys.argv[1:], dry_run=True).replicas.replicas)\n"
        "run_inference(*sys.argv[1:])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, jsonl(ROWS), "m/x", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "1\n"
    last = done.stderr.splitlines()[-1]
    assert f"MissingExtra: executor='ray-vllm' needs {package!r} on this machine" in (
        last
    )
    assert (
        "pip install 'ml-toolkit-anyscale[executor-cpu]', or 'ml-toolkit-anyscale"
        "[executor-gpu]' on a machine with GPUs, or pass another compute_type"
    ) in last
    assert not (home / "runs").exists()


@pytest.mark.parametrize("model", ["cat.sch.m@prod", "cat.sch.m/3"])
def test_aliases_and_versions_are_refused_for_the_local_warehouse(call, model):
    with pytest.raises(RequestError, match="aliases and versions .* Unity"):
        call(model=model)


def test_refuses_ids_that_are_not_one_for_each_row(call, jsonl):
    rows = [*ROWS, {"id": 1, "prompt": "c"}, {"prompt": "d"}]

    with pytest.raises(RequestError) as caught:
        call(input_table=str(jsonl(rows)), id_column="id")

    assert str(caught.value) == (
        "id_column='id': ids that occur more than once: 1 in 2 rows (1, 3); rows "
        "without an id: 1 (4); rows are counted from 1. Pass another id_column=, drop "
        "these rows, or go on with duplicate_ids='warn'"
    )
