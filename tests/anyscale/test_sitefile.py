from importlib import resources

import pytest
from anyscale.scheduler.models import SchedulerConfig

from ml_toolkit_anyscale.catalog import known_shapes, resolve
from ml_toolkit_anyscale.routing import explain_route
from ml_toolkit_anyscale.shapes import Node, Shape
from ml_toolkit_anyscale.sitefile import VARIABLE, default_rules, load_site
from ml_toolkit_core.errors import RequestError

SITE = """
image_uri = "registry.example.org/llm:7"
cloud = "aws-us-west"
project = "inference"
teams = ["yoda2"]
scheduler_config = "scheduler.yaml"

[instances."p5en.48xlarge"]
cpus = 192
memory_gib = 2048
gpus = 8
gpu_type = "h200"
gpu_memory_gib = 141

[compute_configs.h200-two-nodes]
head = "p5en.48xlarge"
workers = 1
auto = true

[compute_configs.h100-cpu-head-3gpu]
head = "r6i.16xlarge"
worker = "p5.48xlarge"
workers = 3
"""
P5EN = Node(
    instance="p5en.48xlarge",
    cpus=192,
    memory_gib=2048,
    gpus=8,
    gpu_type="h200",
    gpu_memory_gib=141,
)
RULES = """
resource_queues: [{name: all, preemption: {within_resource_queue: never}}]
scheduling_rules:
  - resource_queue: all
    priority_policy: {default: 7, min: 0, max: 9, on_violation: reject}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that reads a site file."""

    def load(text, rules=RULES):
        (tmp_path / "site.toml").write_text(text)
        (tmp_path / "scheduler.yaml").write_text(rules)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "site.toml"))
        return load_site()

    return load


