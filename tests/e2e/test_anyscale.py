"""A real model through the twin of Anyscale: the same table as on this machine."""

import json

import deltalake
import pyarrow as pa
import pytest
from emulators.anyscale import TOKEN, Twin, build_image

from ml_toolkit.functions.llm.inference import (
    attach,
    run_inference,
    submit_anyscale_inference,
)

ROWS = 8


@pytest.fixture
def twin(tmp_path, monkeypatch):
    path = f"{build_image(tmp_path / 'image')}:/usr/bin:/bin"
    twin = Twin(tmp_path / "twin", path)
    # A cluster of one node, whose machine is this one.
    twin.plane.extra_configs["this-machine"] = ("cpu", [])
    monkeypatch.setenv("ANYSCALE_HOST", twin.host)
    monkeypatch.setenv("ANYSCALE_CLI_TOKEN", TOKEN)
    monkeypatch.setenv("ML_TOOLKIT_ANYSCALE_IMAGE_URI", "registry.example.org/llm:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield twin
    twin.close()


def test_a_job_on_anyscale_makes_the_table_that_this_machine_makes(
    quickstart, twin, tmp_path, monkeypatch
):
    monkeypatch.setenv("ML_TOOLKIT_WAREHOUSE", str(tmp_path / "warehouse"))
    lines = quickstart.TABLE.read_text(encoding="utf-8").splitlines()[:ROWS]
    rows = pa.Table.from_pylist([json.loads(line) for line in lines])
    deltalake.write_deltalake(tmp_path / "warehouse/cat/sch/countries", rows)
    same = {
        "prompt_template": quickstart.QUESTION,
        "sampling_params": {"max_tokens": 8, "temperature": 0},
    }
    request = ("cat.sch.countries", str(quickstart.MODEL))

    run_inference(*request, "cat.sch.here", progress=False, **same)
    handle = submit_anyscale_inference(
        *request, "cat.sch.there", compute_config="this-machine", **same
    )
    job = attach(str(handle)).wait()

    here, there = (
        sorted(
            deltalake.DeltaTable(tmp_path / "warehouse/cat/sch" / name)
            .to_pyarrow_table()
            .to_pylist(),
            key=lambda row: row["alpha_3"],
        )
        for name in ("here", "there")
    )
    assert len(there) == ROWS == job.result().rows
    assert there == here
    assert twin.jobs[0].state == "SUCCESS"
