"""The real model and table of the quickstart, made once; a twin with real nodes."""

import importlib.util
from pathlib import Path

import pytest
from emulators.anyscale import TOKEN, Twin, build_image

from ml_toolkit_anyscale import sitefile

RULES = Path(sitefile.__file__).with_name("scheduler.yaml")


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


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """Return the ``PATH`` of an environment that holds nothing of ours."""
    return f"{build_image(tmp_path_factory.mktemp('image'))}:/usr/bin:/bin"


@pytest.fixture
def twin(image, tmp_path, monkeypatch):
    """Return a twin in which each job has a Ray cluster."""
    twin = Twin(tmp_path / "twin", image, rules=RULES, mode="nodes")
    twin.plane.image |= {
        "ML_TOOLKIT_CPU_ENGINE": "1",
        # What vLLM found out about its models, as a good image brings it along.
        "VLLM_CACHE_ROOT": str(Path.home() / ".cache" / "vllm"),
    }
    monkeypatch.setenv("ANYSCALE_HOST", twin.host)
    monkeypatch.setenv("ANYSCALE_CLI_TOKEN", TOKEN)
    monkeypatch.setenv("ML_TOOLKIT_ANYSCALE_IMAGE_URI", "registry.example.org/llm:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield twin
    twin.close()
