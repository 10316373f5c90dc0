"""What the facade shows is what it lists, and modules stay small."""

import inspect
import types
from pathlib import Path

import pytest

from ml_toolkit.functions.llm import inference
from ml_toolkit_core import errors
from ml_toolkit_core.hookspecs import BackendHooks

ROOT = Path(__file__).parents[2]


def test_the_public_surface_is_exactly_all():
    shown = {
        name
        for name, value in vars(inference).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert shown == set(inference.__all__)
    assert inference.__all__ == sorted(inference.__all__)


def test_the_page_of_the_api_names_all():
    page = (ROOT / "docs/api.rst").read_text(encoding="utf-8")
    others = [name for name in inference.__all__ if not hasattr(errors, name)]

    assert [name for name in others if name not in page] == []


def test_every_hook_says_what_it_is_asked():
    hooks = [
        h for name, h in vars(BackendHooks).items() if hasattr(h, "ml_toolkit_spec")
    ]

    assert len(hooks) == 8
    assert all(inspect.getdoc(hook) for hook in hooks)


@pytest.mark.parametrize("namespace", ["", "functions", "functions/llm"])
def test_shared_levels_of_the_namespace_have_no_init(namespace):
    folder = ROOT / "entrypoints/src/ml_toolkit" / namespace

    assert not (folder / "__init__.py").exists()


def test_no_module_is_longer_than_300_lines():
    sources = [*ROOT.glob("*/src/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 300
    }

    assert long == {}
