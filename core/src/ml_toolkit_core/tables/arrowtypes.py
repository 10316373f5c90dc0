"""Arrow types: names for annotations, families of types, and nested rebuilding."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import types

# The stubs make these generic, which they are not when the program runs.
Array: TypeAlias = "pa.Array[Any]"
ChunkedArray: TypeAlias = "pa.ChunkedArray[Any]"
Field: TypeAlias = "pa.Field[Any]"
AnyArray = TypeVar("AnyArray", bound=Any)
#: A ``pyarrow.DataType``; the stubs do not know what its subclasses have.
ArrowType: TypeAlias = Any


def is_text(kind: ArrowType) -> bool:
    """Whether a type is text of any layout."""
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    )


def is_bytes(kind: ArrowType) -> bool:
    """Whether a type is binary of any layout."""
    return (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def is_list(kind: ArrowType) -> bool:
    """Whether a type is a list of any layout."""
    return (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    )


def cast(array: AnyArray, kind: ArrowType) -> AnyArray:
    """Cast an array whose type is another one.

    Arrow fails on some that have it already, for example lists of nothing but nulls.
    """
    if array.type == kind:
        return array
    made: AnyArray = array.cast(kind)
    return made


def rebuilt(kind: ArrowType, form: Callable[[ArrowType], ArrowType]) -> ArrowType:
    """Apply ``form`` to the types just inside a nested type."""
    if types.is_map(kind):
        return pa.map_(form(kind.key_type), form(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([item.with_type(form(item.type)) for item in kind])
    if types.is_dictionary(kind):
        return form(kind.value_type)
    if not is_list(kind):
        return kind
    item = kind.value_field.with_type(form(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    return pa.large_list(item) if types.is_large_list(kind) else pa.list_(item)
