"""Every ``code-block:: python`` of these pages runs, page by page, in a folder."""

import json
import os
import tempfile
from pathlib import Path

import deltalake
import pyarrow as pa
from emulators.anyscale import TOKEN, Twin
from sybil import Sybil
from sybil.parsers.rest import PythonCodeBlockParser
from sybil.sybil import SybilCollection


def in_a_folder(namespace):
    """Run a page in a folder of its own, with the table that pages speak of."""
    folder = tempfile.TemporaryDirectory()
    namespace["_before"] = (folder, Path.cwd(), os.environ.get("ML_TOOLKIT_HOME"))
    os.chdir(folder.name)
    os.environ["ML_TOOLKIT_HOME"] = f"{folder.name}/home"
    Path("countries.jsonl").write_text(
        "".join(json.dumps({"name": n}) + "\n" for n in ("France", "Japan")),
        encoding="utf-8",
    )


def and_back(namespace):
    """Leave the folder."""
    folder, before, home = namespace["_before"]
    os.chdir(before)
    if home is None:
        del os.environ["ML_TOOLKIT_HOME"]
    else:
        os.environ["ML_TOOLKIT_HOME"] = home
    folder.cleanup()


def with_anyscale(namespace):
    """Likewise, with a twin of Anyscale in which every job succeeds at once."""
    in_a_folder(namespace)
    model = Path("home/warehouse/cat/sch/model")
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    rows = pa.table({"prompt": ["What is the capital of France?"]})
    deltalake.write_deltalake("home/warehouse/cat/sch/input", rows)
    twin = namespace["twin"] = Twin(Path("twin"), os.environ["PATH"], mode="pretend")
    ours = {
        "ANYSCALE_HOST": twin.host,
        "ANYSCALE_CLI_TOKEN": TOKEN,
        "ML_TOOLKIT_ANYSCALE_IMAGE_URI": "registry.example.org/llm:7",
        "NO_PROXY": "127.0.0.1",
    }
    namespace["_environment"] = {name: os.environ.get(name) for name in ours}
    os.environ |= ours


def without_anyscale(namespace):
    """End the twin."""
    namespace["twin"].close()
    for name, value in namespace["_environment"].items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    and_back(namespace)


ANYSCALE = "anyscale-inference.rst"
pytest_collect_file = SybilCollection(
    [
        Sybil(
            parsers=[PythonCodeBlockParser()],
            patterns=["*.rst"],
            excludes=["changelog/*", ANYSCALE],
            setup=in_a_folder,
            teardown=and_back,
        ),
        Sybil(
            parsers=[PythonCodeBlockParser()],
            patterns=[ANYSCALE],
            setup=with_anyscale,
            teardown=without_anyscale,
        ),
    ]
).pytest()
