"""Each failure of the SDK, and what a person is told: what happened, what to do."""

import json
import traceback

import pytest
from emulators.anyscale import Drop, Stall, Status

from ml_toolkit.functions.llm.inference import PlatformUnavailable, RequestError
from ml_toolkit_anyscale.account import Account
from ml_toolkit_anyscale.faults import Fault, Kind, Refused
from ml_toolkit_anyscale.jobs import Jobs
from ml_toolkit_anyscale.messages import error_of, sentence

CREATE = "POST .*/decorated_ha_jobs/create"
TOKEN = "ANYSCALE_CLI_TOKEN"  # noqa: S105  a name
WHOLE = {"error": {"detail": [{"loc": ["body"], "msg": "bad"}], "message": "no good"}}


@pytest.fixture
def failure(jobs, parcel, quiet_twin):
    """Return a function that asks for a job once, and returns what is said."""

    def ask(fault=None, pattern=CREATE, by=jobs, **changes):
        if fault is not None:
            quiet_twin.faults.plan(fault, pattern)
        with pytest.raises(Refused) as caught:
            by.create(parcel(**changes))
        return caught.value.fault

    return ask


def text_of(fault):
    return str(error_of(fault, "http://host"))


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (
            Status(400),
            Kind.INVALID,
            (
                "Anyscale at http://host refuses this: injected (400 to POST /api/v2/"
                "decorated_ha_jobs/create). Change the request; the same one will be "
                "refused again. No job was made"
            ),
        ),
        (
            Status(401),
            Kind.AUTH,
            (
                "does not accept the token: injected (401 to POST /api/v2/decorated_ha_"
                "jobs/create). Get a new one under http://host/v2/api-keys and set "
                "ANYSCALE_CLI_TOKEN. No job was made"
            ),
        ),
        (Status(403), Kind.AUTH, "Ask who owns the cloud or project for the right"),
        (Status(404), Kind.NOT_FOUND, "refuses this: injected (404 to POST"),
        (Status(409), Kind.INVALID, "refuses this: injected (409 to POST"),
        (
            Status(422, body=json.dumps(WHOLE)),
            Kind.INVALID,
            "refuses this: no good (422 to POST",
        ),
        (
            Status(422, body='{"detail": [{"msg": "bad"}]}'),
            Kind.INVALID,
            "refuses this (422 to POST",
        ),
        (
            Status(429),
            Kind.RATE_LIMITED,
            (
                "takes no more requests now: injected (429 to POST /api/v2/decorated_"
                "ha_jobs/create). Try again later. No job was made"
            ),
        ),
        (Status(429, {"Retry-After": "7"}), Kind.RATE_LIMITED, "Try again in 7 s"),
        (
            Status(500),
            Kind.TRANSIENT,
            (
                "failed: injected (500 to POST /api/v2/decorated_ha_jobs/create). The "
                "request itself may be right; try again later"
            ),
        ),
        (
            Status(502, body="<html>aph0_FAKE</html>"),
            Kind.TRANSIENT,
            "failed (502 to POST /api/v2/decorated_ha_jobs/create). The request",
        ),
        (Status(503, {"Retry-After": "9"}), Kind.TRANSIENT, "failed: injected (503"),
        (Status(504), Kind.TRANSIENT, "failed: injected (504 to POST"),
        (
            Drop(),
            Kind.TRANSIENT,
            (
                "cannot be reached: the connection broke (to POST /api/v2/decorated_ha_"
                "jobs/create). Check the network, HTTPS_PROXY and ANYSCALE_HOST"
            ),
        ),
    ],
)
def test_a_status_is_said_with_what_to_do(failure, fault, kind, said):
    found = failure(fault)

    assert found.kind is kind
    assert said in text_of(found)
    passing = {Kind.TRANSIENT, Kind.RATE_LIMITED}
    assert isinstance(error_of(found, "h"), PlatformUnavailable) is (kind in passing)


def test_a_server_that_stalls_is_said_to(failure, hasty_jobs):
    found = failure(Stall(), "POST .*/compute_templates/search", by=hasty_jobs)

    assert "cannot be reached: no answer in time (to POST" in text_of(found)


def test_a_server_that_is_not_there_is_said_to_be_so(parcel):
    jobs = Jobs(Account(host="http://127.0.0.1:9", token="aph0_x"))  # noqa: S106

    with pytest.raises(Refused) as caught:
        jobs.create(parcel())

    said = sentence(caught.value.fault, jobs.host)
    assert "http://127.0.0.1:9 cannot be reached: no connection (to " in said
    assert "Check the network, HTTPS_PROXY and ANYSCALE_HOST" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"anyscale_raw_compute_config": "nope:3"},
            "'nope:3' does not exist.*Pass another anyscale_compute_config=",
        ),
        (
            {"anyscale_cloud": "mars"},
            "Cloud 'mars' not found.*Pass another anyscale_cloud=",
        ),
        (
            {"anyscale_project": "nope"},
            "Project 'nope' was not found.*Pass another anyscale_project=",
        ),
        (
            {"anyscale_job_queue": "nope"},
            "Job queue 'nope' was not found.*Pass another anyscale_job_queue=",
        ),
    ],
)
def test_what_is_named_and_not_there_is_refused_with_its_option(
    ask, quiet_twin, options, message
):
    if "anyscale_raw_compute_config" in options:
        options = {**options, "gpu_type": None, "num_gpus": None}

    with pytest.raises(RequestError, match=f"{message}.*No job was made"):
        ask(wait=False, **options)

    assert quiet_twin.jobs == []


