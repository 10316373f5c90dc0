"""vLLM's engine in this process."""

import pytest

from ml_toolkit_anyscale.executor.engine import VLLMEngine
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.pipeline.engine import EngineRequest
from ml_toolkit_core.tables.parts import RowError
from ml_toolkit_core.values import ModelKind, ModelLocation

GREEDY = {"temperature": 0, "max_tokens": 8}


_ENGINES = []


@pytest.fixture(scope="module", autouse=True)
def environment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture
def engine(tiny_model, make_order):
    """Return the one engine of this module; it costs seconds to load."""
    if not _ENGINES:
        model = ModelLocation(name="tiny", uri=str(tiny_model), kind=ModelKind.FOLDER)
        order = make_order(model=model, engine_kwargs={"max_num_seqs": 4})
        _ENGINES.append(VLLMEngine(order, 0))
    return _ENGINES[0]


def finish(engine, count):
    done = {}
    while len(done) < count:
        done |= {answer.key: answer for answer in engine.step()}
    return done


def asks(text, **params):
    return EngineRequest(prompt=text, sampling_params=GREEDY | params)


def test_keeps_twice_as_many_requests_as_run_at_once(engine):
    assert engine.capacity == 8


def test_answers_every_key_once_and_counts_tokens(engine):
    for key in range(10):
        engine.add(key, asks("hello"))

    done = finish(engine, 10)

    assert sorted(done) == list(range(10))
    assert len({answer.text for answer in done.values()}) == 1
    assert done[0].finish_reason == "length"
    assert done[0].prompt_tokens == len("[user] hello\n[assistant] ") + 1
    assert done[0].completion_tokens == 8


def test_one_refused_row_does_not_touch_the_others(engine):
    bad = '{"type": "objekt"}'
    engine.add(1, asks("before"))
    with pytest.raises(RowError) as refused:
        engine.add(2, asks("bad", structured_outputs={"json": bad}))
    with pytest.raises(RowError) as too_long:
        engine.add(3, asks("x" * 600))
    engine.add(4, asks("after"))

    done = finish(engine, 2)

    assert sorted(done) == [1, 4]
    assert refused.value.kind == "request_refused"
    assert "objekt" in refused.value.message
    assert too_long.value.kind == "prompt_too_long"


def test_writes_256_tokens_when_nothing_is_said(engine):
    engine.add(1, EngineRequest(prompt="hello", sampling_params={"ignore_eos": True}))

    done = finish(engine, 1)

    assert done[1].completion_tokens == 256


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"structured_outputs": {"choice": ["a"], "regex": "b"}}, "only use one kind"),
        ({"stop": 5}, "={'stop': 5}: stop.str: Input should be"),
        ({"stream_interval": 0}, "stream_interval must be at least 1"),
    ],
)
def test_refuses_sampling_parameters_before_it_loads_anything(
    make_order, params, words
):
    with pytest.raises(RequestError) as refused:
        VLLMEngine(make_order(sampling_params=params), 0)

    assert words in str(refused.value)


def test_a_folder_without_weights_is_named(make_order, tmp_path):
    model = ModelLocation(name="m", uri=str(tmp_path), kind=ModelKind.FOLDER)
    (tmp_path / "config.json").write_text('{"model_type": "nonesuch"}')

    with pytest.raises(RequestError, match=r"vLLM cannot load model='.*nonesuch"):
        VLLMEngine(make_order(model=model), 0)
