"""What is wrong with a rule set, found before a job waits in the wrong queue."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ml_toolkit_anyscale.routing import JOB_KIND, TEAM, AnyscaleJobKind, AnyscaleTeam
from ml_toolkit_anyscale.rules import Rule, RuleSet, keys_of
from ml_toolkit_core.errors import did_you_mean

#: Stands for every value that no rule names.
_OTHER: Final = "any other value"
_MOST: Final = 200_000


def lint(rules: RuleSet, teams: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what is wrong with a rule set, as sentences; nothing when all is well.

    Args:
        rules: The scheduler's rules.
        teams: Names of further teams that a site knows.
    """
    known = (*map(str, AnyscaleTeam), *teams)
    return (
        *_undeclared(rules),
        *_impossible(rules, known),
        *_unreachable(rules),
        *_inverted(rules, known),
        *_only_fallback(rules, known),
    )


def _undeclared(rules: RuleSet) -> Iterator[str]:
    for number, rule in enumerate(rules.rules, start=1):
        queue = rule.resource_queue
        if rules.queues and queue not in rules.queues:
            hint = did_you_mean(queue, rules.queues)
            yield f"rule {number}: resource_queues has no {queue!r}.{hint}"
    if not any(rule.matches({}) for rule in rules.rules):
        yield "a job without labels matches no rule; end with a rule without selector"


def _impossible(rules: RuleSet, teams: Iterable[str]) -> Iterator[str]:
    members = {JOB_KIND: list(map(str, AnyscaleJobKind)), TEAM: list(teams)}
    for number, rule in enumerate(rules.rules, start=1):
        for match in rule.selector:
            if match.key not in members:
                if _same(match.key, members):
                    hint = did_you_mean(match.key.lower().replace("-", "_"), members)
                    yield (
                        f"rule {number}: no job has the label {match.key!r}, keys are "
                        f"matched exactly.{hint}"
                    )
                continue
            for value in match.values:
                if value in members[match.key]:
                    continue
                if match.key == JOB_KIND or _same(value, members[TEAM]):
                    hint = did_you_mean(value.strip().lower(), members[match.key])
                    yield (
                        f"rule {number}: no job has {match.key}={value!r}, values are "
                        f"matched exactly.{hint}"
                    )


def _unreachable(rules: RuleSet) -> Iterator[str]:
    values = {
        key: (*named, _OTHER, None)
        for key, named in {JOB_KIND: (), TEAM: (), **keys_of(rules.rules)}.items()
    }
    count = 1
    for options in values.values():
        count *= len(options)
    if count > _MOST:
        yield f"{count:,} combinations of labels are too many to tell what is reached"
        return
    reached = set()
    for combination in itertools.product(*values.values()):
        tags = {
            key: value
            for key, value in zip(values, combination, strict=True)
            if value is not None
        }
        reached.add(_first(rules, tags)[0])
    for number, rule in enumerate(rules.rules, start=1):
        if number not in reached:
            yield (
                f"rule {number} ({_selector(rule)}) is never reached: rules before it "
                "take all its jobs"
            )


def _inverted(rules: RuleSet, teams: Iterable[str]) -> Iterator[str]:
    # A queue has no rank of its own in a scheduler config, so numbers are compared
    # over queues too.
    kinds: list[str | None] = [*map(str, AnyscaleJobKind), None]
    for team in (*teams, _OTHER, None):
        steps = [(kind, _priority(rules, kind, team)) for kind in kinds]
        for (urgent, high), (patient, low) in itertools.pairwise(steps):
            if high is not None and low is not None and low > high:
                yield (
                    f"{_whose(team)}: {patient or 'a job without a kind'} has priority "
                    f"{low}, above {urgent} with {high}; the higher runs first"
                )


def _only_fallback(rules: RuleSet, teams: Iterable[str]) -> Iterator[str]:
    known = list(teams)
    for key, members, other, others in (
        (JOB_KIND, list(map(str, AnyscaleJobKind)), TEAM, known),
        (TEAM, known, JOB_KIND, list(map(str, AnyscaleJobKind))),
    ):
        for member in members:
            found = [
                _first(rules, {key: member} | ({} if o is None else {other: o}))[1]
                for o in (*others, _OTHER, None)
            ]
            if all(rule is None or not rule.selector for rule in found):
                yield f"{key}={member!r} is caught by the fallback alone"


def _priority(rules: RuleSet, kind: str | None, team: str | None) -> int | None:
    given = {JOB_KIND: kind, TEAM: team}
    tags = {key: value for key, value in given.items() if value is not None}
    rule = _first(rules, tags)[1]
    return None if rule is None else rule.priority_policy.default


def _first(rules: RuleSet, tags: Mapping[str, str]) -> tuple[int | None, Rule | None]:
    for number, rule in enumerate(rules.rules, start=1):
        if rule.matches(tags):
            return number, rule
    return None, None


def _same(word: str, known: Iterable[str]) -> bool:
    plain = word.strip().lower().replace("-", "_")
    return plain in known or bool(did_you_mean(plain, known))


def _selector(rule: Rule) -> str:
    return " and ".join(map(str, rule.selector)) or "without selector"


def _whose(team: str | None) -> str:
    if team is None:
        return "jobs without a team"
    return "other teams" if team == _OTHER else f"team {team!r}"
