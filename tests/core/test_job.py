"""A job that waits for its machines, and what ends it."""

import math

import pytest
from attrs import define, field

from ml_toolkit_core.backends import Backends
from ml_toolkit_core.errors import (
    JobError,
    PlatformUnavailable,
    RequestError,
    StartTimeout,
    StillRunning,
    Unreachable,
)
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import ComputeTarget, JobHandle, JobState, JobStatus

QUEUED, STARTING, RUNNING, UNKNOWN = (
    JobState.QUEUED,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.UNKNOWN,
)
SUCCEEDED, FAILED, CANCELLED = (
    JobState.SUCCEEDED,
    JobState.FAILED,
    JobState.CANCELLED,
)
REASON = "waiting for 2 x p5.48xlarge"


@define
class Clock:
    """Goes on when somebody sleeps."""

    now: float = 1000.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@define
class Platform:
    """Says its words by the time; the last one for ever.

    Args:
        clock: The platform's, which is the caller's too.
        timeline: Seconds from the beginning, and the word from then on.
        on_cancel: What becomes of a job that is cancelled, and after how long; or
            the error that cancelling meets.
    """

    clock: Clock
    timeline: list
    on_cancel: object = (CANCELLED, 0)
    message: str = REASON
    cancelled_at: float | None = None
    begin: float = field(init=False)

    def __attrs_post_init__(self):
        self.begin = self.clock()

    @hookimpl
    def resolve_compute(self):
        return ComputeTarget(name="two", gpu_nodes=2, gpus_per_node=8)

    @hookimpl
    def submit(self):
        return JobHandle(backend="far", job_id="job-1")

    @hookimpl
    def poll(self):
        return self.status()

    @hookimpl
    def cancel(self):
        if isinstance(self.on_cancel, Exception):
            raise self.on_cancel
        self.cancelled_at = self.clock()
        return self.status()

    def status(self):
        now = self.clock()
        passed = now - self.begin
        state = [word for since, word in self.timeline if since <= passed][-1]
        if self.cancelled_at is not None:
            end, after_s = self.on_cancel
            state = end if now >= self.cancelled_at + after_s else state
        return JobStatus(state=state, message=self.message, run_id="night")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def wait(clock):
    """Return a function that waits for the job of a platform."""

    def call(platform, **options):
        backends = Backends()
        backends.register("far", platform)
        handle = JobHandle(backend="far", job_id="job-1")
        job = InferenceJob(handle, hooks=backends.get("far"))
        return job.wait(clock=clock, sleep=clock.sleep, **options)

    return call


@pytest.mark.parametrize("state", [QUEUED, STARTING])
def test_a_job_that_does_not_start_in_time_is_cancelled(clock, wait, state):
    platform = Platform(clock, [(0, state)])

    with pytest.raises(StartTimeout) as caught:
        wait(platform, start_timeout_s=30)

    assert platform.cancelled_at == pytest.approx(1030)
    assert str(caught.value) == (
        f"far://job-1 is still {state} after 30 s, start_timeout_s=30: {REASON}. "
        "It was cancelled; rows that are published stay.\n"
        "The same call with run_id='night' goes on where it ended."
    )
    assert caught.value.handle.job_id == "job-1"


def test_a_platform_without_a_reason_is_said_to_have_none(clock, wait):
    platform = Platform(clock, [(0, QUEUED)], message="")

    with pytest.raises(StartTimeout, match="=30: the platform gives no reason"):
        wait(platform, start_timeout_s=30)


def test_a_cancel_that_takes_its_time_is_seen_to_its_end(clock, wait):
    platform = Platform(clock, [(0, STARTING)], on_cancel=(CANCELLED, 20))

    with pytest.raises(StartTimeout, match="It was cancelled"):
        wait(platform, start_timeout_s=30)


def test_a_cancel_that_is_not_confirmed_says_that_it_may_still_run(clock, wait):
    platform = Platform(clock, [(0, STARTING)], on_cancel=(CANCELLED, 9999))

    with pytest.raises(StillRunning) as caught:
        wait(platform, start_timeout_s=30)

    assert (
        "It may still run: the platform was asked to end it and calls it STARTING "
        "60 s later. Follow it with attach('far://job-1').wait(), or end it with "
        ".cancel()"
    ) in str(caught.value)


