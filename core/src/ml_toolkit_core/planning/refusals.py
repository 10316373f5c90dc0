"""Why a pool cannot do what is asked: the number that failed, and what would work."""

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning.amounts import against, brief, size
from ml_toolkit_core.planning.pool import by_memory, capacity
from ml_toolkit_core.planning.values import Demand


def nothing_fits(demand: Demand) -> RequestError:
    """Return the error for a pool in which no group of workers holds the model."""
    vram = demand.worker_vram
    largest = by_memory(vram)[: demand.n_layers]
    if demand.model_bytes is not None:
        have = sum(vram[worker] for worker in largest)
        need, held = against(demand.model_bytes, have)
        return RequestError(
            f"model needs {need} per replica but the {len(largest)} largest of "
            f"{len(vram)} worker(s), the most that n_layers={brief(demand.n_layers)} "
            f"can use, hold only {held}; {size(demand.model_bytes - have)} more, or "
            "fewer and larger workers, would fit one replica."
        )
    layers = sum(capacity(demand, vram[worker])[1][0] for worker in largest)
    each = demand.layer_bytes + demand.kv_bytes_per_layer
    return RequestError(
        f"no pipeline of n_layers={brief(demand.n_layers)} fits: a layer needs "
        f"{size(each)} with its KV cache, beside {size(demand.reserve_bytes)} kept "
        f"free, {size(demand.embed_bytes)} on the first and {size(demand.head_bytes)} "
        f"on the last stage, and the {len(vram)} worker(s), the largest with "
        f"{size(max(vram))}, hold at most {brief(layers)} layer(s) as middle stages. "
        f"Add workers with {size(demand.reserve_bytes + each)} or more each, or ask "
        "for a shorter context."
    )


def too_many(demand: Demand, count: int, reached: int, bound: int) -> RequestError:
    """Return the error for a number of replicas that the pool does not form.

    Args:
        demand: The question.
        count: Replicas asked for.
        reached: Replicas known to be possible.
        bound: Replicas proven to be the most.
    """
    if not reached:
        return nothing_fits(demand)
    most = (
        f"at most {reached} (proven)"
        if reached == bound
        else f"{reached} for certain, and no more than {bound} (proven)"
    )
    return RequestError(
        f"replicas={count} are not possible: these {len(demand.worker_vram)} worker(s) "
        f"form {most}. Ask for {reached} or fewer, or add workers."
    )
