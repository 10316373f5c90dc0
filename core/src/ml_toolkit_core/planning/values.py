"""What the fleet planner is asked and what it answers."""

import enum

import attrs


class Proof(enum.StrEnum):
    """How a bound is proven; see :mod:`ml_toolkit_core.planning.certificate`."""

    VOLUME = "volume"
    """More replicas would need more capacity than the whole pool has."""
    PRICES = "prices"
    """Each worker has a price; every possible replica costs at least ``cost``."""
    SEARCH = "search"
    """The pool is small enough for the checker to try everything."""


@attrs.frozen(kw_only=True)
class Certificate:
    """The reason why no plan has more replicas than ``bound``.

    Attributes:
        proof: Which argument it is.
        bound: The most replicas that the argument allows.
        prices: One price per worker, whole and not negative (``prices`` only).
        cost: What the cheapest possible replica costs at least (``prices`` only).
    """

    proof: Proof
    bound: int
    prices: tuple[int, ...] = ()
    cost: int = 0


@attrs.frozen(kw_only=True)
class Demand:
    """The question: one model and a pool of workers.

    In bytes mode (``model_bytes`` is set) a replica is a group of at most
    ``n_layers`` workers whose memory adds up to the model. In stages mode it is a
    pipeline of whole layers, at least one on every stage.

    Attributes:
        n_layers: Layers of the model, 1 or more.
        worker_vram: Usable memory of each worker, in bytes.
        model_bytes: Bytes of the whole model, or None in stages mode.
        layer_bytes: Weights of one layer, in bytes.
        embed_bytes: Bytes that only the first stage holds.
        head_bytes: Bytes that only the last stage holds.
        reserve_bytes: Bytes that every stage keeps free.
        kv_bytes_per_layer: KV cache of one layer, in bytes, beside its weights.
    """

    n_layers: int
    worker_vram: tuple[int, ...]
    model_bytes: int | None = None
    layer_bytes: int = 0
    embed_bytes: int = 0
    head_bytes: int = 0
    reserve_bytes: int = 0
    kv_bytes_per_layer: int = 0


@attrs.frozen(kw_only=True)
class Replica:
    """One copy of the model over some workers.

    Attributes:
        workers: Indices into the pool; in stages mode in the order of the pipeline.
        vram: Memory of these workers together, in bytes.
        layers: Layers on each of ``workers`` (stages mode), else empty.
    """

    workers: tuple[int, ...]
    vram: int
    layers: tuple[int, ...] = ()


@attrs.frozen(kw_only=True)
class FleetPlan:
    """The replicas to build, and how far from the best they can be.

    Attributes:
        replicas: The replicas.
        spares: Workers that are in no replica.
        note: One sentence about the plan.
        bound: The proven most replicas that this pool can form, whatever the policy.
        certified: True where ``bound`` is the number of replicas here, so that no
            plan has more, and ``certificate`` proves it.
        certificate: The proof of ``bound``; None with the seed's semantics.
    """

    replicas: tuple[Replica, ...]
    spares: tuple[int, ...]
    note: str
    bound: int
    certified: bool = False
    certificate: Certificate | None = None