def test_a_cancel_that_fails_says_why_and_that_it_may_still_run(clock, wait):
    error = PlatformUnavailable("no answer to that")
    platform = Platform(clock, [(0, QUEUED)], on_cancel=error)

    with pytest.raises(StillRunning) as caught:
        wait(platform, start_timeout_s=30)

    assert f"still QUEUED after 30 s, start_timeout_s=30: {REASON}" in str(caught.value)
    assert (
        "It may still start and run, because it could not be cancelled: no answer to "
        "that. Follow it with attach('far://job-1').wait()"
    ) in str(caught.value)


def test_a_job_that_begins_while_it_is_shown_is_not_cancelled(clock, wait):
    platform = Platform(clock, [(0, STARTING), (31, RUNNING), (50, SUCCEEDED)])

    def slow_screen(status):
        if status.state is STARTING and clock() >= 1030:
            clock.sleep(2)

    wait(platform, start_timeout_s=30, progress=slow_screen)

    assert platform.cancelled_at is None


def test_a_job_that_begins_when_its_cancel_fails_goes_on(clock, wait):
    class Busy(Platform):
        @hookimpl
        def cancel(self):
            clock.sleep(2)
            raise PlatformUnavailable("no answer to that")

    platform = Busy(clock, [(0, STARTING), (31, RUNNING), (50, SUCCEEDED)])

    job = wait(platform, start_timeout_s=30)

    assert job.status().state is SUCCEEDED


def test_a_job_that_succeeded_before_its_cancel_is_told_as_it_ended(clock, wait):
    platform = Platform(clock, [(0, STARTING)], on_cancel=(SUCCEEDED, 0))

    job = wait(platform, start_timeout_s=30)

    assert job.status().state is SUCCEEDED


def test_a_job_that_failed_before_its_cancel_is_told_as_it_ended(clock, wait):
    platform = Platform(clock, [(0, STARTING)], on_cancel=(FAILED, 0))

    with pytest.raises(JobError, match="is FAILED: waiting for 2 x"):
        wait(platform, start_timeout_s=30)


def test_time_running_does_not_count(clock, wait):
    platform = Platform(clock, [(0, QUEUED), (25, RUNNING), (5000, SUCCEEDED)])

    wait(platform, start_timeout_s=30)

    assert platform.cancelled_at is None


def test_a_state_that_nobody_knows_does_not_cancel(clock, wait):
    platform = Platform(clock, [(0, STARTING), (20, UNKNOWN), (40, SUCCEEDED)])

    wait(platform, start_timeout_s=30)

    assert platform.cancelled_at is None


def test_a_job_that_waits_still_after_a_silence_has_waited_all_the_time(clock, wait):
    platform = Platform(clock, [(0, STARTING), (20, UNKNOWN), (40, STARTING)])

    with pytest.raises(StartTimeout):
        wait(platform, start_timeout_s=30)

    assert 1040 <= platform.cancelled_at < 1042


def test_a_silent_platform_ends_the_wait_by_its_own_limit(clock, wait):
    platform = Platform(clock, [(0, UNKNOWN)])

    with pytest.raises(Unreachable):
        wait(platform, start_timeout_s=30, unreachable_after_s=100)

    assert platform.cancelled_at is None


def test_the_end_of_the_waiting_tells_the_reason_too(clock, wait):
    platform = Platform(clock, [(0, QUEUED)])

    with pytest.raises(StillRunning, match=r"QUEUED after timeout_s=10 \(waiting for"):
        wait(platform, timeout_s=10)

    assert platform.cancelled_at is None


@pytest.mark.parametrize("seconds", [-1, 0, math.nan, "9"])
def test_a_limit_on_the_start_that_is_no_time_cancels_nothing(clock, wait, seconds):
    platform = Platform(clock, [(0, QUEUED)])

    with pytest.raises(RequestError, match="start_timeout_s=.* number of seconds"):
        wait(platform, start_timeout_s=seconds)

    assert platform.cancelled_at is None
