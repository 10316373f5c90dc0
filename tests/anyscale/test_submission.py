"""One job per submit, whatever happens to requests and replies."""

import random
import threading

import pytest
from emulators.anyscale import Drop, Lost, Stall, Status

from ml_toolkit_anyscale.faults import Fate, Kind, Refused
from ml_toolkit_anyscale.submission import submit_once
from ml_toolkit_core.errors import PlatformUnavailable, RequestError, SubmitUnknown

CREATE = "POST .*/decorated_ha_jobs/create"
LIST = "GET .*/decorated_ha_jobs/$"


@pytest.fixture
def submit(jobs, parcel):
    """Return a function that submits once, without waiting."""

    def run(run_id="night", by=jobs, **changes):
        made = parcel(run_id, **changes)
        return submit_once(
            by,
            lambda: by.create(made),
            run_id=run_id,
            name=made.name,
            sleep=lambda _: None,
        )

    return run


def test_a_submit_makes_one_job_and_says_which(submit, quiet_twin):
    job_id = submit()

    assert [job.id for job in quiet_twin.jobs] == [job_id]
    assert len(quiet_twin.sent(LIST)) == 0


@pytest.mark.parametrize("lost", [Lost(), Lost(502), Lost(503), Lost(500), Lost(200)])
def test_a_lost_reply_is_looked_up_and_the_job_adopted(submit, quiet_twin, lost):
    quiet_twin.faults.plan(lost, CREATE)

    job_id = submit()

    assert [job.id for job in quiet_twin.jobs] == [job_id]
    assert len(quiet_twin.sent(CREATE)) == 1
    assert len(quiet_twin.sent(LIST)) == 1


@pytest.mark.parametrize("lost", [Drop(), Status(503), Status(500), Status(429)])
def test_a_request_that_did_nothing_is_made_again(submit, quiet_twin, lost):
    quiet_twin.faults.plan(lost, CREATE)

    submit()

    assert len(quiet_twin.jobs) == 1
    assert len(quiet_twin.sent(CREATE)) == 2


def test_the_look_up_comes_before_the_second_request(submit, quiet_twin):
    quiet_twin.faults.plan(Drop(), CREATE)

    submit()

    lines = [line.rpartition("/")[2] for line in quiet_twin.sent(f"{CREATE}|{LIST}")]
    assert lines == ["create", "", "", "", "create"]


def test_a_job_of_an_earlier_attempt_is_not_taken_for_this_one(submit, quiet_twin):
    first = submit(name="ml-toolkit-night-a1")
    quiet_twin.faults.plan(Lost(), CREATE)

    second = submit(name="ml-toolkit-night-a2")

    assert first != second
    assert [job.name[-2:] for job in quiet_twin.jobs] == ["a1", "a2"]


def test_a_refusal_makes_no_second_request(submit, quiet_twin):
    with pytest.raises(RequestError, match="'nope' does not exist.*No job was made"):
        submit(compute_config="nope")

    assert quiet_twin.sent(CREATE) == []


def test_a_platform_that_stays_down_is_left_with_no_job(submit, quiet_twin):
    quiet_twin.faults.plan(Status(503), CREATE, times=99)

    with pytest.raises(PlatformUnavailable, match="No job was made"):
        submit()

    assert quiet_twin.jobs == []
    assert len(quiet_twin.sent(CREATE)) == 4


def test_what_fails_before_the_job_is_asked_for_needs_no_look_up(submit, quiet_twin):
    quiet_twin.faults.plan(Status(502), "POST .*/compute_templates/search")
    quiet_twin.faults.plan(Drop(), "PUT /bucket")

    submit()

    assert len(quiet_twin.jobs) == 1
    assert quiet_twin.sent(LIST) == []


def test_a_look_up_that_fails_too_is_the_one_unknown(submit, quiet_twin):
    quiet_twin.faults.plan(Lost(), CREATE)
    quiet_twin.faults.plan(Status(500), LIST, times=99)

    with pytest.raises(SubmitUnknown) as caught:
        submit("lost-one")

    assert caught.value.run_id == "lost-one"
    assert "run_id=lost-one under http://127.0.0.1" in caught.value.how_to_find
    assert len(quiet_twin.jobs) == 1
    assert len(quiet_twin.sent(CREATE)) == 1


def test_a_server_that_may_still_be_at_it_is_not_asked_again(
    submit, hasty_jobs, quiet_twin
):
    quiet_twin.faults.plan(Stall(does_it=True), CREATE)

    with pytest.raises(SubmitUnknown, match="may still be making it"):
        submit(by=hasty_jobs)

    assert len(quiet_twin.sent(CREATE)) == 1


def test_a_slow_server_is_found_to_have_made_the_job(submit, quiet_twin):
    quiet_twin.faults.plan(Lost(504), CREATE)

    job_id = submit()

    assert [job.id for job in quiet_twin.jobs] == [job_id]


def test_after_the_time_is_up_no_job_is_made_late(hasty_jobs, parcel, quiet_twin):
    quiet_twin.faults.plan(Stall(does_it=True), "PUT /bucket")

    with pytest.raises(Refused) as caught:
        hasty_jobs.create(parcel())
    quiet_twin.over.set()
    for thread in threading.enumerate():
        if thread.name == "anyscale":
            thread.join(10)

    assert caught.value.fault.fate is Fate.NOT_MADE
    assert caught.value.fault.kind is Kind.TRANSIENT
    assert quiet_twin.sent(CREATE) == []


SEED = 20261130
SUBMITS = 200


def test_200_submits_with_random_faults_make_one_job_each_or_none(submit, quiet_twin):
    """At least 50 replies to the create call are lost after it was done."""
    dice = random.Random(SEED)  # noqa: S311  a fixed seed
    lost = 0

    def chaos(method, path):
        nonlocal lost
        if path.endswith("/create"):
            if dice.random() < 0.45:
                lost += 1
                return dice.choice([Lost(), Lost(500), Lost(502), Lost(200, "<html>")])
            if dice.random() < 0.2:
                return dice.choice([Drop(), Status(429), Status(503), Status(500)])
        elif dice.random() < 0.03:
            return dice.choice([Drop(), Status(502), Status(429), Status(401)])
        del method
        return None

    quiet_twin.faults.chaos = chaos
    outcomes = {"made": 0, "none": 0, "unknown": 0}
    for number in range(SUBMITS):
        run_id = f"run-{number}"
        try:
            job_id = submit(run_id)
        except SubmitUnknown:
            outcomes["unknown"] += 1
            expected = {0, 1}
        except RequestError:
            outcomes["none"] += 1
            expected = {0}
        else:
            outcomes["made"] += 1
            expected = {1}
            assert quiet_twin.plane.jobs[job_id].tags["run_id"] == run_id
        found = [job for job in quiet_twin.jobs if job.tags["run_id"] == run_id]
        assert len(found) in expected, run_id

    assert lost >= 50
    assert sum(outcomes.values()) == SUBMITS
    assert outcomes["made"] > 150
    assert outcomes["unknown"] < 5
