"""What a model is to the pipeline: requests in, completions out, step by step."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.tables.parts import RowError
from ml_toolkit_core.wire import Json


@frozen(kw_only=True)
class EngineRequest:
    """One question to the model; exactly one of the two forms is given.

    Args:
        prompt: Text. A model with a chat template gets it as one user message
            (unless it is rendered already), a base model as it is.
        messages: A chat, for the model's chat template.
        tools: OpenAI's tool objects, for the model's chat template.
        sampling_params: vLLM's ``SamplingParams`` by name.
    """

    prompt: str | None = None
    messages: Sequence[Mapping[str, Json]] | None = None
    tools: Sequence[Mapping[str, Json]] | None = None
    sampling_params: Mapping[str, Json] = field(factory=dict)


@frozen(kw_only=True)
class Completion:
    """The answer to one request.

    Args:
        key: The key that the request was added with.
        text: The answer, or None on error.
        error: Why there is none.
        finish_reason: vLLM's word, for example ``stop`` or ``length``.
        prompt_tokens: Tokens of the prompt as the model got it.
        completion_tokens: Tokens of the answer.
    """

    key: int
    text: str | None = None
    error: RowError | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Engine(Protocol):
    """One copy of the model."""

    @property
    def capacity(self) -> int:
        """Requests in flight that keep the engine full."""

    def add(self, key: int, request: EngineRequest) -> None:
        """Take a request.

        Raises:
            RowError: When the model cannot take this one; others are not touched.
        """

    def step(self) -> Sequence[Completion]:
        """Do one step for all requests in flight; return those that are done.

        Raises:
            ReplicaDied: When the engine cannot go on.
        """


class EngineFactory(Protocol):
    """Loads a copy of the model; named as ``module:attribute`` in an executor."""

    def __call__(self, order: WorkOrder, replica: int) -> Engine:
        """Load the model for replica number ``replica``, from 0."""
