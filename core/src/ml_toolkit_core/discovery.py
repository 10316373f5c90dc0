"""Plugins by entry point: listed from metadata, imported one by one when used."""

import functools
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from ml_toolkit_core.errors import (
    BackendLoadError,
    PluginError,
    RequestError,
    did_you_mean,
)

BACKENDS: Final = "ml_toolkit.backends"
EXECUTORS: Final = "ml_toolkit.executors"
CATALOGS: Final = "ml_toolkit.catalogs"

_NOUN: Final = {BACKENDS: "compute_type", EXECUTORS: "executor", CATALOGS: "catalog"}


def found(group: str) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name, reading metadata only."""
    return dict(_found(group, tuple(map(_seen, sys.path))))


def _seen(folder: str) -> tuple[str, int]:
    """Return what changes when a distribution comes or goes."""
    try:
        return folder, Path(folder).stat().st_mtime_ns
    except OSError:  # entries of sys.path need not be there
        return folder, 0


# Reads a file of every distribution, and one call asks several times.
@functools.lru_cache(maxsize=8)
def _found(
    group: str, _folders: tuple[tuple[str, int], ...]
) -> dict[str, tuple[EntryPoint, ...]]:
    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=group):
        same = by_name.get(point.name, ())
        # An editable install can show the same distribution twice.
        if all(_said(point) != _said(other) for other in same):
            by_name[point.name] = (*same, point)
    return dict(sorted(by_name.items()))


def load(group: str, name: str) -> Any:
    """Import the one plugin that claims ``name``.

    Raises:
        RequestError: When nobody claims it, with the names that are there.
        PluginError: When two distributions claim it.
        BackendLoadError: When it cannot be imported; the cause is chained.
    """
    names = found(group)
    if name not in names:
        raise RequestError(
            f"{_NOUN[group]}={name!r} is not installed here."
            f"{did_you_mean(name, names)} Installed: "
            f"{', '.join(map(repr, names)) or 'none'}"
        )
    points = names[name]
    if len(points) > 1:
        raise PluginError(
            f"{_NOUN[group]} {name!r} is claimed by {sentence(points)}; uninstall one"
        )
    try:
        return points[0].load()
    except (Exception, SystemExit) as error:
        raise BackendLoadError(
            f"{_NOUN[group]} {name!r} ({sentence(points)}) cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error


def _said(point: EntryPoint) -> tuple[str, str]:
    return (point.value, point.dist.name if point.dist else "")


def sentence(points: Sequence[EntryPoint]) -> str:
    """Name entry points with the distributions that bring them."""
    return " and ".join(
        f"{value!r} of {dist or 'an unnamed distribution'}"
        for value, dist in sorted(map(_said, points), key=itemgetter(1))
    )
