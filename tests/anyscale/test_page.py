"""The tables of the page are the tables of the code."""

import re
from pathlib import Path

import pytest

from ml_toolkit_anyscale.catalog import FAMILY_1, FAMILY_2
from ml_toolkit_anyscale.routing import AnyscaleJobKind, explain_route, labels
from ml_toolkit_anyscale.sitefile import default_rules
from ml_toolkit_anyscale.states import STATES

PAGE = Path(__file__).parents[2] / "docs" / "anyscale-inference.rst"


def tables():
    """Return the simple tables of the page, each as rows of cells by heading."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    bars = [n for n, line in enumerate(lines) if re.fullmatch(r"=+(  +=+)+", line)]
    found = []
    for top, head, end in zip(bars[::3], bars[1::3], bars[2::3], strict=True):
        columns = [match.span() for match in re.finditer("=+", lines[top])]
        columns[-1] = (columns[-1][0], None)
        cells = [
            [line[start:stop].strip().strip("`") for start, stop in columns]
            for line in lines[top + 1 : end]
            if not line.startswith("==")
        ]
        del head
        found.append([dict(zip(cells[0], row, strict=True)) for row in cells[1:]])
    return found


@pytest.fixture
def table():
    """Return a function that finds the table with a heading."""

    def find(heading):
        (found,) = [rows for rows in tables() if heading in rows[0]]
        return found

    return find


def test_the_table_of_family_1_is_the_catalogs(table):
    rows = table("Take it for")

    assert [
        (r["Name"], r["Total nodes"], r["Nodes"], r["GPU"], r["GPU count"])
        for r in rows
    ] == [
        (s.name, str(s.total_nodes), s.head.instance, s.gpu_type, str(s.num_gpus))
        for s in FAMILY_1.values()
    ]


def test_the_table_of_family_2_is_the_catalogs(table):
    rows = table("GPU workers")

    assert rows == [
        {
            "Name": s.name,
            "Head": s.head.instance,
            "GPU workers": f"{s.workers} x {s.worker.instance}",
            "Total nodes": str(s.total_nodes),
            "GPU": s.gpu_type,
            "GPU count": str(s.num_gpus),
        }
        for s in FAMILY_2.values()
    ]


def test_the_table_of_rules_is_the_default_rule_set(table):
    for row, team in zip(
        table("incremental"), ("corporate", "yoda", "another"), strict=True
    ):
        for kind in AnyscaleJobKind:
            route = explain_route(labels(kind, team), default_rules())
            assert (row["Queue"], row[kind]) == (route.queue, str(route.priority))


def test_the_table_of_states_has_every_word_of_anyscale(table):
    rows = table("Anyscale's word")[:-1]

    shown = {
        word: row["JobState"]
        for row in rows
        for word in row["Anyscale's word"].split(", ")
    }
    assert shown == {word: state.value for word, state in STATES.items()}
