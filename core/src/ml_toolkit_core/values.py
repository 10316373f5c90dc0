"""The frozen values that travel through the house, in the order of the flow."""

import enum
import re
from collections.abc import Mapping
from typing import Final, Self

from attrs import field, frozen
from attrs.validators import ge, gt, instance_of, matches_re, min_len, optional

from ml_toolkit_core.errors import PluginError, RequestError, ToolkitError
from ml_toolkit_core.wire import Json, frozen_json

_NAME: Final = r"[a-z][a-z0-9_]*"
#: Travels as a platform tag, a file name and a Delta application id.
RUN_ID_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"


class WriteMode(enum.StrEnum):
    """What to do with an output that is already there."""

    ERROR = "error"
    """Refuse, unless this very run made it; then resume."""


class JobState(enum.StrEnum):
    """Where a job stands, in rank order; a state never moves backwards."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    """Unreachable, or a word this version does not know; no rank, never final."""

    @property
    def rank(self) -> int | None:
        """The place in the order of a job's life; None for ``UNKNOWN``."""
        return None if self is JobState.UNKNOWN else list(JobState).index(self)

    @property
    def is_final(self) -> bool:
        """Whether a job in this state has ended."""
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


# --- what is asked ------------------------------------------------------------------


@frozen(kw_only=True)
class Prompts:
    """How a row becomes a request to the model.

    Args:
        prompt_column: A text column; its text is the user's question.
        messages_column: A column of chats, as lists of ``{"role", "content"}``
            or as JSON text of such a list.
        prompt_template: Text with ``{column}`` fields, filled from each row.
        system_prompt: Put before every chat that does not bring its own.

    When none of the first three is given, a column called ``prompt`` or
    ``messages`` is found by name.
    """

    prompt_column: str | None = field(default=None, validator=optional(min_len(1)))
    messages_column: str | None = field(default=None, validator=optional(min_len(1)))
    prompt_template: str | None = field(default=None, validator=optional(min_len(1)))
    system_prompt: str | None = field(
        default=None, validator=optional(instance_of(str))
    )

    def __attrs_post_init__(self) -> None:
        given = {
            name: value
            for name in ("prompt_column", "messages_column", "prompt_template")
            if (value := getattr(self, name)) is not None
        }
        if len(given) > 1:
            raise RequestError(
                f"{' and '.join(f'{k}={v!r}' for k, v in given.items())} say twice "
                "what to ask; pass one of them"
            )


@frozen(kw_only=True)
class InferenceRequest:
    """One call of ``run_inference``, checked once.

    Args:
        input_table: A file, folder or URI, or a name ``catalog.schema.table``.
        model: A folder, a ``.gguf`` file, ``catalog.schema.model`` or a Hugging
            Face id.
        output_table: Like ``input_table``.
        compute_type: The name of a backend.
        gpu_type: The backend's word for a GPU, for example ``"h100"``.
        num_gpus: GPUs in total, over all nodes; at least 1.
        executor: What runs on the far side; an entry point of
            ``ml_toolkit.executors``.
        sampling_params: vLLM's ``SamplingParams`` by name.
        engine_kwargs: vLLM's ``EngineArgs`` by name.
        output_column: Where the answer goes.
        run_id: The same id again resumes; a fresh one when None.
        engine_timeout_s: Seconds without a sign of life after which an engine counts
            as hung.
        backend_options: The backend's own options, without its prefix.
    """

    input_table: str = field(validator=min_len(1))
    model: str = field(validator=min_len(1))
    output_table: str = field(validator=min_len(1))
    compute_type: str = field(default="local", validator=matches_re(_NAME))
    gpu_type: str | None = field(default=None, validator=optional(min_len(1)))
    num_gpus: int | None = field(
        default=None, validator=optional([instance_of(int), ge(1)])
    )
    executor: str = field(default="ray-vllm", validator=min_len(1))
    prompts: Prompts = Prompts()
    sampling_params: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    engine_kwargs: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    input_format: str | None = None
    output_format: str | None = None
    output_column: str = field(default="generated_text", validator=min_len(1))
    write_mode: WriteMode = WriteMode.ERROR
    run_id: str | None = field(
        default=None, validator=optional(matches_re(RUN_ID_PATTERN))
    )
    engine_timeout_s: float = field(default=600.0, validator=gt(0))
    backend_options: Mapping[str, Json] = field(factory=dict, converter=frozen_json)


