"""The plan of a run: everything that is decided before anything is paid for."""

from typing import Final

from attrs import field, frozen
from attrs.validators import ge

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import (
    ComputeTarget,
    InferenceRequest,
    Pinned,
    ReplicaPlan,
    WriteMode,
)
from ml_toolkit_core.wire import Json, to_json


@frozen(kw_only=True)
class InferencePlan:
    """What would run, where, over what; printable and comparable.

    Args:
        run_id: Of the run, fresh when the request named none.
        ledger_uri: Where the run keeps its ledger.
        split_rows: Rows of one unit of publication at most.
    """

    run_id: str
    request: InferenceRequest
    pinned: Pinned
    target: ComputeTarget
    replicas: ReplicaPlan
    split_rows: int = field(validator=ge(1))
    ledger_uri: str

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know before saying yes."""
        return (
            *self.pinned.notes,
            *self.target.notes,
            *self.replicas.reasons,
        )

    def order(self, attempt: int) -> WorkOrder:
        """Return the work order of one attempt at this plan."""
        request, pinned = self.request, self.pinned
        return WorkOrder(
            run_id=self.run_id,
            attempt=attempt,
            executor=request.executor,
            source=pinned.source,
            pin=pinned.pin,
            model=pinned.model,
            output=pinned.output,
            write_mode=request.write_mode,
            prompts=pinned.prompts,
            sampling_params=request.sampling_params,
            engine_kwargs=request.engine_kwargs,
            output_column=request.output_column,
            limit=request.limit,
            engine_timeout_s=request.engine_timeout_s,
            plan=self.replicas,
            split_rows=self.split_rows,
            ledger_uri=self.ledger_uri,
            credentials=request.credentials,
        )

    def to_json(self) -> Json:
        """Return the plan as plain JSON types."""
        return to_json(self)

    def __str__(self) -> str:
        """Return the plan as lines for people."""
        request, pinned = self.request, self.pinned
        target, replicas = self.target, self.replicas
        parallel = (
            f"tensor_parallel_size={replicas.tensor_parallel_size} "
            f"pipeline_parallel_size={replicas.pipeline_parallel_size}"
        )
        per_replica = (
            f"{replicas.gpus_per_replica} GPUs"
            if replicas.gpus_per_replica
            else f"{replicas.cpus_per_replica or 'all'} CPU cores"
        )
        version = "" if pinned.pin.version is None else f" version {pinned.pin.version}"
        size = (
            f"{pinned.source.format}{version}, {pinned.pin.rows:,} rows, "
            f"{len(pinned.pin.files):,} files"
        )
        mode = _MODES[request.write_mode]
        lines = [
            ("run_id", self.run_id),
            ("input", f"{pinned.source.uri} ({size})"),
            ("question", _question(pinned)),
            ("model", f"{pinned.model.uri} ({pinned.model.kind})"),
            ("output", f"{pinned.output.uri} ({pinned.output.format}{mode})"),
            ("answer", f"column {request.output_column!r}"),
            ("compute", f"{request.compute_type}: {target.name}"),
            (
                "replicas",
                "planned on the far side"
                if replicas.on_far_side
                else f"{replicas.replicas} x {per_replica}, {parallel}",
            ),
            ("executor", request.executor),
            *(
                ("access", f"{what} by {how}")
                for what, how in request.credentials.items()
            ),
            *([("limit", f"{request.limit:,} rows")] if request.limit else []),
            ("splits", f"of up to {self.split_rows:,} rows, each published once"),
            *(("note", note) for note in self.notes),
        ]
        return "\n".join(f"{name:<9} {text}" for name, text in lines)


#: What becomes of an output that is there, beside what it is.
_MODES: Final = {
    WriteMode.ERROR: "",
    WriteMode.OVERWRITE: ", overwritten if it is there",
    WriteMode.APPEND: ", added to what is there",
}


def _question(pinned: Pinned) -> str:
    prompts = pinned.prompts
    if prompts.prompt_template is not None:
        what = f"template {prompts.prompt_template!r}"
    elif prompts.messages_column is not None:
        what = f"column {prompts.messages_column!r}, chats"
    else:
        what = f"column {prompts.prompt_column!r}, text"
    if prompts.system_prompt is not None:
        return f"{what}, with a system prompt"
    return what
