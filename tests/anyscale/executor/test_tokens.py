import pytest

from ml_toolkit_anyscale.executor.tokens import Tokens
from ml_toolkit_core.pipeline.engine import EngineRequest
from ml_toolkit_core.tables.parts import RowError

START = 0


@pytest.fixture
def chat(chat_tokenizer):
    return Tokens(chat_tokenizer, 512)


@pytest.fixture
def base(base_tokenizer):
    return Tokens(base_tokenizer, 512)


def said(tokens, *, prompt=None, messages=None):
    ids = tokens.ids(EngineRequest(prompt=prompt, messages=messages))
    return tokens.tokenizer.decode(ids)


def turn(role, content):
    return {"role": role, "content": content}


def test_a_prompt_is_one_user_turn_for_a_model_with_a_chat_template(chat):
    assert said(chat, prompt="hello") == "<s>[user] hello\n[assistant] "


def test_a_rendered_prompt_has_the_tokens_of_the_same_chat(chat):
    rendered = chat.ids(EngineRequest(prompt="<s>[user] hello\n[assistant] "))
    asked = chat.ids(EngineRequest(messages=[turn("user", "hello")]))

    assert asked == rendered
    assert rendered.count(START) == 1


def test_two_start_tokens_become_one(chat):
    ids = chat.ids(EngineRequest(prompt="<s><s>[user] hello\n[assistant] "))

    assert ids.count(START) == 1


def test_a_base_model_gets_the_text_and_its_start_token(base):
    assert said(base, prompt="hello") == "<s>hello"


def test_a_base_model_gets_no_second_start_token(base):
    assert said(base, prompt="<s>hello") == "<s>hello"


def test_a_started_answer_is_gone_on_with(chat):
    messages = [turn("user", "List:"), turn("assistant", "1. apples\n2.")]

    assert said(chat, messages=messages) == "<s>[user] List:\n[assistant] 1. apples\n2."


def test_an_empty_started_answer_is_no_turn(chat):
    messages = [turn("user", "x"), turn("assistant", "")]

    assert said(chat, messages=messages) == "<s>[user] x\n[assistant] "


def test_a_prompt_that_only_mentions_the_start_token_is_a_user_turn(chat):
    assert said(chat, prompt="what is <s>?").startswith("<s>[user] what is")


def failure(tokens, **request):
    with pytest.raises(RowError) as failed:
        tokens.ids(EngineRequest(**request))
    return failed.value


def test_a_prompt_that_leaves_no_room_names_both_numbers(chat):
    room = len("[user] \n[assistant] ") + 1

    fits = chat.ids(EngineRequest(prompt="x" * (511 - room)))
    error = failure(chat, prompt="x" * (512 - room))

    assert len(fits) == 511
    assert error.kind == "prompt_too_long"
    assert error.message == (
        "prompt has 512 tokens, max_model_len is 512 and one token must be left for "
        "the answer"
    )


def test_a_chat_that_the_template_refuses_is_told_in_its_words(chat):
    error = failure(chat, messages=[turn("assistant", "secret"), turn("user", "x")])

    assert error.kind == "messages_invalid"
    assert error.message == (
        "the model's chat template refuses this chat: user and assistant turns have "
        "to take turns"
    )


def test_the_template_s_words_are_left_out_when_they_repeat_the_row(chat_tokenizer):
    template = "{{ raise_exception('cannot say ' ~ messages[0]['content']) }}"
    tokenizer = type(chat_tokenizer)(tokenizer_object=chat_tokenizer.backend_tokenizer)
    tokenizer.chat_template = template

    error = failure(Tokens(tokenizer, 512), messages=[turn("user", "secret")])

    assert error.message == "the model's chat template refuses this chat"


def test_a_chat_of_nothing_is_an_error(chat):
    assert failure(chat, messages=[]).kind == "messages_empty"


def test_a_chat_for_a_base_model_is_an_error(base):
    assert failure(base, messages=[turn("user", "x")]).kind == "messages_invalid"


def test_text_that_is_no_text_is_an_error(chat):
    error = failure(chat, prompt="half a pair: \ud800")

    assert error.kind == "prompt_invalid"
    assert "half" not in error.message
