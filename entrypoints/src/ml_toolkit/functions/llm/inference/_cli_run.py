"""The commands that take a request: run and plan."""

import functools
import inspect
import json
from typing import Annotated, Any, Final

import typer

from ml_toolkit.functions.llm.inference import _run
from ml_toolkit.functions.llm.inference._arguments import check_waiting
from ml_toolkit.functions.llm.inference._cli_jobs import (
    START_TIMEOUT,
    AsJson,
    finish,
    option,
)
from ml_toolkit.functions.llm.inference._progress import note_lines
from ml_toolkit_core.dispatch import fresh_run_id
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.job import check_limits
from ml_toolkit_core.wire import Json

EXIT_STILL_RUNNING: Final = 4

requests = typer.Typer()

Tables = Annotated[
    list[str],
    typer.Argument(metavar="INPUT_TABLE", help="What to read; several are one table."),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="What answers.")]
Output = Annotated[str, typer.Argument(metavar="OUTPUT_TABLE", help="What to write.")]


@requests.command()
def run(  # noqa: PLR0913, PLR0917  the options of run_inference
    input_table: Tables,
    model: Model,
    output_table: Output,
    compute_type: Annotated[str, option("Where to run.")] = "local",
    gpu_type: Annotated[str | None, option("The backend's word for a GPU.")] = None,
    num_gpus: Annotated[int | None, option("GPUs in total.")] = None,
    executor: Annotated[str, option("What runs there.")] = "ray-vllm",
    prompt_column: Annotated[str | None, option("The text column that asks.")] = None,
    messages_column: Annotated[str | None, option("The column of chats.")] = None,
    prompt_template: Annotated[str | None, option("Text with {column} fields.")] = None,
    system_prompt: Annotated[str | None, option("Put before every chat.")] = None,
    tools_column: Annotated[str | None, option("The tools of each chat.")] = None,
    sampling_params: Annotated[
        str | None, option("""vLLM's SamplingParams as JSON: '{"max_tokens": 16}'.""")
    ] = None,
    sampling_params_column: Annotated[
        str | None, option("The sampling parameters of each row.")
    ] = None,
    engine_kwargs: Annotated[str | None, option("vLLM's EngineArgs as JSON.")] = None,
    input_format: Annotated[str | None, option("jsonl, csv, parquet or delta.")] = None,
    output_format: Annotated[str | None, option("As input_format.")] = None,
    read_options: Annotated[
        str | None, option("""For CSV, as JSON: '{"encoding": "cp1252"}'.""")
    ] = None,
    output_column: Annotated[str, option("Where the answer goes.")] = "generated_text",
    id_column: Annotated[str | None, option("Tells the rows apart.")] = None,
    duplicate_ids: Annotated[
        str, option("Ids that occur twice: error or warn.")
    ] = "error",
    limit: Annotated[int | None, option("Rows at most, from the first.")] = None,
    write_mode: Annotated[
        str, option("What to do with an output that exists.")
    ] = "error",
    run_id: Annotated[
        str | None, option("The same again goes on with that run.")
    ] = None,
    credentials: Annotated[
        list[str] | None, option("Where the workers' are: s3=identity, s3=env:NAME.")
    ] = None,
    replicas: Annotated[str, option("throughput, depth or a number.")] = "throughput",
    start_timeout_s: Annotated[float | None, START_TIMEOUT] = None,
    engine_timeout_s: Annotated[
        float, option("Silence after which an engine hangs.")
    ] = 600,
    unreachable_after_s: Annotated[
        float, option("How long to ride out silence.")
    ] = 1800,
    timeout_s: Annotated[
        float | None, option("Bounds the waiting, not the job.")
    ] = None,
    option_: Annotated[
        list[str] | None,
        typer.Option("--option", help="A backend's own option, as NAME=VALUE."),
    ] = None,
    dry_run: Annotated[bool, option("Print the plan and start nothing.")] = False,
    wait: Annotated[bool, option("Follow the job to its end.")] = True,
    progress: Annotated[bool, option("Show progress, on stderr.")] = True,
    as_json: AsJson = False,
) -> None:
    """Ask the model once for every row, and publish the answers."""
    # Not by run_inference below, which starts the job and does not wait.
    check_limits(timeout_s, start_timeout_s, unreachable_after_s)
    check_waiting(progress, start_timeout_s, wait=wait)
    arguments: dict[str, Any] = {
        key: value for key, value in locals().items() if key not in _OURS
    }
    arguments |= {
        "sampling_params": _json(sampling_params, "--sampling-params"),
        "engine_kwargs": _json(engine_kwargs, "--engine-kwargs"),
        "read_options": _json(read_options, "--read-options"),
        "credentials": dict(each.partition("=")[::2] for each in credentials or []),
        **_pairs(option_ or []),
    }
    if dry_run:
        made = _run.plan_inference(**arguments)
        typer.echo(json.dumps(made.to_json()) if as_json else made)
        return
    arguments["run_id"] = run_id or fresh_run_id()
    typer.echo(f"run_id {arguments['run_id']}", err=True)
    try:
        answer = _run.run_inference(**arguments, wait=False)
    except KeyboardInterrupt:
        typer.echo(
            "interrupted while submitting: `ml-toolkit list` names the job if there is "
            f"one; --run-id {arguments['run_id']} goes on with it",
            err=True,
        )
        raise typer.Exit(EXIT_STILL_RUNNING) from None
    for line in note_lines(answer.plan):
        typer.echo(line, err=True)
    if not wait:
        typer.echo(answer.handle)
        raise typer.Exit(EXIT_STILL_RUNNING)
    finish(
        answer,
        as_json=as_json,
        timeout_s=timeout_s,
        start_timeout_s=start_timeout_s,
        unreachable_after_s=unreachable_after_s,
        progress=progress,
    )


#: Options of ``run`` that are not passed on as they are.
_OURS = {"option_", "dry_run", "wait", "progress", "as_json", "start_timeout_s"}


@requests.command("plan", help="Print what run would do with the same arguments.")
@functools.wraps(run)
def plan(**arguments: Any) -> None:
    """Print the plan and start nothing."""
    run(**{**arguments, "dry_run": True})


def _json(text: str | None, argument: str) -> dict[str, Json]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{argument}={text!r:.200} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(f"{argument}={text!r} must be a JSON object")
    return value


def _flag(name: str) -> str:
    positional = {"input_table", "model", "output_table"}
    named = {"as_json": "--json", "option_": "--option"}
    if name in positional:
        return name.upper()
    return named.get(name, f"--{name.replace('_', '-')}")


def _pairs(options: list[str]) -> dict[str, str]:
    pairs = {}
    for given in options:
        name, separator, value = given.partition("=")
        if not separator:
            raise RequestError(f"--option {given!r} must be NAME=VALUE")
        if name in inspect.signature(run).parameters:
            raise RequestError(
                f"--option {given!r}: {name!r} is no backend's option but an argument "
                f"of run itself; see {_flag(name)} in ml-toolkit run --help"
            )
        pairs[name] = value
    return pairs
