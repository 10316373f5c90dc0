"""The wheels, as somebody installs them who never saw the checkout."""

import email
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from deltalake import DeltaTable
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
HOUSE = {
    "ml_toolkit_core": "core",
    "ml_toolkit_anyscale": "plugins/anyscale",
    "ml_toolkit_databricks": "plugins/databricks",
    "ml_toolkit_inference": "entrypoints",
}
WHEELS = pytest.mark.parametrize("name", HOUSE)


def run(*command, **how):
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        **how,
    )


def build(folder, *kinds):
    """Build all four distributions with the tools that are here; asks no index."""
    done = run(
        *(UV, "build", "--all-packages", "--no-build-isolation", "--offline", *kinds),
        *("--python", sys.executable, "--out-dir", folder, ROOT),
    )
    assert done.returncode == 0, done.stderr
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    return build(tmp_path_factory.mktemp("wheels"), "--wheel")


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def entry_points(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        return set(archive.read(name).decode().split("\n")) - {""}


def needs(message, extras=()):
    """Give what a distribution asks for, without or with some of its extras."""
    for text in message.get_all("Requires-Dist") or ():
        asked = Requirement(text)
        if asked.marker is None or any(
            asked.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield asked


def others(wheels):
    """Give the packages of other people that the four wheels ask for, and theirs."""
    messages = {wheel.replace("_", "-"): metadata(wheels[wheel]) for wheel in wheels}
    asked = [Requirement("ml-toolkit-inference")]
    seen = set()
    while asked:
        one = asked.pop()
        key = (one.name.lower(), *sorted(one.extras))
        if key in seen:
            continue
        seen.add(key)
        ours = messages.get(one.name)
        message = ours or distribution(one.name).metadata
        asked += needs(message, one.extras)
        if ours is None:
            yield distribution(one.name)


@pytest.fixture(scope="module")
def installed(wheels, tmp_path_factory):
    """Install the four wheels, and only what they ask for, far from the checkout."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    made = run(sys.executable, "-m", "venv", "--without-pip", folder)
    assert made.returncode == 0, made.stderr
    place = {"base": str(folder), "platbase": str(folder)}
    there = Path(sysconfig.get_path("purelib", vars=place))
    for found in others(wheels):
        for top in {str(file).split("/")[0] for file in found.files} - {"..", ""}:
            if not (there / top).exists() and top != "__pycache__":
                (there / top).symlink_to(found.locate_file(top))
    done = run(
        *(UV, "pip", "install", "--offline", "--no-deps"),
        *("--python", folder / "bin/python", *wheels.values()),
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def there(installed, tmp_path):
    """Return a function that runs a command of that environment, and only of it."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()

    def command(name, *arguments):
        environment = {
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "ML_TOOLKIT_HOME": str(tmp_path / "home"),
        }
        return run(installed / "bin" / name, *arguments, cwd=cwd, env=environment)

    return command


@WHEELS
def test_a_wheel_says_what_it_is(wheels, name):
    message = metadata(wheels[name])

    assert message["Version"] == "0.1.0"
    assert message["Requires-Python"] == ">=3.11"
    assert message["License-Expression"] == "Apache-2.0"
    assert message["Description-Content-Type"] == "text/markdown"
    assert message.get_payload().startswith(f"# {message['Name']}\n")
    assert "Typing :: Typed" in message.get_all("Classifier")


@WHEELS
def test_a_wheel_holds_every_file_of_its_source_the_licence_and_no_more(wheels, name):
    source = ROOT / HOUSE[name] / "src"
    sources = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    with zipfile.ZipFile(wheels[name]) as archive:
        info = f"{name}-0.1.0.dist-info"
        licence = archive.read(f"{info}/licenses/LICENSE")
        files = {n for n in archive.namelist() if not n.startswith(info)}

    assert licence == (ROOT / "LICENSE").read_bytes()
    assert files == sources
    assert any(file.endswith("/py.typed") for file in files)


def test_the_core_alone_asks_for_attrs_and_pluggy_only(wheels):
    asked = {one.name for one in needs(metadata(wheels["ml_toolkit_core"]))}

    assert asked == {"attrs", "pluggy"}


def test_the_distributions_ask_for_each_other_in_their_own_version(wheels):
    asked = {
        (one.name, str(one.specifier))
        for wheel in wheels.values()
        for one in needs(metadata(wheel))
        if one.name.startswith("ml-toolkit")
    }

    assert asked == {
        ("ml-toolkit-core", "==0.1.0"),
        ("ml-toolkit-anyscale", "==0.1.0"),
        ("ml-toolkit-databricks", "==0.1.0"),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "ml_toolkit_core",
            {
                "[ml_toolkit.backends]",
                "local = ml_toolkit_core.local",
                "[ml_toolkit.catalogs]",
                "local = ml_toolkit_core.warehouse",
                "[ml_toolkit.executors]",
                "scripted = ml_toolkit_core.testing.scripted",
            },
        ),
        (
            "ml_toolkit_anyscale",
            {
                "[ml_toolkit.backends]",
                "anyscale = ml_toolkit_anyscale.backend",
                "[ml_toolkit.executors]",
                "ray-vllm = ml_toolkit_anyscale.executor",
            },
        ),
        (
            "ml_toolkit_databricks",
            {
                "[ml_toolkit.backends]",
                "databricks = ml_toolkit_databricks.backend",
            },
        ),
        (
            "ml_toolkit_inference",
            {
                "[console_scripts]",
                "ml-toolkit = ml_toolkit.functions.llm.inference._cli:main",
            },
        ),
    ],
)
def test_a_wheel_has_its_entry_points(wheels, name, expected):
    assert entry_points(wheels[name]) == expected


