"""The executor ``ray-vllm``: Ray actors that drive vLLM's engine step by step."""

import os
from pkgutil import resolve_name
from typing import Final

import attrs

from ml_toolkit_anyscale.executor import checks
from ml_toolkit_anyscale.executor.models import stage
from ml_toolkit_anyscale.executor.settings import ADDRESS, choose_auth_mode
from ml_toolkit_core import paths
from ml_toolkit_core.order import WorkOrder

__all__ = ["NEEDS", "check", "execute"]

#: The packages that it runs on, and what brings each.
NEEDS: Final = dict.fromkeys(
    ("ray", "vllm"),
    "pip install 'ml-toolkit-anyscale[executor-cpu]', or "
    "'ml-toolkit-anyscale[executor-gpu]' on a machine with GPUs",
)

#: By name: a client that only checks a request needs no tables, Ray or vLLM.
_DRIVER: Final = "ml_toolkit_core.pipeline.driver:run"
_POOL: Final = "ml_toolkit_anyscale.executor.pool:RayPool"
_ENGINE: Final = "ml_toolkit_anyscale.executor.engine:VLLMEngine"


def check(order: WorkOrder) -> None:
    """Refuse what vLLM would refuse later; pure, in milliseconds.

    Raises:
        RequestError: See :func:`.checks.check`.
    """
    checks.check(
        sampling_params=order.sampling_params,
        engine_kwargs=order.engine_kwargs,
        prompts=order.prompts,
        model=order.model,
    )


def execute(order: WorkOrder) -> None:
    """Run an order to its end.

    Raises:
        RequestError: When it cannot run as it is.
        JobError: When it ended on the way; the same ``run_id`` resumes.
    """
    choose_auth_mode()
    # Nodes of a cluster have disks of their own: there each engine brings the model.
    staged = None if os.environ.get(ADDRESS) else _stage
    resolve_name(_DRIVER)(order, pool=_POOL, engine=_ENGINE, stage=staged)


def _stage(order: WorkOrder) -> WorkOrder:
    return attrs.evolve(order, model=stage(order.model, paths.home()))
