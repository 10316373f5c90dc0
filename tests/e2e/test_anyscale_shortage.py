"""A cluster that has fewer GPUs than its machines: told at wait(), with the fix."""

import pytest

from ml_toolkit.functions.llm.inference import (
    JobError,
    attach,
    submit_anyscale_inference,
)


def test_a_head_that_is_registered_without_gpus_is_told_with_the_fix(
    twin, jsonl, tmp_path
):
    """The plan for an unknown model is one replica of 8 GPUs for each node.

    The replica with a place must not load anything: this model has no weights.
    """
    twin.plane.heads_without_gpus.add("h100-two-nodes")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")

    handle = submit_anyscale_inference(
        *(str(jsonl([{"prompt": "a"}])), str(model), str(tmp_path / "out")),
        compute_config="h100-two-nodes",  # a free text, which no submit compares
        anyscale_max_retries=0,
    )
    with pytest.raises(JobError) as failed:
        attach(str(handle)).wait()

    said = str(failed.value)
    assert "the plan needs 2 x 8 GPU, each on one node" in said
    assert ": 0 CPU, 0 GPU; " in said
    assert ": 192 CPU, 8 GPU; free now:" in said
    assert "The head registers no GPU with Ray. If its machine is like the " in said
    assert "head_node: {resources: {CPU: 192, GPU: 8}}. Else replicas=1 fits." in said
    assert "Not all were placed within 45 s" in said
    assert twin.jobs[0].state == "OUT_OF_RETRIES"
