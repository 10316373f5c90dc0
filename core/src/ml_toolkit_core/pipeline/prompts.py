"""A row becomes a request to the model, or a row error."""

import datetime as dt
import decimal
import json
import string
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.cells import cells
from ml_toolkit_core.pipeline.engine import EngineRequest
from ml_toolkit_core.references import template_fields
from ml_toolkit_core.tables.parts import RowError, RowFault
from ml_toolkit_core.wire import Json

#: A template's pieces: text, and the column whose value follows it, if one does.
Template: TypeAlias = tuple[tuple[str, str | None], ...]


class Prompter:
    """Makes the requests of one batch.

    Args:
        order: Says which columns ask, and how.
        batch: The rows.
    """

    def __init__(self, order: WorkOrder, batch: pa.RecordBatch) -> None:
        self._prompts = order.prompts
        self._params = order.sampling_params
        self._template = pieces(order.prompts.prompt_template or "")
        self._columns = {name: cells(batch, name) for name in used_columns(order)}

    def request(self, row: int) -> EngineRequest:
        """Return the request of row number ``row`` of the batch.

        Raises:
            RowError: When the row cannot ask; the message never quotes the row.
        """
        for values in self._columns.values():
            if isinstance(values[row], RowError):
                raise values[row]
        prompts = self._prompts
        params = self._row_params(row)
        tools = self._row_tools(row)
        system = prompts.system_prompt
        if prompts.messages_column is not None:
            name = prompts.messages_column
            messages = chat(self._columns[name][row], name)
        else:
            text = self._text(row)
            if system is None and tools is None:
                return EngineRequest(prompt=text, sampling_params=params)
            messages = [{"role": "user", "content": text}]
        if system is not None and messages[0]["role"] != "system":
            messages = [{"role": "system", "content": system}, *messages]
        return EngineRequest(messages=messages, tools=tools, sampling_params=params)

    def _text(self, row: int) -> str:
        if self._template:
            return fill(self._template, self._columns, row)
        name = self._prompts.prompt_column or ""
        return question(self._columns[name][row], name)

    def _row_tools(self, row: int) -> list[dict[str, Json]] | None:
        name = self._prompts.tools_column
        if name is None or self._columns[name][row] is None:
            return None
        tools = decoded(self._columns[name][row], name, RowFault.TOOLS_INVALID)
        if not isinstance(tools, list) or not all(isinstance(t, dict) for t in tools):
            raise RowError(
                RowFault.TOOLS_INVALID, f"column {name!r} holds no list of tool objects"
            )
        return tools or None

    def _row_params(self, row: int) -> Mapping[str, Json]:
        name = self._prompts.sampling_params_column
        if name is None or self._columns[name][row] is None:
            return self._params
        params = decoded(
            self._columns[name][row], name, RowFault.SAMPLING_PARAMS_INVALID
        )
        if not isinstance(params, dict):
            raise RowError(
                RowFault.SAMPLING_PARAMS_INVALID,
                f"column {name!r} holds {_kind(params)}",
            )
        given = {key: value for key, value in params.items() if value is not None}
        return {**self._params, **given}


def question(value: object, column: str) -> str:
    """Return a prompt column's text.

    Raises:
        RowError: When it is null, blank or no text.
    """
    if value is None:
        raise RowError(RowFault.PROMPT_NULL, f"column {column!r} is null")
    if not isinstance(value, str):
        raise RowError(
            RowFault.PROMPT_WRONG_TYPE,
            f"column {column!r} holds {_kind(value)} here, and a prompt is text",
        )
    if not value.strip():
        what = "blank" if value else "empty"
        raise RowError(RowFault.PROMPT_EMPTY, f"column {column!r} is {what}")
    return value


def pieces(template: str) -> Template:
    """Cut a template up.

    >>> pieces("Where is {name}?")
    (('Where is ', 'name'), ('?', None))
    """
    parsed = string.Formatter().parse(template)
    return tuple((literal, name) for literal, name, _, _ in parsed)


def fill(template: Template, columns: Mapping[str, Sequence[object]], row: int) -> str:
    """Fill a template from one row; braces in the row's values stay as they are.

    Raises:
        RowError: When a field's value is null, or cannot be said as text.
    """
    said: list[str] = []
    for literal, name in template:
        said.append(literal)
        if name is not None:
            said.append(_text(columns[name][row], name))
    return question("".join(said), "prompt_template")


def chat(value: Json, column: str) -> list[dict[str, Json]]:
    """Return a messages column's chat, given as a list or as its JSON text.

    Raises:
        RowError: When it is no chat.
    """
    if value is None:
        raise RowError(RowFault.MESSAGES_NULL, f"column {column!r} is null")
    if isinstance(value, str) and not value.strip():
        raise RowError(RowFault.MESSAGES_EMPTY, f"column {column!r} is empty text")
    value = decoded(value, column, RowFault.MESSAGES_INVALID)
    if not isinstance(value, list):
        raise RowError(
            RowFault.MESSAGES_INVALID,
            f"column {column!r} holds {_kind(value)}, not a list",
        )
    if not value:
        raise RowError(RowFault.MESSAGES_EMPTY, f"column {column!r} is an empty list")
    return [_message(item, i, column) for i, item in enumerate(value)]


def decoded(value: Json, column: str, kind: RowFault) -> Json:
    """Return a value that may be given as JSON text.

    Raises:
        RowError: Of this kind, when the text is no JSON, or JSON text once more.
    """
    if not isinstance(value, str):
        return value
    try:
        value = json.loads(value)
    except RecursionError:
        raise RowError(kind, f"column {column!r} is JSON that nests too deep") from None
    except ValueError as error:
        where = getattr(error, "pos", 0)
        raise RowError(
            kind, f"column {column!r} is text but not JSON (at character {where})"
        ) from None
    if isinstance(value, str):
        raise RowError(
            kind, f"column {column!r} is JSON text inside JSON text; decode it once"
        )
    return value


def _message(item: object, place: int, column: str) -> dict[str, Json]:
    where = f"message {place} of column {column!r}"
    if not isinstance(item, Mapping):
        raise RowError(
            RowFault.MESSAGES_INVALID, f"{where} is {_kind(item)}, not an object"
        )
    message = {key: value for key, value in item.items() if value is not None}
    if not isinstance(message.get("role"), str):
        raise RowError(RowFault.MESSAGES_INVALID, f"{where} has no role")
    content = message.get("content")
    if not isinstance(content, str | list) and "tool_calls" not in message:
        raise RowError(RowFault.MESSAGES_INVALID, f"{where} has no content")
    return message


def _text(value: object, column: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        raise RowError(
            RowFault.PROMPT_NULL, f"column {column!r} of the template is null"
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | decimal.Decimal):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list | dict):
        try:
            return json.dumps(value, ensure_ascii=False)
        except TypeError:
            pass
    raise RowError(
        RowFault.PROMPT_WRONG_TYPE,
        f"column {column!r} of the template holds {_kind(value)}, which has no text",
    )


def used_columns(order: WorkOrder) -> tuple[str, ...]:
    """Return the columns that requests are made of."""
    prompts = order.prompts
    template = prompts.prompt_template
    names = {
        prompts.messages_column,
        prompts.prompt_column,
        prompts.tools_column,
        prompts.sampling_params_column,
        *(() if template is None else template_fields(template)),
    }
    return tuple(name for name in names if name is not None)


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        bytes: "bytes",
        str: "text",
        type(None): "null",
    }
    return names.get(type(value), f"a {type(value).__name__}")
