"""A Ray cluster for one job: a real node for each machine, on loopback."""

import contextlib
import itertools
import random
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil
from attrs import frozen

P5, P6, CPU = "p5.48xlarge", "p6-b200.48xlarge", "r6i.16xlarge"
#: Shared memory of a node; splits are small.
OBJECT_STORE_BYTES = 100 << 20
#: Seconds between asking nodes to end and ending them.
GRACE_S = 10.0
#: Of 127.0.0.0/8; the first and the last are left to others.
_NETWORKS = 254 * 256
#: One after the other, from a place that other processes hardly begin at.
_numbers = itertools.count(random.randrange(_NETWORKS))  # noqa: S311


@frozen
class Machine:
    """What Ray may use of a node; on this machine the numbers are only its word."""

    cpus: int
    gpus: int


MACHINES = {P5: Machine(192, 8), P6: Machine(192, 8), CPU: Machine(64, 0)}


def machines_of(template):
    """Return the machines of a registered config, the head first."""
    config = template["config"]
    head = config["head_node_type"]
    told = head["resources"]
    machines = [
        MACHINES[head["instance_type"]]
        if told is None
        else Machine(told["cpu"], told["gpu"])
    ]
    for kind in config["worker_node_types"]:
        machines += [MACHINES[kind["instance_type"]]] * kind["min_workers"]
    return machines


class Nodes:
    """The nodes of one job, each with a folder and an address of its own.

    No two clusters of a process meet: each has a network of 127.0.0.0/8. Those of two
    processes hardly do, and then the ports are those that are free, and each cluster
    asks for a token of its own.

    Args:
        machines: The head's first.
        environment: Of the nodes, as their image has it; its ``PATH`` finds Python.

    Attributes:
        addresses: Of each node, the head's first.
        seen: The processes that there were at the end.
    """

    def __init__(self, machines, environment):
        first, second = divmod(next(_numbers) % _NETWORKS, 256)
        network = f"127.{first + 1}.{second}"
        self.addresses = [f"{network}.{i}" for i in range(1, len(machines) + 1)]
        self._machines = machines
        # Sockets lie below it, and their paths hold 107 characters at most.
        self._folder = Path(tempfile.mkdtemp(prefix="mlt-", dir="/tmp"))
        token = self._folder / "token"
        token.write_text(secrets.token_hex(32))
        self._auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self._environment = {**environment, **self._auth}
        self.seen = []
        self._processes = []
        self._ray = None

    @property
    def ray_environment(self):
        """What a process of this cluster needs to find it."""
        return {**self._auth, "RAY_ADDRESS": self._ray}

    def start(self):
        """Start the head, then the others side by side.

        Raises:
            RuntimeError: With what Ray said, when a node does not start.
        """
        said = self._wait(self._start(0, "--head", "--include-dashboard", "false"))
        self._ray = re.search(r"--address='(\S+)'", said)[1]
        rest = range(1, len(self._machines))
        for process in [self._start(i, "--address", self._ray) for i in rest]:
            self._wait(process)

    def stop(self):
        """End all nodes, and what runs there."""
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                node = psutil.Process(process.pid)
                self.seen += [node, *node.children(recursive=True)]
        for process in self._processes:
            process.terminate()
        _, alive = psutil.wait_procs(self.seen, GRACE_S)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, GRACE_S)
        for process in self._processes:
            process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, number, *role):
        machine = self._machines[number]
        python = shutil.which("python", path=self._environment["PATH"])
        home = self._folder / f"home-{number}"  # each node has a disk of its own
        home.mkdir()
        process = subprocess.Popen(
            [
                *(python, "-m", "ray.scripts.scripts", "start", "--block", *role),
                *(() if "--address" in role else ("--port", "0")),
                *("--node-ip-address", self.addresses[number]),
                *("--num-cpus", str(machine.cpus), "--num-gpus", str(machine.gpus)),
                *("--object-store-memory", str(OBJECT_STORE_BYTES)),
                *("--temp-dir", str(self._folder / str(number))),
                "--disable-usage-stats",
            ],
            env={**self._environment, "HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def _wait(self, process):
        """Read until --block's own words, or until the process ends."""
        said = []
        for line in process.stdout:
            said.append(line)
            if "--block" in line:
                return "".join(said)
        raise RuntimeError(f"a node did not start: {''.join(said)}")
