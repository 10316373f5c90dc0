"""compute_type "databricks": its name; jobs are not built yet."""

from typing import NoReturn

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.values import BackendInfo


def _refuse() -> NoReturn:
    raise RequestError(
        "compute_type='databricks' cannot run jobs in this version: clusters, runs and "
        "the Unity Catalog resolver are not built yet. compute_type='local' runs on "
        "this machine"
    )


@hookimpl
def describe() -> BackendInfo:
    """Say what there will be."""
    return BackendInfo(doc="Databricks GPU compute. Not built yet: refused.")


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
