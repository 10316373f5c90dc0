"""What a site says of its own Anyscale: image, cloud, project, configs, rules, teams.

``ML_TOOLKIT_ANYSCALE_FILE`` names a TOML file; without it, everything is as documented.
"""

import os
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

import yaml
from attrs import fields, frozen

from ml_toolkit_anyscale.catalog import CPU_HEAD, P5, P6_B200, check_new
from ml_toolkit_anyscale.rules import RuleSet
from ml_toolkit_anyscale.shapes import Node, Shape
from ml_toolkit_core.errors import RequestError, did_you_mean

VARIABLE: Final = "ML_TOOLKIT_ANYSCALE_FILE"
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
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError(f"{VARIABLE}={named!r} cannot be read: {error}") from error
    return _site(data, path)


def default_rules() -> RuleSet:
    """Return the documented rules."""
    file = resources.files("ml_toolkit_anyscale") / "scheduler.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    return RuleSet.of(config, "the documented scheduler config")


def load_rules(path: Path) -> RuleSet:
    """Read a scheduler config, as ``anyscale scheduler config get`` writes it.

    Raises:
        RequestError: When it is none.
    """
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise RequestError(f"scheduler_config={str(path)!r}: {error}") from error
    return RuleSet.of(config, str(path))


def _site(data: Mapping[str, Any], path: Path) -> Site:
    where = f"{VARIABLE}={str(path)!r}"
    known = ("image_uri", "cloud", "project", "teams", "scheduler_config")
    sections = ("instances", "compute_configs")
    _check_keys(data, (*known, *sections), where)
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
    _check_keys(data, [f.name for f in fields(Node) if f.name != "instance"], where)
    try:
        return Node(instance=name, **data)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{where}: {error.args[0]}") from error


def _shape(
    name: str, data: Mapping[str, Any], nodes: Mapping[str, Node], where: str
) -> Shape:
    _check_keys(data, ("head", "worker", "workers", "auto"), where)
    head = data.get("head", data.get("worker"))
    worker = data.get("worker", head)
    for instance in (head, worker):
        if instance not in nodes:
            hint = did_you_mean(str(instance), nodes)
            raise RequestError(
                f"{where}: {instance!r} is no instance known here.{hint} Describe it "
                "in an [instances] table with cpus, memory_gib, gpus, gpu_type and "
                f"gpu_memory_gib. Known: {', '.join(map(repr, nodes))}"
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


def _check_keys(data: Mapping[str, Any], known: Any, where: str) -> None:
    for key in data:
        if key not in known:
            raise RequestError(
                f"{where} has {key!r}, which is no entry.{did_you_mean(key, known)} "
                f"Known: {', '.join(known)}"
            )
