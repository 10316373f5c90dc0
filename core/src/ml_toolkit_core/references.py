"""Every name of a request looked up once, on the client, reading only."""

import importlib
import os
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal

from attrs import evolve

from ml_toolkit_core.catalogs import catalog
from ml_toolkit_core.errors import MissingExtra, RequestError, did_you_mean
from ml_toolkit_core.models import find_model
from ml_toolkit_core.names import is_path, parse_name
from ml_toolkit_core.values import (
    Column,
    DuplicateIds,
    InferenceRequest,
    InputPin,
    Pinned,
    Prompts,
    TableFormat,
    TableLocation,
)

#: Columns that are found by name when nothing is said.
PROMPT_COLUMN: Final = "prompt"
MESSAGES_COLUMN: Final = "messages"


def tables(module: str) -> Any:
    """Import a module of :mod:`ml_toolkit_core.tables`, which needs an extra.

    Raises:
        MissingExtra: When pyarrow or deltalake is not installed.
    """
    try:
        return importlib.import_module(f"ml_toolkit_core.tables.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ml_toolkit_core"):
            raise
        raise MissingExtra(
            f"reading and writing tables needs {error.name!r}, which is not installed; "
            "pip install 'ml-toolkit-core[tables]'"
        ) from error


def resolve_references(request: InferenceRequest) -> Pinned:
    """Look up the input, the model and the output, and hold them fast.

    Raises:
        RequestError: When one of them is not as the request needs it.
    """
    source = evolve(_source(request), read_options=request.read_options)
    output = _table(
        request.output_table, "output_table", "write", request.output_format
    )
    asked = request.prompts.prompt_column or PROMPT_COLUMN
    given = source.members or (source.uri,)
    source, pin = tables("pin").pin_table(source, text_columns=(asked,))
    _check_names(source.name, (*given, *(file.path for file in pin.files)))
    output = evolve(output, format=tables("sink").output_format(output))
    if any(_nested(text, output.uri) for text in given):
        raise RequestError(
            f"output_table={request.output_table!r} and "
            f"input_table={source.name!r} are the same place or lie in one "
            "another; write to another place"
        )
    prompts = find_prompts(request.prompts, pin)
    tables("columns").output_schema(pin, request.output_column, output.format)
    model = find_model(request.model)
    left_out = tables("columns").left_out_note(pin, request.output_column)
    return Pinned(
        source=source,
        pin=evolve(pin, notes=()),  # they are said once, and cross no wire
        model=model,
        output=output,
        prompts=prompts,
        notes=(
            *pin.notes,
            *((left_out,) if left_out else ()),
            *_id_notes(request, source, pin),
        ),
    )


def _id_notes(
    request: InferenceRequest, source: TableLocation, pin: InputPin
) -> tuple[str, ...]:
    """Read the ids, where a column of them is named.

    Raises:
        RequestError: When there is no such column, or the rows' ids are not one each
            and ``duplicate_ids`` does not let them pass.
    """
    if request.id_column is None:
        return ()
    columns = {column.name: column for column in pin.columns}
    name = _column(request.id_column, columns, "id_column").name
    found = tables("ids").id_faults(source, pin, name, limit=request.limit)
    if found is not None and request.duplicate_ids is DuplicateIds.ERROR:
        raise RequestError(
            f"{found}. Pass another id_column=, drop these rows, or go on with "
            "duplicate_ids='warn'"
        )
    return (found,) if found is not None else ()


def _source(request: InferenceRequest) -> TableLocation:
    given = request.input_table
    if isinstance(given, str):
        return _table(given, "input_table", "read", request.input_format)
    tables = [_table(t, "input_table", "read", request.input_format) for t in given]
    named = [table.name for table in tables if table.catalog is not None]
    if named:
        raise RequestError(
            f"input_table: {', '.join(map(repr, named))} in a list is a table's name; "
            "a list is of files and folders: pass one table alone"
        )
    return evolve(
        tables[0],
        name=", ".join(table.name for table in tables),
        members=tuple(table.uri for table in tables),
    )


