"""The one call."""

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, overload

from ml_toolkit.functions.llm.inference import _arguments
from ml_toolkit.functions.llm.inference._progress import (
    ProgressOption,
    follow,
    note_lines,
)
from ml_toolkit_core import dispatch
from ml_toolkit_core.backends import Backends
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.job import InferenceJob, check_limits
from ml_toolkit_core.plan import InferencePlan
from ml_toolkit_core.values import InferenceRequest, JobHandle, Prompts

_BACKENDS: Final = Backends()


@overload
def run_inference(
    input_table: str | Sequence[str],
    model: str,
    output_table: str,
    *,
    dry_run: Literal[True],
    **options: Any,
) -> InferencePlan: ...


@overload
def run_inference(
    input_table: str | Sequence[str],
    model: str,
    output_table: str,
    *,
    compute_type: str = ...,
    gpu_type: str | None = ...,
    num_gpus: int | None = ...,
    executor: str = ...,
    prompt_column: str | None = ...,
    messages_column: str | None = ...,
    prompt_template: str | None = ...,
    system_prompt: str | None = ...,
    tools_column: str | None = ...,
    sampling_params: Mapping[str, object] | None = ...,
    sampling_params_column: str | None = ...,
    engine_kwargs: Mapping[str, object] | None = ...,
    input_format: str | None = ...,
    output_format: str | None = ...,
    read_options: Mapping[str, object] | None = ...,
    output_column: str = ...,
    id_column: str | None = ...,
    duplicate_ids: str = ...,
    limit: int | None = ...,
    write_mode: str = ...,
    run_id: str | None = ...,
    credentials: Mapping[str, str] | None = ...,
    replicas: str | int = ...,
    start_timeout_s: float | None = ...,
    engine_timeout_s: float = ...,
    unreachable_after_s: float = ...,
    timeout_s: float | None = ...,
    dry_run: Literal[False] = ...,
    wait: bool = ...,
    progress: ProgressOption = ...,
    anyscale_compute_config: str | None = ...,
    anyscale_job_kind: str | None = ...,
    anyscale_team: str | None = ...,
    **backend_options: object,
) -> InferenceJob: ...


