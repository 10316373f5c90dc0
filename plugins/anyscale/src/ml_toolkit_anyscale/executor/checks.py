"""What the caller can get wrong and the client can tell: pure, in milliseconds."""

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from ml_toolkit_anyscale.executor import names
from ml_toolkit_core.errors import RequestError, did_you_mean
from ml_toolkit_core.values import ModelLocation, Prompts
from ml_toolkit_core.wire import Json


def check(
    *,
    sampling_params: Mapping[str, Json],
    engine_kwargs: Mapping[str, Json],
    prompts: Prompts,
    model: ModelLocation,
) -> None:
    """Refuse what the engine would refuse later, when it has cost something.

    Args:
        sampling_params: vLLM's ``SamplingParams`` by name.
        engine_kwargs: vLLM's ``EngineArgs`` by name.
        prompts: How rows become requests.
        model: The model that is asked.

    Raises:
        RequestError: For a name that vLLM does not know or that is not the
            caller's to set, a value out of range, and a chat for a model that
            takes none.
    """
    _check_names("sampling_params", sampling_params, names.SAMPLING)
    _check_names("engine_kwargs", engine_kwargs, names.ENGINE)
    _check_owned("sampling_params", sampling_params, names.SAMPLING_REFUSED)
    _check_owned("engine_kwargs", engine_kwargs, names.ENGINE_REFUSED)
    if (n := sampling_params.get("n")) not in (None, 1):
        raise RequestError(
            f"sampling_params={{'n': {n!r}}} asks for {n!r} answers; the output has "
            "one answer for each row. Leave 'n' out, or repeat the rows of the input."
        )
    for name, allowed in _RANGES.items():
        value = sampling_params.get(name)
        if value is not None and value not in allowed:
            raise RequestError(
                f"sampling_params={{{name!r}: {value!r}}}: {name} must be {allowed}"
            )
    check_chat(prompts, model)


def _check_names(
    argument: str, given: Mapping[str, Json], known: frozenset[str]
) -> None:
    for name in given:
        if name not in known:
            raise RequestError(
                f"{argument}: {name!r} is no name of vLLM {names.VLLM_VERSION}."
                f"{did_you_mean(name, known)} Names are vLLM's own, as in "
                f"vllm.{_CLASSES[argument]}."
            )


def _check_owned(
    argument: str, given: Mapping[str, Json], refused: Mapping[str, str]
) -> None:
    for name in given:
        if name in refused:
            raise RequestError(
                f"{argument}={{{name!r}: ...}} cannot be set: {refused[name]}"
            )


def check_chat(prompts: Prompts, model: ModelLocation) -> None:
    """Refuse what needs a chat template when the model is known to have none.

    Raises:
        RequestError: Naming the argument that asks for a chat.
    """
    if model.has_chat_template is not False:
        return
    for argument in _CHATS:
        if (value := getattr(prompts, argument)) is not None:
            raise RequestError(
                f"{argument}={value!r} needs a chat, but the model {model.name!r} has "
                "no chat template. Use an instruct model, or put the whole text into "
                "prompt_column= or prompt_template=."
            )


@frozen
class _Range:
    """The values that a parameter may have; text says it in words."""

    low: float
    high: float | None = None
    whole: bool = False
    above: bool = False

    def __contains__(self, value: object) -> bool:
        kinds = (int,) if self.whole else (int, float)
        return (
            isinstance(value, kinds)
            and not isinstance(value, bool)
            and (value > self.low if self.above else value >= self.low)
            and (self.high is None or value <= self.high)
        )

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        low = f"{'above' if self.above else 'of at least'} {self.low}"
        return f"{kind} {low}{'' if self.high is None else f' and at most {self.high}'}"


#: What makes a chat of every row.
_CHATS: Final = ("messages_column", "system_prompt", "tools_column")
_CLASSES: Final = {"sampling_params": "SamplingParams", "engine_kwargs": "EngineArgs"}

#: vLLM 0.32.0, ``SamplingParams._verify_args``: the rules that are one comparison.
_RANGES: Final[Mapping[str, _Range]] = {
    "frequency_penalty": _Range(-2, 2),
    "max_tokens": _Range(1, whole=True),
    "min_p": _Range(0, 1),
    "min_tokens": _Range(0, whole=True),
    "presence_penalty": _Range(-2, 2),
    "repetition_penalty": _Range(0, above=True),
    "temperature": _Range(0, 2),
    "top_k": _Range(-1, whole=True),
    "top_p": _Range(0, 1, above=True),
}
