"""The pool, with scripted engines in real Ray actors."""

import shutil

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_toolkit_anyscale.executor.pool import RayPool
from ml_toolkit_core.errors import ReplicaDied, RequestError
from ml_toolkit_core.pipeline.pool import LOAD_S
from ml_toolkit_core.tables.parts import Part, RowError, RowFault, Split, SplitRows
from ml_toolkit_core.values import ModelKind, ModelLocation, Prompts, ReplicaPlan

SCRIPTED = "ml_toolkit_core.testing.scripted_engine:ScriptedEngine"
VLLM = "ml_toolkit_anyscale.executor.engine:VLLMEngine"


def make_writer(folder):
    class Writer:  # local, so that it travels by value
        def write(self, split, rows, tally):
            path = f"{folder}/{split.index}.parquet"
            pq.write_table(rows, path)
            return Part(split=split.index, path=path, bytes=0, tally=tally)

    return Writer()


def splits(prompts, rows=5, errors=None):
    for index, start in enumerate(range(0, len(prompts), rows)):
        some = prompts[start : start + rows]
        yield SplitRows(
            split=Split(index=index, file=0, start=start, stop=start + len(some)),
            batch=pa.record_batch({"prompt": pa.array(some, pa.string())}),
            errors=(errors or {}).get(index, {}),
        )


def answers(pool, work):
    """Put all splits, one replica after the other; return the rows in order."""
    replicas, parts, expected = set(), [], 0
    for rows in work:
        pool.put(rows.split.index % 2, rows)
        expected += 1
    while len(parts) < expected:
        for report in pool.reports(timeout_s=60):
            replicas |= {report.replica} if report.parts else set()
            parts += report.parts
    rows = [
        row
        for part in sorted(parts, key=lambda part: part.split)
        for row in pq.read_table(part.path).to_pylist()
    ]
    return replicas, rows


@pytest.fixture
def make_pool(make_order, tmp_path):
    """Return a maker of pools; they are stopped, and must leave no process."""
    before = psutil.Process().children(recursive=True)
    pools = []

    def make(*, replicas=1, engine=SCRIPTED, gpus=0, load_s=LOAD_S, **order):
        plan = ReplicaPlan(replicas=replicas, gpus_per_replica=gpus)
        pool = RayPool(
            make_order(plan=plan, **order),
            engine=engine,
            writer=make_writer(tmp_path),
            load_s=load_s,
        )
        pools.append(pool)
        return pool

    yield make
    started = psutil.Process().children(recursive=True)
    for pool in pools:
        pool.stop()
    left = [process for process in started if process not in before]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []


def test_every_split_comes_back_from_two_replicas(make_pool):
    prompts = [f"row {i}" for i in range(101)]
    errors = {0: {1: RowError(RowFault.UNREADABLE, "no JSON")}}
    pool = make_pool(replicas=2, engine_kwargs={"max_num_seqs": 4})

    capacity = pool.start()
    replicas, rows = answers(pool, splits(prompts, errors=errors))

    assert capacity == 16
    assert replicas == {0, 1}
    assert [row["prompt"] for row in rows] == prompts
    assert [row["generated_text"] for row in rows] == [
        None if i == 1 else prompt for i, prompt in enumerate(prompts)
    ]
    assert rows[1]["error"] == "unreadable: no JSON"


def test_a_killed_replica_is_told_in_one_sentence(make_pool):
    pool = make_pool(
        replicas=2, engine_kwargs={"script": {"die_after": 3, "replica": 1}}
    )
    pool.start()

    with pytest.raises(ReplicaDied) as died:
        answers(pool, splits(["x"] * 20))

    message = str(died.value)
    assert message.startswith("replica 1 died: ")
    assert "run_id='run-7'" in message
    assert "\n" not in message
    assert "Traceback" not in message


