"""Every ``code-block:: python`` of these pages runs, page by page, in a folder."""

import json
import os
import tempfile
from pathlib import Path

from sybil import Sybil
from sybil.parsers.rest import PythonCodeBlockParser


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


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()],
    patterns=["*.rst"],
    excludes=["changelog/*"],
    setup=in_a_folder,
    teardown=and_back,
).pytest()
