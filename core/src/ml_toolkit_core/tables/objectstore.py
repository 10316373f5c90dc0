"""The store of S3 and what speaks like it: whole objects, never half of one.

Address and credentials are those of the environment (``AWS_REGION``,
``AWS_ENDPOINT_URL``, keys or an identity of the machine), as Delta tables read them.
"""

import contextlib
import errno
import fnmatch
import io
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from ml_toolkit_core.tables.deltacommits import DeltaCommits
from ml_toolkit_core.tables.durable import UNFINISHED
from ml_toolkit_core.tables.store import FileInfo

SCHEME: Final = "s3://"
#: What is larger is sent in pieces, so that memory stays flat.
_ONE_PUT: Final = 8 << 20
_CHUNK: Final = 1 << 20


class ObjectStore(DeltaCommits):
    """Objects by ``s3://bucket/key``; a folder is what keys have in common."""

    swaps_folders = False

    def stat(self, uri: str) -> FileInfo | None:
        """Ask for size and etag."""
        bucket, key = _bucket(uri)
        try:
            with _told(uri):
                meta = obstore.head(bucket, key)
        except FileNotFoundError:
            return None
        return FileInfo(path="", bytes=meta["size"], etag=str(meta["e_tag"]))

    def is_folder(self, uri: str) -> bool:
        """Whether there is a key below."""
        return next(self._below(uri), None) is not None

    def files(self, uri: str) -> tuple[FileInfo, ...]:
        """List the keys below."""
        return tuple(sorted(self._below(uri), key=lambda info: info.path.split("/")))

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Match keys, and what they have in common with others, part by part."""
        wild = re.search(r"[*?\[]", pattern)
        steady = pattern[: wild.start() if wild else None].rpartition("/")[0]
        tail = pattern[len(steady) + 1 :]
        match = re.compile("".join(map(_part, tail.split("/"))))
        found = set()
        for info in self._below(steady):
            parts = info.path.split("/")
            names = ("/".join(parts[: stop + 1]) for stop in range(len(parts)))
            found |= {
                f"{steady}/{name}" for name in names if match.fullmatch(f"{name}/")
            }
        return tuple(sorted(found))

    def open(self, uri: str) -> BinaryIO:
        """Read the object in pieces, as they are asked for."""
        bucket, key = _bucket(uri)
        with _told(uri):
            reader = obstore.open_reader(bucket, key)
        return cast(BinaryIO, io.BufferedReader(_Raw(reader), _CHUNK))

    def create(self, uri: str, chunks: Iterable[bytes]) -> None:
        """Put it under the condition that there is none; a large one aside first."""
        bucket, key = _bucket(uri)
        rest = iter(chunks)
        head = _gather(rest)
        try:
            with _told(uri):
                if len(head) < _ONE_PUT:
                    obstore.put(bucket, key, head, mode="create")
                    return
                aside = _aside(key)
                _send(bucket, aside, head, rest)
                try:
                    obstore.copy(bucket, aside, key, overwrite=False)
                finally:
                    obstore.delete(bucket, aside)
        except AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "exists already", uri) from error

    def replace(self, uri: str, chunks: Iterable[bytes]) -> None:
        """Put it; a large one becomes visible with its last piece."""
        bucket, key = _bucket(uri)
        rest = iter(chunks)
        head = _gather(rest)
        with _told(uri):
            if len(head) < _ONE_PUT:
                obstore.put(bucket, key, head)
            else:
                _send(bucket, key, head, rest)

    def publish(self, source: str, target: str) -> None:
        """Copy under the condition that there is none, then delete."""
        bucket, key = _bucket(source)
        if self.stat(source) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        try:
            with _told(target):
                obstore.copy(bucket, key, _bucket(target)[1], overwrite=False)
        except AlreadyExistsError as error:
            if not self._is_same(source, target):
                raise FileExistsError(errno.EEXIST, "exists already", target) from error
        self.delete(source)

    def swap(self, source: str, target: str) -> None:
        """Copy over the old object, then delete; folders cannot be swapped."""
        bucket, key = _bucket(source)
        if self.stat(source) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        with _told(target):
            obstore.copy(bucket, key, _bucket(target)[1])
        self.delete(source)

    def delete(self, uri: str) -> None:
        """Delete the object."""
        bucket, key = _bucket(uri)
        with _told(uri), contextlib.suppress(FileNotFoundError):
            obstore.delete(bucket, key)

    def delete_folder(self, uri: str) -> None:
        """Delete the keys below, one after another."""
        bucket, prefix = _bucket(uri)
        keys = [f"{prefix}/{info.path}" for info in self._below(uri)]
        with _told(uri):
            if keys:
                obstore.delete(bucket, keys)

    def _below(self, uri: str) -> Iterator[FileInfo]:
        bucket, prefix = _bucket(uri)
        with _told(uri):
            for batch in obstore.list(bucket, prefix=f"{prefix}/" if prefix else None):
                for meta in batch:
                    path = meta["path"][len(prefix) :].lstrip("/")
                    if path:
                        etag = str(meta["e_tag"])
                        yield FileInfo(path=path, bytes=meta["size"], etag=etag)

    def _is_same(self, one: str, other: str) -> bool:
        """Whether two objects hold the same bytes."""
        with self.open(one) as first, self.open(other) as second:
            while True:
                pieces = first.read(_CHUNK), second.read(_CHUNK)
                if pieces[0] != pieces[1]:
                    return False
                if not pieces[0]:
                    return True


class _Raw(io.RawIOBase):
    """An object's reader, as Python wants it."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        piece = bytes(self._reader.read(len(buffer)))
        buffer[: len(piece)] = piece
        return len(piece)


@contextlib.contextmanager
def _told(uri: str) -> Iterator[None]:
    """Raise what the library raises as an error of files, in one line."""
    try:
        yield
    except AlreadyExistsError:
        raise
    except BaseError as error:
        line = str(error).partition("\n")[0]
        raise OSError(errno.EIO, line, uri) from error


def _bucket(uri: str) -> tuple[S3Store, str]:
    name, _, key = uri.removeprefix(SCHEME).partition("/")
    # Only this form of a copy is made under a condition, in one step.
    return S3Store(name, copy_if_not_exists="multipart"), key.rstrip("/")


def _gather(chunks: Iterator[bytes]) -> bytes:
    """Return enough of the chunks to see whether they fit into one request."""
    pieces, size = [], 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size >= _ONE_PUT:
            break
    return b"".join(pieces)


def _send(bucket: S3Store, key: str, head: bytes, rest: Iterator[bytes]) -> None:
    with obstore.open_writer(bucket, key) as writer:
        writer.write(head)
        for chunk in rest:
            writer.write(chunk)


def _aside(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}{UNFINISHED}{secrets.token_hex(4)}-{name}"


def _part(part: str) -> str:
    """Return the expression of one part of a glob and the slash after it."""
    if part == "**":
        return "(?:[^/]+/)*"
    found = fnmatch.translate(part).removeprefix("(?s:").removesuffix(")\\Z")
    return found.replace(".*", "[^/]*") + "/"
