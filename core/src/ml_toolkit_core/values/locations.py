"""What a request refers to, looked up and held fast."""

import enum
from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import ge

from ml_toolkit_core.values.request import Prompts
from ml_toolkit_core.wire import Json


class TableFormat(enum.StrEnum):
    """How rows lie on disk."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    DELTA = "delta"


class ModelKind(enum.StrEnum):
    """What a model reference points at."""

    FOLDER = "folder"
    """A Hugging Face folder with config.json, tokenizer and safetensors."""
    GGUF = "gguf"
    """One .gguf file; converted once to float32 safetensors and cached."""
    HUB = "hub"
    """A Hugging Face id, loaded by the engine."""


@frozen(kw_only=True)
class TableLocation:
    """Where a table lies.

    Args:
        name: The name as it was given.
        uri: An absolute path or URI.
        format: None where the rows themselves must tell.
        catalog: The catalog that resolved a three-part name, else None.
        members: The files, folders and globs below ``uri`` that make up the table, as
            absolute paths or URIs; none when it is all that is at ``uri``.
        read_options: How CSV is to be read: ``encoding``, ``delimiter``, ``types``.
    """

    name: str
    uri: str
    format: TableFormat | None = None
    catalog: str | None = None
    members: tuple[str, ...] = ()
    read_options: Mapping[str, Json] = field(factory=dict)


@frozen(kw_only=True)
class ModelLocation:
    """Where a model lies.

    Args:
        name: The name as it was given.
        uri: An absolute path, a URI or a Hugging Face id.
        kind: What ``uri`` points at.
        revision: Changes when the model's files change; None when not known here.
        has_chat_template: Whether its tokenizer can render a chat; None when that
            is only known on the far side.
        catalog: The catalog that resolved a three-part name, else None.
    """

    name: str
    uri: str
    kind: ModelKind
    revision: str | None = None
    has_chat_template: bool | None = None
    catalog: str | None = None


@frozen(kw_only=True)
class FilePin:
    """One input file as it was when the run was planned.

    Args:
        path: Relative to the input's root; ``""`` when the input is that file.
        rows: Rows before any deletion mask.
        bytes: Size of the file.
        etag: Changes when the content changes (local files: the modification time
            in nanoseconds).
    """

    path: str
    rows: int = field(validator=ge(0))
    bytes: int = field(validator=ge(0))
    etag: str


@frozen(kw_only=True)
class Column:
    """One column of the input.

    Args:
        name: The column's name.
        type: The Arrow type as text, for people.
        json: Whether values travel as JSON text because JSON alone can say them
            exactly (objects, lists of objects, mixed types).
    """

    name: str
    type: str
    json: bool = False


@frozen(kw_only=True)
class InputPin:
    """The input as it was when the run was planned; later attempts must match.

    Args:
        version: The Delta version, else None.
        files: In the order of the rows.
        columns: In the order of the table.
        arrow_schema: The columns' Arrow schema, as base64 of its IPC form.
        notes: What a reader wants known, for example a column of mixed types.
        row_bytes: Bytes of a row as it is decoded, where rows are widest; None where
            only the size of the files tells.
    """

    version: int | None = None
    files: tuple[FilePin, ...] = ()
    columns: tuple[Column, ...] = ()
    arrow_schema: str
    notes: tuple[str, ...] = ()
    row_bytes: int | None = None

    @property
    def rows(self) -> int:
        """Rows in all files, before any deletion mask."""
        return sum(pin.rows for pin in self.files)

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(pin.bytes for pin in self.files)


@frozen(kw_only=True)
class Pinned:
    """Every reference of a request, looked up and held fast.

    Args:
        notes: What a reader wants known of them; those of the pin are moved here.
    """

    source: TableLocation
    pin: InputPin
    model: ModelLocation
    output: TableLocation
    prompts: Prompts
    notes: tuple[str, ...] = ()
