"""compute_type "anyscale": its name and options; jobs are not built yet."""

from typing import NoReturn

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.values import BackendInfo, Option


def _refuse() -> NoReturn:
    raise RequestError(
        "compute_type='anyscale' cannot run jobs in this version: its catalog, routing "
        "and job submission are not built yet. compute_type='local' runs on this "
        "machine"
    )


@hookimpl
def describe() -> BackendInfo:
    """Say what there will be."""
    return BackendInfo(
        doc="Anyscale Jobs. Not built yet: every request is refused.",
        options=(
            Option(name="compute_config", doc="A registered compute config."),
            Option(name="job_kind", doc="What the job is for."),
            Option(name="team", doc="Whose queue partition."),
        ),
    )


@hookimpl
def resolve_compute() -> NoReturn:
    """Refuse."""
    _refuse()


@hookimpl
def submit() -> NoReturn:
    """Refuse."""
    _refuse()


@hookimpl
def poll() -> NoReturn:
    """Refuse."""
    _refuse()
