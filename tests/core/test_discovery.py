import subprocess
import sys

import pytest

from ml_toolkit_core import discovery
from ml_toolkit_core.dispatch import load_executor
from ml_toolkit_core.errors import BackendLoadError, PluginError


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Make distributions with entry points, as installing one would leave them."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name, entry_points, modules):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(entry_points)
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text)

    return make


@pytest.mark.parametrize(
    "source", ["import a_module_that_is_not_there", "raise SystemExit(3)", "1/0"]
)
def test_a_plugin_that_cannot_be_imported_breaks_nothing_but_itself(
    distribution, source
):
    distribution(
        "broken", "[ml_toolkit.backends]\nbad = bad_mod\n", {"bad_mod": source}
    )

    assert {"bad", "local"} <= set(discovery.found(discovery.BACKENDS))
    with pytest.raises(BackendLoadError, match="'bad_mod' of broken") as caught:
        discovery.load(discovery.BACKENDS, "bad")
    assert caught.value.__cause__ is not None
    sys.modules.pop("bad_mod", None)


def test_a_distribution_that_comes_later_is_found(distribution):
    assert "late" not in discovery.found(discovery.BACKENDS)

    distribution("later", "[ml_toolkit.backends]\nlate = late_mod\n", {})

    assert "late" in discovery.found(discovery.BACKENDS)


def test_two_distributions_with_one_name_are_both_named(distribution):
    distribution("one", "[ml_toolkit.backends]\ntwice = mod_one\n", {})
    distribution("two", "[ml_toolkit.backends]\ntwice = mod_two\n", {})

    with pytest.raises(PluginError, match="of one and .* of two"):
        discovery.load(discovery.BACKENDS, "twice")


def test_the_facade_loads_nothing_but_the_standard_library_attrs_pluggy_and_us():
    script = (
        "import sys; before = set(sys.modules)\n"
        "import ml_toolkit.functions.llm.inference\n"
        "roots = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(roots - set(sys.stdlib_module_names)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == str(
        [
            "attr",
            "attrs",
            "ml_toolkit",
            "ml_toolkit_anyscale",
            "ml_toolkit_core",
            "pluggy",
        ]
    )


@pytest.mark.parametrize(
    ("module", "missing"),
    [
        ("def check(order): ...\ndef execute(order): ...\n", "NEEDS"),
        ("NEEDS = {}\ndef check(order): ...\nexecute = 5\n", "execute"),
    ],
)
def test_an_executor_that_does_not_keep_its_contract_is_refused(
    distribution, module, missing
):
    distribution(
        "needy", "[ml_toolkit.executors]\nneedy = needy_mod\n", {"needy_mod": module}
    )

    with pytest.raises(PluginError, match=f"executor 'needy' has no {missing}; see"):
        load_executor("needy")
    sys.modules.pop("needy_mod", None)
