"""The commands that follow a job: wait, list, status, logs, cancel."""

import functools
import json
from typing import Annotated, Any, Final

import typer

from ml_toolkit.functions.llm.inference import _run
from ml_toolkit.functions.llm.inference._progress import describe, follow
from ml_toolkit_core import records
from ml_toolkit_core.errors import StillRunning
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import RunResult
from ml_toolkit_core.wire import to_json

EXIT_FAILED_ROWS: Final = 3

jobs = typer.Typer()

Handle = Annotated[
    str,
    typer.Argument(metavar="HANDLE", help="As printed by run: local://<run_id>"),
]


def option(help_text: str) -> Any:
    """Return an option of a command, with its help."""
    return typer.Option(help=help_text)


START_TIMEOUT: Final = option("Cancel it when it has not begun to run by then.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def finish(job: InferenceJob, *, as_json: bool, **how: Any) -> None:
    """Follow a job to its end and print what it made."""
    try:
        result = follow(job, **how).result()
    except KeyboardInterrupt:
        raise StillRunning(
            f"{job.handle} goes on without you", handle=job.handle
        ) from None
    typer.echo(json.dumps(to_json(result)) if as_json else _summary(result))
    if result.failed:
        raise typer.Exit(EXIT_FAILED_ROWS)


@jobs.command()
def wait(  # noqa: PLR0913, PLR0917  its options
    handle: Handle,
    timeout_s: Annotated[
        float | None, option("Bounds the waiting, not the job.")
    ] = None,
    start_timeout_s: Annotated[float | None, START_TIMEOUT] = None,
    unreachable_after_s: Annotated[
        float, option("How long to ride out silence.")
    ] = 1800,
    progress: Annotated[bool, option("Show progress, on stderr.")] = True,
    as_json: AsJson = False,
) -> None:
    """Follow a job to its end and print what it made."""
    finish(
        _run.attach(handle),
        as_json=as_json,
        timeout_s=timeout_s,
        start_timeout_s=start_timeout_s,
        unreachable_after_s=unreachable_after_s,
        progress=progress,
    )


@jobs.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the jobs that were submitted from this machine, the newest last."""
    known = records.jobs(left_out=functools.partial(typer.echo, err=True))
    if as_json:
        typer.echo(json.dumps([to_json(job) for job in known]))
        return
    for job in known:
        typer.echo(f"{job.handle}  {job.output}")


@jobs.command()
def status(handle: Handle, as_json: AsJson = False) -> None:
    """Say where a job stands."""
    seen = _run.attach(handle).status()
    typer.echo(json.dumps(to_json(seen)) if as_json else describe(seen))
    if not as_json and seen.message:
        typer.echo(seen.message)


@jobs.command()
def logs(
    handle: Handle,
    tail: Annotated[int, typer.Option(help="Lines from the end.", min=1)] = 100,
) -> None:
    """Print the end of a job's log."""
    for line in _run.attach(handle).logs(tail):
        typer.echo(line)


@jobs.command()
def cancel(handle: Handle) -> None:
    """End a job; rows that are published stay."""
    job = _run.attach(handle)
    job.cancel()
    typer.echo(describe(job.status()))


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