def run_inference(  # noqa: PLR0913  the one call; see docs for its groups
    input_table: str | Sequence[str],
    model: str,
    output_table: str,
    *,
    compute_type: str = "local",
    gpu_type: str | None = None,
    num_gpus: int | None = None,
    executor: str = "ray-vllm",
    prompt_column: str | None = None,
    messages_column: str | None = None,
    prompt_template: str | None = None,
    system_prompt: str | None = None,
    tools_column: str | None = None,
    sampling_params: Mapping[str, object] | None = None,
    sampling_params_column: str | None = None,
    engine_kwargs: Mapping[str, object] | None = None,
    input_format: str | None = None,
    output_format: str | None = None,
    read_options: Mapping[str, object] | None = None,
    output_column: str = "generated_text",
    id_column: str | None = None,
    duplicate_ids: str = "error",
    limit: int | None = None,
    write_mode: str = "error",
    run_id: str | None = None,
    credentials: Mapping[str, str] | None = None,
    replicas: str | int = "throughput",
    start_timeout_s: float | None = None,
    engine_timeout_s: float = 600.0,
    unreachable_after_s: float = 1800.0,
    timeout_s: float | None = None,
    dry_run: bool = False,
    wait: bool = True,
    progress: ProgressOption = None,
    anyscale_compute_config: str | None = None,
    anyscale_job_kind: str | None = None,
    anyscale_team: str | None = None,
    **backend_options: object,
) -> InferenceJob | InferencePlan:
    """Run a model over every row of a table and publish a table of answers.

    Args:
        input_table: A JSONL, CSV or Parquet file, a folder or a glob of them, a list
            of these, a Delta table, or a name ``catalog.schema.table``. Text with a
            slash or a known suffix is a path.
        model: A Hugging Face folder, a ``.gguf`` file, ``catalog.schema.model`` or a
            Hugging Face id.
        output_table: A name or a path: a Delta table; one file when it ends in
            ``.jsonl``, ``.csv`` or ``.parquet``; or with ``output_format`` a folder
            of parts.
        compute_type: Where to run: the name of an installed backend.
        gpu_type: The backend's word for a GPU.
        num_gpus: GPUs in total, over all nodes.
        executor: What runs there: ``ray-vllm``, or ``scripted`` for tests.
        prompt_column: The text column that asks. Found by name (``prompt``) when
            nothing is said.
        messages_column: The column of chats that asks (``messages`` by name).
        prompt_template: Text with ``{column}`` fields that asks.
        system_prompt: Put before every chat that brings none.
        tools_column: The tools of each chat, as OpenAI's tool objects or JSON text.
        sampling_params: vLLM's ``SamplingParams`` by name. ``max_tokens`` is 256 when
            it is not given.
        sampling_params_column: Those of each row, as a struct or JSON text; they win
            over those of the run.
        engine_kwargs: vLLM's ``EngineArgs`` by name.
        input_format: ``jsonl``, ``csv``, ``parquet`` or ``delta``, where the name does
            not say.
        output_format: ``delta``, ``jsonl``, ``csv`` or ``parquet``.
        read_options: For CSV, its ``encoding`` (UTF-8), ``delimiter`` (a comma) and the
            ``types`` of its columns (text).
        output_column: Where the answer goes, after the input's columns and before
            ``error``, ``finish_reason``, ``prompt_tokens``, ``completion_tokens``.
        id_column: The column that tells the rows apart: text, whole numbers, times,
            decimals or binary. It is read before anything starts.
        duplicate_ids: What to do when ids are missing or occur more than once:
            ``error`` refuses them, ``warn`` says so and goes on.
        limit: Rows at most, counted from the input's first.
        write_mode: ``error``: never touch an output that is there, but go on with one
            that this ``run_id`` made. ``overwrite``: put the new rows in its place in
            one last step. ``append``: add them; the columns must be the same.
        run_id: A name for the run. The same call with the same name asks only for
            rows that are not published yet.
        credentials: Where the machines of the run find theirs: ``{"s3": "identity"}``
            for the role of a machine, ``{"s3": "env:TEAM_AWS"}`` for its variables
            ``TEAM_AWS_ACCESS_KEY_ID`` and so on. Never the credentials themselves.
        replicas: ``throughput``, as many copies of the model as is best for it;
            ``depth``, one over all the GPUs; or that many.
        start_timeout_s: Seconds that the job may wait for its machines; then it is
            cancelled.
        engine_timeout_s: Seconds without a sign of life after which an engine counts
            as hung; loading gives none, and has half an hour at least.
        unreachable_after_s: Seconds that a silent platform is ridden out.
        timeout_s: Bounds the waiting, not the job.
        dry_run: Return the plan and start nothing.
        wait: Follow the job to its end; else return at once.
        progress: None or True for a moving line on a terminal and plain lines
            elsewhere (stderr), False for silence, or a function that gets every
            status. What is to be known of the input is written on stderr with these
            lines, and is in ``plan.notes`` of the job in any case.
        anyscale_compute_config: A member or its raw string.
        anyscale_job_kind: A member or its raw string.
        anyscale_team: A member or its raw string.
        **backend_options: ``<compute_type>_<option>``.

    Returns:
        The finished job, or the running one with ``wait=False``, or the plan with
        ``dry_run=True``.

    Raises:
        RequestError: The request cannot work; nothing was started.
        PluginError: A plugin breaks its contract; nothing was started.
        JobError: The job failed; what was published stays, and the error says how to
            go on.
        StartTimeout: ``start_timeout_s`` went by; the job was cancelled.
        StillRunning: ``timeout_s`` went by; the job goes on.
        SubmitUnknown: Nobody knows whether the job exists; the error says how to
            find out.
    """
    given = {
        "anyscale_compute_config": anyscale_compute_config,
        "anyscale_job_kind": anyscale_job_kind,
        "anyscale_team": anyscale_team,
    }
    options = {k: str(v) for k, v in given.items() if v is not None} | backend_options
    try:
        request = InferenceRequest(
            input_table=_arguments.path_texts(input_table),
            model=_arguments.path_text(model),
            output_table=_arguments.path_text(output_table),
            compute_type=compute_type,
            gpu_type=gpu_type,
            num_gpus=num_gpus,
            executor=executor,
            prompts=Prompts(
                prompt_column=prompt_column,
                messages_column=messages_column,
                prompt_template=prompt_template,
                system_prompt=system_prompt,
                tools_column=tools_column,
                sampling_params_column=sampling_params_column,
            ),
            sampling_params=sampling_params or {},
            engine_kwargs=engine_kwargs or {},
            input_format=input_format,
            output_format=output_format,
            read_options=read_options or {},
            output_column=output_column,
            id_column=id_column,
            duplicate_ids=_arguments.to_duplicate_ids(duplicate_ids),
            limit=limit,
            write_mode=_arguments.to_write_mode(write_mode),
            run_id=run_id,
            credentials={} if credentials is None else credentials,
            replicas=replicas,
            engine_timeout_s=engine_timeout_s,
            backend_options=options,
        )
    except (TypeError, ValueError) as error:
        raise RequestError(str(error.args[0])) from error
    check_limits(timeout_s, start_timeout_s, unreachable_after_s)
    _arguments.check_waiting(progress, start_timeout_s, wait=wait)
    arguments = inspect.signature(run_inference).parameters
    plan = dispatch.prepare(request, _BACKENDS, arguments=arguments)
    if dry_run:
        return plan
    is_shown = progress is None or progress is True
    if wait and is_shown and sys.stderr is not None:  # it may be closed
        # First of all: whatever happens from here on, this finds the run again.
        lines = [f"run_id {plan.run_id}", *note_lines(plan)]
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    job = dispatch.submit(plan, _BACKENDS)
    if not wait:
        return job
    return follow(
        job,
        timeout_s=timeout_s,
        start_timeout_s=start_timeout_s,
        unreachable_after_s=unreachable_after_s,
        progress=progress,
    )


def plan_inference(
    input_table: str | Sequence[str], model: str, output_table: str, **options: Any
) -> InferencePlan:
    """Return what :func:`run_inference` would do with the same arguments.

    Reads the input's facts, starts nothing, writes nothing.

    Raises:
        RequestError: The request cannot work.
        PluginError: A plugin breaks its contract.
    """
    return run_inference(input_table, model, output_table, dry_run=True, **options)


def attach(handle: str | JobHandle) -> InferenceJob:
    """Get a job back from its handle or the handle's text, in any process.

    Raises:
        RequestError: The text is no handle, or no such job is known.
    """
    return dispatch.attach(handle, _BACKENDS)


def register_backend(name: str, plugin: object) -> None:
    """Add a backend to this process, for notebooks and tests.

    Args:
        name: Its ``compute_type``; the same again takes the earlier one's place.
        plugin: A module or an instance with hook implementations.

    Raises:
        RequestError: The name is none, is an installed backend's, or would share the
            prefix of its options with another's.
        PluginError: It does not keep the contract.
    """
    _BACKENDS.register(name, plugin)
