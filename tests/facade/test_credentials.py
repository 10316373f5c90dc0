"""Credentials of the far side: references travel, and what they stand for does not."""

import contextlib
import json
import re
import subprocess
import sysconfig
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from emulators.s3 import serve

from ml_toolkit.functions.llm.inference import (
    JobError,
    RequestError,
    plan_inference,
    run_inference,
)
from ml_toolkit_core.tables.objectstore import ObjectStore

TOOL = Path(sysconfig.get_path("scripts")) / "ml-toolkit"
SECRETS = {
    "AWS_ACCESS_KEY_ID": "CLIENTSKEY",
    "AWS_SECRET_ACCESS_KEY": "clients-secret",
    "AWS_SESSION_TOKEN": "clients-token",
    "TEAM_AWS_ACCESS_KEY_ID": "TEAMSKEY",
    "TEAM_AWS_SECRET_ACCESS_KEY": "teams-secret",
}
#: What moto's metadata gives to a machine that asks who it is.
ROLES_KEY = "test-key"
ROWS = [{"id": i, "prompt": f"question {i}"} for i in range(5)]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start S3; yield its address, and where it writes down what it was asked."""
    recording = tmp_path_factory.mktemp("moto") / "requests.jsonl"
    with serve(
        MOTO_ENABLE_RECORDING="1", MOTO_RECORDER_FILEPATH=str(recording)
    ) as address:
        yield address, recording


@pytest.fixture
def s3(server, monkeypatch):
    """Make a bucket with an input; return the names of keys by what they wrote."""
    address, recording = server
    for name, value in {
        **SECRETS,
        "AWS_ENDPOINT_URL": address,
        "AWS_METADATA_ENDPOINT": address,
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": address,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with contextlib.suppress(urllib.error.HTTPError):  # it is there already
        request = urllib.request.Request(f"{address}/lake", method="PUT")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310
    rows = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()
    ObjectStore().replace("s3://lake/in/rows.jsonl", [rows])
    recording.write_text("")

    def keys(method):
        found = {}
        for line in recording.read_text().splitlines():
            entry = json.loads(line)
            signed = re.search(
                r"Credential=([^/]+)/", entry["headers"].get("Authorization", "")
            )
            if entry["method"] == method and signed:
                found.setdefault(signed[1], []).append(entry)
        return found

    return keys


@pytest.fixture
def ask():
    def run(call=run_inference, output="s3://lake/out", **options):
        return call(
            "s3://lake/in",
            "stub/any",
            output,
            **{
                "executor": "scripted",
                "output_format": "jsonl",
                "progress": False,
                **options,
            },
        )

    return run


@pytest.mark.parametrize("kind", ["jsonl", "delta"])
@pytest.mark.parametrize(
    ("reference", "key"), [("env:TEAM_AWS", "TEAMSKEY"), ("identity", ROLES_KEY)]
)
def test_the_far_side_finds_its_own_way_in(s3, ask, kind, reference, key):
    name = f"s3://lake/{kind}-{key}"

    job = ask(output=name, output_format=kind, credentials={"s3": reference})

    assert job.result().rows == len(ROWS)
    assert set(s3("PUT")) == {key}
    assert set(s3("GET")) == {key, "CLIENTSKEY"}
    tokens = {entry["headers"].get("X-Amz-Security-Token") for entry in s3("PUT")[key]}
    assert tokens == {None if key == "TEAMSKEY" else "test-session-token"}


def test_without_a_reference_the_environment_is_read_as_it_is(s3, ask):
    ask(output="s3://lake/plain")

    assert set(s3("PUT")) == {"CLIENTSKEY"}


def test_a_missing_variable_is_named_before_anything_is_loaded(s3, ask, monkeypatch):
    monkeypatch.delenv("TEAM_AWS_SECRET_ACCESS_KEY")

    with pytest.raises(JobError) as caught:
        ask(credentials={"s3": "env:TEAM_AWS"}, output="s3://lake/missing")

    assert (
        "credentials={'s3': 'env:TEAM_AWS'}: TEAM_AWS_SECRET_ACCESS_KEY not set on the "
        "machine that runs the job. Set it there, in the image or by a secret"
    ) in str(caught.value)
    assert s3("PUT") == {}


def test_the_same_run_may_find_its_credentials_elsewhere(s3, ask):
    del s3
    ask(run_id="night", output="s3://lake/twice", credentials={"s3": "identity"})

    again = ask(
        run_id="night", output="s3://lake/twice", credentials={"s3": "env:TEAM_AWS"}
    )

    assert again.result().requests == 0


def test_a_plan_tells_the_references_and_carries_them(s3, ask):
    del s3

    plan = ask(plan_inference, credentials={"s3": "env:TEAM_AWS"})

    assert "access    s3 by env:TEAM_AWS" in str(plan)
    assert plan.to_json()["request"]["credentials"] == {
        "s3": {"kind": "env", "name": "TEAM_AWS"}
    }


def test_no_secret_is_in_anything_that_is_kept(s3, ask, home, capfd):
    del s3
    ask(run_id="quiet", output="s3://lake/quiet", credentials={"s3": "env:TEAM_AWS"})

    kept = [file.read_bytes() for file in home.rglob("*") if file.is_file()]
    assert any(b'"TEAM_AWS"' in data for data in kept)
    shown = "".join(capfd.readouterr()).encode()
    for secret in SECRETS.values():
        assert not [data for data in (*kept, shown) if secret.encode() in data]


SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105  AWS's own example
KEY_ID = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"s3": SECRET_KEY}, "'s3'] is no reference; .*not shown.* Pass 'identity'"),
        ({"s3": f"env:{SECRET_KEY}"}, "'s3'] is no reference"),
        ({"s3": f"env:{KEY_ID}"}, "'s3'] is no reference"),
        ({"s3": {"aws_secret_access_key": SECRET_KEY}}, "'s3'] is no reference"),
        ({"s3": "env:"}, "'s3'] is no reference"),
        ({"s3": "identity:TEAM"}, "'s3'] is no reference"),
        ({"s3": "identiy"}, "Did you mean 'identity'"),
        ({"s3": "ENV"}, "Did you mean 'env:NAME'"),
        ({"s3": None}, "'s3'] is no reference"),
        ({SECRET_KEY: "identity"}, "a key that is not shown"),
        ({KEY_ID: SECRET_KEY}, "a key that is not shown"),
        ({"S3": "identity"}, "has 'S3', which .*Did you mean 's3'"),
        (f"env:{KEY_ID}", "credentials is a str, and must be a dict"),
    ],
)
def test_what_is_no_reference_is_refused_and_not_repeated(s3, ask, given, message):
    del s3

    with pytest.raises(RequestError, match=message.replace("]", r"\]")) as caught:
        ask(credentials=given)

    told = [str(caught.value), str(caught.value.__cause__), repr(caught.value)]
    assert not [text for text in told if SECRET_KEY in text or KEY_ID in text]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_command_takes_a_reference(s3):
    del s3
    tables = ["s3://lake/in", "stub/any", "s3://lake/cli"]
    options = ["--executor", "scripted", "--credentials", "s3=env:TEAM_AWS"]

    done = subprocess.run(
        [TOOL, "plan", *tables, *options], capture_output=True, text=True, check=True
    )

    assert "access    s3 by env:TEAM_AWS" in done.stdout


def test_the_command_repeats_no_secret(s3):
    del s3
    options = ["--executor", "scripted", "--credentials", f"s3:{SECRET_KEY}"]

    done = subprocess.run(
        [TOOL, "plan", "s3://lake/in", "stub/any", "s3://lake/cli", *options],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert SECRET_KEY not in done.stderr + done.stdout
