"""A real model through the twin of Anyscale, on Ray clusters of several nodes."""

import json
import re
from collections import Counter

import deltalake
import pyarrow as pa
import pytest

from ml_toolkit.functions.llm.inference import (
    AnyscaleComputeConfig,
    AnyscaleJobKind,
    AnyscaleTeam,
    run_inference,
)
from ml_toolkit_anyscale.executor.models import stage
from ml_toolkit_core.values import ModelKind, ModelLocation

ROWS = 64


@pytest.fixture
def warehouse(quickstart, shared_home, tmp_path, monkeypatch):
    """Return a warehouse that holds the table and the model of the documented call."""
    schema = tmp_path / "warehouse" / "cat" / "sch"
    schema.mkdir(parents=True)
    lines = quickstart.TABLE.read_text(encoding="utf-8").splitlines()[:ROWS]
    rows = [json.loads(line) for line in lines]
    for row in rows:
        row["prompt"] = quickstart.QUESTION.format_map(row)
    deltalake.write_deltalake(schema / "input", pa.Table.from_pylist(rows))
    model = ModelLocation(name="model", uri=str(quickstart.MODEL), kind=ModelKind.GGUF)
    (schema / "model").symlink_to(stage(model, shared_home).uri)
    monkeypatch.setenv("ML_TOOLKIT_WAREHOUSE", str(tmp_path / "warehouse"))
    return schema


def answers(table):
    rows = deltalake.DeltaTable(table).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["alpha_3"])


def places(job):
    """Return how many replicas each node had, from the job's log."""
    found = re.findall(r"replica=\d+ node=(\S+)", "\n".join(job.logs(tail=1000)))
    return Counter(found)


def test_two_replicas_of_the_override_example_make_the_table_of_this_machine(
    twin, warehouse
):
    """The documented override, 16 H100s on both families of compute configs.

    The plan for this model is 16 replicas of one GPU.  Here each is an engine on CPU
    cores that takes 2.6 GB and 25 s of a core to load (measured), so two are asked for.
    """
    same = {
        "sampling_params": {"max_tokens": 8, "temperature": 0},
        "progress": False,
    }
    sixteen = {
        "compute_type": "anyscale",
        "gpu_type": "h100",
        "num_gpus": 16,
        "replicas": 2,
        "anyscale_job_kind": AnyscaleJobKind.INCREMENTAL,
        "anyscale_team": AnyscaleTeam.CORPORATE,
        **same,
    }

    run_inference("cat.sch.input", "cat.sch.model", "cat.sch.here", **same)
    first = run_inference(
        "cat.sch.input", "cat.sch.model", "cat.sch.answers", **sixteen
    )
    second = run_inference(
        *("cat.sch.input", "cat.sch.model", "cat.sch.more_answers"),
        **sixteen,
        anyscale_compute_config=AnyscaleComputeConfig.H100_CPU_HEAD_2GPU,
    )

    assert len(answers(warehouse / "here")) == ROWS
    assert answers(warehouse / "answers") == answers(warehouse / "here")
    assert answers(warehouse / "more_answers") == answers(warehouse / "here")
    assert ROWS == first.result().rows == second.result().rows
    assert [job.state for job in twin.jobs] == ["SUCCESS"] * 2
    assert [job.config["compute_config_id"] for job in twin.jobs] == [
        "cpt_h100-two-nodes_1",
        "cpt_h100-cpu-head-2gpu_1",
    ]
    for job in twin.jobs:
        assert (job.queue, job.priority) == ("corporate", 100)
        assert job.tags["job_kind"] == "incremental"
        assert job.tags["team"] == "corporate"
    # One on each node with GPUs, the head of Family 1 among them; nothing of ours is
    # in their image, so what ran there came with the job.
    assert places(first) == Counter(twin.jobs[0].nodes.addresses)
    assert places(second) == Counter(twin.jobs[1].nodes.addresses[1:])
