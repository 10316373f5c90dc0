"""What a job's state is, whatever happens to the requests that ask for it."""

import random
import sys

import pytest
from anyscale.sdk.anyscale_client.models.ha_job_states import HaJobStates
from emulators.anyscale import Drop, Stall, Status

from ml_toolkit.functions.llm.inference import (
    JobState,
    RequestError,
    StartTimeout,
    StillRunning,
    Unreachable,
    attach,
)
from ml_toolkit.functions.llm.inference._cli import main
from ml_toolkit_anyscale import backend
from ml_toolkit_anyscale.states import STATES
from ml_toolkit_core.values import JobHandle

JOB = "GET /ext/v0/production_jobs/"
TERMINATE = "POST /ext/v0/production_jobs/.*/terminate"


@pytest.fixture
def made(jobs, parcel, quiet_twin):
    """Return a job that runs nothing, as the caller and the twin hold it."""
    handle = JobHandle(backend="anyscale", job_id=jobs.create(parcel()))
    return attach(handle), quiet_twin.jobs[0]


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("PENDING", JobState.QUEUED),
        ("AWAITING_CLUSTER_START", JobState.STARTING),
        ("UPDATING", JobState.RUNNING),
        ("RUNNING", JobState.RUNNING),
        ("ERRORED", JobState.RUNNING),
        ("RESTARTING", JobState.RUNNING),
        ("CLEANING_UP", JobState.RUNNING),
        ("SUCCESS", JobState.SUCCEEDED),
        ("BROKEN", JobState.FAILED),
        ("OUT_OF_RETRIES", JobState.FAILED),
        ("TERMINATED", JobState.CANCELLED),
        ("HIBERNATING", JobState.UNKNOWN),
    ],
)
def test_each_of_their_words_is_one_of_ours(made, quiet_twin, word, state):
    job, there = made
    quiet_twin.plane.move(there, word)

    assert backend.poll(job.handle).state is state


def test_no_word_of_the_sdk_is_left_out():
    assert set(STATES) == set(HaJobStates.allowable_values)


def test_a_new_word_is_shown_and_never_final(made, quiet_twin):
    job, there = made
    quiet_twin.plane.move(there, "HIBERNATING")

    status = job.status()

    assert not status.state.is_final
    assert "Anyscale calls it 'HIBERNATING'" in status.message


def test_their_reason_is_passed_on(made, quiet_twin):
    job, there = made
    quiet_twin.plane.move(there, "AWAITING_CLUSTER_START", "no p5.48xlarge to be had")

    assert job.status().message == "the cluster is starting; no p5.48xlarge to be had"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Status(500), "failed: injected (500 to GET /ext/v0/production_jobs/"),
        (Status(503, {"Retry-After": "1"}), "failed: injected (503"),
        (Status(502, body="<html>"), "failed (502 to GET"),
        (Status(429), "takes no more requests now: injected (429"),
        (
            Status(200, body="<html>"),
            "cannot be reached: no answer of Anyscale's (to GET",
        ),
        (Drop(), "cannot be reached: the connection broke (to GET"),
    ],
)
def test_a_platform_that_does_not_answer_is_unknown_and_no_error(
    made, quiet_twin, fault, words
):
    job, _ = made
    quiet_twin.faults.plan(fault, JOB)

    status = job.status()

    assert status.state is JobState.UNKNOWN
    assert words in status.message
    assert job.status().state is JobState.QUEUED


def test_a_server_that_stalls_is_given_up_on(hasty_jobs, made, quiet_twin):
    quiet_twin.faults.plan(Stall(), JOB)

    with pytest.raises(Exception, match="no answer in time"):
        hasty_jobs.see(made[1].id)


def test_a_server_that_is_gone_is_unknown(made, monkeypatch):
    job, _ = made
    monkeypatch.setenv("ANYSCALE_HOST", "http://127.0.0.1:9")

    status = job.status()

    assert status.state is JobState.UNKNOWN
    assert "http://127.0.0.1:9 cannot be reached: no connection" in status.message


def test_one_refused_token_may_be_a_slip(made, quiet_twin):
    job, _ = made
    quiet_twin.faults.plan(Status(401), JOB)

    assert job.status().state is JobState.QUEUED


def test_a_token_that_stays_refused_ends_the_wait_and_not_the_job(made, quiet_twin):
    job, _ = made
    quiet_twin.token = "aph0_another"  # noqa: S105

    with pytest.raises(Unreachable, match="does not accept the token.*may go on"):
        job.wait()


def test_a_job_that_does_not_start_in_time_is_ended_at_anyscale(made, quiet_twin):
    job, there = made
    quiet_twin.plane.move(there, "AWAITING_CLUSTER_START", "no p5.48xlarge to be had")

    with pytest.raises(StartTimeout) as caught:
        job.wait(start_timeout_s=0.1)

    assert f"anyscale://{there.id} is still STARTING after 0 s" in str(caught.value)
    assert "no p5.48xlarge to be had. It was cancelled" in str(caught.value)
    assert there.state == "TERMINATED"


def test_a_job_that_anyscale_does_not_end_may_still_run_and_is_said_to(
    made, quiet_twin
):
    job, there = made
    quiet_twin.faults.plan(Status(403), TERMINATE)

    with pytest.raises(StillRunning, match=r"may still start.*403") as caught:
        job.wait(start_timeout_s=0.1)

    assert str(caught.value).count("attach(") == 1
    assert there.state == "PENDING"


def test_the_command_that_waits_ends_a_job_that_does_not_start(
    made, quiet_twin, monkeypatch, capsys
):
    _, there = made
    quiet_twin.plane.move(there, "PENDING", "queue 'base': 3 before it")
    command = ["wait", f"anyscale://{there.id}", "--start-timeout-s", "0.1"]
    monkeypatch.setattr(sys, "argv", ["ml-toolkit", *command])

    with pytest.raises(SystemExit) as ended:
        main()

    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert f"] anyscale://{there.id} QUEUED: queue 'base': 3 before it" in said
    assert "3 before it. It was cancelled" in said
    assert there.state == "TERMINATED"


def test_a_job_that_nobody_knows_is_said_to_be_so(quiet_twin):
    del quiet_twin

    with pytest.raises(RequestError, match="knows no such job"):
        attach("anyscale://prodjob_nowhere")


def test_500_polls_with_random_faults_show_no_wrong_state(made, quiet_twin):
    """A state is the one that the job is in, or UNKNOWN; final only at the end."""
    job, there = made
    dice = random.Random(20261130)  # noqa: S311  a fixed seed
    path = ["PENDING", "AWAITING_CLUSTER_START", "RUNNING", "RESTARTING", "RUNNING"]
    faults = [Drop(), Status(500), Status(502, body="<html>"), Status(429)]
    faults += [Status(503, {"Retry-After": "3"}), Status(200, body="{}")]

    def chaos(method, url):
        del method, url
        return dice.choice(faults) if dice.random() < 0.25 else None

    quiet_twin.faults.chaos = chaos
    unknown = 0
    for number in range(500):
        word = path[number // 100]
        if number % 100 == 0:
            quiet_twin.plane.move(there, word)
        status = backend.poll(JobHandle(backend="anyscale", job_id=there.id))
        assert status.state in {STATES[word], JobState.UNKNOWN}
        unknown += status.state is JobState.UNKNOWN
        if number % 5 == 0:
            seen = job.status()
            assert not seen.state.is_final

    assert 50 < unknown < 350
    quiet_twin.faults.chaos = None
    quiet_twin.plane.move(there, "SUCCESS")
    assert job.status().state is JobState.SUCCEEDED
