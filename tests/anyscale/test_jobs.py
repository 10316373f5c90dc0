"""Jobs that run: the entrypoint for real, where nothing of ours is installed."""

import json
import logging
import os
import subprocess
import sys

import deltalake
import pyarrow as pa
import pytest
from emulators.anyscale import TOKEN, alive

from ml_toolkit.functions.llm.inference import (
    AnyscaleComputeConfig,
    AnyscaleJobKind,
    AnyscaleTeam,
    JobError,
    JobState,
    attach,
    run_inference,
)
from ml_toolkit_anyscale import backend
from ml_toolkit_anyscale.orphans import find_orphans
from ml_toolkit_core.values import JobHandle, Missing

ROWS = [{"id": i, "prompt": f"question {i}"} for i in range(40)]


def test_the_table_is_the_one_that_the_local_backend_makes(
    ask, twin, tmp_path, read_parts
):
    local = {"compute_type": "local", "gpu_type": None, "num_gpus": None}
    ask("local", **local)

    result = ask("far").result()

    assert read_parts(tmp_path / "far") == read_parts(tmp_path / "local")
    assert (result.rows, result.failed) == (len(ROWS), 0)
    assert twin.jobs[0].history == [
        *("PENDING", "AWAITING_CLUSTER_START", "RUNNING", "CLEANING_UP", "SUCCESS")
    ]


def test_the_override_takes_another_config_and_the_same_route(ask, twin):
    labels = {
        "anyscale_job_kind": AnyscaleJobKind.BACKFILL,
        "anyscale_team": AnyscaleTeam.YODA,
    }

    ask("one", **labels)
    ask(
        "two",
        anyscale_compute_config=AnyscaleComputeConfig.H100_CPU_HEAD_2GPU,
        **labels,
    )

    assert [job.config["compute_config_id"] for job in twin.jobs] == [
        "cpt_h100-two-nodes_1",
        "cpt_h100-cpu-head-2gpu_1",
    ]
    for job in twin.jobs:
        assert (job.tags["job_kind"], job.tags["team"]) == ("backfill", "yoda")
        assert (job.queue, job.priority) == ("yoda", 60)


def test_the_documented_override_as_written_makes_two_jobs(make_twin, tmp_path):
    """With the default executor; the far side only pretends to run it."""
    twin = make_twin(mode="pretend")
    model = tmp_path / "home/warehouse/cat/sch/model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    rows = pa.table({"prompt": ["a", "b"]})
    deltalake.write_deltalake(tmp_path / "home/warehouse/cat/sch/input", rows)

    run_inference(
        *("cat.sch.input", "cat.sch.model", "cat.sch.output"),
        compute_type="anyscale",
        gpu_type="h100",
        num_gpus=16,
    )
    run_inference(
        *("cat.sch.input", "cat.sch.model", "cat.sch.output"),
        compute_type="anyscale",
        gpu_type="h100",
        num_gpus=16,
        anyscale_compute_config=AnyscaleComputeConfig.H100_CPU_HEAD_2GPU,
    )

    assert [job.config["compute_config_id"] for job in twin.jobs] == [
        "cpt_h100-two-nodes_1",
        "cpt_h100-cpu-head-2gpu_1",
    ]
    assert [(job.queue, job.priority) for job in twin.jobs] == [
        ("shared-fallback", 10)
    ] * 2


@pytest.mark.parametrize("kind", [None, *AnyscaleJobKind])
@pytest.mark.parametrize("team", [None, *AnyscaleTeam, "research"])
def test_the_plan_names_the_queue_that_the_scheduler_chooses(
    ask, quiet_twin, kind, team
):
    plan = ask(wait=False, anyscale_job_kind=kind, anyscale_team=team).plan

    (job,) = quiet_twin.jobs
    assert f"route: queue {job.queue!r}, priority {job.priority}: " in str(plan)


