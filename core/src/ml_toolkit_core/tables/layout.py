"""Where an output lies: one file, a folder or a table, and our own folder of it."""

from typing import Final

from ml_toolkit_core.names import FORMATS
from ml_toolkit_core.tables.store import join
from ml_toolkit_core.values import TableFormat, TableLocation, WriteMode

#: Our own folder in an output; readers skip names that begin with ``_``.
OWN_FOLDER: Final = "_ml_toolkit"
#: What the name of an output that is one file ends in.
WRITTEN: Final = {suffix: form for suffix, form in FORMATS.items() if suffix != ".tsv"}


def is_one_file(location: TableLocation) -> bool:
    """Whether an output is a file: its name ends in its format, and not in a slash.

    >>> is_one_file(
    ...     TableLocation(name="x.csv", uri="/x.csv", format=TableFormat.CSV)
    ... )
    True
    """
    suffixes = (suffix for suffix, form in WRITTEN.items() if form is location.format)
    return location.name.lower().endswith(tuple(suffixes))


def is_aside(location: TableLocation, mode: WriteMode) -> bool:
    """Whether an output is made beside its place, and put there at the end."""
    is_folder = location.format is not TableFormat.DELTA and not is_one_file(location)
    return is_one_file(location) or (is_folder and mode is WriteMode.OVERWRITE)


def own_folder(location: TableLocation, mode: WriteMode = WriteMode.ERROR) -> str:
    """Return our own folder of an output: in it, or beside it when it is made aside.

    >>> own_folder(TableLocation(name="x.csv", uri="/a/x.csv", format=TableFormat.CSV))
    '/a/_ml_toolkit/x.csv'
    """
    if not is_aside(location, mode):
        return join(location.uri, OWN_FOLDER)
    parent, _, name = location.uri.rpartition("/")
    return join(parent, OWN_FOLDER, name)
