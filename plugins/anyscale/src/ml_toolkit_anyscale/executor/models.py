"""Models as the engine wants them: a GGUF file becomes a cached folder, once."""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.records import read_json, write_json
from ml_toolkit_core.values import ModelKind, ModelLocation

log = logging.getLogger(__name__)

#: Part of the cache's names; raise it when the conversion makes something else.
_FORM: Final = b"float32 safetensors, 1"
_MAGIC: Final = b"GGUF"


def stage(model: ModelLocation, home: Path) -> ModelLocation:
    """Return the model in a form that the engine loads.

    A ``.gguf`` file is converted to float32 safetensors, with its tokenizer and chat
    template, in ``<home>/cache/models``; the next run finds it there. Everything
    else is returned as it is.

    Args:
        model: The model of the run.
        home: Our own folder; see ``ML_TOOLKIT_HOME``.

    Raises:
        RequestError: When the file is no GGUF that can be converted.
    """
    if model.kind is not ModelKind.GGUF:
        return model
    source = Path(model.uri)
    cache = home / "cache" / "models"
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache):  # other replicas of this node want the same
        folder = folder_for(source, home)
        if not folder.exists():
            _convert(source, folder)
    return attrs.evolve(model, uri=str(folder), kind=ModelKind.FOLDER)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder, where its disk has locks."""
    place = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # then two may convert, and one is kept
            fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def folder_for(source: Path, home: Path) -> Path:
    """Return the folder of a file's conversion, named after the file's bytes.

    The bytes are read once: ``<home>/cache/digests`` keeps what they came to, for as
    long as the file is the same by path, size and times.

    Raises:
        RequestError: When the file cannot be read, or is no GGUF.
    """
    try:
        about = source.stat()
        # Whoever copies a file can keep its mtime, and nobody its ctime.
        seen = [
            *(str(source.resolve()), about.st_size),
            *(about.st_mtime_ns, about.st_ctime_ns),
        ]
        name = hashlib.sha256(repr(seen).encode() + _FORM).hexdigest()[:16]
        kept = home / "cache" / "digests" / f"{name}.json"
        digest = read_json(kept) or _digest(source)
    except OSError as error:
        raise RequestError(
            f"model={str(source)!r} cannot be read: {error.strerror}"
        ) from error
    if not kept.exists():
        write_json(kept, digest)
    return home / "cache" / "models" / f"{source.stem}-{digest}"


def _digest(source: Path) -> str:
    with source.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise RequestError(
                f"model={str(source)!r} is no GGUF file: it does not begin with "
                f"{_MAGIC.decode()!r}; copy or download it again"
            )
        file.seek(0)
        digest = hashlib.file_digest(file, lambda: hashlib.sha256(_FORM))
    return digest.hexdigest()[:16]


def _convert(source: Path, folder: Path) -> None:
    """Convert in a process of its own, so that its memory is free again after."""
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        module = f"{__package__}.conversion"
        done = subprocess.run(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", module, str(source), str(aside)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            log.error("converting model=%r failed:\n%s", str(source), done.stdout)
            last = done.stdout.strip().splitlines()[-1:] or [
                f"the converter ended with code {done.returncode}"
            ]
            raise RequestError(
                f"model={str(source)!r} cannot be converted from GGUF: {last[0]}"
            )
        aside.chmod(0o755)
        move(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    log.info("converted model=%r to=%r", str(source), str(folder))


def move(aside: Path, folder: Path) -> None:
    """Move a finished folder to its place, unless another run was faster.

    Raises:
        RequestError: When the place cannot be taken.
    """
    try:
        aside.rename(folder)
    except OSError as error:
        if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
            return  # the name is a digest: there are the same bytes
        raise RequestError(
            f"the folder {str(folder)!r} cannot be made: {error.strerror}"
        ) from error
