"""JSON in and out of our frozen values: the only form that crosses a wire."""

import enum
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin

import attrs

from ml_toolkit_core.errors import RequestError

Json: TypeAlias = Any  # recursive in truth: None, bool, int, float, str, list, dict
T = TypeVar("T")


def frozen_json(value: object, path: str = "") -> Json:
    """Return a deep copy of ``value`` made of plain JSON types.

    NumPy scalars and arrays become plain numbers and lists; tuples become lists.

    Raises:
        RequestError: For anything that JSON cannot say, naming the key.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return _plain_scalar(value, path)
    if isinstance(value, Mapping):
        return {
            _plain_key(key, path): frozen_json(item, f"{path}[{key!r}]")
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [frozen_json(v, f"{path}[{i}]") for i, v in enumerate(value)]
    if hasattr(value, "tolist"):  # NumPy, without importing it
        return frozen_json(value.tolist(), path)
    raise RequestError(
        f"{path or 'value'}: {value!r} is a {type(value).__name__}, which cannot be "
        "sent as JSON; use text, numbers, lists and dicts"
    )


def _plain_scalar(value: object, path: str) -> Json:
    if isinstance(value, float) and not math.isfinite(value):
        raise RequestError(f"{path or 'value'}: {value!r} cannot be sent as JSON")
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    return value


def _plain_key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise RequestError(f"{path or 'value'}: the key {key!r} must be text")
    return str(key)


def to_json(value: Any) -> Json:
    """Turn a frozen value into plain JSON types."""
    if attrs.has(type(value)):
        return {
            f.name: to_json(getattr(value, f.name))
            for f in attrs.fields(type(value))
            if f.init
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(item) for item in value]
    return value


def from_json(cls: type[T], data: Json) -> T:
    """Build a frozen value from what :func:`to_json` made of it.

    A key that ``cls`` does not know is left out: minor versions may add fields.

    Raises:
        RequestError: When the data cannot be such a value.
    """
    try:
        built: T = _build(cls, data)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RequestError(f"not a {cls.__name__}: {error}") from error
    return built


def _build(kind: Any, data: Json) -> Any:  # noqa: PLR0911
    if kind is Any:
        return data
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if data is None:
            return None
        return _build(next(arg for arg in args if arg is not type(None)), data)
    if origin is tuple:
        return tuple(_build(args[0], item) for item in data)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _build(args[1], item) for key, item in data.items()}
    if attrs.has(kind):
        hints = typing.get_type_hints(kind)
        known = {f.name for f in attrs.fields(kind) if f.init}
        return kind(
            **{key: _build(hints[key], v) for key, v in data.items() if key in known}
        )
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    return data
