"""The ledger: written whole, read by anybody, never an error."""

import pytest

from ml_toolkit_core.tables.ledger import Ledger, read_ledger
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.values import (
    JobState,
    LedgerState,
    Outcome,
    Progress,
    RunResult,
)


def test_gives_back_what_was_written_last(tmp_path):
    ledger = Ledger(LocalStore(), str(tmp_path / "run"), clock=lambda: 12.5)
    outcome = Outcome(
        state=JobState.SUCCEEDED,
        result=RunResult(
            output="out",
            errors=None,
            rows=7,
            failed=0,
            truncated=1,
            prompt_tokens=7,
            completion_tokens=9,
            requests=7,
            attempt=2,
            seconds=1.5,
        ),
    )
    ledger.write(Progress(rows=7), attempt=1)
    ledger.write(Progress(rows=7, done=7, rows_per_s=2.0), attempt=2, outcome=outcome)

    state = read_ledger(str(tmp_path / "run"))

    assert state == LedgerState(
        progress=Progress(rows=7, done=7, rows_per_s=2.0),
        attempt=2,
        updated_at=12.5,
        outcome=outcome,
    )


@pytest.mark.parametrize(
    "text", ["", '{"progress": {', "[]", '{"progress": 1}', '{"attempt": 1}', "\x00"]
)
def test_reads_a_torn_ledger_as_none(tmp_path, text):
    (tmp_path / "ledger.json").write_text(text)

    assert read_ledger(str(tmp_path)) is None


def test_reads_a_missing_ledger_as_none(tmp_path):
    assert read_ledger(str(tmp_path / "nothing")) is None


def test_leaves_nothing_but_the_ledger_behind(tmp_path):
    Ledger(LocalStore(), str(tmp_path)).write(Progress(), attempt=1)

    assert [path.name for path in tmp_path.iterdir()] == ["ledger.json"]
