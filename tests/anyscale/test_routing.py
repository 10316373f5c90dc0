import pytest

from ml_toolkit_anyscale.routing import (
    AnyscaleJobKind,
    AnyscaleTeam,
    check_priority,
    explain_route,
    labels,
    queue_priority,
    route_notes,
)
from ml_toolkit_anyscale.rules import RuleSet
from ml_toolkit_anyscale.sitefile import default_rules
from ml_toolkit_core.errors import RequestError


def route(job_kind=None, team=None, priority=None):
    return explain_route(labels(job_kind, team), default_rules(), priority)


@pytest.mark.parametrize("kind", AnyscaleJobKind)
@pytest.mark.parametrize("team", AnyscaleTeam)
def test_a_team_has_a_partition_for_every_kind(kind, team):
    assert route(kind, team).queue == team


@pytest.mark.parametrize("team", [*AnyscaleTeam, "research", None])
def test_kinds_run_in_the_documented_order(team):
    priorities = [route(kind, team).priority for kind in AnyscaleJobKind]

    assert priorities == sorted(priorities, reverse=True)
    assert len(set(priorities)) == 4
    assert min(priorities) > 10


def test_untagged_jobs_fall_to_the_shared_fallback_with_priority_10():
    found = route()

    assert (found.queue, found.priority) == ("shared-fallback", 10)
    assert "rule 13 of 13, which takes what no rule before it took" in str(found)


@pytest.mark.parametrize("team", ["research", None])
def test_other_teams_fall_to_the_base_rules(team):
    found = route("backfill", team)

    assert (found.queue, found.priority) == ("base", 50)
    assert str(found) == (
        "queue 'base', priority 50: rule 10 of 13, matches job_kind in 'backfill'"
    )


def test_members_and_texts_are_the_same_labels():
    members = labels(AnyscaleJobKind.FINE_TUNING, AnyscaleTeam.YODA)

    assert members == labels("fine_tuning", "yoda")
    assert members == {"job_kind": "fine_tuning", "team": "yoda"}
    assert all(type(value) is str for value in members.values())


@pytest.mark.parametrize(
    ("job_kind", "team", "message"),
    [
        ("Incremental", "corporate", "'Incremental' is no kind.*'incremental'"),
        ("Incremental ", "corporate", "'Incremental ' .*Did you mean 'incremental'"),
        ("incremntal", "corporate", "Did you mean 'incremental'"),
        ("fine-tuning", "yoda", "Did you mean 'fine_tuning'"),
        ("report", "yoda", "'report' is no kind.*'incremental', 'backfill'"),
        ("backfill", "corporate ", "'corporate ' looks like 'corporate'"),
        ("backfill", "corprate", "'corprate' looks like 'corporate'"),
        ("backfill", "YODA", "Did you mean 'yoda'.*teams = "),
        ("backfill", " ", "' ' names no team"),
    ],
)
def test_a_near_miss_is_pointed_out_and_not_sent_to_the_slow_queue(
    job_kind, team, message
):
    with pytest.raises(RequestError, match=message):
        labels(job_kind, team)


@pytest.mark.parametrize("team", ["research", "coda", "corp", "Team 7"])
def test_other_teams_pass_through_as_they_are(team):
    assert labels("backfill", team)["team"] == team


def test_a_team_of_the_site_may_look_like_a_known_one():
    assert labels("backfill", "yoda2", teams=["yoda2"])["team"] == "yoda2"


@pytest.mark.parametrize(
    ("job_kind", "team", "note"),
    [
        ("backfill", "research", "'research' is none of 'corporate', 'yoda'"),
        ("backfill", None, "no anyscale_team, so the base rules apply"),
        (None, "yoda", "no anyscale_job_kind, so no rule for a kind applies"),
        (None, None, "no anyscale_job_kind"),
    ],
)
def test_the_plan_points_out_a_slow_way(job_kind, team, note):
    tags = labels(job_kind, team)

    first, *more = route_notes(tags, explain_route(tags, default_rules()))

    assert first.startswith("route: queue ")
    assert any(note in text for text in more)


def test_the_plan_of_a_job_with_its_own_partition_has_the_route_alone():
    tags = labels("backfill", "yoda")

    assert len(route_notes(tags, explain_route(tags, default_rules()))) == 1


BOUNDED = {"default": 50, "min": 10, "max": 100}


@pytest.mark.parametrize(
    ("policy", "asked", "granted", "word"),
    [
        (BOUNDED, None, 50, "without selector"),
        (BOUNDED, 70, 70, ""),
        ({**BOUNDED, "on_violation": "force_update"}, 500, 100, "moved into"),
        ({**BOUNDED, "on_violation": "reject"}, 500, None, "is refused"),
        ({"min": 10, "on_violation": "force_update"}, 5, 10, "bounds 10 to any"),
        ({}, None, None, ""),
    ],
)
def test_a_rule_bounds_the_priority(policy, asked, granted, word):
    rules = RuleSet.of(
        {"scheduling_rules": [{"resource_queue": "q", "priority_policy": policy}]}
    )

    found = explain_route({}, rules, asked)

    assert found.priority == granted
    if asked is not None:
        assert word in found.reason


def test_a_job_that_no_rule_takes_is_said_to_be_so():
    rules = RuleSet.of(
        {
            "scheduling_rules": [
                {
                    "resource_queue": "q",
                    "selector": [{"key": "team", "operator": "exists"}],
                }
            ]
        }
    )

    found = explain_route({"job_kind": "backfill"}, rules)

    assert (found.rule, found.queue) == (None, None)
    assert str(found) == "none of 1 rules takes job_kind='backfill'"


@pytest.mark.parametrize(
    ("operator", "values", "tags", "holds"),
    [
        ("in", ["a"], {"team": "a"}, True),
        ("in", ["a"], {"team": "A"}, False),
        ("in", ["a"], {}, False),
        ("not_in", ["a"], {"team": "b"}, True),
        ("not_in", ["a"], {"team": "a"}, False),
        ("not_in", ["a"], {}, True),
        ("exists", None, {"team": "a"}, True),
        ("exists", None, {}, False),
        ("does_not_exist", None, {}, True),
        ("does_not_exist", [], {"team": "a"}, False),
    ],
)
def test_a_selector_compares_exactly(operator, values, tags, holds):
    match = {"key": "team", "operator": operator, "values": values}
    rules = RuleSet.of(
        {"scheduling_rules": [{"resource_queue": "q", "selector": [match]}]}
    )

    assert rules.rules[0].matches(tags) is holds


def test_a_higher_priority_is_a_lower_number_in_a_job_queue():
    numbers = [queue_priority(priority) for priority in (1000, 500, 10, 0)]

    assert numbers == sorted(numbers) == [0, 500, 990, 1000]


@pytest.mark.parametrize("priority", [-1, 1001, True])
def test_a_priority_out_of_range_is_refused(priority):
    with pytest.raises(RequestError, match="from 0 to 1000; the higher runs first"):
        check_priority(priority)
