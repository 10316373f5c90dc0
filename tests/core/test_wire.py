import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import (
    Column,
    FilePin,
    InputPin,
    JobState,
    JobStatus,
    Progress,
    Prompts,
)
from ml_toolkit_core.wire import from_json, frozen_json, to_json

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(json_values)
def test_plain_json_is_taken_as_it_is(value):
    assert frozen_json(value) == value


@given(
    st.builds(
        JobStatus,
        state=st.sampled_from(JobState),
        attempt=st.integers(1, 9),
        message=st.text(),
        progress=st.none() | st.builds(Progress, rows=st.integers(0, 10**12)),
    )
)
def test_a_status_comes_back_from_json_as_it_was(status):
    assert from_json(JobStatus, to_json(status)) == status


def test_nested_tuples_of_values_come_back_as_they_were():
    pin = InputPin(
        version=3,
        files=(FilePin(path="a.parquet", rows=2, bytes=9, etag="1"),),
        columns=(Column(name="prompt", type="string"),),
        arrow_schema="eA==",
        notes=("one",),
    )

    assert from_json(InputPin, to_json(pin)) == pin


def test_a_key_of_a_newer_minor_version_is_left_out():
    data = to_json(Prompts(prompt_column="q")) | {"later": 1}

    assert from_json(Prompts, data) == Prompts(prompt_column="q")


def test_a_missing_key_is_a_request_error_that_names_the_type():
    with pytest.raises(RequestError, match="not a InputPin"):
        from_json(InputPin, {})


def test_numpy_numbers_become_plain_ones():
    given_params = {"seed": np.int64(7), "stop": np.array(["a", "b"])}

    plain = frozen_json(given_params)

    assert plain == {"seed": 7, "stop": ["a", "b"]}
    assert type(plain["seed"]) is int


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, object(), {1: 2}, {"a": {"b": set()}}]
)
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(RequestError):
        frozen_json(value)


def test_the_refusal_names_the_key():
    with pytest.raises(RequestError, match=r"\['a'\]\[1\]"):
        frozen_json({"a": [1, object()]})