# --- what it refers to --------------------------------------------------------------


class TableFormat(enum.StrEnum):
    """How rows lie on disk."""

    JSONL = "jsonl"
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
    """

    name: str
    uri: str
    format: TableFormat | None = None
    catalog: str | None = None


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
    """

    version: int | None = None
    files: tuple[FilePin, ...] = ()
    columns: tuple[Column, ...] = ()
    arrow_schema: str
    notes: tuple[str, ...] = ()

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
    """Every reference of a request, looked up and held fast."""

    source: TableLocation
    pin: InputPin
    model: ModelLocation
    output: TableLocation
    prompts: Prompts
    notes: tuple[str, ...] = ()


# --- what it runs on ----------------------------------------------------------------


@frozen(kw_only=True)
class ComputeTarget:
    """The machines a backend would use.

    Args:
        name: The backend's own word for this shape, for example
            ``"h100-two-nodes"``.
        gpu_nodes: Nodes that run replicas; on a machine without GPUs, 1.
        gpus_per_node: 0 for a machine without GPUs.
        gpu_type: The GPU, or None.
        gpu_memory_bytes: Memory of one GPU, or None when not known.
        cpus_per_node: CPU cores that replicas may use, or None when not known.
        labels: The backend's own labels, for example team and job kind.
        options: The backend's options, for its own ``submit``.
        notes: What the plan should say about this choice.
    """

    name: str
    gpu_nodes: int = field(validator=ge(1))
    gpus_per_node: int = field(validator=ge(0))
    gpu_type: str | None = None
    gpu_memory_bytes: int | None = None
    cpus_per_node: int | None = field(default=None, validator=optional(ge(1)))
    labels: Mapping[str, str] = field(factory=dict, converter=frozen_json)
    options: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    notes: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs in total, over all nodes."""
        return self.gpu_nodes * self.gpus_per_node


@frozen(kw_only=True)
class ReplicaPlan:
    """How many copies of the model run, and what each gets.

    Args:
        replicas: Copies of the model.
        tensor_parallel_size: GPUs that share one layer.
        pipeline_parallel_size: Groups of layers.
        cpus_per_replica: Cores of one replica, where there are no GPUs.
        reasons: Why, in sentences.
    """

    replicas: int = field(validator=ge(1))
    tensor_parallel_size: int = field(default=1, validator=ge(1))
    pipeline_parallel_size: int = field(default=1, validator=ge(1))
    gpus_per_replica: int = field(default=0, validator=ge(0))
    cpus_per_replica: int | None = field(default=None, validator=optional(ge(1)))
    reasons: tuple[str, ...] = ()


# --- what runs ----------------------------------------------------------------------


@frozen(kw_only=True)
class JobHandle:
    """A job, as text that another process can use.

    >>> str(JobHandle.parse("local://run-7"))
    'local://run-7'
    """

    backend: str = field(validator=matches_re(_NAME))
    job_id: str = field(validator=min_len(1))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``backend://job_id``.

        Raises:
            RequestError: When the text is no handle.
        """
        backend, separator, job_id = text.partition("://")
        if not separator or not job_id or not re.fullmatch(_NAME, backend):
            raise RequestError(
                f"{text!r} is no job handle; a handle looks like 'local://<run_id>'"
            )
        return cls(backend=backend, job_id=job_id)

    def __str__(self) -> str:
        """Return ``backend://job_id``."""
        return f"{self.backend}://{self.job_id}"


