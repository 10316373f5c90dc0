"""Whole numbers from outside, checked once, and bytes as people read them."""

import operator
from collections.abc import Sequence

from ml_toolkit_core.errors import RequestError


def whole(value: object, name: str, *, least: int = 0, advice: str = "") -> int:
    """Return ``value`` as a Python integer.

    Args:
        value: Anything that is an exact integer; booleans and floats are not.
        name: What the number is called in the error.
        least: The smallest value allowed.
        advice: What would work, added to the error.

    Raises:
        RequestError: If it is not an integer or smaller than ``least``.

    >>> whole(7, "n_layers")
    7
    """
    hint = f" {advice}" if advice else ""
    if isinstance(value, bool):
        raise RequestError(f"{name}={value!r} is not a whole number.{hint}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError is ours
    except TypeError as error:
        raise RequestError(f"{name}={value!r} is not a whole number.{hint}") from error
    if number < least:
        raise RequestError(f"{name}={brief(number)} is less than {least}.{hint}")
    return number


def memories(worker_vram: Sequence[int]) -> tuple[int, ...]:
    """Return the workers' memory in bytes, each one checked.

    Raises:
        RequestError: If an entry is negative or no integer; it names the worker.
    """
    if isinstance(worker_vram, str | bytes) or not isinstance(worker_vram, Sequence):
        try:
            worker_vram = list(worker_vram)
        except TypeError as error:
            raise RequestError(
                f"worker_vram={worker_vram!r} is not a list of bytes per worker; "
                "pass one whole number for each worker."
            ) from error
    return tuple(
        whole(
            value,
            f"worker_vram[{index}]",
            advice="Memory is a whole number of bytes, 0 or more, for each worker.",
        )
        for index, value in enumerate(worker_vram)
    )


def brief(number: int) -> str:
    """Return the digits of ``number``, the middle left out where it is enormous."""
    if number.bit_length() <= 256:  # noqa: PLR2004 - 78 digits still fit a line
        return str(number)
    return f"{'-' if number < 0 else ''}2^{number.bit_length() - 1} and more"


def size(number: int) -> str:
    """Return bytes with a unit in which small and huge amounts still tell apart.

    >>> size(24_000_000_000), size(10), size(1_500_000)
    ('24.00 GB', '10 bytes', '1.50 MB')
    """
    for unit, scale in (("GB", 10**9), ("MB", 10**6)):
        if number >= scale:
            hundredths = (100 * number + scale // 2) // scale
            return f"{brief(hundredths // 100)}.{hundredths % 100:02d} {unit}"
    return f"{number} byte{'' if number == 1 else 's'}"


def against(need: int, have: int) -> tuple[str, str]:
    """Return two amounts as text that differ wherever the amounts do.

    >>> against(3_000_000_001, 3_000_000_000)
    ('3000000001 bytes', '3000000000 bytes')
    """
    texts = size(need), size(have)
    if texts[0] == texts[1] and need != have:
        return f"{brief(need)} bytes", f"{brief(have)} bytes"
    return texts
