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
