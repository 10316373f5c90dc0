import io

import pytest

from ml_toolkit.functions.llm.inference import plan_inference
from ml_toolkit.functions.llm.inference._progress import progress_lines
from ml_toolkit_core import records
from ml_toolkit_core.job import InferenceJob
from ml_toolkit_core.values import JobHandle


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
