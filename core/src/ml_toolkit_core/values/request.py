"""What a caller asks for."""

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import Attribute, field, frozen
from attrs.validators import ge, instance_of, matches_re, optional

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values.credentials import CredentialReference, parse_credentials
from ml_toolkit_core.wire import Json, frozen_json

#: A backend's name, which is a ``compute_type``.
NAME_PATTERN: Final = r"[a-z][a-z0-9_]*"
#: Travels as a platform tag, a file name and a Delta application id.
RUN_ID_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"

#: The clocks of operating systems take no number of seconds whatever.
_YEAR_S: Final = 365 * 24 * 3600


class WriteMode(enum.StrEnum):
    """What to do with an output that is already there."""

    ERROR = "error"
    """Refuse, unless this very run made it; then resume."""
    OVERWRITE = "overwrite"
    """Put the new rows in its place in one last step."""
    APPEND = "append"
    """Add the new rows to it, which must have the same columns."""


class DuplicateIds(enum.StrEnum):
    """What to do with ids that are missing or occur more than once."""

    ERROR = "error"
    """Refuse them."""
    WARN = "warn"
    """Note them, and go on."""


def _utf8(_value: object, attribute: "Attribute[str]", given: object) -> None:
    if not isinstance(given, str):
        raise RequestError(f"{attribute.name}={given!r} must be text")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise RequestError(
            f"{attribute.name}={given!r} cannot be written as UTF-8"
        ) from None


def _text(value: object, attribute: "Attribute[str]", given: object) -> None:
    _utf8(value, attribute, given)
    if not given:
        raise RequestError(f"{attribute.name}={given!r} must be text that is not empty")


def _place(value: object, attribute: "Attribute[str]", given: object) -> None:
    _text(value, attribute, given)
    if "\0" in str(given):
        raise RequestError(f"{attribute.name}={given!r} has a null byte")


def _seconds(_value: object, attribute: "Attribute[float]", given: Any) -> None:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 < given <= _YEAR_S:  # NaN is not
        raise RequestError(
            f"{attribute.name}={given!r} must be a number of seconds above 0, and at "
            f"most a year ({_YEAR_S:,})"
        )


@frozen(kw_only=True)
class Prompts:
    """How a row becomes a request to the model.

    Args:
        prompt_column: A text column; its text is the user's question.
        messages_column: A column of chats, as lists of ``{"role", "content"}``
            or as JSON text of such a list.
        prompt_template: Text with ``{column}`` fields, filled from each row.
        system_prompt: Put before every chat that does not bring its own.
        tools_column: The tools of each chat, as a list of OpenAI's tool objects or as
            JSON text of such a list; null is no tools.
        sampling_params_column: Sampling parameters of each row, as a struct or as JSON
            text of an object; they win over those of the run, and null keys are not
            given.

    When none of the first three is given, a column called ``prompt`` or
    ``messages`` is found by name.
    """

    prompt_column: str | None = field(default=None, validator=optional(_text))
    messages_column: str | None = field(default=None, validator=optional(_text))
    prompt_template: str | None = field(default=None, validator=optional(_text))
    system_prompt: str | None = field(default=None, validator=optional(_utf8))
    tools_column: str | None = field(default=None, validator=optional(_text))
    sampling_params_column: str | None = field(default=None, validator=optional(_text))

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


def _one_or_many(given: str | Sequence[str]) -> str | tuple[str, ...]:
    if isinstance(given, (list, tuple)):
        return given[0] if len(given) == 1 else tuple(given)
    return str(given)


def _check_input(
    _request: object, _field: object, given: str | tuple[str, ...]
) -> None:
    texts = given if isinstance(given, tuple) else (given,)
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise RequestError(
            f"input_table={given!r} must be a path or a name, or a list of paths"
        )


def _replicas(given: object) -> object:
    return int(given) if isinstance(given, str) and given.isdecimal() else given


def _check_replicas(_request: object, _field: object, given: object) -> None:
    is_count = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    if not is_count and given not in {"throughput", "depth"}:
        raise RequestError(
            f"replicas={given!r} must be 'throughput', 'depth' or a number of at "
            "least 1"
        )


def _check_duplicate_ids(request: Any, _field: object, given: object) -> None:
    if given is DuplicateIds.WARN and request.id_column is None:
        raise RequestError(
            "duplicate_ids='warn' says nothing without id_column=; pass the column "
            "that tells the rows apart"
        )


@frozen(kw_only=True)
class InferenceRequest:
    """One call of ``run_inference``, checked once.

    Args:
        input_table: A file, folder, glob or URI, or a name ``catalog.schema.table``;
            a tuple of paths when several make up one table.
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
        read_options: How CSV is to be read: ``encoding``, ``delimiter``, ``types``.
        output_column: Where the answer goes.
        id_column: The column that tells the rows apart.
        duplicate_ids: What to do with ids that are missing or occur more than once.
        replicas: ``throughput``, as many copies of the model as is best for it;
            ``depth``, one over all the GPUs; or that many.
        limit: Rows at most, counted from the input's first; at least 1.
        run_id: The same id again resumes; a fresh one when None.
        engine_timeout_s: Seconds without a sign of life after which an engine counts
            as hung; loading gives none, and has half an hour at least.
        credentials: Where the machines of the run find them, by what they are for.
        backend_options: The backend's own options, without its prefix.
    """

    input_table: str | tuple[str, ...] = field(
        converter=_one_or_many, validator=_check_input
    )
    model: str = field(validator=_place)
    output_table: str = field(validator=_place)
    compute_type: str = field(default="local", validator=matches_re(NAME_PATTERN))
    gpu_type: str | None = field(default=None, validator=optional(_text))
    num_gpus: int | None = field(
        default=None, validator=optional([instance_of(int), ge(1)])
    )
    executor: str = field(default="ray-vllm", validator=_text)
    prompts: Prompts = Prompts()
    sampling_params: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    engine_kwargs: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    replicas: str | int = field(
        default="throughput", converter=_replicas, validator=_check_replicas
    )
    input_format: str | None = None
    output_format: str | None = None
    read_options: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    output_column: str = field(default="generated_text", validator=_text)
    id_column: str | None = field(default=None, validator=optional(_text))
    duplicate_ids: DuplicateIds = field(
        default=DuplicateIds.ERROR, validator=_check_duplicate_ids
    )
    limit: int | None = field(
        default=None, validator=optional([instance_of(int), ge(1)])
    )
    write_mode: WriteMode = WriteMode.ERROR
    run_id: str | None = field(
        default=None, validator=optional(matches_re(RUN_ID_PATTERN))
    )
    engine_timeout_s: float = field(default=600.0, validator=_seconds)
    credentials: Mapping[str, CredentialReference] = field(
        factory=dict, converter=parse_credentials
    )
    backend_options: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
