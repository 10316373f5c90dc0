"""The options of ``compute_type="anyscale"``, and the machines that they choose."""

import os
from collections.abc import Mapping
from typing import Any, Final

from ml_toolkit_anyscale import catalog, routing
from ml_toolkit_anyscale.shapes import Shape
from ml_toolkit_anyscale.sitefile import Site
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.names import is_path
from ml_toolkit_core.values import ComputeTarget, InferenceRequest, Option
from ml_toolkit_core.wire import Json

#: Names the image of jobs that name none themselves.
IMAGE: Final = "ML_TOOLKIT_ANYSCALE_IMAGE_URI"
#: Tags of our own; a caller's may not take their place.
OWN_TAGS: Final = ("job_kind", "team", "run_id", "ledger_uri", "made_by")
_GIB: Final = 1024**3

OPTIONS: Final = (
    Option(name="compute_config", doc="A compute config of the catalog, by name."),
    Option(
        name="raw_compute_config",
        doc="Any compute config of Anyscale's, as name or name:version; not checked.",
    ),
    Option(name="job_kind", doc="What the job is for; takes it to its priority."),
    Option(name="team", doc="Whose job it is; takes it to its queue partition."),
    Option(name="job_queue", doc="A job queue to wait in, instead of the scheduler."),
    Option(name="priority", type=int, doc="0 to 1000; the higher runs first."),
    Option(name="cloud", doc="The Anyscale cloud; Anyscale's default if not given."),
    Option(name="project", doc="The Anyscale project; likewise."),
    Option(name="image_uri", doc=f"The container image; else {IMAGE}."),
    Option(
        name="max_retries",
        type=int,
        default=2,
        doc="Runs after a failed one; each goes on where the last was published.",
    ),
    Option(
        name="timeout_s",
        type=int,
        default=86_400,
        doc="Seconds after which Anyscale ends one run; a retry gets them again.",
    ),
    Option(name="tags", type=dict, doc="Further tags of the job."),
)


def resolve_target(request: InferenceRequest, site: Site) -> ComputeTarget:
    """Choose compute config, queue and priority. Pure: asks nobody.

    Raises:
        RequestError: When the request names what there is not.
    """
    given = request.backend_options
    options = _filled(given, site)
    labels = routing.labels(given.get("job_kind"), given.get("team"), site.teams)
    notes = [*_route_notes(options, labels, site), *_place_notes(request)]
    if options["image_uri"] is None:
        notes.append(f"no image yet: {missing_image()}")
    known = catalog.known_shapes(site.shapes)
    raw = given.get("raw_compute_config")
    if raw is not None:
        if given.get("compute_config") is not None:
            raise RequestError(
                f"anyscale_compute_config={given['compute_config']!r} and "
                f"anyscale_raw_compute_config={raw!r} say it twice; pass one of them"
            )
        if raw in known:  # without a version: then the catalog knows its machines
            return _target(known[raw], options, labels, notes)
        return ComputeTarget(
            name=raw,
            gpu_nodes=1,
            gpus_per_node=0,
            gpu_type=request.gpu_type,
            labels=labels,
            options={**options, "compute_config": raw, "unknown": True},
            notes=(
                f"{raw}: not in the catalog, taken as it is{_said(request)}",
                *notes,
            ),
        )
    shape = catalog.resolve(
        known,
        config=given.get("compute_config"),
        gpu_type=request.gpu_type,
        num_gpus=request.num_gpus,
    )
    return _target(shape, options, labels, notes)


def _said(request: InferenceRequest) -> str:
    return "" if request.num_gpus is None else f"; {request.num_gpus} GPUs, you say"


def is_unknown(target: ComputeTarget) -> bool:
    """Whether nobody here knows the machines of a target."""
    return bool(target.options.get("unknown"))


def missing_image() -> str:
    """Say what an image is needed for, and what must be in it."""
    return (
        f"pass anyscale_image_uri=, set {IMAGE}, or write image_uri in the site file. "
        "The image must hold Python 3.11 or newer, attrs, pluggy, pyarrow, deltalake, "
        "and what the executor needs (ray and vllm for 'ray-vllm'); ml-toolkit itself "
        "is sent along"
    )


def _filled(given: Mapping[str, Json], site: Site) -> dict[str, Any]:
    """Return all options of a submit, with defaults in the place of what is missing."""
    options = {option.name: option.default for option in OPTIONS}
    places = {"image_uri": os.environ.get(IMAGE) or site.image_uri}
    places |= {"cloud": site.cloud, "project": site.project}
    options |= places
    options |= given
    if options["priority"] is not None:
        routing.check_priority(options["priority"])
    for name, low in (("max_retries", 0), ("timeout_s", 1)):
        value = options[name]
        if isinstance(value, bool) or value < low:
            raise RequestError(f"anyscale_{name}={value!r} must be {low} or more")
    options["tags"] = _tags(options["tags"] or {})
    return options


def _tags(given: Mapping[str, Json]) -> dict[str, str]:
    for key, value in given.items():
        if key in OWN_TAGS:
            raise RequestError(
                f"anyscale_tags={{{key!r}: ...}}: {key!r} is ml-toolkit's own tag; "
                "anyscale_job_kind=, anyscale_team= and run_id= set theirs"
            )
        if not isinstance(value, str) or not value or not key:
            raise RequestError(
                f"anyscale_tags={{{key!r}: {value!r}}}: keys and values are text, and "
                "not empty"
            )
    return dict(given)


def _route_notes(
    options: Mapping[str, Any], labels: dict[str, str], site: Site
) -> tuple[str, ...]:
    queue, priority = options["job_queue"], options["priority"]
    if queue is None:
        tags = {**options["tags"], **labels}
        route = routing.explain_route(tags, site.rules, priority)
        return routing.route_notes(labels, route)
    place = ""
    if priority is not None:
        number = routing.queue_priority(priority)
        place = f", with its priority {number} of {routing.PRIORITIES[-1]} (0 is first)"
    return (
        (
            f"route: job queue {queue!r}{place}; it runs on the queue's own cluster, "
            "whose compute config is the one that counts"
        ),
    )


def _place_notes(request: InferenceRequest) -> tuple[str, ...]:
    given = request.input_table
    inputs = (given,) if isinstance(given, str) else given
    named = {"input_table": inputs, "output_table": (request.output_table,)}
    paths = []
    for argument, texts in named.items():
        here = [text for text in texts if is_path(text) and "://" not in text]
        if here:
            more = f" and {len(here) - 1:,} more" if len(here) > 1 else ""
            paths.append(f"{argument}={here[0]!r}{more}")
    if not paths:
        return ()
    where = ", ".join(paths)
    return (f"{where}: every node of the cluster must see the same at the same path",)


def _target(
    shape: Shape,
    options: dict[str, Any],
    labels: dict[str, str],
    notes: list[str],
) -> ComputeTarget:
    memory = shape.worker.gpu_memory_gib
    return ComputeTarget(
        name=shape.name,
        gpu_nodes=shape.gpu_nodes,
        gpus_per_node=shape.worker.gpus,
        gpu_type=shape.gpu_type,
        gpu_memory_bytes=None if memory is None else memory * _GIB,
        cpus_per_node=shape.worker.cpus,
        labels=labels,
        options={**options, "compute_config": shape.name},
        notes=(f"{shape.name}: {shape}", *notes),
    )