@pytest.mark.parametrize(
    ("said", "option"),
    [
        ("Tag 'team' has a value that is too long.", "anyscale_tags"),
        ("Too many tags.", "anyscale_tags"),
        ("Project 'my-queue' was not found.", "anyscale_project"),
        ("Project 'x' was not found in cloud 'y'.", "anyscale_project"),
        ("priority 5 is too high for queue 'base'.", "anyscale_priority"),
        ("job_queue_config is wrong.", "anyscale_job_queue"),
        ("The user's image can't be pulled.", "anyscale_image_uri"),
    ],
)
def test_the_option_is_that_of_the_first_word(said, option):
    fault = Fault(kind=Kind.INVALID, status=400, said=said)

    todo = sentence(fault, "h").rpartition(". ")[2]

    assert todo.startswith(f"Pass another {option}=")


@pytest.mark.parametrize(
    "said",
    [
        "The job is at a stage that cannot be left.",
        "The percentage is out of bounds.",
        "It was queued already.",
        "CloudFormation failed.",
    ],
)
def test_a_part_of_a_word_names_no_option(said):
    fault = Fault(kind=Kind.INVALID, status=400, said=said)

    todo = sentence(fault, "h").rpartition(". ")[2]

    assert todo.startswith("Change the request")


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (None, "there is no Anyscale token: ANYSCALE_CLI_TOKEN is not set .*api-keys"),
        ("", "in ANYSCALE_CLI_TOKEN cannot be one: tokens begin with 'aph0_'"),
        ("hush-hush", "in ANYSCALE_CLI_TOKEN cannot be one: tokens begin with 'aph0_'"),
        ("aph0_not_known", r"does not accept the token.*\(401 to .*set ANYSCALE_CLI"),
    ],
)
def test_a_token_that_is_none_is_said_and_not_shown(
    ask, quiet_twin, monkeypatch, token, message
):
    if token is None:
        monkeypatch.delenv(TOKEN)
    else:
        monkeypatch.setenv(TOKEN, token)

    with pytest.raises(RequestError, match=message) as caught:
        ask(wait=False)

    shown = "".join(traceback.format_exception(caught.value))
    assert not token or token not in shown
    assert quiet_twin.jobs == []


@pytest.mark.parametrize("content", ["{", "{}", '{"cli_token": 3', "[]"])
def test_a_credentials_file_that_is_none_is_not_shown(
    ask, quiet_twin, monkeypatch, tmp_path, content
):
    del quiet_twin
    monkeypatch.delenv(TOKEN)
    (tmp_path / ".anyscale").mkdir()
    (tmp_path / ".anyscale/credentials.json").write_text(content)

    with pytest.raises(RequestError, match="holds no 'cli_token' that can be read"):
        ask(wait=False)


def test_the_token_of_the_credentials_file_is_used(
    ask, quiet_twin, monkeypatch, tmp_path
):
    token = json.dumps({"cli_token": quiet_twin.token})
    monkeypatch.delenv(TOKEN)
    (tmp_path / ".anyscale").mkdir()
    (tmp_path / ".anyscale/credentials.json").write_text(token)

    ask(wait=False)

    assert len(quiet_twin.jobs) == 1


def test_no_secret_is_in_an_error_or_what_it_was_raised_from(failure, quiet_twin):
    body = f"<html>{quiet_twin.token} hf_FAKE</html>"
    for fault in (
        failure(Status(403, body=body), "PUT /bucket"),
        failure(Status(502, {"Set-Cookie": "s=hf_FAKE"}, body)),
        failure(Status(400, body=json.dumps({"error": {"detail": quiet_twin.token}}))),
    ):
        error = error_of(fault, "http://host")

        shown = "".join(traceback.format_exception(error)) + repr(fault)
        assert not [s for s in (quiet_twin.token, "hf_FAKE", "SIGNATURE") if s in shown]


def test_a_refused_upload_is_named_without_its_signature(failure):
    fault = failure(Status(403), "PUT /bucket")

    assert "(403 to PUT of the upload)" in text_of(fault)
    assert "SIGNATURE" not in text_of(fault)


def test_an_account_does_not_show_its_token():
    account = Account(host="h", token="aph0_hush")  # noqa: S106

    assert "hush" not in repr(account)
