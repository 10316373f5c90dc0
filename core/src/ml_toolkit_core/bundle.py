"""Our own packages and the order, as one clean folder for a far side.

On the far side that folder is the working directory and on ``PYTHONPATH``; nothing is
built or installed there. Other people's packages (attrs, pyarrow, an engine) must be
in the far side's image.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Final

from ml_toolkit_core import discovery
from ml_toolkit_core.errors import PluginError
from ml_toolkit_core.order import WorkOrder

#: The order's file in the folder.
ORDER: Final = "order.json"
#: What a far side runs, in the folder.
COMMAND: Final = f"python -m ml_toolkit_core.worker {ORDER}"

_CORE: Final = "ml-toolkit-core"
#: All that an importer of entry points reads; paths of this machine stay here.
_METADATA: Final = ("METADATA", "entry_points.txt")
#: The earliest time that a zip file can say: the same content is the same zip.
_TIME: Final = 315_532_800
_LEFT_OUT: Final = ("__pycache__", "*.pyc", "*.pyo", ".env", ".*")


def bundle(order: WorkOrder, folder: Path) -> tuple[str, ...]:
    """Write into ``folder`` what the order's far side needs of ours.

    These are the core, the distribution of the executor, and those of the catalogs
    that the order names, each with the part of its ``.dist-info`` that makes entry
    points work. All times and modes are fixed.

    Args:
        order: What is to run there.
        folder: Does not exist yet, or is empty.

    Returns:
        The names of the distributions.

    Raises:
        PluginError: When a distribution's files cannot be found here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise PluginError(f"bundle: {str(folder)!r} is not empty")
    names = tuple(sorted(_needed(order)))
    for name in names:
        _copy(_find(name), folder)
    (folder / ORDER).write_text(order.dumps(), encoding="utf-8")
    _fix(folder)
    return names


def _needed(order: WorkOrder) -> Iterator[str]:
    yield _CORE
    places = (order.source.catalog, order.output.catalog, order.model.catalog)
    wanted = {
        (discovery.EXECUTORS, order.executor),
        *((discovery.CATALOGS, name) for name in places if name is not None),
    }
    for group, name in sorted(wanted):
        for point in discovery.found(group).get(name, ()):
            if point.dist is not None and point.dist.name != _CORE:
                yield point.dist.name


def _find(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise PluginError(
            f"bundle: distribution {name!r} is not installed here, so it cannot be "
            "sent to the far side"
        ) from error


def _copy(found: Distribution, folder: Path) -> None:
    """Copy a distribution's modules, and so much of its metadata as is read."""
    files = [PurePosixPath(str(file)) for file in found.files or ()]
    modules = [file for file in files if _is_module(file)]
    if modules:
        for file in modules:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(found.locate_file(file)), target)
    else:
        for source in _packages(found, files):
            if source.is_dir():
                ignored = shutil.ignore_patterns(*_LEFT_OUT)
                shutil.copytree(source, folder / source.name, ignore=ignored)
            else:
                shutil.copyfile(source, folder / source.name)
    stem = found.name.replace("-", "_")
    metadata = folder / f"{stem}-{found.version}.dist-info"
    metadata.mkdir()
    for name in _METADATA:
        text = found.read_text(name)
        if text is not None:
            (metadata / name).write_text(text, encoding="utf-8")


def _is_module(file: PurePosixPath) -> bool:
    own = file.parts[0].endswith((".dist-info", ".egg-info", ".pth", ".data"))
    compiled = "__pycache__" in file.parts or file.suffix in {".pyc", ".pyo"}
    hidden = any(part.startswith(".") for part in file.parts)
    loader = file.name.startswith("__editable__")
    return not (own or compiled or hidden or loader)


def _packages(found: Distribution, files: Iterable[PurePosixPath]) -> list[Path]:
    """Return the packages of an editable install that its entry points name.

    Its ``.pth`` names a folder; what else lies there is nobody's business.
    """
    lines = [
        Path(line.strip())
        for file in files
        if file.suffix == ".pth"
        for line in Path(str(found.locate_file(file))).read_text("utf-8").splitlines()
    ]
    tops = {point.module.partition(".")[0] for point in found.entry_points}
    places = [
        place
        for root in lines
        for top in sorted(tops)
        for place in (root / top, root / f"{top}.py")
        if place.exists()
    ]
    if not places:
        raise PluginError(
            f"bundle: distribution {found.name!r} is installed in a way that does not "
            "show its files; install it as a wheel, or as editable with a src/ folder"
        )
    return places


def _fix(folder: Path) -> None:
    """Give everything the same time and mode, so that equal content is equal bytes."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (_TIME, _TIME))