def test_a_job_says_all_that_the_sdk_would_guess(ask, quiet_twin):
    job = ask(
        run_id="night",
        wait=False,
        anyscale_priority=70,
        anyscale_tags={"cost_center": "7"},
        anyscale_cloud="main",
        anyscale_project="default",
        anyscale_max_retries=5,
        anyscale_timeout_s=600,
    )

    made = quiet_twin.jobs[0]
    assert made.name == "ml-toolkit-night-a1"
    config = dict(made.config)
    environment = config.pop("runtime_env")
    assert config == {
        "entrypoint": 'RAY_ADDRESS="${RAY_ADDRESS-auto}" '
        "python -m ml_toolkit_core.worker order.json",
        "build_id": "bld_1",
        "compute_config_id": "cpt_h100-two-nodes_1",
        "max_retries": 5,
        "timeout_s": 600,
        "priority": 70,
    }
    assert set(environment) == {
        *("working_dir", "user_provided_working_dir", "excludes")
    }
    assert made.tags == {
        "run_id": "night",
        "made_by": "ml-toolkit",
        "ledger_uri": job.plan.ledger_uri,
        "cost_center": "7",
    }


@pytest.mark.parametrize(
    ("there", "seen"),
    [({}, "auto"), ({"RAY_ADDRESS": "10.0.0.1:6379"}, "10.0.0.1:6379")],
)
def test_the_driver_joins_the_clusters_ray(tmp_path, there, seen):
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "$RAY_ADDRESS"\n')
    fake.chmod(0o755)

    done = subprocess.run(
        ["/bin/bash", "-c", backend.ENTRYPOINT],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **there},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == seen


def test_without_options_a_job_resumes_twice_and_ends_after_a_day(ask, quiet_twin):
    ask(wait=False)

    config = quiet_twin.jobs[0].config
    assert (config["max_retries"], config["timeout_s"]) == (2, 86_400)
    assert "priority" not in config


def test_a_job_queue_is_given_the_priority_in_its_own_direction(
    parcel, jobs, ask, quiet_twin
):
    first = jobs.create(parcel("first"))
    queue = {"job_queue_spec": {"job_queue_name": "shared", "idle_timeout_sec": 60}}
    config = quiet_twin.plane.jobs[first].config
    quiet_twin.plane.scheduler.job_queue(queue, config)

    urgent = ask("a", wait=False, anyscale_job_queue="shared", anyscale_priority=900)
    ask("b", wait=False, anyscale_job_queue="shared", anyscale_priority=100)

    assert "route: job queue 'shared', with its priority 100" in str(urgent.plan)
    assert [job.priority for job in quiet_twin.jobs[1:]] == [100, 900]
    assert {job.queue for job in quiet_twin.jobs[1:]} == {"shared"}
    assert "priority" not in quiet_twin.jobs[1].config


def test_a_killed_run_is_tried_again_and_goes_on(
    ask, twin, jsonl, tmp_path, read_parts
):
    # Each of two replicas answers 16 rows in 300 ms and kills the run after 90; every
    # run lasts longer than the second after which its first splits are published.
    script = {"die_after": 90, "sleep_ms": 300}
    rows = jsonl(
        [{"id": i, "prompt": f"question {i}"} for i in range(200)], "long.jsonl"
    )

    job = ask(input_table=rows, script=script, run_id="night", anyscale_max_retries=9)

    runs = twin.jobs[0].history.count("RUNNING")
    assert runs >= 2
    ids = [row["id"] for row in read_parts(tmp_path / "out")]
    assert sorted(ids) == list(range(200))
    status, result = job.status(), job.result()
    assert status.state is JobState.SUCCEEDED
    assert (status.attempt, status.retries) == (runs, runs - 1)
    assert result.requests < 200


def test_a_retry_in_progress_is_shown_as_one(ask, make_twin):
    twin = make_twin(mode="hold")
    job = ask(wait=False)
    made = twin.jobs[0]
    twin.plane.add_run(made)
    twin.plane.move(made, "RESTARTING", "the node went away")

    status = job.status()

    assert status.state is JobState.RUNNING
    assert status.message == "run 1 failed and is tried again; the node went away"
    twin.plane.add_run(made)
    twin.plane.move(made, "RUNNING")
    assert (job.status().attempt, job.status().retries) == (2, 1)


def test_the_reason_of_a_failed_run_comes_back(ask, twin):
    with pytest.raises(JobError, match="all 40 rows failed"):
        ask(script={"fail_if": "question"}, anyscale_max_retries=0)

    assert twin.jobs[0].state == "OUT_OF_RETRIES"


