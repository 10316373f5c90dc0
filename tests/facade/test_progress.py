import io

import pytest
from rich.console import Console

from ml_toolkit.functions.llm.inference import JobState, JobStatus, plan_inference
from ml_toolkit.functions.llm.inference._display import Display
from ml_toolkit.functions.llm.inference._progress import progress_lines
from ml_toolkit_core import records
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import JobHandle, Progress


@pytest.mark.parametrize(
    ("handle", "line"),
    [
        ("local://night", "job local://night\n"),
        ("anyscale://prodjob_1", "job anyscale://prodjob_1 run_id=night\n"),
    ],
)
def test_the_first_line_names_job_and_run(jsonl, tmp_path, handle, line):
    table = str(jsonl([{"prompt": "a"}]))
    plan = plan_inference(
        table, "m/x", str(tmp_path / "out"), executor="scripted", run_id="night"
    )
    job = InferenceJob(JobHandle.parse(handle), hooks=None, plan=plan)
    records.save(job.handle, plan)
    screen = io.StringIO()

    progress_lines(job, stream=screen)

    assert screen.getvalue() == line


REASON = "waiting for 2 x p5.48xlarge"


@pytest.fixture
def lines():
    """Return a function that tells a job's states, and returns what was printed.

    It takes the seconds at which they are told, and the state from some of them on.
    """

    def tell(seconds, timeline):
        clock = iter([0, *seconds])  # it is asked once at first, and once a status
        screen = io.StringIO()
        job = InferenceJob(JobHandle.parse("far://job-1"), hooks=None)
        show = progress_lines(job, stream=screen, clock=lambda: next(clock))
        for now in seconds:
            state = [state for since, state in timeline.items() if since <= now][-1]
            show(JobStatus(state=state, message=REASON))
        return screen.getvalue().splitlines()

    return tell


def test_a_line_now_and_then_tells_job_state_time_and_reason(lines):
    told = lines(range(0, 200, 2), {0: JobState.QUEUED, 10: JobState.STARTING})

    assert told == [
        "job far://job-1",
        f"[00:00] far://job-1 QUEUED: {REASON}",
        f"[00:10] far://job-1 STARTING: {REASON}",
        f"[01:10] far://job-1 STARTING: {REASON}",
        f"[02:10] far://job-1 STARTING: {REASON}",
        f"[03:10] far://job-1 STARTING: {REASON}",
    ]


def test_the_first_line_of_a_running_job_tells_how_long_it_waited(lines):
    told = lines([0, 600, 602], {0: JobState.QUEUED, 600: JobState.RUNNING})

    assert told[2:] == ["[10:00] RUNNING, progress unknown, waited 10:00"]


def test_a_terminal_shows_why_a_job_waits_as_the_platform_says_it():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    display = Display(InferenceJob(JobHandle.parse("local://r"), hooks=None), console)
    before = Progress(phase="done", rows=7, done=7)

    display(
        JobStatus(
            state=JobState.QUEUED, message="waits for [gpu] machines", progress=before
        )
    )
    display.close()

    assert "QUEUED: waits for [gpu] machines" in screen.getvalue()
    assert "7/7" not in screen.getvalue()
