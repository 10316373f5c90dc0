"""The real model and the real table of the quickstart, made once for all tests."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def quickstart():
    """Return the quickstart as a module, with its table and model in place."""
    path = Path(__file__).parents[2] / "docs" / "quickstart.py"
    spec = importlib.util.spec_from_file_location("quickstart", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.HERE.mkdir(exist_ok=True)
    module.make_table()
    module.fetch_model()
    return module


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(shared_home, monkeypatch):
    """Share one home, so that the model is converted once."""
    monkeypatch.setenv("ML_TOOLKIT_HOME", str(shared_home))
    return shared_home