def test_a_job_is_cancelled_and_its_processes_end(ask, twin):
    job = ask(script={"hang_after": 3}, wait=False)
    made = twin.plane.wait(twin.jobs[0].id, "RUNNING")

    first = job.cancel()

    assert "was asked to end it" in first.message or first.state.is_final
    twin.plane.wait(made.id, "TERMINATED")
    assert job.status().state is JobState.CANCELLED
    assert job.cancel().state is JobState.CANCELLED
    assert alive(made.process) == []


def test_a_queued_job_is_cancelled_at_once(ask, quiet_twin):
    job = ask(wait=False)

    assert job.cancel().state is JobState.CANCELLED
    assert quiet_twin.jobs[0].state == "TERMINATED"


def test_one_line_of_the_log_says_queue_and_priority(ask, quiet_twin, caplog):
    caplog.set_level(logging.INFO)

    ask(wait=False, run_id="night", anyscale_job_kind="training", anyscale_team="yoda")

    (line,) = [r.getMessage() for r in caplog.records if "route:" in r.getMessage()]
    assert line.startswith("run_id=night route: queue 'yoda', priority 20: rule 8 of")
    (made,) = [r.getMessage() for r in caplog.records if "submitted" in r.getMessage()]
    assert f"job_id={quiet_twin.jobs[0].id} compute_config=h100-two-nodes" in made


def test_the_log_of_the_last_run_is_read(ask, twin):
    job = ask()

    lines = job.logs(3)

    assert len(lines) == 3
    assert "run ended state=SUCCEEDED" in lines[-1]
    assert len(twin.sent("GET /logs/")) == 1


def test_a_job_without_a_run_has_no_log_yet(ask, quiet_twin):
    del quiet_twin

    assert ask(wait=False).logs() == (
        "no run has begun; Anyscale calls the job PENDING",
    )


