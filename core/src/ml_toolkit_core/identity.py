"""What makes two calls the same run."""

import hashlib
import json
from collections.abc import Mapping

from ml_toolkit_core.values import InputPin
from ml_toolkit_core.wire import Json, to_json


def digest(pin: InputPin) -> str:
    """Return a short hash over the pinned files and columns."""
    text = json.dumps([to_json(pin.files), to_json(pin.columns)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(mine: Mapping[str, Json], theirs: Mapping[str, Json]) -> list[str]:
    """Name the parts in which two runs differ, with both values.

    >>> differences({"model": {"uri": "a"}}, {"model": {"uri": "b"}})
    ["model uri: 'a' here, 'b' there"]
    """
    faults = []
    for key in sorted({*mine, *theirs}):
        here, there = mine.get(key), theirs.get(key)
        if here == there:
            continue
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            faults += [f"{key} {fault}" for fault in differences(here, there)]
        else:
            faults.append(f"{key}: {here!r} here, {there!r} there")
    return faults
