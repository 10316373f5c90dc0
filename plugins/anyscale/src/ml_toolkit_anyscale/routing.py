"""The labels that take a job to its queue, and which queue that is."""

import enum
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Final

from attrs import frozen

from ml_toolkit_anyscale.rules import Rule, RuleSet
from ml_toolkit_core.errors import RequestError, did_you_mean


class AnyscaleJobKind(enum.StrEnum):
    """What a job is for, the most urgent first."""

    INCREMENTAL = "incremental"
    """A refresh that comes back again and again."""
    BACKFILL = "backfill"
    """The past computed anew, once."""
    FINE_TUNING = "fine_tuning"
    """Supervised fine-tuning."""
    TRAINING = "training"
    """Training from scratch."""


class AnyscaleTeam(enum.StrEnum):
    """Whose queue partition a job goes to."""

    CORPORATE = "corporate"
    """The Corporate workspace."""
    YODA = "yoda"
    """The YODA workspace."""


#: The tags of a job that routing reads. Keys and values are matched exactly and with
#: case (docs.anyscale.com/admin/scheduler/config-reference).
JOB_KIND: Final = "job_kind"
TEAM: Final = "team"

#: What ``JobConfig(priority=)`` takes (anyscale 0.26.112, job/models.py).
PRIORITIES: Final = range(1001)
#: How alike a word must be to a known team to count as a slip of the pen.
_SLIP: Final = 0.8


@frozen(kw_only=True)
class Route:
    """Where a job goes.

    Args:
        rule: The number of the rule that matched, from 1; None when none did.
        queue: The resource queue; None when no rule matched.
        priority: In the scheduler's direction: the higher runs first.
        reason: Why, in a sentence.
    """

    rule: int | None
    queue: str | None
    priority: int | None
    reason: str

    def __str__(self) -> str:
        """Say it in one line."""
        if self.queue is None:
            return self.reason
        how = "no priority" if self.priority is None else f"priority {self.priority}"
        return f"queue {self.queue!r}, {how}: {self.reason}"


def labels(
    job_kind: str | None, team: str | None, teams: Iterable[str] = ()
) -> dict[str, str]:
    """Return the tags of a job; what was not given is left out.

    Args:
        job_kind: A member or its raw string.
        team: A member, its raw string, or another team's name.
        teams: Names of further teams that a site knows.

    Raises:
        RequestError: For a kind that does not exist, and for a team that looks like
            a known one: a tag with a slip would end in the slow queue.

    >>> labels(AnyscaleJobKind.BACKFILL, "research")
    {'job_kind': 'backfill', 'team': 'research'}
    """
    found = {}
    if job_kind is not None:
        found[JOB_KIND] = _kind(str(job_kind))
    if team is not None:
        found[TEAM] = _team(str(team), (*map(str, AnyscaleTeam), *teams))
    return found


def explain_route(
    tags: Mapping[str, str], rules: RuleSet, priority: int | None = None
) -> Route:
    """Say which rule takes a job with these tags, and where to.

    Args:
        tags: The job's tags.
        rules: The scheduler's rules; the first that matches wins.
        priority: What the job asks for, in the scheduler's direction.
    """
    for number, rule in enumerate(rules.rules, start=1):
        if rule.matches(tags):
            granted, word = rule.grant(priority)
            return Route(
                rule=number,
                queue=rule.resource_queue,
                priority=granted,
                reason=f"rule {number} of {len(rules.rules)}, {_why(rule, tags)}{word}",
            )
    return Route(
        rule=None,
        queue=None,
        priority=None,
        reason=f"none of {len(rules.rules)} rules takes {_said(tags)}",
    )


def queue_priority(priority: int) -> int:
    """Turn a priority of the scheduler into one of a job queue.

    The two run in opposite directions. The scheduler's ``JobConfig.priority`` is 0 to
    1000 and the higher runs first (docs.anyscale.com/admin/scheduler/get-started);
    ``JobQueueConfig.priority`` starts at 0 and the lower runs first (anyscale 0.26.112,
    job/models.py, and docs.anyscale.com/jobs/queues). Here a number always means the
    scheduler's.

    >>> queue_priority(1000), queue_priority(10)
    (0, 990)
    """
    return PRIORITIES[-1] - priority


def check_priority(priority: int) -> int:
    """Return a priority that both scales can say.

    Raises:
        RequestError: When it is none.
    """
    if isinstance(priority, bool) or priority not in PRIORITIES:
        raise RequestError(
            f"anyscale_priority={priority!r} must be a whole number from 0 to "
            f"{PRIORITIES[-1]}; the higher runs first, also in a job queue"
        )
    return priority


def route_notes(tags: Mapping[str, str], route: Route) -> tuple[str, ...]:
    """Return what a plan says about a route, slow ways pointed out."""
    notes = [f"route: {route}"]
    team = tags.get(TEAM)
    if team is not None and team not in set(AnyscaleTeam):
        notes.append(
            f"anyscale_team={team!r} is none of {_list(AnyscaleTeam)}, so the base "
            "rules apply"
        )
    if JOB_KIND not in tags:
        notes.append(
            "no anyscale_job_kind, so no rule for a kind applies; pass one of "
            f"{_list(AnyscaleJobKind)}"
        )
    elif team is None:
        notes.append(
            f"no anyscale_team, so the base rules apply; {_list(AnyscaleTeam)} have "
            "partitions of their own"
        )
    return tuple(notes)


def _kind(given: str) -> str:
    kinds = [member.value for member in AnyscaleJobKind]
    if given in kinds:
        return given
    hint = did_you_mean(_plain(given), kinds)
    raise RequestError(
        f"anyscale_job_kind={given!r} is no kind of job.{hint} Kinds: {_list(kinds)}"
    )


def _team(given: str, known: tuple[str, ...]) -> str:
    if given in known:
        return given
    if not given.strip():
        raise RequestError(
            f"anyscale_team={given!r} names no team; known are {_list(known)}"
        )
    plain = _plain(given)
    like = max(known, key=lambda team: _likeness(plain, _plain(team)))
    if _likeness(plain, _plain(like)) >= _SLIP:
        raise RequestError(
            f"anyscale_team={given!r} looks like {like!r}, and tags are matched "
            f"exactly. Did you mean {like!r}? If {given!r} is a team of its own, add "
            "it to teams = [...] in the site file"
        )
    return given


def _plain(word: str) -> str:
    return "_".join(word.strip().casefold().replace("-", " ").split())


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _why(rule: Rule, tags: Mapping[str, str]) -> str:
    if not rule.selector:
        return f"which takes what no rule before it took ({_said(tags)})"
    return "matches " + " and ".join(map(str, rule.selector))


def _said(tags: Mapping[str, str]) -> str:
    found = [f"{key}={tags[key]!r}" for key in (TEAM, JOB_KIND) if key in tags]
    return ", ".join(found) or "a job without labels"


def _list(words: Iterable[str]) -> str:
    return ", ".join(repr(str(word)) for word in words)
