"""The sizes of a replica that are legal on given nodes, smallest first."""

import attrs

from ml_toolkit_core.planning.memory import GIB, Memory, memory_of
from ml_toolkit_core.planning.profile import ModelProfile
from ml_toolkit_core.planning.rules import (
    pipeline_parallel_faults,
    tensor_parallel_faults,
)

#: What was left out, and why.
Rejected = list[tuple[str, str]]


@attrs.frozen(kw_only=True)
class Hardware:
    """Equal nodes with equal GPUs.

    Attributes:
        gpu_nodes: Nodes, 1 or more.
        gpus_per_node: GPUs of one node; 0 on a machine without.
        gpu_memory_bytes: Memory of one GPU, or None if nobody knows.
    """

    gpu_nodes: int
    gpus_per_node: int
    gpu_memory_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Option:
    """One pair of sizes with what it gives."""

    tensor: int
    stages: int
    replicas: int
    memory: Memory

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.stages

    @property
    def seqs(self) -> int:
        """Full sequences at a time."""
        return self.memory.max_concurrent_seqs

    @property
    def name(self) -> str:
        """What people call it."""
        return f"TP{self.tensor}" + (f" x PP{self.stages}" if self.stages > 1 else "")


@attrs.frozen(kw_only=True)
class Fit:
    """The question: one model, equal nodes, and what is wanted of a replica.

    Attributes:
        profile: The model.
        hardware: The nodes.
        gpu_memory_bytes: Memory of one GPU.
        context: The longest sequence planned for, in tokens.
        asked: The longest sequence asked for, or None.
        target: Full sequences at a time that a replica should hold.
        utilization: The share of a GPU that vLLM may take.
        kv_value_bytes: Bytes of one cached value.
    """

    profile: ModelProfile
    hardware: Hardware
    gpu_memory_bytes: int
    context: int
    asked: int | None
    target: int
    utilization: float
    kv_value_bytes: int

    def options(self, nodes: int) -> tuple[list[Option], Rejected]:
        """Return what is legal, smallest first, and what is not and why."""
        per_node = self.hardware.gpus_per_node
        options: list[Option] = []
        rejected: Rejected = []
        for tensor in range(1, per_node + 1):
            faults = tensor_parallel_faults(self.profile, tensor)
            if faults:
                rejected.append((f"TP{tensor}", "; ".join(faults) + "."))
                continue
            if per_node % tensor:
                reason = f"{per_node} GPUs per node do not divide by {tensor}."
                rejected.append((f"TP{tensor}", reason))
                continue
            for stages in range(1, nodes * per_node // tensor + 1):
                replicas = self._replicas(tensor, stages, nodes)
                if not replicas:
                    continue
                if wrong := pipeline_parallel_faults(self.profile, stages):
                    name = f"TP{tensor} x PP{stages}"
                    rejected.append((name, "; ".join(wrong) + "."))
                    break
                memory = self.memory(tensor, stages, self.context)
                options.append(
                    Option(
                        tensor=tensor, stages=stages, replicas=replicas, memory=memory
                    )
                )
        # As many GPUs are better shared by layer than by stage: no stage waits.
        options.sort(key=lambda option: (option.gpus, option.stages))
        return options, rejected

    def _replicas(self, tensor: int, stages: int, nodes: int) -> int:
        """Return how many replicas tile the nodes; 0 if they would straddle them."""
        per_node, gpus = self.hardware.gpus_per_node, tensor * stages
        if gpus <= per_node:
            return nodes * (per_node // gpus) if per_node % gpus == 0 else 0
        return nodes // (gpus // per_node) if gpus % per_node == 0 else 0

    def memory(self, tensor: int, stages: int, context: int) -> Memory:
        """Return what the tightest GPU of a replica of these sizes holds."""
        return memory_of(
            self.profile,
            tensor_parallel=tensor,
            pipeline_parallel=stages,
            gpu_memory_bytes=self.gpu_memory_bytes,
            gpu_memory_utilization=self.utilization,
            context=context,
            kv_value_bytes=self.kv_value_bytes,
        )

    def lack(self, option: Option) -> str:
        """Return why a size does not suffice."""
        memory = option.memory
        if memory.kv <= 0:
            needed = memory.weights + memory.overhead_low
            return (
                f"{gib(needed)} of weights and overhead per GPU, {gib(memory.usable)} "
                "usable."
            )
        return (
            f"{gib(memory.kv)} of KV cache hold {memory.max_concurrent_seqs} "
            f"sequence(s) of {self.context} tokens, {self.target} are wanted."
        )


def gib(number: int) -> str:
    """Return bytes in GiB, as GPUs are counted."""
    return f"{number / GIB:.1f} GiB"
