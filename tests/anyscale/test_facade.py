"""submit_anyscale_inference: any compute config, as it is, and the handle at once."""

import pytest

from ml_toolkit.functions.llm.inference import (
    AnyscaleComputeConfig,
    JobState,
    RequestError,
    attach,
    submit_anyscale_inference,
)

ROWS = [{"id": i, "prompt": f"question {i}"} for i in range(40)]


@pytest.fixture
def submit(jsonl, tmp_path):
    """Return a function that submits the scripted engine."""
    source = str(jsonl(ROWS))

    def run(**options):
        return submit_anyscale_inference(
            source,
            "stub/any",
            str(tmp_path / "out"),
            **{"executor": "scripted", "output_format": "jsonl", **options},
        )

    return run


def test_a_config_that_the_catalog_does_not_know_runs_as_it_is(submit, twin):
    twin.plane.extra_configs["our-own"] = ("g6.48xlarge", [])

    handle = submit(
        compute_config="our-own:1", num_gpus=8, job_kind="training", team="yoda"
    )

    job = attach(str(handle)).wait()
    assert job.result().rows == len(ROWS)
    made = twin.jobs[0]
    assert made.config["compute_config_id"] == "cpt_our-own_1"
    assert (made.queue, made.priority) == ("yoda", 20)


def test_the_handle_comes_back_before_the_job_has_begun(submit, quiet_twin):
    handle = submit(compute_config=AnyscaleComputeConfig.H100_CPU_HEAD_2GPU)

    assert handle.job_id == quiet_twin.jobs[0].id
    assert attach(str(handle)).status().state is JobState.QUEUED


def test_a_version_that_anyscale_has_not_is_refused_by_anyscale(submit, quiet_twin):
    with pytest.raises(RequestError, match="'h100-two-nodes:7' does not exist"):
        submit(compute_config="h100-two-nodes:7")

    assert quiet_twin.jobs == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"job_kind": "Training"}, "anyscale_job_kind='Training' is no kind"),
        ({"wait": True}, "wait=True: submit_anyscale_inference"),
        ({"start_timeout_s": 9}, "start_timeout_s=9: .*run_inference"),
        ({"dry_run": True}, "dry_run=True: .*run_inference"),
        ({"anyscale_team": "yoda"}, "anyscale_team='yoda': submit_anyscale"),
        ({"anyscale_imageuri": "x"}, "Did you mean 'anyscale_image_uri'"),
    ],
)
def test_what_makes_no_sense_here_is_refused(submit, quiet_twin, options, message):
    with pytest.raises(RequestError, match=message):
        submit(compute_config="h100-two-nodes", **options)

    assert quiet_twin.jobs == []
