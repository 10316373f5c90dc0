"""Compressed files: told by their first bytes, read as what is in them."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from ml_toolkit_core.errors import RequestError

_GZIP: Final = b"\x1f\x8b"
#: What reading a file that is cut off or damaged raises.
DAMAGED: Final = (EOFError, zlib.error, gzip.BadGzipFile)
SUFFIX: Final = ".gz"


def unpacked(handle: BinaryIO) -> BinaryIO:
    """Return the file, or what is in it when it is compressed with gzip."""
    head = handle.read(len(_GZIP))
    handle.seek(0)
    if head != _GZIP:
        return handle
    # Lines are read from a buffer several times as fast.
    return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=handle)))


@contextlib.contextmanager
def whole(name: str) -> Iterator[None]:
    """Refuse a file, which a message calls ``name``, that is cut off or damaged."""
    try:
        yield
    except DAMAGED as error:
        raise RequestError(
            f"{name}: the compressed file is cut off or damaged ({error}); make it "
            "again from its source"
        ) from error
