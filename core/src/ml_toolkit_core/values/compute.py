"""What a run runs on, and what a backend says of itself."""

from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import ge, matches_re, optional

from ml_toolkit_core.values.request import NAME_PATTERN
from ml_toolkit_core.wire import Json, frozen_json


@frozen(kw_only=True)
class ComputeTarget:
    """The machines a backend would use.

    Args:
        name: The backend's own word for this shape, for example
            ``"h100-two-nodes"``.
        gpu_nodes: Nodes that run replicas; on a machine without GPUs, 1.
        gpus_per_node: 0 for a machine without GPUs.
        gpu_type: The GPU, or None.
        gpu_memory_bytes: Memory of one GPU, or None when not known.
        cpus_per_node: CPU cores that replicas may use, or None when not known.
        labels: The backend's own labels, for example team and job kind.
        options: The backend's options, for its own ``submit``.
        notes: What the plan should say about this choice.
    """

    name: str
    gpu_nodes: int = field(validator=ge(1))
    gpus_per_node: int = field(validator=ge(0))
    gpu_type: str | None = None
    gpu_memory_bytes: int | None = None
    cpus_per_node: int | None = field(default=None, validator=optional(ge(1)))
    labels: Mapping[str, str] = field(factory=dict, converter=frozen_json)
    options: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    notes: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs in total, over all nodes."""
        return self.gpu_nodes * self.gpus_per_node


@frozen(kw_only=True)
class ReplicaPlan:
    """How many copies of the model run, and what each gets.

    Args:
        replicas: Copies of the model.
        tensor_parallel_size: GPUs that share one layer.
        pipeline_parallel_size: Groups of layers.
        kv_tokens: Tokens of KV cache that one replica has room for, or None when not
            known.
        max_concurrent_seqs: Full sequences that one replica can work on at a time,
            likewise.
        engine_kwargs: What the plan stands for, by vLLM's names; the caller's win.
        cpus_per_replica: Cores of one replica, where there are no GPUs.
        on_far_side: Nobody here knows the machines: the far side plans again, from
            what it finds.
        reasons: Why, in sentences.
    """

    replicas: int = field(validator=ge(1))
    tensor_parallel_size: int = field(default=1, validator=ge(1))
    pipeline_parallel_size: int = field(default=1, validator=ge(1))
    gpus_per_replica: int = field(default=0, validator=ge(0))
    cpus_per_replica: int | None = field(default=None, validator=optional(ge(1)))
    kv_tokens: int | None = None
    max_concurrent_seqs: int | None = None
    engine_kwargs: Mapping[str, Json] = field(factory=dict, converter=frozen_json)
    on_far_side: bool = False
    reasons: tuple[str, ...] = ()


@frozen(kw_only=True)
class Option:
    """One option of a backend, given as ``<compute_type>_<name>``.

    Args:
        name: Without the prefix.
        type: The type that values must have.
        default: Used when the option is not given.
        doc: One sentence.
    """

    name: str = field(validator=matches_re(NAME_PATTERN))
    type: type = str
    default: Json = None
    doc: str = ""


@frozen(kw_only=True)
class BackendInfo:
    """What a backend offers.

    Args:
        doc: One sentence.
        gpu_types: The words ``gpu_type`` takes.
        shapes: What can be had, in the backend's own words.
        options: What it takes beyond the common arguments.
    """

    doc: str = ""
    gpu_types: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
