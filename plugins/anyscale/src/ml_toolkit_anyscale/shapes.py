"""What stands behind a compute config: kinds of machines, and how many."""

from attrs import field, frozen
from attrs.validators import ge, min_len, optional


@frozen(kw_only=True)
class Node:
    """One kind of machine.

    Args:
        instance: The cloud's word for it.
        cpus: vCPUs, which are two for each physical core.
        memory_gib: Main memory.
        gpus: 0 for a CPU machine.
        gpu_type: As in ``gpu_type=``.
        gpu_memory_gib: Memory of one GPU.
    """

    instance: str = field(validator=min_len(1))
    cpus: int = field(validator=ge(1))
    memory_gib: int = field(validator=ge(1))
    gpus: int = field(default=0, validator=ge(0))
    gpu_type: str | None = None
    gpu_memory_gib: int | None = field(default=None, validator=optional(ge(1)))


@frozen(kw_only=True)
class Shape:
    """The machines behind one compute config.

    Args:
        name: The compute config.
        head: The head node.
        worker: The kind of the other nodes; all have GPUs.
        workers: How many of them.
        auto: Whether ``(gpu_type, num_gpus)`` alone may choose it.
    """

    name: str = field(validator=min_len(1))
    head: Node
    worker: Node
    workers: int = field(validator=ge(0))
    auto: bool = False

    @property
    def total_nodes(self) -> int:
        """Nodes, the head included."""
        return 1 + self.workers

    @property
    def gpu_nodes(self) -> int:
        """Nodes that have GPUs."""
        return self.workers + (1 if self.head.gpus else 0)

    @property
    def num_gpus(self) -> int:
        """GPUs in total."""
        return self.head.gpus + self.workers * self.worker.gpus

    @property
    def gpu_type(self) -> str:
        """The GPU, which is the same on all nodes."""
        return self.worker.gpu_type or ""

    def __str__(self) -> str:
        """Say what is there.

        >>> from ml_toolkit_anyscale.catalog import FAMILY_2
        >>> str(FAMILY_2["h100-cpu-head-2gpu"])
        'r6i.16xlarge head and 2 x p5.48xlarge, 16 h100 GPUs'
        """
        more = f" and {self.workers} x {self.worker.instance}" if self.workers else ""
        return f"{self.head.instance} head{more}, {self.num_gpus} {self.gpu_type} GPUs"
