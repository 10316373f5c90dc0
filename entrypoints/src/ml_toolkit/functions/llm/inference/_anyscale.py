"""The call for people who know their Anyscale better than the catalog does."""

from collections.abc import Sequence
from typing import Any, Final

from ml_toolkit.functions.llm.inference._run import run_inference
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import JobHandle

#: Options of ``run_inference`` that have no meaning for a call that returns at once.
_NOT_HERE: Final = (
    "compute_type", "dry_run", "progress", "start_timeout_s", "timeout_s",
    "unreachable_after_s", "wait",
    "anyscale_compute_config", "anyscale_job_kind", "anyscale_team",
)  # fmt: skip


def submit_anyscale_inference(  # noqa: PLR0913  documented as it is
    input_table: str | Sequence[str],
    model: str,
    output_table: str,
    *,
    compute_config: str,
    num_gpus: int | None = None,
    job_kind: str | None = None,
    team: str | None = None,
    run_id: str | None = None,
    **options: Any,
) -> JobHandle:
    """Start a job on any compute config of Anyscale's, and return at once.

    Args:
        input_table: As in :func:`run_inference`.
        model: Likewise.
        output_table: Likewise.
        compute_config: A name that Anyscale knows, or ``name:version``; it is not
            looked up in the catalog. Replicas for machines that the catalog does not
            know are planned on the far side.
        num_gpus: GPUs in total, for the plan's words; not checked.
        job_kind: An :class:`AnyscaleJobKind` or its raw string.
        team: An :class:`AnyscaleTeam`, its raw string, or another team's name.
        run_id: As in :func:`run_inference`.
        **options: The other options of :func:`run_inference`.

    Returns:
        The job, for :func:`attach`.

    Raises:
        RequestError: The request cannot work; no job was made.
        SubmitUnknown: Nobody knows whether the job exists; the error says how to find
            out.
    """
    for name in _NOT_HERE:
        if name in options:
            raise RequestError(
                f"{name}={options[name]!r}: submit_anyscale_inference() starts a job "
                "and returns its handle; run_inference() takes this option"
            )
    job: InferenceJob = run_inference(
        input_table,
        model,
        output_table,
        compute_type="anyscale",
        num_gpus=num_gpus,
        run_id=run_id,
        wait=False,
        anyscale_job_kind=job_kind,
        anyscale_team=team,
        anyscale_raw_compute_config=str(compute_config),
        **options,
    )
    return job.handle
