"""A Ray cluster that is there before the run: RAY_ADDRESS, tokens, places."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.values import ReplicaPlan, TableFormat, TableLocation

#: RAY_AUTH_MODE counts before Ray is imported, so each driver is a fresh process.
DRIVE = """
import functools, sys
from ml_toolkit_anyscale.executor.settings import choose_auth_mode
choose_auth_mode()
from ml_toolkit_anyscale.executor import pool
from ml_toolkit_core.errors import ToolkitError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline import driver
pool.ImpatientPool = functools.partial(pool.RayPool, place_s=25)
order = WorkOrder.loads(open(sys.argv[1]).read())
try:
    result = driver.run(
        order,
        pool="ml_toolkit_anyscale.executor.pool:ImpatientPool",
        engine="ml_toolkit_core.testing.scripted_engine:ScriptedEngine",
    )
    print("rows", result.rows, "requests", result.requests)
except ToolkitError as error:
    print(type(error).__name__, error)
"""


def without_ray(environment):
    return {k: v for k, v in environment.items() if not k.startswith("RAY_")}


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """Start a head that asks for a token; return its address and the token's file."""
    token = tmp_path_factory.mktemp("head") / "token"
    token.write_text("a" * 64)
    sockets = tempfile.mkdtemp(prefix="mlt-head-", dir="/tmp")  # paths must be short
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            *(Path(sys.executable).parent / "ray", "start", "--head", "--block"),
            *("--port", str(port), "--num-cpus", "2", "--num-gpus", "0"),
            *("--include-dashboard", "false", "--disable-usage-stats"),
            *("--temp-dir", sockets),
        ],
        env={
            **without_ray(os.environ),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said = []
    for line in process.stdout:  # ends with --block's own words, or with the process
        said.append(line)
        if "--block" in line:
            break
    address = re.search(rf"[\d.]+:{port}", "".join(said))
    if address is None:
        process.kill()
    assert address is not None, "".join(said)
    yield address[0], token
    process.terminate()
    process.communicate()
    shutil.rmtree(sockets, ignore_errors=True)


@pytest.fixture
def drive(head, jsonl, tmp_path, make_order):
    """Return a function that runs an order in a process of its own."""
    address, token = head

    def run(*, replicas=2, cpus=1, on_far_side=False, **environment):
        path = str(jsonl([{"prompt": f"row {i}"} for i in range(40)]))
        source, pin = pin_table(TableLocation(name=path, uri=path))
        out = str(tmp_path / "out")
        order = make_order(
            source=source,
            pin=pin,
            output=TableLocation(name=out, uri=out, format=TableFormat.JSONL),
            ledger_uri=f"{out}/_ml_toolkit/run-7",
            plan=ReplicaPlan(
                replicas=replicas, cpus_per_replica=cpus, on_far_side=on_far_side
            ),
        )
        file = tmp_path / "order.json"
        file.write_text(order.dumps())
        done = subprocess.run(
            [sys.executable, "-c", DRIVE, file],
            env={
                **without_ray(os.environ),
                "RAY_ADDRESS": address,
                "RAY_AUTH_TOKEN_PATH": str(token),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return (done.stdout.splitlines() or [done.stderr])[-1]

    return run


def test_replicas_run_on_the_cluster_that_is_there(drive, tmp_path, read_parts):
    assert drive() == "rows 40 requests 40"

    rows = read_parts(tmp_path / "out")
    assert [row["generated_text"] for row in rows] == [f"row {i}" for i in range(40)]


def test_machines_that_nobody_knew_are_planned_where_they_are(drive):
    # Two replicas of 64 cores would have no place on this head of two.
    assert drive(replicas=2, cpus=64, on_far_side=True) == "rows 40 requests 40"


def test_a_plan_without_a_place_is_refused_naming_what_is_missing(drive):
    said = drive(replicas=2, cpus=2)

    assert said.startswith("RequestError the plan needs 2 x 2 CPU, each on one node")
    assert "2 CPU, 0 GPU" in said
    assert "replicas=1 fits. Not all were placed within 25 s" in said


def test_a_wrong_token_is_refused_with_what_to_set(drive, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("b" * 64)

    said = drive(RAY_AUTH_TOKEN_PATH=str(wrong))

    assert said.startswith("RequestError RAY_ADDRESS=")
    assert "RAY_AUTH_MODE=disabled" in said
