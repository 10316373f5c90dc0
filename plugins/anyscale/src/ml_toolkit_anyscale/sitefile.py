"""What a site says of its own Anyscale: image, cloud, project, configs, rules, teams.

``ML_TOOLKIT_ANYSCALE_FILE`` names a TOML file; without it, everything is as documented.
"""

import functools
import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import frozen

from ml_toolkit_anyscale.catalog import CPU_HEAD, P5, P6_B200, check_new
from ml_toolkit_anyscale.rules import RuleSet
from ml_toolkit_anyscale.shapes import Node, Shape
from ml_toolkit_core.errors import RequestError, did_you_mean

VARIABLE: Final = "ML_TOOLKIT_ANYSCALE_FILE"
#: What each entry must be, and how such a value is written.
_TEXT: Final = (str, "a text that is not empty, in quotes")
_COUNT: Final = (int, "a whole number")
_TABLE: Final = (dict, "a table")
_SITE: Final = {
    "image_uri": _TEXT,
    "cloud": _TEXT,
    "project": _TEXT,
    "teams": (list, "a list of texts that are not empty, as ['one', 'two']"),
    "scheduler_config": _TEXT,
    "instances": _TABLE,
    "compute_configs": _TABLE,
}
_INSTANCE: Final = {
    "cpus": _COUNT,
    "memory_gib": _COUNT,
    "gpus": _COUNT,
    "gpu_type": _TEXT,
    "gpu_memory_gib": _COUNT,
}
_CONFIG: Final = {
    "head": _TEXT,
    "worker": _TEXT,
    "workers": _COUNT,
    "auto": (bool, "true or false"),
}
_KNOWN_NODES: Final = {node.instance: node for node in (CPU_HEAD, P5, P6_B200)}


@frozen(kw_only=True)
class Site:
    """A site's own facts.

    Args:
        image_uri: The container image of jobs that name none.
        cloud: The Anyscale cloud; Anyscale's default when None.
        project: Likewise.
        teams: Names of further teams.
        shapes: Further compute configs.
        rules: The scheduler's rules.
    """

    image_uri: str | None = None
    cloud: str | None = None
    project: str | None = None
    teams: tuple[str, ...] = ()
    shapes: tuple[Shape, ...] = ()
    rules: RuleSet


def load_site() -> Site:
    """Read the site's file, or return what is documented.

    Raises:
        RequestError: When a file is named and cannot be read as one.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return Site(rules=default_rules())
    path = Path(named).expanduser()
    try:
        data = _toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError(f"{VARIABLE}={named!r} cannot be read: {error}") from error
    return _site(data, path)


def default_rules() -> RuleSet:
    """Return the documented rules."""
    file = resources.files("ml_toolkit_anyscale") / "scheduler.yaml"
    text = file.read_text(encoding="utf-8")
    return _rules(text, "the documented scheduler config")


def load_rules(path: Path) -> RuleSet:
    """Read a scheduler config, as ``anyscale scheduler config get`` writes it.

    Raises:
        RequestError: When it is none.
    """
    try:
        return _rules(path.read_text(encoding="utf-8"), str(path))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RequestError(f"scheduler_config={str(path)!r}: {error}") from error


# One call asks for the site several times. A file is read each time, so that a change
# is seen, and the same text is parsed once.
@functools.lru_cache(maxsize=8)
def _toml(text: str) -> Mapping[str, Any]:
    return tomllib.loads(text)


@functools.lru_cache(maxsize=8)
def _rules(text: str, source: str) -> RuleSet:
    return RuleSet.of(yaml.safe_load(text), source)


def _site(data: Mapping[str, Any], path: Path) -> Site:
    where = f"{VARIABLE}={str(path)!r}"
    _check(data, _SITE, where)
    rules = data.get("scheduler_config")
    nodes = {
        **_KNOWN_NODES,
        **{
            name: _node(name, node, f"{where}: [instances.{name!r}]")
            for name, node in data.get("instances", {}).items()
        },
    }
    return Site(
        image_uri=data.get("image_uri"),
        cloud=data.get("cloud"),
        project=data.get("project"),
        teams=tuple(data.get("teams", ())),
        shapes=tuple(
            _shape(name, shape, nodes, f"{where}: [compute_configs.{name}]")
            for name, shape in data.get("compute_configs", {}).items()
        ),
        rules=default_rules() if rules is None else load_rules(path.parent / rules),
    )


def _node(name: str, data: Mapping[str, Any], where: str) -> Node:
    _check(data, _INSTANCE, where, needed=("cpus", "memory_gib"))
    try:
        return Node(instance=name, **data)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{where}: {error.args[0]}") from error


def _shape(
    name: str, data: Mapping[str, Any], nodes: Mapping[str, Node], where: str
) -> Shape:
    _check(data, _CONFIG, where)
    if not {"head", "worker"} & set(data):
        raise RequestError(f"{where} needs a head, the name of an instance")
    head = data.get("head", data.get("worker"))
    worker = data.get("worker", head)
    for entry, instance in (("head", head), ("worker", worker)):
        if instance not in nodes:
            hint = did_you_mean(str(instance), nodes)
            raise RequestError(
                f"{where}: {entry} = {instance!r} is no instance known here.{hint} "
                "Describe it in an [instances] table with cpus, memory_gib, gpus, "
                f"gpu_type and gpu_memory_gib. Known: {', '.join(map(repr, nodes))}"
            )
    try:
        shape = Shape(
            name=name,
            head=nodes[str(head)],
            worker=nodes[str(worker)],
            workers=data.get("workers", 0),
            auto=data.get("auto", False),
        )
    except (TypeError, ValueError) as error:
        raise RequestError(f"{where}: {error.args[0]}") from error
    check_new(shape)
    return shape


def _check(
    data: object,
    kinds: Mapping[str, tuple[type, str]],
    where: str,
    *,
    needed: Sequence[str] = (),
) -> None:
    """Refuse keys that are no entries, and values that none can have."""
    if not isinstance(data, dict):
        raise RequestError(f"{where} is {data!r}, and must be {_TABLE[1]}")
    for key, value in data.items():
        if key not in kinds:
            raise RequestError(
                f"{where} has {key!r}, which is no entry.{did_you_mean(key, kinds)} "
                f"Known: {', '.join(kinds)}"
            )
        kind, words = kinds[key]
        texts = [value] if kind is str else value if kind is list else []
        # A bool is an int to Python, and to nobody else.
        if type(value) is not kind or not all(
            isinstance(text, str) and text for text in texts
        ):
            raise RequestError(f"{where}: {key} = {value!r} must be {words}")
    for key in needed:
        if key not in data:
            raise RequestError(f"{where} needs {key}, {kinds[key][1]}")
