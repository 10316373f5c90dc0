import dataclasses

import vllm

from ml_toolkit_anyscale.executor import names


def test_sampling_names_are_those_of_the_installed_vllm():
    internal = {"output_text_buffer_length"}
    installed = {
        name
        for name in vllm.SamplingParams.__struct_fields__
        if not name.startswith("_") and name not in internal
    }

    assert installed == names.SAMPLING


def test_engine_names_are_those_of_the_installed_vllm():
    installed = {
        field.name
        for field in dataclasses.fields(vllm.EngineArgs)
        if not field.name.startswith("_")
    }

    assert installed == names.ENGINE


def test_names_are_of_the_installed_version():
    assert vllm.__version__.partition("+")[0] == names.VLLM_VERSION


def test_refuses_only_names_that_vllm_knows():
    assert names.SAMPLING_REFUSED.keys() <= names.SAMPLING
    assert names.ENGINE_REFUSED.keys() <= names.ENGINE
