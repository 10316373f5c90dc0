"""A model on given hardware: tensor parallel, pipeline parallel, replicas."""

from collections.abc import Sequence

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning.amounts import whole
from ml_toolkit_core.planning.memory import Memory, batch_defaults
from ml_toolkit_core.planning.misfit import misfit
from ml_toolkit_core.planning.profile import ModelProfile
from ml_toolkit_core.planning.rules import layer_split
from ml_toolkit_core.planning.sizes import Fit, Hardware, Option, gib

#: Full sequences at a time that make batch work fast enough, if nobody says otherwise.
DEFAULT_CONCURRENCY = 32
#: The most tokens of a sequence that is planned for, if nobody says otherwise.
DEFAULT_CONTEXT = 8192
#: vLLM's own default changed from 0.90 to 0.92; ours is always passed.
DEFAULT_UTILIZATION = 0.90


@attrs.frozen(kw_only=True)
class FitPlan:
    """How a model runs on given hardware.

    Attributes:
        replicas: Copies of the model.
        tensor_parallel_size: GPUs that share every layer; inside one node.
        pipeline_parallel_size: Stages of one replica.
        layer_split: Layers of each stage; empty if the model is not known.
        max_model_len: The longest sequence, in tokens; None leaves it to vLLM.
        kv_tokens: Tokens that one replica can cache; None if not known.
        max_concurrent_seqs: Full sequences at a time and replica; None if not known.
        gpu_memory_utilization: The share of a GPU that vLLM may take.
        memory: What the tightest GPU holds; None if not known.
        spare_gpus: GPUs that are in no replica.
        reasons: Why it is this plan, a sentence each.
        rejected: Sizes that do not work or do not suffice, and why.
        engine_arguments: What this plan stands for, as vLLM engine arguments:
            names with values.
    """

    replicas: int
    tensor_parallel_size: int
    pipeline_parallel_size: int = 1
    layer_split: tuple[int, ...] = ()
    max_model_len: int | None = None
    kv_tokens: int | None = None
    max_concurrent_seqs: int | None = None
    gpu_memory_utilization: float = DEFAULT_UTILIZATION
    memory: Memory | None = None
    spare_gpus: int = 0
    reasons: tuple[str, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    engine_arguments: tuple[tuple[str, int | float], ...] = ()

    @property
    def engine_kwargs(self) -> dict[str, int | float]:
        """The engine arguments as keywords."""
        return dict(self.engine_arguments)

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica."""
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def tight(self) -> bool:
        """Whether less than 5 % of a GPU is left for the KV cache."""
        return self.memory is not None and self.memory.tight


def plan_for(  # noqa: PLR0913 - the facts of a fit
    profile: ModelProfile | None,
    *,
    gpu_nodes: int,
    gpus_per_node: int,
    gpu_memory_bytes: int | None,
    max_model_len: int | None = None,
    target_concurrency: int | None = None,
    replicas: int | None = None,
    gpu_memory_utilization: float = DEFAULT_UTILIZATION,
    kv_value_bytes: int = 2,
    unknown_because: str = "the model's facts are not known",
) -> FitPlan:
    """Return how many replicas of a model run on equal nodes, and of which sizes.

    The smallest replica that holds ``target_concurrency`` sequences of full length at a
    time is chosen, and as many of it as there are GPUs for; if none holds so many, the
    sizes that hold most in all replicas together. With ``replicas`` there are exactly
    so many, shared by layer over as many GPUs as each can have. Tensor parallelism
    stays inside a node. Without facts about the model or the GPUs there is one replica
    per node.

    Args:
        profile: The model, or None if nothing is known about it.
        gpu_nodes: Nodes with GPUs, 1 or more.
        gpus_per_node: GPUs of each node; 0 on a machine without.
        gpu_memory_bytes: Memory of one GPU, or None if nobody knows.
        max_model_len: The longest sequence in tokens; None is 8192 or, if that is less,
            what the model was made for. More than that is cut to it.
        target_concurrency: Full sequences at a time that a replica should hold; None
            is 32, and 1 asks only whether the model starts.
        replicas: How many replicas are wanted; None is as many as are reasonable.
        gpu_memory_utilization: The share of a GPU that vLLM may take, above 0 up to 1.
        kv_value_bytes: Bytes of one cached value: 2 for bfloat16, 1 for FP8.
        unknown_because: Why ``profile`` is None, for the reasons of the plan.

    Raises:
        RequestError: If an argument is wrong, or no legal size holds the model; it says
            the number that failed and the smallest change that fixes it.
    """
    hardware = Hardware(
        gpu_nodes=whole(gpu_nodes, "gpu_nodes", least=1),
        gpus_per_node=whole(gpus_per_node, "gpus_per_node"),
        gpu_memory_bytes=gpu_memory_bytes
        if gpu_memory_bytes is None
        else whole(gpu_memory_bytes, "gpu_memory_bytes", least=1),
    )
    target = (
        DEFAULT_CONCURRENCY
        if target_concurrency is None
        else whole(target_concurrency, "target_concurrency", least=1)
    )
    for value, name in ((max_model_len, "max_model_len"), (replicas, "replicas")):
        if value is not None:
            whole(value, name, least=1)
    if (
        isinstance(gpu_memory_utilization, bool)
        or not isinstance(gpu_memory_utilization, int | float)
        or not 0 < gpu_memory_utilization <= 1
    ):
        raise RequestError(
            f"gpu_memory_utilization={gpu_memory_utilization!r} is no share of a GPU; "
            "pass a number above 0 and up to 1, such as 0.9."
        )
    because = None
    if hardware.gpus_per_node < 1:
        because = "the nodes have no GPUs"
    elif profile is None:
        because = unknown_because
    elif hardware.gpu_memory_bytes is None:
        because = "the memory of these GPUs is not known"
    if because or profile is None or hardware.gpu_memory_bytes is None:
        return _by_node(hardware, replicas, gpu_memory_utilization, str(because))
    return _planned(
        Fit(
            profile=profile,
            hardware=hardware,
            gpu_memory_bytes=hardware.gpu_memory_bytes,
            context=min(max_model_len or DEFAULT_CONTEXT, profile.context_length),
            asked=max_model_len,
            target=target,
            utilization=float(gpu_memory_utilization),
            kv_value_bytes=whole(kv_value_bytes, "kv_value_bytes", least=1),
        ),
        replicas,
    )


def _by_node(
    hardware: Hardware, replicas: int | None, utilization: float, because: str
) -> FitPlan:
    """Return a plan that asks nothing of the model: whole nodes, or equal parts."""
    nodes, per_node = hardware.gpu_nodes, hardware.gpus_per_node
    count = replicas or nodes
    room = per_node // -(-count // nodes)
    if per_node and not room:
        raise RequestError(
            f"replicas={count} are more than the {nodes * per_node} GPUs; ask for "
            f"{nodes * per_node} or fewer."
        )
    size = max((part for part in range(1, room + 1) if per_node % part == 0), default=1)
    what = "One replica per node" if replicas is None else f"TP{size} for each replica"
    arguments: tuple[tuple[str, int | float], ...] = (
        ("tensor_parallel_size", size),
        ("pipeline_parallel_size", 1),
        ("gpu_memory_utilization", utilization),
    )
    return FitPlan(
        replicas=count,
        tensor_parallel_size=size,
        gpu_memory_utilization=utilization,
        spare_gpus=max(0, nodes * per_node - count * size),
        reasons=(f"{what}, since {because}.",),
        engine_arguments=arguments if per_node else (),
    )


def _planned(fit: Fit, replicas: int | None) -> FitPlan:
    options, rejected = fit.options(fit.hardware.gpu_nodes)
    possible = [option for option in options if option.seqs >= 1]
    if not possible:
        raise misfit(fit, options, rejected)
    good = [option for option in possible if option.seqs >= fit.target]
    if replicas is not None:
        best = _counted(fit, possible, replicas)
    elif good:
        best = good[0]
    else:
        best = max(possible, key=lambda option: option.replicas * option.seqs)
    rejected += [
        (option.name, fit.lack(option))
        for option in options
        if option.gpus < best.gpus and option.seqs < fit.target
    ]
    memory = best.memory
    gpus = fit.hardware.gpu_nodes * fit.hardware.gpus_per_node
    _, most_seqs = batch_defaults(fit.gpu_memory_bytes)
    return FitPlan(
        replicas=best.replicas,
        tensor_parallel_size=best.tensor,
        pipeline_parallel_size=best.stages,
        layer_split=layer_split(fit.profile.n_layers, best.stages),
        max_model_len=fit.context,
        kv_tokens=memory.kv_tokens,
        max_concurrent_seqs=memory.max_concurrent_seqs,
        gpu_memory_utilization=fit.utilization,
        memory=memory,
        spare_gpus=gpus - best.replicas * best.gpus,
        reasons=_reasons(fit, best, replicas),
        rejected=tuple(rejected),
        engine_arguments=(
            ("tensor_parallel_size", best.tensor),
            ("pipeline_parallel_size", best.stages),
            ("gpu_memory_utilization", fit.utilization),
            ("max_model_len", fit.context),
            ("max_num_seqs", most_seqs),
        ),
    )


def _counted(fit: Fit, possible: Sequence[Option], replicas: int) -> Option:
    """Return the size for so many replicas: few stages, then many GPUs."""
    enough = [option for option in possible if option.replicas >= replicas]
    if not enough:
        most = max(option.replicas for option in possible)
        raise RequestError(
            f"replicas={replicas} of {fit.profile.name!r} do not fit: these GPUs hold "
            f"{most} at most; ask for {most} or fewer."
        )
    option = min(enough, key=lambda option: (option.stages, -option.tensor))
    return attrs.evolve(option, replicas=replicas)


def _reasons(fit: Fit, best: Option, replicas: int | None) -> tuple[str, ...]:
    memory, profile = best.memory, fit.profile
    wanted = f"{fit.target} sequences of {fit.context} tokens"
    reasons = []
    if replicas is not None:
        reasons.append(
            f"{best.name} is the most that each of {replicas} replica(s) can use."
        )
    elif best.seqs >= fit.target:
        reasons.append(f"{best.name} is the smallest legal size that holds {wanted}.")
    else:
        reasons.append(
            f"No legal size holds {wanted}; {best.name} holds most in all replicas "
            "together."
        )
    reasons.append(
        f"The tightest GPU has {gib(memory.weights)} of weights, "
        f"{gib(memory.overhead_low)} to {gib(memory.overhead_high)} of overhead and "
        f"{gib(memory.kv)} of KV cache, with {gib(memory.usable)} usable."
    )
    if fit.asked is not None and fit.asked > fit.context:
        reasons.append(
            f"max_model_len={fit.asked} is cut to {fit.context}, which the model was "
            "made for."
        )
    if memory.tight:
        reasons.append(
            "Tight: less than 5 % of a GPU is left for the KV cache; it may not start."
        )
    if not profile.exact:
        low, high = profile.weight_bytes
        reasons.append(
            f"The weights are {gib(low)} to {gib(high)}; the plan holds for the most."
        )
    return (*reasons, *profile.notes)
