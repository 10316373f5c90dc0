"""What makes two calls the same run."""

import hashlib
import json
from collections.abc import Mapping

from ml_toolkit_core.values import InferenceRequest, InputPin, Pinned
from ml_toolkit_core.wire import Json, to_json


def identity(request: InferenceRequest, pinned: Pinned) -> dict[str, Json]:
    """Return the parts that must be equal for a run to go on."""
    return {
        "input_table": {
            "uri": pinned.source.uri,
            "version": pinned.pin.version,
            "content": digest(pinned.pin),
            "read_options": to_json(request.read_options),
        },
        "model": {"uri": pinned.model.uri, "revision": pinned.model.revision},
        "prompts": to_json(pinned.prompts),
        "sampling_params": to_json(request.sampling_params),
        "engine_kwargs": to_json(request.engine_kwargs),
        "limit": request.limit,
        "executor": request.executor,
        "output": {
            "uri": pinned.output.uri,
            "format": pinned.output.format,
            "column": request.output_column,
            "write_mode": request.write_mode.value,
        },
    }


def digest(pin: InputPin) -> str:
    """Return a short hash over the pinned files and columns."""
    text = json.dumps([to_json(pin.files), to_json(pin.columns)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(mine: Mapping[str, Json], theirs: Mapping[str, Json]) -> list[str]:
    """Name the parts in which two runs differ, with both values.

    >>> differences({"model": {"uri": "a"}}, {"model": {"uri": "b"}})
    ["model: {'uri': 'a'} here, {'uri': 'b'} there"]
    """
    return [
        f"{key}: {mine.get(key)!r} here, {theirs.get(key)!r} there"
        for key in sorted({*mine, *theirs})
        if mine.get(key) != theirs.get(key)
    ]
