"""The rules of Anyscale's scheduler, as plain values.

The same words and checks as ``anyscale.scheduler.models``, without the SDK, so that a
route can be told while planning.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, fields, frozen
from attrs.validators import and_, deep_iterable, ge, instance_of, min_len, optional

from ml_toolkit_core.errors import RequestError, did_you_mean


class Operator(enum.StrEnum):
    """How a label is compared."""

    IN = "in"
    NOT_IN = "not_in"
    EXISTS = "exists"
    DOES_NOT_EXIST = "does_not_exist"


class OnViolation(enum.StrEnum):
    """What happens to a priority out of bounds."""

    REJECT = "reject"
    FORCE_UPDATE = "force_update"


_text = and_(instance_of(str), min_len(1))
_number = optional([instance_of(int), ge(0)])


def _texts(given: Iterable[str] | None) -> tuple[str, ...]:
    if isinstance(given, str):  # which would be a tuple of its letters
        raise TypeError(f"values: {given!r} must be a list, as [{given}]")
    return tuple(given or ())


def _violation(given: str | None) -> OnViolation | None:
    return None if given is None else OnViolation(given)


@frozen(kw_only=True)
class Match:
    """One condition on a job's labels."""

    key: str = field(validator=_text)
    operator: Operator = field(converter=Operator)
    values: tuple[str, ...] = field(
        default=(), converter=_texts, validator=deep_iterable(instance_of(str))
    )

    def __attrs_post_init__(self) -> None:
        wants = self.operator in {Operator.IN, Operator.NOT_IN}
        if wants != bool(self.values):
            need = "needs" if wants else "takes no"
            raise ValueError(f"operator {self.operator.value!r} {need} values")

    def holds(self, tags: Mapping[str, str]) -> bool:
        """Whether a job with these tags meets it.

        A label that is absent is not ``in`` anything, and is ``not_in`` everything.
        """
        value = tags.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None

    def __str__(self) -> str:
        """Return it as people write it."""
        values = f" {', '.join(map(repr, self.values))}" if self.values else ""
        return f"{self.key} {self.operator.value.replace('_', ' ')}{values}"


@frozen(kw_only=True)
class PriorityPolicy:
    """The priorities that a rule gives and allows; the higher runs first."""

    default: int | None = field(default=None, validator=_number)
    min: int | None = field(default=None, validator=_number)
    max: int | None = field(default=None, validator=_number)
    on_violation: OnViolation | None = field(default=None, converter=_violation)


@frozen(kw_only=True)
class Rule:
    """One scheduling rule: jobs whose labels meet all conditions go to a queue."""

    resource_queue: str = field(validator=_text)
    selector: tuple[Match, ...] = ()
    priority_policy: PriorityPolicy = PriorityPolicy()

    def matches(self, tags: Mapping[str, str]) -> bool:
        """Whether all conditions hold; without any, they do."""
        return all(match.holds(tags) for match in self.selector)

    def grant(self, asked: int | None) -> tuple[int | None, str]:
        """Return the priority of a job, and a word when it is not what it asked for.

        Args:
            asked: The job's own priority, if it names one.
        """
        policy = self.priority_policy
        if asked is None:
            return policy.default, ""
        low = 0 if policy.min is None else policy.min
        high = max(asked, low) if policy.max is None else policy.max
        granted = min(max(asked, low), high)
        if granted == asked:
            return asked, ""
        bounds = f"{low} to {'any' if policy.max is None else policy.max}"
        if policy.on_violation is OnViolation.FORCE_UPDATE:
            return granted, f"; priority {asked} is moved into its bounds {bounds}"
        return None, f"; priority {asked} is out of its bounds {bounds}: it is refused"


@frozen(kw_only=True)
class RuleSet:
    """A scheduler config, as far as it routes; the first rule that matches wins.

    Args:
        queues: The resource queues that it declares.
        rules: In order.
        source: Where it comes from, for people.
    """

    queues: tuple[str, ...] = ()
    rules: tuple[Rule, ...]
    source: str = "a rule set"

    @classmethod
    def of(cls, config: object, source: str = "a rule set") -> "RuleSet":
        """Read a scheduler config, as its YAML is read.

        Args:
            config: The mapping.
            source: Where it comes from, for errors.

        Raises:
            RequestError: When it is none, naming the rule.
        """
        if not isinstance(config, Mapping):
            raise RequestError(f"{source} holds no scheduler config: {config!r:.80}")
        known = ("resource_flavors", "resource_queues", "scheduling_rules")
        for key in config:
            if key not in known:
                raise RequestError(
                    f"{source} has {key!r}, which a scheduler config has not."
                    f"{did_you_mean(str(key), known)} Known: {', '.join(known)}"
                )
        rules = _list(config, "scheduling_rules", source)
        queues = _list(config, "resource_queues", source)
        return cls(
            queues=tuple(
                _queue(queue, f"{source}: resource_queues, item {number}")
                for number, queue in enumerate(queues, start=1)
            ),
            rules=tuple(
                _rule(rule, f"{source}, rule {number}")
                for number, rule in enumerate(rules, start=1)
            ),
            source=source,
        )


def _list(
    config: Mapping[str, Any], key: str, source: str
) -> Sequence[Mapping[str, Any]]:
    found = config.get(key) or ()
    each_is_one = isinstance(found, Sequence) and all(
        isinstance(item, Mapping) for item in found
    )
    if not each_is_one:
        raise RequestError(f"{source}: {key} must be a list of mappings: {found!r:.80}")
    return found


def _queue(data: Mapping[str, Any], where: str) -> str:
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise RequestError(f"{where} needs a name: {dict(data)!r:.80}")
    return name


def _rule(data: Mapping[str, Any], where: str) -> Rule:
    try:
        selector = data.get("selector") or ()
        rule: Rule = _build(
            Rule,
            {
                **data,
                "selector": tuple(_build(Match, match) for match in selector),
                "priority_policy": _build(
                    PriorityPolicy, data.get("priority_policy") or {}
                ),
            },
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise RequestError(f"{where}: {error.args[0]}") from error
    return rule


def _build(cls: Any, data: Mapping[str, Any]) -> Any:
    known = [f.name for f in fields(cls)]
    if not isinstance(data, Mapping):
        raise TypeError(f"{data!r:.80} must be a mapping of {', '.join(known)}")
    for key in data:
        if key not in known:
            raise ValueError(f"there is no {key!r}.{did_you_mean(str(key), known)}")
    return cls(**data)


def keys_of(rules: Sequence[Rule]) -> dict[str, tuple[str, ...]]:
    """Return the label keys that rules read, each with the values they name."""
    found: dict[str, dict[str, None]] = {}
    for rule in rules:
        for match in rule.selector:
            found.setdefault(match.key, {}).update(dict.fromkeys(match.values))
    return {key: tuple(values) for key, values in found.items()}
