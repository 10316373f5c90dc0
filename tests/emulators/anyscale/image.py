"""A container image: Python and other people's packages, and nothing of ours."""

import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path


def build_image(folder):
    """Make an environment without any distribution of ours, and return its ``bin``.

    It holds a link to every package that is installed here, save those whose
    distribution is one of the house. Editable installs are ``.pth`` files and stay
    behind with them.
    """
    folder = Path(folder)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True
    )
    there = Path(
        sysconfig.get_path(
            "purelib", vars={"base": str(folder), "platbase": str(folder)}
        )
    )
    here = Path(sysconfig.get_path("purelib"))
    ours = {
        str(file).split("/")[0]
        for found in distributions()
        if found.name.startswith("ml-toolkit")
        for file in found.files or ()
    }
    for item in here.iterdir():
        if item.name not in ours and item.suffix != ".pth":
            (there / item.name).symlink_to(item)
    return folder / "bin"
