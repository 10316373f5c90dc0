"""The command ``ml-toolkit``: the same words as the Python call."""

import functools
import json
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from ml_toolkit.functions.llm.inference import _run
from ml_toolkit.functions.llm.inference._progress import describe, follow
from ml_toolkit_core import discovery, records
from ml_toolkit_core.errors import (
    JobError,
    RequestError,
    StillRunning,
    SubmitUnknown,
    ToolkitError,
)
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import RunResult
from ml_toolkit_core.wire import Json, to_json

EXIT_JOB_FAILED = 1
EXIT_REQUEST = 2
EXIT_FAILED_ROWS = 3
EXIT_STILL_RUNNING = 4

app = typer.Typer(
    help="Run an open model over every row of a table, on the compute you name.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Table = Annotated[str, typer.Argument(metavar="INPUT_TABLE", help="What to read.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="What answers.")]
Output = Annotated[str, typer.Argument(metavar="OUTPUT_TABLE", help="What to write.")]
Handle = Annotated[str, typer.Argument(help="As printed by run: local://<run_id>")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _text(help_text: str) -> Any:
    return typer.Option(help=help_text)


@app.command()
def run(  # noqa: PLR0913, PLR0917  the options of run_inference
    input_table: Table,
    model: Model,
    output_table: Output,
    compute_type: Annotated[str, _text("Where to run.")] = "local",
    gpu_type: Annotated[str | None, _text("The backend's word for a GPU.")] = None,
    num_gpus: Annotated[int | None, _text("GPUs in total.")] = None,
    executor: Annotated[str, _text("What runs there.")] = "ray-vllm",
    prompt_column: Annotated[str | None, _text("The text column that asks.")] = None,
    messages_column: Annotated[str | None, _text("The column of chats.")] = None,
    prompt_template: Annotated[str | None, _text("Text with {column} fields.")] = None,
    system_prompt: Annotated[str | None, _text("Put before every chat.")] = None,
    tools_column: Annotated[str | None, _text("The tools of each chat.")] = None,
    sampling_params: Annotated[
        str | None, _text("""vLLM's SamplingParams as JSON: '{"max_tokens": 16}'.""")
    ] = None,
    sampling_params_column: Annotated[
        str | None, _text("The sampling parameters of each row.")
    ] = None,
    engine_kwargs: Annotated[str | None, _text("vLLM's EngineArgs as JSON.")] = None,
    input_format: Annotated[str | None, _text("jsonl, csv, parquet or delta.")] = None,
    output_format: Annotated[str | None, _text("delta, jsonl, csv or parquet.")] = None,
    read_options: Annotated[
        str | None, _text("""For CSV, as JSON: '{"encoding": "cp1252"}'.""")
    ] = None,
    output_column: Annotated[str, _text("Where the answer goes.")] = "generated_text",
    limit: Annotated[int | None, _text("Rows at most, from the first.")] = None,
    write_mode: Annotated[
        str, _text("What to do with an output that exists.")
    ] = "error",
    run_id: Annotated[
        str | None, _text("The same again goes on with that run.")
    ] = None,
    replicas: Annotated[str, _text("throughput, depth or a number.")] = "throughput",
    engine_timeout_s: Annotated[
        float, _text("Silence after which an engine hangs.")
    ] = 600,
    unreachable_after_s: Annotated[
        float, _text("How long to ride out silence.")
    ] = 1800,
    timeout_s: Annotated[
        float | None, _text("Bounds the waiting, not the job.")
    ] = None,
    option: Annotated[
        list[str] | None, _text("A backend's own option, as NAME=VALUE.")
    ] = None,
    dry_run: Annotated[bool, _text("Print the plan and start nothing.")] = False,
    wait: Annotated[bool, _text("Follow the job to its end.")] = True,
    progress: Annotated[bool, _text("Show progress, on stderr.")] = True,
    as_json: AsJson = False,
) -> None:
    """Ask the model once for every row, and publish the answers."""
    arguments: dict[str, Any] = {
        key: value for key, value in locals().items() if key not in _OURS
    }
    arguments |= {
        "sampling_params": _json(sampling_params, "--sampling-params"),
        "engine_kwargs": _json(engine_kwargs, "--engine-kwargs"),
        "read_options": _json(read_options, "--read-options"),
        **_pairs(option or []),
    }
    if dry_run:
        made = _run.plan_inference(**arguments)
        typer.echo(json.dumps(made.to_json()) if as_json else made)
        return
    answer = _run.run_inference(**arguments, wait=False)
    if not wait:
        typer.echo(answer.handle)
        raise typer.Exit(EXIT_STILL_RUNNING)
    _finish(
        answer,
        as_json=as_json,
        timeout_s=timeout_s,
        unreachable_after_s=unreachable_after_s,
        progress=progress,
    )


#: Options of ``run`` that are not passed on as they are.
_OURS = {"option", "dry_run", "wait", "progress", "as_json"}


@app.command("plan", help="Print what run would do with the same arguments.")
@functools.wraps(run)
def plan(**arguments: Any) -> None:
    """Print the plan and start nothing."""
    run(**{**arguments, "dry_run": True})


def _finish(job: InferenceJob, *, as_json: bool, **how: Any) -> None:
    """Follow a job to its end and print what it made."""
    try:
        result = follow(job, **how).result()
    except KeyboardInterrupt:
        raise StillRunning(
            f"{job.handle} goes on without you. Follow it with: ml-toolkit wait "
            f"{job.handle}; end it with: ml-toolkit cancel {job.handle}",
            handle=job.handle,
        ) from None
    typer.echo(json.dumps(to_json(result)) if as_json else _summary(result))
    if result.failed:
        raise typer.Exit(EXIT_FAILED_ROWS)


@app.command()
def wait(
    handle: Handle,
    timeout_s: Annotated[
        float | None, _text("Bounds the waiting, not the job.")
    ] = None,
    unreachable_after_s: Annotated[
        float, _text("How long to ride out silence.")
    ] = 1800,
    progress: Annotated[bool, _text("Show progress, on stderr.")] = True,
    as_json: AsJson = False,
) -> None:
    """Follow a job to its end and print what it made."""
    _finish(
        _run.attach(handle),
        as_json=as_json,
        timeout_s=timeout_s,
        unreachable_after_s=unreachable_after_s,
        progress=progress,
    )


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the jobs that were submitted from this machine, the newest last."""
    jobs = records.jobs()
    if as_json:
        typer.echo(json.dumps([to_json(job) for job in jobs]))
        return
    for job in jobs:
        typer.echo(f"{job.handle}  {job.output}")


@app.command()
def status(handle: Handle, as_json: AsJson = False) -> None:
    """Say where a job stands."""
    seen = _run.attach(handle).status()
    typer.echo(json.dumps(to_json(seen)) if as_json else describe(seen))
    if not as_json and seen.message:
        typer.echo(seen.message)


@app.command()
def logs(
    handle: Handle,
    tail: Annotated[int, typer.Option(help="Lines from the end.", min=1)] = 100,
) -> None:
    """Print the end of a job's log."""
    for line in _run.attach(handle).logs(tail):
        typer.echo(line)


@app.command()
def cancel(handle: Handle) -> None:
    """End a job; rows that are published stay."""
    typer.echo(describe(_run.attach(handle).cancel()))


@app.command()
def fleet(  # noqa: PLR0913, PLR0917  its options
    model: Model,
    devices: Annotated[str, _text("Cards, as 24GB*3,80GB.")],
    replicas: Annotated[str, _text("max, depth (or 1), or a number.")] = "max",
    context: Annotated[int | None, _text("The longest sequence, in tokens.")] = None,
    sequences: Annotated[int, _text("Sequences of that length at a time.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Say how many copies of a model fit on a shelf of unequal cards."""
    planning = import_module("ml_toolkit_core.planning")
    made = planning.plan_shelf(
        planning.read_profile(model),
        planning.devices_of(devices),
        replicas,
        context=context,
        sequences=sequences,
    )
    lines = [json.dumps(to_json(made.plan))] if as_json else made.lines()
    for line in lines:
        typer.echo(line)


@app.command()
def backends(as_json: AsJson = False) -> None:
    """List the backends that are installed; imports none of them."""
    found = {
        name: [f"{p.dist.name} {p.dist.version}" if p.dist else "" for p in points]
        for name, points in discovery.found(discovery.BACKENDS).items()
    }
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, distributions in found.items():
        typer.echo(f"{name:<12} {' and '.join(distributions)}")


def main() -> NoReturn:
    """Run the command; every error that we know ends in a sentence and a code."""
    try:
        app(standalone_mode=True)
    except ToolkitError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(_exit_code(error))
    sys.exit(0)


def _exit_code(error: ToolkitError) -> int:
    if isinstance(error, JobError):
        return EXIT_JOB_FAILED
    if isinstance(error, StillRunning | SubmitUnknown):
        return EXIT_STILL_RUNNING
    return EXIT_REQUEST


def _json(text: str | None, argument: str) -> dict[str, Json]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RequestError(f"{argument}={text!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError(f"{argument}={text!r} must be a JSON object")
    return value


def _pairs(options: list[str]) -> dict[str, str]:
    pairs = {}
    for option in options:
        name, separator, value = option.partition("=")
        if not separator:
            raise RequestError(f"--option {option!r} must be NAME=VALUE")
        pairs[name] = value
    return pairs


def _summary(result: RunResult) -> str:
    tokens = (
        f"{result.prompt_tokens:,} prompt + {result.completion_tokens:,} completion"
    )
    lines = [
        ("output", result.output),
        ("rows", f"{result.rows:,}, of which {result.failed:,} failed"),
        ("tokens", tokens),
        ("time", f"{result.seconds:,.1f} s, {result.requests:,} requests"),
    ]
    if result.failed:
        lines.append(("errors", str(result.errors)))
    if result.truncated:
        share = result.truncated / result.rows
        lines.append(
            ("cut off", f"{result.truncated:,} answers ({share:.0%}) at max_tokens")
        )
    return "\n".join(f"{name:<8} {text}" for name, text in lines)