def test_another_machine_attaches_with_progress_and_result(ask, twin, tmp_path):
    del twin
    job = ask(run_id="night")
    script = (
        "from ml_toolkit.functions.llm.inference import attach\n"
        f"job = attach({str(job.handle)!r})\n"
        "status = job.status()\n"
        "print(status.state, status.progress.done, job.result().rows)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "ML_TOOLKIT_HOME": str(tmp_path / "elsewhere")},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["SUCCEEDED", "40", "40"]
    assert done.stderr == ""


def test_the_same_run_is_joined_while_it_runs_and_resumed_when_it_ended(
    ask, quiet_twin
):
    first = ask(run_id="night", wait=False)
    joined = ask(run_id="night", wait=False)
    quiet_twin.plane.move(quiet_twin.jobs[0], "OUT_OF_RETRIES", "why not")
    resumed = ask(run_id="night", wait=False)

    assert first.handle == joined.handle != resumed.handle
    assert [job.name[-2:] for job in quiet_twin.jobs] == ["a1", "a2"]


def test_a_run_that_nobody_made_is_missing(quiet_twin):
    del quiet_twin

    assert backend.find_job("nobody") == Missing()


def test_jobs_that_this_machine_does_not_remember_are_orphans(
    ask, jobs, parcel, quiet_twin
):
    mine = ask(wait=False)
    lost = jobs.create(parcel("lost"))
    ended = jobs.create(parcel("ended"))
    quiet_twin.plane.move(quiet_twin.plane.jobs[ended], "SUCCESS")
    jobs.create(parcel("foreign", tags={"run_id": "foreign"}))

    found = find_orphans()

    assert [orphan.handle.job_id for orphan in found] == [lost]
    assert attach(str(mine.handle)).status().state is JobState.QUEUED


def test_equal_folders_are_uploaded_once(jobs, parcel, quiet_twin):
    jobs.create(parcel("one"))
    jobs.create(parcel("two"))

    assert quiet_twin.plane.writes == 1


def test_the_callers_own_folder_stays_at_home(ask, twin, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/.env").write_text("SECRET=hush-hush")
    (tmp_path / "mine/notes.txt").write_text("hush-hush")
    monkeypatch.chdir(tmp_path / "mine")

    ask()

    assert not any(b"hush" in data for data in twin.plane.uploads.values())


def test_a_long_prompt_travels_in_the_order_and_not_as_a_parameter(
    ask, twin, tmp_path, read_parts
):
    ask(system_prompt="be brief " * 2000, script={"answer": "messages"})

    (row, *_) = read_parts(tmp_path / "out")
    assert row["generated_text"].count("be brief") == 2000
    assert len(json.dumps([twin.jobs[0].config, twin.jobs[0].tags])) < 2000


SECRETS = {
    "ANYSCALE_CLI_TOKEN": TOKEN,
    "HF_TOKEN": "hf_FAKEFAKEFAKE",
    "AWS_SECRET_ACCESS_KEY": "aws-FAKEFAKE",
}


def test_no_secret_travels_or_is_printed(ask, twin, monkeypatch, caplog, capfd):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)

    job = ask()

    made = twin.jobs[0]
    uploads = b"".join(twin.plane.uploads.values())
    sent = json.dumps([made.config, made.tags, made.name])
    shown = [repr(job), str(job.plan), repr(job.plan), sent, caplog.text]
    for secret in SECRETS.values():
        assert secret.encode() not in uploads
        assert not [text for text in shown if secret in text]
    assert "env_vars" not in made.config["runtime_env"]
    assert "SIGNATURE" not in caplog.text
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_reference_to_credentials_travels_and_they_do_not(
    ask, quiet_twin, monkeypatch
):
    keys = {"TEAM_AWS_ACCESS_KEY_ID": "THEKEY", "TEAM_AWS_SECRET_ACCESS_KEY": "hush"}
    for name, value in keys.items():
        monkeypatch.setenv(name, value)

    job = ask(wait=False, credentials={"s3": "env:TEAM_AWS"})

    upload = b"".join(quiet_twin.plane.uploads.values())
    made = quiet_twin.jobs[0]
    assert b'"TEAM_AWS"' in upload
    assert "access    s3 by env:TEAM_AWS" in str(job.plan)
    sent = json.dumps([made.config, made.tags, made.name]).encode()
    for value in keys.values():
        assert value.encode() not in upload
        assert value.encode() not in sent


def test_a_job_from_inside_a_workspace_is_the_same_job(ask, quiet_twin, monkeypatch):
    ask("one", wait=False)
    monkeypatch.setenv("ANYSCALE_EXPERIMENTAL_WORKSPACE_ID", "expwrk_1")
    monkeypatch.setenv("ANYSCALE_SESSION_ID", "ses_1")
    monkeypatch.setenv("ANYSCALE_INTERNAL_SYSTEM_STORAGE", "s3://bucket/secret")

    ask("two", wait=False)

    one, two = (dict(job.config) for job in quiet_twin.jobs)
    assert set(one.pop("runtime_env")) == set(two.pop("runtime_env"))
    assert one == two


def test_nothing_of_ours_is_installed_where_the_job_runs(image):
    python = f"{image.partition(':')[0]}/python"
    script = (
        "import importlib.metadata as m, importlib.util as u\n"
        "names = [d.name for d in m.distributions()]\n"
        "print([name for name in names if name.startswith('ml-toolkit')])\n"
        "print(u.find_spec('ml_toolkit_core'), u.find_spec('pyarrow') is None)"
    )

    done = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, check=True, cwd="/"
    )

    assert done.stdout.split("\n")[:2] == ["[]", "None False"]


def test_a_plan_needs_neither_sdk_nor_token(jsonl, tmp_path):
    script = (
        "import sys\n"
        "sys.modules['anyscale'] = None\n"
        "from ml_toolkit.functions.llm.inference import *\n"
        f"call = dict(input_table={str(jsonl(ROWS))!r}, model='m/x',"
        f" output_table={str(tmp_path / 'out')!r}, compute_type='anyscale',"
        " gpu_type='h100', num_gpus=16, executor='scripted')\n"
        "print(run_inference(**call, dry_run=True))\n"
        "try: run_inference(**call, anyscale_image_uri='i:1')\n"
        "except MissingExtra as error: print(error)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "anyscale: h100-two-nodes" in done.stdout
    assert "route: queue 'shared-fallback', priority 10" in done.stdout
    assert "pip install 'ml-toolkit-anyscale[jobs]'" in done.stdout


def test_the_facade_imports_no_sdk_and_no_yaml():
    script = (
        "import sys, ml_toolkit.functions.llm.inference\n"
        "print(sorted({'anyscale', 'yaml', 'urllib3'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_a_handle_of_the_facade_is_text(ask, quiet_twin):
    handle = ask(wait=False).handle

    assert str(handle) == f"anyscale://{quiet_twin.jobs[0].id}"
    assert JobHandle.parse(str(handle)) == handle
