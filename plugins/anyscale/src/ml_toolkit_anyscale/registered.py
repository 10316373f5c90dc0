"""What Anyscale really has under a config's name, against what the catalog says."""

from attrs import frozen

from ml_toolkit_anyscale.shapes import Shape
from ml_toolkit_core.errors import RequestError


@frozen(kw_only=True)
class Registered:
    """The machines of a compute config, as it is registered.

    Args:
        head: The head's instance type.
        head_gpus: GPUs that Ray may use there; None is all that it has.
        workers: Instance types of the other nodes, and how many there can be.
    """

    head: str
    head_gpus: int | None
    workers: tuple[tuple[str, int], ...]


def check_registered(shape: Shape, found: Registered) -> None:
    """Refuse a config whose machines are not those that were planned with.

    Raises:
        RequestError: With both sides, before anything is paid for.
    """
    planned = ((shape.worker.instance, shape.workers),) if shape.workers else ()
    if (shape.head.instance, planned) != (found.head, found.workers):
        here = _machines(shape.head.instance, planned)
        there = _machines(found.head, found.workers)
        raise RequestError(
            f"compute config {shape.name!r} is {here} in the catalog, but {there} at "
            "Anyscale. "
            "Ask the platform team which is right; submit_anyscale_inference("
            f"compute_config={shape.name!r}, ...) takes it as it is. No job was made"
        )
    if shape.head.gpus and shape.workers and found.head_gpus == 0:
        usable = shape.num_gpus - shape.head.gpus
        raise RequestError(
            f"compute config {shape.name!r} registers its head with 0 GPUs, so "
            f"{usable} of its {shape.num_gpus} GPUs can be used. The platform team "
            f"sets them in it: head_node: {{instance_type: {found.head}, resources: "
            f"{{CPU: {shape.head.cpus}, GPU: {shape.head.gpus}}}}}. No job was made"
        )


def _machines(head: str, workers: tuple[tuple[str, int], ...]) -> str:
    more = "".join(f" and {count} x {kind}" for kind, count in workers)
    return f"a {head} head{more}"
