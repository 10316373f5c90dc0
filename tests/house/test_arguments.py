"""An argument that stands in several signatures has one default in all of them."""

import inspect

import attrs
import pytest

from ml_toolkit.functions.llm.inference import InferenceJob, run_inference
from ml_toolkit.functions.llm.inference._cli_jobs import wait
from ml_toolkit.functions.llm.inference._cli_run import run
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import InferenceRequest, Prompts


def of_function(function):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
    }


def of_value(kind):
    """Return the defaults of a value's fields; nothing at all is None."""
    found = {}
    for field in attrs.fields(kind):
        default = field.default
        if isinstance(default, attrs.Factory):
            default = default.factory() or None
        if default is not attrs.NOTHING:
            found[field.name] = default
    return found


DEFAULTS = of_function(run_inference)


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(of_value(InferenceRequest), id="InferenceRequest"),
        pytest.param(of_value(Prompts), id="Prompts"),
        pytest.param(of_value(WorkOrder), id="WorkOrder"),
        pytest.param(of_function(run), id="ml-toolkit run"),
        pytest.param(of_function(wait), id="ml-toolkit wait"),
        pytest.param(of_function(InferenceJob.wait), id="InferenceJob.wait"),
    ],
)
def test_a_default_is_the_same_wherever_it_stands(where):
    # A flag has no None; progress means the same by None and True.
    shared = (where.keys() & DEFAULTS.keys()) - {"progress"}

    assert shared
    assert {name: where[name] for name in shared} == {
        name: DEFAULTS[name] for name in shared
    }
