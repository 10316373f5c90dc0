"""Each import contract is red on a planted breach: a rule that cannot fail is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "ml_toolkit_core": "core/src",
    "ml_toolkit_anyscale": "plugins/anyscale/src",
    "ml_toolkit_databricks": "plugins/databricks/src",
    "ml_toolkit": "entrypoints/src",
}


@pytest.fixture
def house(tmp_path):
    """Copy the sources into one folder, beside the contracts."""
    for package, source in SOURCES.items():
        shutil.copytree(ROOT / source / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house):
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "breach", "contract"),
    [
        ("ml_toolkit_core/order.py", "import ml_toolkit_anyscale", "The facade knows"),
        (
            "ml_toolkit_databricks/backend.py",
            "import ml_toolkit_anyscale",
            "The facade knows",
        ),
        ("ml_toolkit_core/dispatch.py", "import pyarrow", "The base of the core"),
        ("ml_toolkit_core/planning/cover.py", "import highspy", "Planning is pure"),
        ("ml_toolkit_core/pipeline/driver.py", "import ray", "Tables and the pipeline"),
        (
            "ml_toolkit_anyscale/executor/checks.py",
            "import ml_toolkit_anyscale.catalog",
            "The executor reaches",
        ),
        ("ml_toolkit_anyscale/catalog.py", "import anyscale", "Catalog and routing"),
        ("ml_toolkit_anyscale/backend.py", "import anyscale", "One module imports"),
    ],
)
def test_a_planted_breach_breaks_its_contract(house, module, breach, contract):
    path = house / module
    path.write_text(f"{path.read_text()}\n{breach}\n")

    done = lint(house)

    assert done.returncode == 1
    broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert any(line.startswith(contract) for line in broken)


def test_the_house_as_it_is_keeps_all_contracts(house):
    assert lint(house).returncode == 0
