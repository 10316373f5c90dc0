"""The compute configs that the platform team registered in Anyscale."""

import enum
from collections.abc import Iterable, Mapping
from typing import Final

from ml_toolkit_anyscale.shapes import Node, Shape
from ml_toolkit_core.errors import RequestError, did_you_mean


class AnyscaleComputeConfig(enum.StrEnum):
    """The registered compute configs, by the name Anyscale knows them under.

    Family 1 has a GPU head. Family 2 has a CPU head, is never chosen on its own, and
    its names count GPU workers of 8 GPUs each.
    """

    H100_SINGLE_NODE = "h100-single-node"
    H100_TWO_NODES = "h100-two-nodes"
    H100_FOUR_NODES = "h100-four-nodes"
    B200_SINGLE_NODE = "b200-single-node"
    B200_TWO_NODES = "b200-two-nodes"
    B200_FOUR_NODES = "b200-four-nodes"
    H100_CPU_HEAD_1GPU = "h100-cpu-head-1gpu"
    H100_CPU_HEAD_2GPU = "h100-cpu-head-2gpu"
    H100_CPU_HEAD_4GPU = "h100-cpu-head-4gpu"
    H100_CPU_HEAD_8GPU = "h100-cpu-head-8gpu"
    B200_CPU_HEAD_1GPU = "b200-cpu-head-1gpu"
    B200_CPU_HEAD_2GPU = "b200-cpu-head-2gpu"
    B200_CPU_HEAD_4GPU = "b200-cpu-head-4gpu"
    B200_CPU_HEAD_8GPU = "b200-cpu-head-8gpu"


#: AWS's pages on EC2 instance types, read in November 2026. The page this catalog
#: was made from gives r6i.16xlarge 32 vCPUs, which is its number of physical cores.
# fmt: off
CPU_HEAD: Final = Node(instance="r6i.16xlarge",     cpus=64,  memory_gib=512)
P5:       Final = Node(instance="p5.48xlarge",      cpus=192, memory_gib=2048,
                       gpus=8, gpu_type="h100", gpu_memory_gib=80)
P6_B200:  Final = Node(instance="p6-b200.48xlarge", cpus=192, memory_gib=2048,
                       gpus=8, gpu_type="b200", gpu_memory_gib=179)


def _gpu_head(name: str, total_nodes: int, node: Node) -> Shape:
    return Shape(name=name, head=node, worker=node, workers=total_nodes - 1, auto=True)


def _cpu_head(name: str, head: Node, workers: int, node: Node) -> Shape:
    return Shape(name=name, head=head, worker=node, workers=workers)


#: Registered by the platform team; see docs/anyscale-inference.rst.
FAMILY_1: Final[Mapping[str, Shape]] = {shape.name: shape for shape in (
    #          Name                Total nodes  GPU nodes
    _gpu_head("h100-single-node",  1,           P5),
    _gpu_head("h100-two-nodes",    2,           P5),
    _gpu_head("h100-four-nodes",   4,           P5),
    _gpu_head("b200-single-node",  1,           P6_B200),
    _gpu_head("b200-two-nodes",    2,           P6_B200),
    _gpu_head("b200-four-nodes",   4,           P6_B200),
)}
#: Likewise. Never chosen on its own: its head costs a node that answers nothing.
FAMILY_2: Final[Mapping[str, Shape]] = {shape.name: shape for shape in (
    #          Name                  Head      GPU workers
    _cpu_head("h100-cpu-head-1gpu",  CPU_HEAD, 1, P5),
    _cpu_head("h100-cpu-head-2gpu",  CPU_HEAD, 2, P5),
    _cpu_head("h100-cpu-head-4gpu",  CPU_HEAD, 4, P5),
    _cpu_head("h100-cpu-head-8gpu",  CPU_HEAD, 8, P5),
    _cpu_head("b200-cpu-head-1gpu",  CPU_HEAD, 1, P6_B200),
    _cpu_head("b200-cpu-head-2gpu",  CPU_HEAD, 2, P6_B200),
    _cpu_head("b200-cpu-head-4gpu",  CPU_HEAD, 4, P6_B200),
    _cpu_head("b200-cpu-head-8gpu",  CPU_HEAD, 8, P6_B200),
)}
# fmt: on
DOCUMENTED: Final[Mapping[str, Shape]] = {**FAMILY_1, **FAMILY_2}

_registered: dict[str, Shape] = {}


def register(shape: Shape) -> None:
    """Add a site's own compute config to this process.

    Raises:
        RequestError: When the name is one of the documented ones.
    """
    check_new(shape)
    _registered[shape.name] = shape


def check_new(shape: Shape) -> None:
    """Refuse a shape that no catalog can take.

    Raises:
        RequestError: When it has a documented name, or workers without GPUs.
    """
    if shape.name in DOCUMENTED:
        raise RequestError(
            f"compute config {shape.name!r} is a documented one and stays as it is; "
            "register yours under another name"
        )
    if not (shape.worker.gpus and shape.worker.gpu_type):
        raise RequestError(
            f"compute config {shape.name!r}: its {shape.worker.instance!r} nodes need "
            "gpus and gpu_type"
        )


def known_shapes(more: Iterable[Shape] = ()) -> dict[str, Shape]:
    """Return every shape by name: documented, of the site's file, registered."""
    return {**DOCUMENTED, **{shape.name: shape for shape in more}, **_registered}


