"""Why a model does not start on given hardware, and the smallest change that helps."""

from collections.abc import Sequence

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning.sizes import Fit, Option, Rejected, gib

#: How many times the nodes a misfit is tried on before it gives up.
_MORE_NODES = 64


def misfit(fit: Fit, options: Sequence[Option], rejected: Rejected) -> RequestError:
    """Return the error for a model that no legal size holds.

    Args:
        fit: The question.
        options: The legal sizes, none of which suffices.
        rejected: The sizes that are not legal, and why.
    """
    name = fit.profile.name
    gpus = fit.hardware.gpu_nodes * fit.hardware.gpus_per_node
    if not options:
        sizes = "; ".join(f"{size}: {reason}" for size, reason in rejected)
        return RequestError(f"{name!r} has no legal size on {gpus} GPU(s): {sizes}")
    best = max(options, key=lambda option: option.memory.kv)
    offers = [offer for offer in (_shorter(fit, best), _larger(fit, gpus)) if offer]
    advice = (
        f"It would with {' or with '.join(offers)}."
        if offers
        else f"Up to {_MORE_NODES} times as many of these GPUs are not enough; choose "
        "GPUs with more memory or a quantised model."
    )
    return RequestError(
        f"{name!r} does not start on {gpus} GPU(s) of {gib(fit.gpu_memory_bytes)}: "
        f"even with {best.name} there are {_missing(fit, best)}. {advice}"
    )


def _missing(fit: Fit, option: Option) -> str:
    memory = option.memory
    if memory.kv <= 0:
        return (
            f"{gib(memory.weights + memory.overhead_low)} of weights and overhead per "
            f"GPU and only {gib(memory.usable)} usable"
        )
    return (
        f"only {gib(memory.kv)} for the KV cache, which hold {memory.kv_tokens} tokens "
        f"and not one sequence of max_model_len={fit.context}"
    )


def _shorter(fit: Fit, option: Option) -> str:
    """Return the longest context that fits, where one does."""
    low, high = 0, fit.context
    while low < high:
        middle = (low + high + 1) // 2
        memory = fit.memory(option.tensor, option.stages, middle)
        fits = memory.max_concurrent_seqs >= 1
        low, high = (middle, high) if fits else (low, middle - 1)
    step = 1024 if low >= 1024 else 64  # noqa: PLR2004 - a round number
    rounded = low // step * step
    return f"max_model_len={rounded} (not {fit.context})" if rounded else ""


def _larger(fit: Fit, gpus: int) -> str:
    """Return the smallest number of GPUs that holds the model."""
    for times in range(2, _MORE_NODES + 1):
        nodes = times * fit.hardware.gpu_nodes
        options, _ = fit.options(nodes)
        if any(option.seqs >= 1 for option in options):
            return f"{nodes * fit.hardware.gpus_per_node} GPUs (not {gpus})"
    return ""
