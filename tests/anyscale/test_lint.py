import re

import pytest

from ml_toolkit_anyscale.lint import lint
from ml_toolkit_anyscale.rules import RuleSet
from ml_toolkit_anyscale.sitefile import default_rules


def rule(queue="q", priority=None, **selector):
    return {
        "resource_queue": queue,
        "selector": [
            {"key": key, "operator": "in", "values": [value]}
            for key, value in selector.items()
        ],
        "priority_policy": {} if priority is None else {"default": priority},
    }


KINDS = ("incremental", "backfill", "fine_tuning", "training")
#: A rule for every kind, best first, and a fallback.
GOOD = [
    *(
        rule(priority=90 - 10 * n, job_kind=kind, team=team)
        for team in ("corporate", "yoda")
        for n, kind in enumerate(KINDS)
    ),
    rule("fallback", 10),
]


def found(rules, teams=()):
    return lint(RuleSet.of({"scheduling_rules": rules}), teams)


def test_the_documented_rules_are_clean():
    assert lint(default_rules()) == ()


def test_a_rule_for_every_kind_and_team_is_clean():
    assert found(GOOD) == ()


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        (
            [rule("all"), *GOOD],
            r"rule 2 \(job_kind in 'incremental' and team in 'corporate'\) is never .*",
        ),
        (
            [*GOOD, rule("second-fallback")],
            r"rule 10 \(without selector\) is never reached: .*",
        ),
        (
            [rule(priority=95, job_kind="training", team="yoda"), *GOOD],
            "team 'yoda': training has priority 95, above fine_tuning with 70; .*",
        ),
        (
            [*GOOD[:-1], rule("fallback", 500)],
            "team 'yoda': a job without a kind has priority 500, above training .*",
        ),
        (
            [rule(priority=90, job_kind="fine-tuning"), *GOOD],
            r"rule 1: no job has job_kind='fine-tuning', .*mean 'fine_tuning'\?",
        ),
        (
            [rule(priority=90, team="Yoda"), *GOOD],
            r"rule 1: no job has team='Yoda', .*Did you mean 'yoda'\?",
        ),
        (
            [rule(priority=90, **{"job-kind": "backfill"}), *GOOD],
            r"rule 1: no job has the label 'job-kind', .*Did you mean 'job_kind'\?",
        ),
        (
            [r for r in GOOD if r["selector"][0:1] != GOOD[3]["selector"][0:1]],
            "job_kind='training' is caught by the fallback alone",
        ),
        (GOOD[:4] + GOOD[-1:], "team='yoda' is caught by the fallback alone"),
        (GOOD[:-1], "a job without labels matches no rule; .*"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(rules, sentence):
    assert any(re.fullmatch(sentence, text) for text in found(rules))


def test_a_queue_that_is_not_declared_is_named():
    rules = RuleSet.of(
        {"resource_queues": [{"name": "yoda"}], "scheduling_rules": [rule("yodda")]}
    )

    assert (
        lint(rules)[0] == "rule 1: resource_queues has no 'yodda'. Did you mean 'yoda'?"
    )


def test_a_team_of_the_site_is_a_team_like_others():
    assert "team='ml' is caught by the fallback alone" in found(GOOD, teams=["ml"])


def test_other_labels_may_route_too():
    rules = [rule("eu", 70, zone="eu"), *GOOD]

    assert found(rules) == ()