def test_a_wheel_out_of_the_source_archive_is_the_same(wheels, tmp_path):
    again = build(tmp_path, "--sdist", "--wheel")

    assert len(list(tmp_path.glob("*.tar.gz"))) == len(HOUSE)
    assert {name: path.read_bytes() for name, path in again.items()} == {
        name: path.read_bytes() for name, path in wheels.items()
    }


def test_what_is_imported_comes_from_the_wheels_and_their_needs(installed, there):
    script = (
        "import json, sys\n"
        "import ml_toolkit.functions.llm.inference\n"
        "import ml_toolkit_core.tables, ml_toolkit_core.pipeline\n"
        "import ml_toolkit_core.planning\n"
        "ours = [m for n, m in sys.modules.items() if n.startswith('ml_toolkit')]\n"
        "print(json.dumps([m.__file__ for m in ours if m.__file__]))\n"
        "print(ml_toolkit.functions.llm.__file__)\n"
    )

    done = there("python", "-P", "-c", script)

    assert done.returncode == 0, done.stderr
    files, namespace = done.stdout.splitlines()
    assert [f for f in json.loads(files) if not f.startswith(str(installed))] == []
    assert namespace == "None"


def test_backends_of_the_wheels_are_found(there):
    done = there("ml-toolkit", "backends", "--json")

    assert json.loads(done.stdout) == {
        "anyscale": ["ml-toolkit-anyscale 0.1.0"],
        "databricks": ["ml-toolkit-databricks 0.1.0"],
        "local": ["ml-toolkit-core 0.1.0"],
    }


@pytest.mark.parametrize("kind", ["delta", "jsonl"])
def test_a_run_of_the_wheels_answers_every_row(
    there, jsonl, tmp_path, read_parts, kind
):
    source = jsonl([{"prompt": f"question {i}"} for i in range(3)])

    done = there(
        *("ml-toolkit", "run", source, "stub/any", tmp_path / "out"),
        *("--executor", "scripted", "--output-format", kind),
    )

    assert done.returncode == 0, done.stderr
    if kind == "delta":
        rows = DeltaTable(tmp_path / "out").to_pyarrow_table().to_pylist()
    else:
        rows = read_parts(tmp_path / "out")
    assert {row["prompt"] for row in rows} == {f"question {i}" for i in range(3)}
    assert all(row["generated_text"] for row in rows)


def test_a_plan_of_the_wheels_knows_the_scheduler_of_anyscale(there, jsonl, tmp_path):
    done = there(
        *("ml-toolkit", "plan", jsonl([{"prompt": "one"}]), "stub/any"),
        *(tmp_path / "out", "--executor", "scripted", "--compute-type", "anyscale"),
        *("--gpu-type", "h100", "--num-gpus", "16"),
    )

    assert done.returncode == 0, done.stderr
    assert "h100-two-nodes" in done.stdout
