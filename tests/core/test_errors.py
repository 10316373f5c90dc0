"""Errors travel between processes, and a near miss is answered with the likely name."""

import pickle

import pytest

from ml_toolkit_core.errors import (
    JobError,
    StartTimeout,
    StillRunning,
    SubmitUnknown,
    Unreachable,
    did_you_mean,
)
from ml_toolkit_core.tables.parts import RowError, RowFault
from ml_toolkit_core.values import JobHandle


@pytest.mark.parametrize(
    "error",
    [
        RowError(RowFault.UNREADABLE, "a sentence"),
        SubmitUnknown("run-1", "Look there."),
        StillRunning("it goes on", handle=JobHandle(backend="local", job_id="r")),
        Unreachable("no answer", handle=JobHandle(backend="local", job_id="r")),
        StartTimeout("it waited", handle=JobHandle(backend="local", job_id="r")),
        JobError("it failed", handle=JobHandle(backend="local", job_id="r")),
    ],
)
def test_an_error_with_parts_comes_back_whole_from_a_pickle(error):
    back = pickle.loads(pickle.dumps(error))

    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("given", "hint"),
    [("temperatur", " Did you mean 'temperature'?"), ("zzz", "")],
)
def test_a_near_miss_is_answered_and_a_far_one_is_not(given, hint):
    assert did_you_mean(given, ["temperature", "top_p"]) == hint
