import re
import subprocess
import sys

import pytest

from ml_toolkit_anyscale.executor.checks import check
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import ModelKind, ModelLocation, Prompts

INSTRUCT = ModelLocation(
    name="instruct", uri="/instruct", kind=ModelKind.FOLDER, has_chat_template=True
)
BASE = ModelLocation(
    name="base", uri="/base", kind=ModelKind.FOLDER, has_chat_template=False
)
HUB = ModelLocation(name="org/model", uri="org/model", kind=ModelKind.HUB)
QUESTION = Prompts(prompt_column="prompt")


def refusal(*, sampling=None, engine=None, prompts=QUESTION, model=INSTRUCT):
    with pytest.raises(RequestError) as refused:
        check(
            sampling_params=sampling or {},
            engine_kwargs=engine or {},
            prompts=prompts,
            model=model,
        )
    return str(refused.value)


def test_takes_what_vllm_takes():
    check(
        sampling_params={
            "temperature": 0,
            "max_tokens": 16,
            "n": 1,
            "top_k": -1,
            "top_p": 1,
            "seed": None,
            "structured_outputs": {"choice": ["yes", "no"]},
        },
        engine_kwargs={"max_model_len": 512, "trust_remote_code": True},
        prompts=QUESTION,
        model=INSTRUCT,
    )


def test_names_the_near_miss_of_a_sampling_parameter():
    message = refusal(sampling={"temperatur": 0})

    assert message == (
        "sampling_params: 'temperatur' is no name of vLLM 0.32.0. Did you mean "
        "'temperature'? Names are vLLM's own, as in vllm.SamplingParams."
    )


def test_names_the_near_miss_of_an_engine_argument():
    message = refusal(engine={"max_model_length": 512})

    assert "'max_model_length' is no name of vLLM 0.32.0" in message
    assert "Did you mean 'max_model_len'?" in message
    assert "vllm.EngineArgs" in message


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ({"model": "other"}, "the model= of the run"),
        ({"tensor_parallel_size": 2}, "the plan sets it"),
        ({"pipeline_parallel_size": 2}, "the plan sets it"),
        ({"distributed_executor_backend": "ray"}, "the plan sets it"),
        ({"data_parallel_size": 2}, "the plan says how many"),
        ({"hf_token": "secret"}, "no secret"),
        ({"worker_cls": "my.Worker"}, "code to import"),
        ({"runner": "pooling"}, "generates text"),
    ],
)
def test_says_whose_an_engine_argument_is(engine, reason):
    message = refusal(engine=engine)

    assert reason in message
    assert repr(next(iter(engine))) in message


def test_a_refusal_does_not_repeat_a_secret():
    assert "hf_abc" not in refusal(engine={"hf_token": "hf_abc"})


def test_gives_one_answer_for_each_row():
    assert "asks for 3 answers" in refusal(sampling={"n": 3})


@pytest.mark.parametrize(
    "name", ["output_kind", "detokenize", "logprobs", "stream_interval"]
)
def test_refuses_parameters_whose_answer_has_no_place(name):
    assert repr(name) in refusal(sampling={name: 1})


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("temperature", -0.1, "a number of at least 0 and at most 2"),
        ("temperature", "hot", "a number of at least 0 and at most 2"),
        ("temperature", True, "a number of at least 0 and at most 2"),
        ("max_tokens", 0, "a whole number of at least 1"),
        ("max_tokens", 1.5, "a whole number of at least 1"),
        ("min_tokens", -1, "a whole number of at least 0"),
        ("top_p", 0, "a number above 0 and at most 1"),
        ("top_k", -2, "a whole number of at least -1"),
        ("min_p", 2, "a number of at least 0 and at most 1"),
        ("repetition_penalty", 0, "a number above 0"),
        ("presence_penalty", 3, "a number of at least -2 and at most 2"),
    ],
)
def test_names_the_range_of_a_value(name, value, allowed):
    message = refusal(sampling={name: value})

    assert (
        message == f"sampling_params={{{name!r}: {value!r}}}: {name} must be {allowed}"
    )


@pytest.mark.parametrize(
    "prompts",
    [
        Prompts(messages_column="chat"),
        Prompts(prompt_column="q", system_prompt="Be brief."),
        Prompts(prompt_column="q", tools_column="tools"),
    ],
)
def test_refuses_a_chat_for_a_model_without_a_chat_template(prompts):
    message = refusal(prompts=prompts, model=BASE)

    assert "the model 'base' has no chat template" in message
    assert re.search("instruct model.*prompt_column= or prompt_template=", message)


def test_takes_a_chat_where_the_template_is_only_known_on_the_far_side():
    check(
        sampling_params={},
        engine_kwargs={},
        prompts=Prompts(messages_column="chat"),
        model=HUB,
    )


def test_checking_loads_neither_tables_nor_engines():
    heavy = ("deltalake", "pyarrow", "ray", "torch", "transformers", "vllm")
    code = (
        "import sys, ml_toolkit_anyscale.executor; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
