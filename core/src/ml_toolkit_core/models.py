"""What a model reference points at, and what its small files say."""

import hashlib
import json
import os
import re
from pathlib import Path

from attrs import evolve

from ml_toolkit_core.catalogs import catalog
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.names import is_name, parse_name
from ml_toolkit_core.values import ModelKind, ModelLocation


def find_model(text: str) -> ModelLocation:
    """Look up a model: a folder, a ``.gguf`` file, a name or a Hugging Face id.

    Raises:
        RequestError: When it is a path and no model lies there.
    """
    path = Path(text).expanduser()
    if path.exists():
        uri = os.path.abspath(path)  # noqa: PTH100  Path keeps ".."
        if path.is_dir():
            return _folder(ModelLocation(name=text, uri=uri, kind=ModelKind.FOLDER))
        if path.suffix.lower() == ".gguf":
            return ModelLocation(
                name=text, uri=uri, kind=ModelKind.GGUF, revision=_revision([path])
            )
        raise RequestError(
            f"model={text!r} is a file; a model is a folder with config.json, a .gguf "
            "file, catalog.schema.model or a Hugging Face id"
        )
    if "://" in text:
        raise RequestError(
            f"model={text!r}: models from object storage are not read yet; copy the "
            "folder to this machine"
        )
    if text.startswith(("/", "./", "../", "~")) or text.endswith(".gguf"):
        raise RequestError(f"model={text!r}: there is no such folder or file")
    if is_name(text):
        return _folder(catalog().model(parse_name("model", text)))
    bare = re.split(r"[@/]", text, maxsplit=1)[0]
    if is_name(bare):
        raise RequestError(
            f"model={text!r}: aliases and versions ({text[len(bare) :]}) are of Unity "
            "Catalog, which is not built yet; leave it out for the local warehouse"
        )
    if text.count("/") > 1:
        raise RequestError(
            f"model={text!r}: there is no such folder, and a Hugging Face id has one "
            "slash"
        )
    return ModelLocation(name=text, uri=text, kind=ModelKind.HUB)


def _folder(location: ModelLocation) -> ModelLocation:
    folder = Path(location.uri)
    if not (folder / "config.json").is_file():
        raise RequestError(
            f"model={location.name!r}: {location.uri!r} has no config.json, so it is "
            "no Hugging Face model folder; pass the folder that holds config.json, the "
            "tokenizer and the weights"
        )
    return evolve(
        location,
        revision=_revision(sorted(p for p in folder.iterdir() if p.is_file())),
        has_chat_template=_has_chat_template(folder),
    )


def _has_chat_template(folder: Path) -> bool:
    if any(
        (folder / name).exists()
        for name in ("chat_template.jinja", "chat_template.json")
    ):
        return True
    try:
        config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return bool(config.get("chat_template"))


def _revision(files: list[Path]) -> str:
    facts = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