@pytest.fixture(autouse=True)
def _no_site(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def test_without_a_file_everything_is_as_documented():
    site = load_site()

    assert site.rules == default_rules()
    assert (site.image_uri, site.shapes, site.teams) == (None, (), ())


def test_the_documented_rules_are_a_scheduler_config_of_the_sdk():
    file = resources.files("ml_toolkit_anyscale") / "scheduler.yaml"

    theirs = SchedulerConfig.from_yaml(str(file))

    assert [
        (r.resource_queue, r.priority_policy.default, len(r.selector or ()))
        for r in theirs.scheduling_rules
    ] == [
        (r.resource_queue, r.priority_policy.default, len(r.selector))
        for r in default_rules().rules
    ]


def test_the_sdks_own_example_is_read():
    file = resources.files("anyscale.scheduler") / "examples" / "scheduler-config.yaml"

    theirs = SchedulerConfig.from_yaml(str(file))

    assert len(theirs.scheduling_rules) == 3


def test_a_site_adds_shapes_rules_teams_and_defaults(site):
    found = site(SITE)

    assert found.image_uri == "registry.example.org/llm:7"
    assert (found.cloud, found.project) == ("aws-us-west", "inference")
    assert found.teams == ("yoda2",)
    assert explain_route({}, found.rules).priority == 7
    shapes = known_shapes(found.shapes)
    chosen = resolve(shapes, config=None, gpu_type="H200", num_gpus=16)
    assert chosen == Shape(
        name="h200-two-nodes", head=P5EN, worker=P5EN, workers=1, auto=True
    )
    assert shapes["h100-cpu-head-3gpu"].num_gpus == 24
    assert len(shapes) == 16


@pytest.mark.parametrize(
    ("text", "rules", "message"),
    [
        ("image_url = 'x'", RULES, "'image_url', .*Did you mean 'image_uri'"),
        ("image_uri = ", RULES, "cannot be read"),
        ("[compute_configs.a]\nhead = 'p6.big'", RULES, "'p6.big' is no instance"),
        ("[compute_configs.a]\nhed = 'p6.big'", RULES, "Did you mean 'head'"),
        (
            "[compute_configs.h100-two-nodes]\nhead = 'p5.48xlarge'",
            RULES,
            "is a documented one",
        ),
        (
            "[compute_configs.a]\nhead = 'r6i.16xlarge'\nworkers = 1",
            RULES,
            "need gpus and gpu_type",
        ),
        (
            "[compute_configs.a]\nhead = 'p5.48xlarge'\nworkers = -1",
            RULES,
            "'workers' must be >= 0",
        ),
        ("[instances.x]\ncpus = 1\nram = 3", RULES, "'ram', which is no entry"),
        ("scheduler_config = 'gone.yaml'", RULES, "gone.yaml"),
        ("scheduler_config = 'scheduler.yaml'", "- 1", "holds no scheduler config"),
        (
            "scheduler_config = 'scheduler.yaml'",
            "scheduling_rule: []",
            "Did you mean 'scheduling_rules'",
        ),
        (
            "scheduler_config = 'scheduler.yaml'",
            RULES.replace(
                "    priority", "    selector: [{key: k, operator: x}]\n    priority"
            ),
            "rule 1: .*'x' is not a valid Operator",
        ),
        (
            "scheduler_config = 'scheduler.yaml'",
            (
                "scheduling_rules: [{resource_queue: q, selector: "
                "[{key: a, operator: in}]}]"
            ),
            "rule 1: operator 'in' needs values",
        ),
        (
            "scheduler_config = 'scheduler.yaml'",
            "scheduling_rules: [{queue: q}]",
            "there is no 'queue'",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_what_would_work(site, text, rules, message):
    with pytest.raises(RequestError, match=message):
        site(text, rules)


#: A value of every type that TOML has, as it is written and as Python shows it.
LITERALS = {
    '""': "''",
    "'x'": "'x'",
    "7": "7",
    "0.5": "0.5",
    "inf": "inf",
    "true": "True",
    "2026-11-30": "datetime.date(2026, 11, 30)",
    "12:00:00": "datetime.time(12, 0)",
    "[]": "[]",
    "['x', 7]": "['x', 7]",
    "[['x']]": "[['x']]",
    "{}": "{}",
    "{a = {b = 'x'}}": "{'a': {'b': 'x'}}",
}
TEXT = {"'x'"}
#: Where an entry stands, and the values that it may have, as far as types go.
ENTRIES = {
    "": {
        "image_uri": TEXT,
        "cloud": TEXT,
        "project": TEXT,
        "teams": {"[]"},
        "scheduler_config": TEXT,
        "instances": {"{}"},
        "compute_configs": {"{}"},
    },
    "[instances]\n": {"big": set()},
    "[instances.big]\ncpus = 8\nmemory_gib = 8\n": {
        "gpus": {"7"},
        "gpu_type": TEXT,
        "gpu_memory_gib": {"7"},
    },
    "[instances.big]\nmemory_gib = 8\n": {"cpus": {"7"}},
    "[instances.big]\ncpus = 8\n": {"memory_gib": {"7"}},
    "[compute_configs]\n": {"a": set()},
    "[compute_configs.a]\nworker = 'p5.48xlarge'\n": {
        "head": set(),
        "workers": {"7"},
        "auto": {"true"},
    },
    "[compute_configs.a]\nhead = 'p5.48xlarge'\n": {"worker": set()},
}
#: Of the right type and wrong all the same: what is said is tested by itself.
WRONG_OTHERWISE = {
    ("instances", "{a = {b = 'x'}}"),
    ("compute_configs", "{a = {b = 'x'}}"),
    ("big", "{}"),
    ("big", "{a = {b = 'x'}}"),
    ("a", "{}"),
    ("a", "{a = {b = 'x'}}"),
    ("head", "'x'"),  # no such instance
    ("worker", "'x'"),
}
REFUSED = [
    (table, key, literal)
    for table, keys in ENTRIES.items()
    for key, literals in keys.items()
    for literal in LITERALS
    if literal not in literals and (key, literal) not in WRONG_OTHERWISE
]


def test_what_is_empty_adds_nothing(site):
    assert site("teams = []\ninstances = {}\ncompute_configs = {}") == site("")


@pytest.mark.parametrize(("table", "key", "literal"), REFUSED)
def test_refuses_a_value_of_the_wrong_type_by_file_key_and_value(
    site, table, key, literal
):
    with pytest.raises(RequestError) as caught:
        site(f"{table}{key} = {literal}\n")

    said = str(caught.value)
    assert "site.toml'" in said
    assert key in said
    assert LITERALS[literal] in said
    assert "must be" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[instances.big]\ngpus = 8",
            r"\[instances.'big'\] needs cpus, a whole number",
        ),
        ("[compute_configs.a]\nauto = true", "needs a head, the name of an instance"),
        ("image_uri = 7", "image_uri = 7 must be a text that is not empty, in quotes"),
        ("teams = 'x'", r"teams = 'x' must be a list of texts .*\['one', 'two'\]"),
    ],
)
def test_what_an_entry_needs_is_said(site, text, message):
    with pytest.raises(RequestError, match=message):
        site(text)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("scheduling_rules: 3", "scheduling_rules must be a list of mappings: 3"),
        ("scheduling_rules: [3]", r"must be a list of mappings: \[3\]"),
        ("scheduling_rules: {a: 3}", "must be a list of mappings"),
        ("resource_queues: [x]", r"resource_queues must be a list of mappings: \['x'"),
        (
            "resource_queues: [{name: q}, {nmae: yoda}]",
            "resource_queues, item 2 needs a name: {'nmae': 'yoda'}",
        ),
        ("resource_queues: [{name: 3}]", "resource_queues, item 1 needs a name"),
        ("resource_queues: [{name: ''}]", "resource_queues, item 1 needs a name"),
        ("scheduling_rules: [{resource_queue: 3}]", "rule 1: 'resource_queue' must be"),
        ("scheduling_rules: [{resource_queue: q, selector: 3}]", "rule 1: "),
        ("scheduling_rules: [{resource_queue: q, selector: [3]}]", "rule 1: 3 must be"),
        (
            (
                "scheduling_rules: [{resource_queue: q, selector: "
                "[{key: team, operator: in, values: yoda}]}]"
            ),
            r"values: 'yoda' must be a list, as \[yoda\]",
        ),
        (
            (
                "scheduling_rules: [{resource_queue: q, selector: "
                "[{key: 3, operator: exists}]}]"
            ),
            "rule 1: 'key' must be",
        ),
        (
            "scheduling_rules: [{resource_queue: q, priority_policy: 3}]",
            "rule 1: 3 must be a mapping of default, min",
        ),
        (
            "scheduling_rules: [{resource_queue: q, priority_policy: {min: x}}]",
            "rule 1: 'min' must be",
        ),
    ],
)
def test_rules_of_wrong_types_are_refused_by_item(site, rules, message):
    with pytest.raises(RequestError, match=message):
        site("scheduler_config = 'scheduler.yaml'", rules)


def test_a_change_of_either_file_is_seen_at_once(site):
    text = "scheduler_config = 'scheduler.yaml'\nteams = ['x']"
    assert site(text).teams == ("x",)

    changed = site(text.replace("'x'", "'y'"), RULES.replace("7", "8"))

    assert changed.teams == ("y",)
    assert explain_route({}, changed.rules).priority == 8


def test_the_same_rules_are_parsed_once(site):
    text = "scheduler_config = 'scheduler.yaml'"

    assert site(text).rules is site(text).rules
    assert default_rules() is default_rules()


def test_a_file_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/nowhere/site.toml")

    with pytest.raises(RequestError, match="'/nowhere/site.toml' cannot be read"):
        load_site()
