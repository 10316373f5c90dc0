"""The files of a table: one, those of a folder or a glob, or several of these."""

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import unquote

import attrs
import pyarrow as pa

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.store import FileInfo, Store, join
from ml_toolkit_core.values import TableLocation

READ: Final = (
    "JSON Lines (.jsonl, .ndjson), CSV (.csv, .tsv), both also with .gz, and Parquet "
    "(.parquet) files, folders and globs of one of them, and Delta tables are read"
)
_WILD: Final = re.compile(r"[*?\[]")
#: What Hive and Spark write for null in the name of a folder.
_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


def is_delta(store: Store, uri: str) -> bool:
    """Whether a Delta table lies at ``uri``."""
    log = join(uri, "_delta_log")
    return store.stat(log) is not None or store.is_folder(log)


def find_files(
    store: Store, location: TableLocation
) -> tuple[TableLocation, tuple[FileInfo, ...]]:
    """Find a table's files, in the order of their rows.

    Text with a wildcard is a glob when nothing has exactly that name.

    Returns:
        The location, whose ``uri`` the files' paths are relative to, and the files.

    Raises:
        RequestError: When there are none, or one is there twice.
    """
    if not location.members and not _is_glob(store, location.uri):
        return location, _files_at(store, location, location.uri)
    members = location.members or (location.uri,)
    root = common_folder(_folder_of(store, member) for member in members)
    found: list[FileInfo] = []
    for member in members:
        places = store.glob(member) if _is_glob(store, member) else (member,)
        shown = [place for place in places if not _is_hidden(place.rpartition("/")[2])]
        if not shown:
            raise RequestError(
                f"input_table={location.name!r}: nothing matches {member!r}; {READ}"
            )
        for place in shown:
            below = place.removeprefix(root).lstrip("/")
            found += [
                attrs.evolve(file, path="/".join(filter(None, (below, file.path))))
                for file in _files_at(store, location, place)
            ]
    paths = [file.path for file in found]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise RequestError(
            f"input_table={location.name!r} has {some(twice)} twice, whose rows would "
            "be answered twice; name each file once"
        )
    return attrs.evolve(location, uri=root, members=()), tuple(found)


def steady_part(store: Store, uri: str) -> str:
    """Return the folder above the first wildcard of a glob; else ``uri`` itself."""
    if not _is_glob(store, uri):
        return uri
    return uri[: _first_wild(uri)].rpartition("/")[0] or "/"


def common_folder(folders: Iterable[str]) -> str:
    """Return the deepest folder that all of these are in, or are.

    >>> common_folder(["/data/a/b", "/data/ab"]), common_folder(["/data", "/data/a"])
    ('/data', '/data')
    """
    same = []
    for parts in zip(*(folder.split("/") for folder in folders), strict=False):
        if len(set(parts)) > 1:
            break
        same.append(parts[0])
    return "/".join(same) or "/"


def folder_values(path: str) -> dict[str, str | None]:
    """Return the columns that stand in a path as ``key=value`` folders.

    >>> folder_values("lang=de/day=__HIVE_DEFAULT_PARTITION__/a%3D1=x%2Fy/p=1.parquet")
    {'lang': 'de', 'day': None, 'a=1': 'x/y'}
    """
    pairs = (name.partition("=") for name in path.split("/")[:-1])
    return {
        unquote(key): None if value == _NULL_FOLDER else unquote(value)
        for key, separator, value in pairs
        if key and separator
    }


def with_folder_columns(
    location: TableLocation, schema: pa.Schema, files: Sequence[FileInfo]
) -> pa.Schema:
    """Append the columns that stand in the folders' names, as text.

    Raises:
        RequestError: When files do not agree on them, or have them inside too.
    """
    keys: tuple[str, ...] | None = None
    first = ""
    for file in files:
        own = tuple(folder_values(file.path))
        if keys is None:
            keys, first = own, file.path
        elif set(keys) != set(own):
            raise RequestError(
                f"{location.name!r}: the folders do not name the same columns: "
                f"{list(keys)} in {first!r}, {list(own)} in {file.path!r}; move the "
                "files, or name those of one kind"
            )
    both = [key for key in keys or () if key in schema.names]
    if both:
        raise RequestError(
            f"{location.name!r}: column {', '.join(map(repr, both))} stands in the "
            "names of folders and in the files too; rename one of them"
        )
    return pa.schema([*schema, *((key, pa.string()) for key in keys or ())])


def some(paths: list[str]) -> str:
    """Return the first paths and the number of the others."""
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""  # noqa: PLR2004
    return f"{', '.join(map(repr, paths[:3]))}{more}"


def _files_at(store: Store, location: TableLocation, uri: str) -> tuple[FileInfo, ...]:
    """Return the file at ``uri``, or those of the folder but the hidden ones."""
    single = store.stat(uri)
    if single is not None:
        return (single,)
    name = location.name
    if not store.is_folder(uri):
        raise RequestError(f"input_table={name!r}: there is nothing at {uri!r}; {READ}")
    if uri != location.uri and is_delta(store, uri):
        raise RequestError(
            f"input_table={name!r}: {uri!r} is a Delta table, which is read alone; "
            "pass it as the only input"
        )
    files = tuple(
        file
        for file in store.files(uri)
        if not any(map(_is_hidden, file.path.split("/")))
    )
    if not files:
        raise RequestError(
            f"input_table={name!r}: the folder {uri!r} has no files in it; {READ}"
        )
    return files


def _folder_of(store: Store, member: str) -> str:
    steady = steady_part(store, member)
    is_file = steady == member and not store.is_folder(member)
    return member.rpartition("/")[0] if is_file else steady


def _is_glob(store: Store, uri: str) -> bool:
    return (
        _first_wild(uri) < len(uri)
        and store.stat(uri) is None
        and not store.is_folder(uri)
    )


def _first_wild(uri: str) -> int:
    match = _WILD.search(uri)
    return match.start() if match else len(uri)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))