def resolve(
    known: Mapping[str, Shape],
    *,
    config: str | None,
    gpu_type: str | None,
    num_gpus: int | None,
) -> Shape:
    """Choose the machines: the named ones, else by GPU type and count.

    Args:
        known: The catalog.
        config: A compute config, by member or raw string.
        gpu_type: The GPU; case and blanks do not matter.
        num_gpus: GPUs in total, over all nodes.

    Raises:
        RequestError: When nothing fits, with what is near.
    """
    kind = None if gpu_type is None else check_gpu_type(gpu_type, known)
    if config is not None:
        return _named(known, str(config), kind, num_gpus)
    if kind is None or num_gpus is None:
        raise RequestError(
            f"gpu_type={gpu_type!r}, num_gpus={num_gpus!r}: compute_type='anyscale' "
            f"needs both, or anyscale_compute_config=. {_offer(known)}"
        )
    return auto_resolve(kind, num_gpus, known)


def auto_resolve(
    gpu_type: str, num_gpus: int, known: Mapping[str, Shape] = DOCUMENTED
) -> Shape:
    """Return the Family-1 shape with exactly so many GPUs.

    >>> auto_resolve("h100", 16).name
    'h100-two-nodes'

    Raises:
        RequestError: When there is none, with the near ones.
    """
    gpu_type = check_gpu_type(gpu_type, known)
    same = [shape for shape in known.values() if shape.gpu_type == gpu_type]
    auto = {shape.num_gpus: shape for shape in same if shape.auto}
    if num_gpus in auto:
        return auto[num_gpus]
    if not auto:
        names = [f"{shape.name!r} ({shape.num_gpus} GPUs)" for shape in same]
        raise RequestError(
            f"gpu_type={gpu_type!r} is in no Family-1 config, so num_gpus={num_gpus!r} "
            f"chooses none. Pass anyscale_compute_config= with a name: "
            f"{', '.join(names)}"
        )
    counts = sorted(auto)
    near = [
        *[count for count in counts if count < num_gpus][-1:],
        *[count for count in counts if count > num_gpus][:1],
    ]
    offers = " or ".join(f"{count} ({auto[count].name!r})" for count in near)
    message = (
        f"num_gpus={num_gpus!r} of gpu_type={gpu_type!r} fits no Family-1 config; "
        f"Family 1 has {', '.join(map(str, counts))}. Near: {offers}."
    )
    by_name = [s for s in same if not s.auto and s.num_gpus == num_gpus]
    if by_name:
        found = by_name[0]
        message += (
            f" {found.name!r} has {num_gpus}: {found.workers} GPU workers of "
            f"{found.worker.gpus} GPUs behind a {found.head.instance} head; it is "
            f"taken only when named: anyscale_compute_config={found.name!r}"
        )
    raise RequestError(message)


def check_gpu_type(given: str, known: Mapping[str, Shape]) -> str:
    """Return the catalog's word for a GPU; never taken from a prefix.

    >>> check_gpu_type(" H100 ", DOCUMENTED)
    'h100'

    Raises:
        RequestError: When the catalog has no such GPU.
    """
    types = gpu_types(known)
    word = "".join(given.split()).lower()
    if word in types:
        return word
    hint = next((f" Did you mean {t!r}?" for t in types if word == f"{t}-8x"), "")
    raise RequestError(
        f"gpu_type={given!r} is in no compute config."
        f"{hint or did_you_mean(word, types)} Known: {', '.join(map(repr, types))}"
    )


def gpu_types(known: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the GPUs of a catalog, in its order."""
    return tuple(dict.fromkeys(shape.gpu_type for shape in known.values()))


def _named(
    known: Mapping[str, Shape], name: str, gpu_type: str | None, num_gpus: int | None
) -> Shape:
    if name not in known:
        raise RequestError(
            f"anyscale_compute_config={name!r} is not in the catalog."
            f"{did_you_mean(name, known)} {_offer(known)} For a config that the "
            "catalog does not know, call submit_anyscale_inference(compute_config="
            f"{name!r}, ...), or register it in the site file"
        )
    shape = known[name]
    if num_gpus is not None and num_gpus != shape.num_gpus:
        count = f"{shape.gpu_nodes} GPU nodes of {shape.worker.gpus} GPUs"
        raise RequestError(
            f"anyscale_compute_config={name!r} has {shape.num_gpus} GPUs ({count}), "
            f"but num_gpus={num_gpus!r}; leave num_gpus out, or name another config"
        )
    if gpu_type is not None and gpu_type != shape.gpu_type:
        raise RequestError(
            f"anyscale_compute_config={name!r} has {shape.gpu_type!r} GPUs, but "
            f"gpu_type={gpu_type!r}; leave gpu_type out, or name another config"
        )
    return shape


def _offer(known: Mapping[str, Shape]) -> str:
    auto = [shape for shape in known.values() if shape.auto]
    kinds = dict.fromkeys(shape.gpu_type for shape in auto)
    by_type = "; ".join(
        f"{kind} with "
        + ", ".join(str(shape.num_gpus) for shape in auto if shape.gpu_type == kind)
        for kind in kinds
    )
    return f"Family 1 has {by_type} GPUs; Family 2 goes by name."