def _table(
    text: str, argument: str, access: Literal["read", "write"], given: str | None
) -> TableLocation:
    form = (
        None if given is None else _format(given, argument.replace("table", "format"))
    )
    if not is_path(text):
        name = parse_name(argument, text)
        found = catalog().table(name, access)
        return found if form is None else evolve(found, format=form)
    scheme, separator, _ = text.partition("://")
    if separator and scheme != "file":
        uri = text
    else:
        uri = os.path.abspath(Path(text.removeprefix("file://")).expanduser())  # noqa: PTH100  Path keeps ".."
    return TableLocation(name=text, uri=uri, format=form)


def _format(given: str, argument: str) -> TableFormat:
    try:
        return TableFormat(given)
    except ValueError:
        names = [form.value for form in TableFormat]
        raise RequestError(
            f"{argument}={given!r} is not read or written here."
            f"{did_you_mean(given, names)} Known: {', '.join(names)}"
        ) from None


def _check_names(table: str, paths: Iterable[str]) -> None:
    """Refuse names of files that are no text, which no order could say."""
    for path in paths:
        try:
            path.encode()
        except UnicodeEncodeError:
            raise RequestError(
                f"input_table={table!r}: the name {path!r} is no UTF-8; rename it"
            ) from None


def _nested(one: str, other: str) -> bool:
    """Whether one place holds the other, or a glob takes in the other."""
    # Not Path.resolve: that raises on links which go round in a circle.
    first, second = Path(os.path.realpath(one)), Path(os.path.realpath(other))
    if first == second or first in second.parents or second in first.parents:
        return True
    return any(second.match(one) for second in (second, *second.parents))


def find_prompts(prompts: Prompts, pin: InputPin) -> Prompts:
    """Check the columns that prompts name, finding one by name when none is given.

    Raises:
        RequestError: When a column is missing or cannot hold a prompt.
    """
    columns = {column.name: column for column in pin.columns}
    nested = ("string", "large_string", "list", "large_list", "struct")
    for argument in ("tools_column", "sampling_params_column"):
        name = getattr(prompts, argument)
        if name is not None:
            _must_be(_column(name, columns, argument), argument, nested)
    if prompts.prompt_template is not None:
        for name in template_fields(prompts.prompt_template):
            _column(name, columns, f"prompt_template field {{{name}}}")
        return prompts
    if prompts.messages_column is not None:
        column = _column(prompts.messages_column, columns, "messages_column")
        _must_be(
            column, "messages_column", ("string", "large_string", "list", "large_list")
        )
        return prompts
    if prompts.prompt_column is not None:
        column = _column(prompts.prompt_column, columns, "prompt_column")
        _must_be(column, "prompt_column", ("string", "large_string"))
        return prompts
    by_name = [name for name in (PROMPT_COLUMN, MESSAGES_COLUMN) if name in columns]
    if len(by_name) != 1:
        what = "both 'prompt' and 'messages'" if by_name else "neither"
        raise RequestError(
            f"nothing says what to ask: the input has {what} as columns. Pass "
            "prompt_column=, messages_column= or prompt_template=. Columns: "
            f"{', '.join(map(repr, columns))}"
        )
    found = {f"{by_name[0]}_column": by_name[0]}
    return find_prompts(evolve(prompts, **found), pin)


def template_fields(template: str) -> tuple[str, ...]:
    """Return the column names in a template, in order of first use.

    Raises:
        RequestError: When the template is not one.
    """
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        raise RequestError(
            f"prompt_template={template!r}: {error}; write {{{{ and }}}} for braces"
        ) from None
    fields: dict[str, None] = {}
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if not name or spec or conversion:
            raise RequestError(
                f"prompt_template={template!r}: a field is a column's name and nothing "
                "else, like {name}; write {{ and }} for braces"
            )
        fields[name] = None
    if not fields:
        raise RequestError(
            f"prompt_template={template!r} names no column, so every row would ask "
            "the same; write {column} where a row's value goes"
        )
    return tuple(fields)


def _column(name: str, columns: dict[str, Column], argument: str) -> Column:
    if name not in columns:
        raise RequestError(
            f"{argument}: the input has no column {name!r}."
            f"{did_you_mean(name, columns)} Columns: {', '.join(map(repr, columns))}"
        )
    return columns[name]


def _must_be(column: Column, argument: str, types: tuple[str, ...]) -> None:
    if not column.json and column.type.partition("<")[0] not in types:
        raise RequestError(
            f"{argument}={column.name!r} is of type {column.type}; it must be "
            f"{' or '.join(types[::2])}. Use prompt_template='{{{column.name}}}' to "
            "ask with its text"
        )
