"""The command ``ml-toolkit``: the same words as the Python call."""

import json
import signal
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Final, NoReturn

import typer

from ml_toolkit.functions.llm.inference._cli_jobs import AsJson, jobs, option
from ml_toolkit.functions.llm.inference._cli_run import EXIT_STILL_RUNNING, requests
from ml_toolkit_core import discovery
from ml_toolkit_core.errors import JobError, StillRunning, SubmitUnknown, ToolkitError
from ml_toolkit_core.wire import to_json

EXIT_JOB_FAILED: Final = 1
EXIT_REQUEST: Final = 2

about = typer.Typer()


@about.command()
def fleet(  # noqa: PLR0913, PLR0917  its options
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Its folder.")],
    devices: Annotated[str, option("Cards, as 24GB*3,80GB.")],
    replicas: Annotated[str, option("max, depth (or 1), or a number.")] = "max",
    context: Annotated[int | None, option("The longest sequence, in tokens.")] = None,
    sequences: Annotated[int, option("Sequences of that length at a time.")] = 1,
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


@about.command()
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


app = typer.Typer(
    help="Run an open model over every row of a table, on the compute you name.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"ml-toolkit {version('ml-toolkit-inference')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", help="Print the version.", callback=_print_version, is_eager=True
    ),
]


@app.callback()
def _common(_version: Version = False) -> None:
    """Take what goes before a command."""


app.add_typer(requests)
app.add_typer(jobs)
app.add_typer(about)


def main() -> NoReturn:
    """Run the command; every error that we know ends in a sentence and a code."""
    try:
        _run()
    except BrokenPipeError:
        # As other tools end when their reader has gone, and without a last flush.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
    sys.exit(0)


def _run() -> None:
    try:
        app(standalone_mode=True)
    except ToolkitError as error:
        typer.echo(f"error: {_sentence(error)}", err=True)
        sys.exit(_exit_code(error))
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer makes a 1 of it
            raise end.__context__ from None
        raise


def _sentence(error: ToolkitError) -> str:
    """Say what went wrong, with what to type next and not what to call."""
    if not isinstance(error, StillRunning):
        return str(error)
    return (
        f"{error.message}. Follow it with: ml-toolkit wait {error.handle}; "
        f"end it with: ml-toolkit cancel {error.handle}"
    )


def _exit_code(error: ToolkitError) -> int:
    if isinstance(error, JobError):
        return EXIT_JOB_FAILED
    if isinstance(error, StillRunning | SubmitUnknown):
        return EXIT_STILL_RUNNING
    return EXIT_REQUEST
