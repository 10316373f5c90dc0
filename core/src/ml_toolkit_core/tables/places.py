"""Names that an output cannot have, which are refused before the run."""

import os
import re
from pathlib import Path
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import TableFormat, TableLocation

#: delta-rs takes these for other characters, or takes no path that has them.
_NOT_FOR_DELTA: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")
#: Bytes of one name, and of a whole path, on the file systems of Linux.
_NAME_BYTES: Final = 255
_PATH_BYTES: Final = 4095
#: Bytes that we put around a name, as in ``.unfinished-01234567-out.errors.jsonl``.
_AROUND: Final = 40
#: Bytes of the longest path that we make below an output.
_BELOW: Final = 500


def check_name(location: TableLocation) -> None:
    """Look at the length of an output's name and path, and at links on the way.

    Raises:
        RequestError: When the run could not write there, or not beside it.
    """
    if "://" in location.uri:
        return
    path = location.uri.rstrip("/").encode(errors="surrogateescape")
    *above, last = path.split(b"/")
    if (
        max(map(len, above), default=0) > _NAME_BYTES
        or len(last) > _NAME_BYTES - _AROUND
        or len(path) > _PATH_BYTES - _BELOW
    ):
        raise RequestError(
            f"output_table={_short(location.name)}: its name is too long; a name has "
            f"at most {_NAME_BYTES - _AROUND} bytes, that of a folder above it "
            f"{_NAME_BYTES}, and the whole path {_PATH_BYTES - _BELOW}"
        )
    for there in (Path(location.uri), *Path(location.uri).parents):
        # Not Path's own: those raise below a folder which this user may not enter.
        if os.path.islink(there) and not os.path.exists(there):  # noqa: PTH110, PTH114
            raise RequestError(
                f"output_table={location.name!r} cannot be written: {str(there)!r} is "
                "a link that leads nowhere; remove it, or choose another output_table"
            )


def check_delta_path(location: TableLocation, kind: TableFormat) -> None:
    """Look for characters in a Delta output's path that delta-rs takes for others.

    Raises:
        RequestError: When there are some.
    """
    found = _NOT_FOR_DELTA.search(location.uri)
    if kind is TableFormat.DELTA and found:
        raise RequestError(
            f"output_table={location.name!r}: the Delta library does not take "
            f"{found[0]!r} in a path for what it is; rename the folder, or pass "
            "another output_format="
        )


def _short(name: str) -> str:
    shown = 60
    return repr(name) if len(name) <= shown else f"{name[:shown]!r}..."
