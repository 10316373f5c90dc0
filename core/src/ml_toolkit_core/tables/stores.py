"""The stores: which one reaches a path or URI."""

import re
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.tables.objectstore import SCHEME, ObjectStore
from ml_toolkit_core.tables.store import Store

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def store_for(uri: str) -> Store:
    """Return the store of a path or URI.

    Raises:
        RequestError: When no store reaches it.
    """
    scheme = _SCHEME.match(uri)
    if scheme and scheme[0] == SCHEME:
        return ObjectStore()
    if scheme:
        raise RequestError(
            f"{uri!r}: tables at {scheme[0]!r} are not built yet; use a path of a "
            "disk or mount that every node of the run sees, or s3://"
        )
    return LocalStore()
