"""A twin of Anyscale for each test, and requests that run on it."""

from pathlib import Path

import pytest
from emulators.anyscale import TOKEN, Twin, build_image

from ml_toolkit.functions.llm.inference import run_inference
from ml_toolkit_anyscale import sitefile
from ml_toolkit_anyscale.account import HOST, Account
from ml_toolkit_anyscale.jobs import Jobs
from ml_toolkit_anyscale.options import IMAGE
from ml_toolkit_anyscale.parcel import Parcel
from ml_toolkit_anyscale.states import job_name

RULES = Path(sitefile.__file__).with_name("scheduler.yaml")


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """Return the ``PATH`` of an environment that holds nothing of ours."""
    return f"{build_image(tmp_path_factory.mktemp('image'))}:/usr/bin:/bin"


@pytest.fixture
def make_twin(image, tmp_path, monkeypatch):
    """Return a function that starts a twin and makes it the caller's Anyscale."""
    twins = []

    def make(**options):
        options = {"rules": RULES, **options}
        twin = Twin(tmp_path / f"twin-{len(twins)}", image, **options)
        twins.append(twin)
        monkeypatch.setenv(HOST, twin.host)
        return twin

    for name, value in (
        ("ANYSCALE_CLI_TOKEN", TOKEN),
        (IMAGE, "registry.example.org/llm:1"),
        ("NO_PROXY", "127.0.0.1"),
        ("HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    for name in (sitefile.VARIABLE, "ANYSCALE_EXPERIMENTAL_WORKSPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    yield make
    for twin in twins:
        twin.close()


@pytest.fixture
def twin(make_twin):
    """Return a twin that runs entrypoints."""
    return make_twin()


@pytest.fixture
def quiet_twin(make_twin):
    """Return a twin that makes jobs and leaves them PENDING."""
    return make_twin(mode="hold")


ROWS = [{"id": i, "prompt": f"question {i}"} for i in range(40)]


@pytest.fixture
def ask(jsonl, tmp_path):
    """Return a function that runs the scripted engine on Anyscale."""
    source = jsonl(ROWS)

    def run(output="out", *, input_table=source, script=None, **options):
        return run_inference(
            str(input_table),
            "stub/any",
            str(tmp_path / output),
            **{
                "compute_type": "anyscale",
                "gpu_type": "h100",
                "num_gpus": 16,
                "executor": "scripted",
                "engine_kwargs": {"script": script or {}, "max_num_seqs": 16},
                "output_format": "jsonl",
                "progress": False,
                **options,
            },
        )

    return run


@pytest.fixture
def jobs(quiet_twin):
    """Return the jobs of a twin that runs nothing."""
    return Jobs(Account(host=quiet_twin.host, token=TOKEN))


@pytest.fixture
def hasty_jobs(quiet_twin):
    """Return the same, for a server that stalls."""
    account = Account(host=quiet_twin.host, token=TOKEN)
    return Jobs(account, request_s=0.7, call_s=3)


@pytest.fixture
def parcel(tmp_path):
    """Return a function that makes a job's parcel."""
    folder = tmp_path / "ml-toolkit"
    folder.mkdir()
    (folder / "order.json").write_text("{}")

    def make(run_id="night", **changes):
        given = {
            "name": job_name(run_id, 1),
            "entrypoint": "true",
            "folder": folder,
            "compute_config": "h100-two-nodes",
            "image_uri": "registry.example.org/llm:1",
            "max_retries": 2,
            "timeout_s": 60,
            "tags": {"run_id": run_id, "made_by": "ml-toolkit"},
        }
        return Parcel(**{**given, **changes})

    return make