@frozen(kw_only=True)
class Missing:
    """The answer of ``find_job`` when the platform has no such job.

    Args:
        reason: Why there is none, or why nobody can tell.
    """

    reason: str = "no job with this run_id"


@frozen(kw_only=True)
class Progress:
    """How far a run is, as its ledger says.

    Args:
        phase: ``starting``, ``staging``, ``loading``, ``running``, ``finishing`` or
            ``done``.
        rows: Rows of the input.
        done: Rows answered or failed, in this attempt and those before it.
        failed: Rows with an error, of ``done``.
        published: Rows a reader of the output can see.
        requests: Requests given to the engines in this attempt.
        prompt_tokens: Tokens read, of ``done``.
        completion_tokens: Tokens written, of ``done``.
        truncated: Rows with ``finish_reason="length"``, of ``done``.
        rows_per_s: Over the last part of this attempt, or None.
        tokens_per_s: Completion tokens, likewise.
        eta_s: Seconds to the end at this rate, or None.
    """

    phase: str = "starting"
    rows: int = 0
    done: int = 0
    failed: int = 0
    published: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    truncated: int = 0
    rows_per_s: float | None = None
    tokens_per_s: float | None = None
    eta_s: float | None = None


@frozen(kw_only=True)
class JobStatus:
    """What a platform, and then the ledger, says of a job.

    Args:
        state: Where the job stands.
        attempt: Counts the platform's retries from 1.
        message: The platform's words, for people.
        progress: Joined by dispatch; None is "progress unknown".
    """

    state: JobState
    attempt: int = field(default=1, validator=ge(1))
    message: str = ""
    progress: Progress | None = None


@frozen(kw_only=True)
class RunResult:
    """What a finished run made; read from its ledger, not from the table.

    Args:
        output: Where the rows lie.
        errors: Where the failed rows are listed, or None when there are none.
        rows: Rows of the output, which are the rows of the input.
        failed: Rows with an error.
        truncated: Rows cut off at ``max_tokens``.
        seconds: Wall time of the last attempt.
    """

    output: str
    errors: str | None
    rows: int
    failed: int
    truncated: int
    prompt_tokens: int
    completion_tokens: int
    requests: int
    attempt: int
    seconds: float


@frozen(kw_only=True)
class Outcome:
    """How a worker ended, in its own words.

    Args:
        state: ``SUCCEEDED`` or ``FAILED``.
        reason: Why it failed, for people.
        resumable: Whether the same ``run_id`` again goes on from here.
        result: What was made, when it succeeded.
    """

    state: JobState
    reason: str = ""
    resumable: bool = True
    result: RunResult | None = None

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Return how a run ended that ended in ``error``."""
        known = isinstance(error, ToolkitError)
        return cls(
            state=JobState.FAILED,
            reason=str(error) if known else f"{type(error).__name__}: {error}",
            resumable=not isinstance(error, RequestError | PluginError),
        )


@frozen(kw_only=True)
class LedgerState:
    """What a run's ledger says.

    Args:
        attempt: The attempt that wrote it.
        progress: How far that attempt is.
        updated_at: When it was written, in seconds since 1970, UTC.
        outcome: How it ended, or None while it runs.
    """

    attempt: int
    progress: Progress
    updated_at: float
    outcome: Outcome | None = None


# --- what a backend says of itself --------------------------------------------------


@frozen(kw_only=True)
class Option:
    """One option of a backend, given as ``<compute_type>_<name>``.

    Args:
        name: Without the prefix.
        type: The type that values must have.
        default: Used when the option is not given.
        doc: One sentence.
    """

    name: str = field(validator=matches_re(_NAME))
    type: type = str
    default: Json = None
    doc: str = ""


@frozen(kw_only=True)
class BackendInfo:
    """What a backend offers.

    Args:
        doc: One sentence.
        gpu_types: The words ``gpu_type`` takes.
        shapes: What can be had, in the backend's own words.
        options: What it takes beyond the common arguments.
    """

    doc: str = ""
    gpu_types: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
