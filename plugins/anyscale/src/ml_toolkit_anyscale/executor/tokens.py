"""From a request to token ids: the chat template, and one start token, never two."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field
from jinja2 import TemplateError

from ml_toolkit_core.pipeline.engine import EngineRequest
from ml_toolkit_core.tables.parts import RowError, RowFault
from ml_toolkit_core.wire import Json

_PROBE = ({"role": "user", "content": "x"},)


@define
class Tokens:
    """Turns requests into token ids as one model wants them.

    Args:
        tokenizer: The model's, of ``transformers``.
        max_model_len: Tokens of prompt and answer that the engine has room for.
    """

    tokenizer: Any
    max_model_len: int
    _openings: tuple[str, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find the texts that only a rendered prompt begins with."""
        self._openings = tuple(_openings(self.tokenizer))

    @property
    def has_chat_template(self) -> bool:
        """Whether the model takes chats."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def ids(self, request: EngineRequest) -> list[int]:
        """Return the token ids of a request.

        A chat that ends with the assistant's turn is a started answer, which the
        model goes on with; when that turn is empty it is left out.

        Raises:
            RowError: When the model cannot take it.
        """
        if request.messages is not None:
            ids = self._encode(
                self._render(request.messages, request.tools), special=False
            )
        elif not self.has_chat_template:
            ids = self._one_start(self._encode(request.prompt, special=True))
        elif str(request.prompt).startswith(self._openings):
            ids = self._one_start(self._encode(request.prompt, special=False))
        else:
            chat = ({"role": "user", "content": request.prompt},)
            ids = self._encode(self._render(chat, None), special=False)
        if not ids:
            raise RowError(RowFault.PROMPT_EMPTY, "the prompt has no tokens")
        if len(ids) >= self.max_model_len:
            raise RowError(
                RowFault.PROMPT_TOO_LONG,
                f"prompt has {len(ids)} tokens, max_model_len is "
                f"{self.max_model_len} and one token must be left for the answer",
            )
        return ids

    def _render(
        self,
        messages: Sequence[Mapping[str, Json]],
        tools: Sequence[Mapping[str, Json]] | None,
    ) -> str:
        if not self.has_chat_template:
            raise RowError(
                RowFault.MESSAGES_INVALID,
                "the model has no chat template, so it takes text and no messages",
            )
        chat = [dict(message) for message in messages]
        if chat and chat[-1].get("role") == "assistant" and not chat[-1].get("content"):
            chat.pop()
        goes_on = bool(chat) and chat[-1].get("role") == "assistant"
        if not chat:
            raise RowError(RowFault.MESSAGES_EMPTY, "the chat has no messages")
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    chat,
                    tools=None if tools is None else list(tools),
                    tokenize=False,
                    add_generation_prompt=not goes_on,
                    continue_final_message=goes_on,
                )
            )
        except TemplateError as error:
            raise RowError(
                RowFault.MESSAGES_INVALID,
                f"the model's chat template refuses this chat{_reason(error, chat)}",
            ) from None
        except Exception as error:  # noqa: BLE001  a template can raise anything
            raise RowError(
                RowFault.MESSAGES_INVALID,
                "the model's chat template cannot render this chat "
                f"({type(error).__name__})",
            ) from None

    def _encode(self, text: object, *, special: bool) -> list[int]:
        try:
            return list(self.tokenizer(text, add_special_tokens=special)["input_ids"])
        except Exception as error:  # noqa: BLE001  lone surrogates and their like
            raise RowError(
                RowFault.PROMPT_INVALID,
                f"the model's tokenizer cannot read this text ({type(error).__name__})",
            ) from None

    def _one_start(self, ids: list[int]) -> list[int]:
        start = self.tokenizer.bos_token_id
        while start is not None and ids[:2] == [start, start]:
            ids = ids[1:]
        return ids


def _openings(tokenizer: Any) -> Iterator[str]:
    """Yield the start token and the special token that opens a rendered chat."""
    if tokenizer.bos_token:
        yield tokenizer.bos_token
    if not getattr(tokenizer, "chat_template", None):
        return
    try:
        text = tokenizer.apply_chat_template(
            list(_PROBE), tokenize=False, add_generation_prompt=True
        )
    except Exception:  # noqa: BLE001  a template that wants more than a user's turn
        return
    added = tokenizer.added_tokens_decoder.values()
    special = {str(token) for token in added if token.special}
    yield from (token for token in special if token and text.startswith(token))


def _reason(error: TemplateError, chat: Sequence[Mapping[str, Json]]) -> str:
    """Return the template's words, unless they repeat the row's."""
    message = str(error)
    said = [text for turn in chat for text in _texts(turn, skip="role")]
    if not message or any(text in message for text in said):
        return ""
    return f": {message}"


def _texts(value: Json, *, skip: str = "") -> Iterator[str]:
    if isinstance(value, str) and value.strip():
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key != skip:
                yield from _texts(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _texts(item)