def test_a_hanging_replica_ends_with_the_pool(make_pool):
    pool = make_pool(engine_kwargs={"script": {"hang_after": 0}})
    pool.start()
    pool.put(0, next(splits(["x"])))

    reports = pool.reports(timeout_s=1)

    assert list(reports) == []  # make_pool stops it and looks for what is left


def test_a_model_that_does_not_load_is_told_in_the_engine_s_words(make_pool):
    pool = make_pool(
        replicas=2, engine_kwargs={"script": {"fail_load": "no weights", "replica": 1}}
    )

    with pytest.raises(ReplicaDied, match=r"^no weights$"):
        pool.start()


def test_a_replica_that_never_loads_is_named_and_ends_with_the_pool(make_pool):
    pool = make_pool(
        replicas=2,
        load_s=2,
        engine_timeout_s=1,
        engine_kwargs={"script": {"hang_load": True, "replica": 1}},
    )

    with pytest.raises(ReplicaDied, match="^replica 1 did not load within 2 s; the"):
        pool.start()


def test_gpus_that_are_not_there_are_refused(make_pool):
    pool = make_pool(replicas=2, gpus=500)

    with pytest.raises(RequestError, match="the plan needs 2 x 500 GPU, each on"):
        pool.start()


def test_two_vllm_replicas_answer_alike(make_pool, tiny_model):
    model = ModelLocation(name="tiny", uri=str(tiny_model), kind=ModelKind.FOLDER)
    prompts = [*[f"question {i // 2}" for i in range(24)], "x" * 600]
    pool = make_pool(
        replicas=2,
        engine=VLLM,
        model=model,
        sampling_params={"temperature": 0, "max_tokens": 8},
        engine_kwargs={"max_num_seqs": 4},
    )

    pool.start()
    replicas, rows = answers(pool, splits(prompts, rows=1))

    assert replicas == {0, 1}
    assert [row["prompt"] for row in rows] == prompts
    texts = [row["generated_text"] for row in rows]
    assert texts[:24:2] == texts[1:24:2]  # neighbours went to different replicas
    assert texts[24] is None
    assert rows[24]["error"].startswith("prompt_too_long: prompt has 621 tokens, ")
    assert rows[0]["finish_reason"] == "length"
    assert rows[0]["completion_tokens"] == 8


def test_a_replica_brings_its_model_itself_where_no_driver_could(make_pool, tmp_path):
    half = tmp_path / "half.gguf"
    half.write_bytes(b"GGUF\x03\x00\x00\x00")
    pool = make_pool(
        engine=VLLM, model=ModelLocation(name="m", uri=str(half), kind=ModelKind.GGUF)
    )

    with pytest.raises(RequestError, match="half.gguf' cannot be converted from GGUF"):
        pool.start()


def test_a_context_that_does_not_fit_names_both_numbers(make_pool, tiny_model):
    pool = make_pool(
        engine=VLLM,
        model=ModelLocation(name="tiny", uri=str(tiny_model), kind=ModelKind.FOLDER),
        engine_kwargs={"max_model_len": 512, "kv_cache_memory_bytes": 300_000},
    )

    with pytest.raises(RequestError) as refused:
        pool.start()

    message = str(refused.value)
    assert "max_model_len=512 does not fit" in message
    assert "room for 128 tokens" in message
    assert "kv_cache_memory_bytes" in message


def test_tools_for_a_base_model_are_refused(make_pool, tiny_model, tmp_path):
    base = shutil.copytree(
        tiny_model, tmp_path / "base", ignore=shutil.ignore_patterns("chat_template*")
    )
    pool = make_pool(
        engine=VLLM,
        model=ModelLocation(name="base", uri=str(base), kind=ModelKind.FOLDER),
        prompts=Prompts(prompt_column="prompt", tools_column="tools"),
        engine_kwargs={"max_model_len": 64},
    )

    with pytest.raises(RequestError, match="tools_column='tools' needs a chat, but"):
        pool.start()
