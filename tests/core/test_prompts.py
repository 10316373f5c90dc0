import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.prompts import Prompter, chat, fill, pieces, question
from ml_toolkit_core.references import template_fields
from ml_toolkit_core.tables.parts import RowError
from ml_toolkit_core.values import (
    InputPin,
    ModelKind,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableLocation,
)

CHAT = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "prompt_null"),
        ("", "prompt_empty"),
        (" \n\t", "prompt_empty"),
        (7, "prompt_wrong_type"),
        (["hello"], "prompt_wrong_type"),
        ({"a": 1}, "prompt_wrong_type"),
    ],
)
def test_a_prompt_that_cannot_be_asked_is_a_row_error_naming_the_column(value, kind):
    with pytest.raises(RowError, match="column 'q'") as caught:
        question(value, "q")

    assert caught.value.kind == kind


@given(st.text().filter(str.strip))
def test_any_other_text_is_asked_as_it_is(text):
    assert question(text, "q") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (0.5, "0.5"),
        (True, "true"),
        (dt.date(2026, 11, 30), "2026-11-30"),
        ([1, "é"], '[1, "é"]'),
    ],
)
def test_a_template_says_other_values_as_text(value, text):
    assert fill(pieces("<{a}>"), {"a": [value]}, 0) == f"<{text}>"


def test_times_are_said_to_the_microsecond():
    moment = pa.timestamp("ns", "Europe/Paris")
    schema = pa.schema(
        [
            ("at", moment),
            ("t", pa.time64("ns")),
            ("l", pa.list_(pa.struct([("x", pa.timestamp("ns"))]))),
        ]
    )
    rows = [{"at": 1_600_000_000_123_456_789, "t": 1_001, "l": [{"x": 1}]}]
    made = prompter(rows, schema, prompt_template="{at} {t}")

    assert made.request(0).prompt == (
        "2020-09-13T14:26:40.123456+02:00 00:00:00.000001"
    )
    with pytest.raises(RowError, match="prompt_wrong_type: column 'l'"):
        prompter(rows, schema, prompt_template="{l}").request(0)


@given(st.text())
def test_braces_in_the_data_are_data(text):
    assert fill(pieces("{{x}} {a} {a}"), {"a": [text]}, 0) == f"{{x}} {text} {text}"


def test_a_null_field_of_a_template_is_a_row_error():
    with pytest.raises(RowError, match="column 'a' of the template is null"):
        fill(pieces("{a}"), {"a": [None]}, 0)


@pytest.mark.parametrize("value", [CHAT, json.dumps(CHAT)])
def test_a_chat_is_the_same_as_list_and_as_json_text(value):
    assert chat(value, "m") == CHAT


def test_nulls_that_arrow_filled_in_are_not_part_of_a_chat():
    filled = [{"role": "user", "content": "u", "name": None, "tool_calls": None}]

    assert chat(filled, "m") == [{"role": "user", "content": "u"}]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "messages_null: column 'm' is null"),
        ("", "messages_empty: column 'm' is empty text"),
        ("[]", "messages_empty: column 'm' is an empty list"),
        ("hello", "messages_invalid: column 'm' is text but not JSON"),
        (json.dumps(json.dumps(CHAT)), "messages_invalid: .*inside JSON text"),
        ({"role": "user"}, "messages_invalid: column 'm' holds an object"),
        (["hi"], "messages_invalid: message 0 of column 'm' is text"),
        ([{"content": "x"}], "messages_invalid: message 0 of column 'm' has no role"),
        (
            [{"role": "user"}],
            "messages_invalid: message 0 of column 'm' has no content",
        ),
    ],
)
def test_what_is_no_chat_is_a_row_error_with_the_reason(value, reason):
    with pytest.raises(RowError, match=reason):
        chat(value, "m")


def test_fields_of_a_template_are_columns_and_nothing_else():
    assert template_fields("{name} {{no}} {a.b} {name}") == ("name", "a.b")


@pytest.mark.parametrize("template", ["{", "{}", "{a!r}", "{a:>5}", "no field"])
def test_a_template_that_is_none_is_refused(template):
    with pytest.raises(RequestError, match="prompt_template="):
        template_fields(template)


def prompter(rows, schema=None, **prompts):
    """Make a prompter over a few rows."""
    order = WorkOrder(
        run_id="r",
        executor="scripted",
        source=TableLocation(name="in", uri="in"),
        pin=InputPin(arrow_schema=""),
        model=ModelLocation(name="m", uri="m", kind=ModelKind.HUB),
        output=TableLocation(name="out", uri="out"),
        prompts=Prompts(**prompts),
        sampling_params={"max_tokens": 9, "temperature": 1.0},
        plan=ReplicaPlan(replicas=1),
        split_rows=8,
        ledger_uri="led",
    )
    return Prompter(order, pa.RecordBatch.from_pylist(rows, schema=schema))


def test_each_row_brings_its_own_tools_and_parameters_without_arrows_nulls():
    # Arrow makes one struct of all rows: the keys of others are filled up with null.
    rows = [
        {"prompt": "a", "t": [{"f": {"x": 1}}], "p": {"max_tokens": 8}},
        {"prompt": "b", "t": [{"f": {"y": 2}}], "p": {"temperature": 0.0, "stop": []}},
        {"prompt": "c", "t": None, "p": None},
    ]

    made = prompter(
        rows, prompt_column="prompt", tools_column="t", sampling_params_column="p"
    )

    requests = [made.request(row) for row in range(3)]
    assert [r.tools for r in requests] == [[{"f": {"x": 1}}], [{"f": {"y": 2}}], None]
    assert [r.sampling_params for r in requests] == [
        {"max_tokens": 8, "temperature": 1.0},
        {"max_tokens": 9, "temperature": 0.0, "stop": []},
        {"max_tokens": 9, "temperature": 1.0},
    ]
    assert requests[0].messages == [{"role": "user", "content": "a"}]
    assert requests[2].prompt == "c"


@pytest.mark.parametrize("value", ["{", '"{}"', "[1]"])
def test_parameters_that_are_no_object_are_a_row_error(value):
    rows = [{"prompt": "a", "p": value}]
    made = prompter(rows, prompt_column="prompt", sampling_params_column="p")

    with pytest.raises(RowError, match="sampling_params_invalid: column 'p'"):
        made.request(0)


def test_a_system_prompt_stands_before_a_chat_that_brings_none():
    rows = [{"m": CHAT}, {"m": CHAT[1:]}]
    made = prompter(rows, messages_column="m", system_prompt="mine")

    assert made.request(0).messages[0]["content"] == "s"
    assert made.request(1).messages[0] == {"role": "system", "content": "mine"}
