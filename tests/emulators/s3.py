"""S3 and the metadata of its machines, on a free port: moto in a process of its own."""

import contextlib
import os
import subprocess
import sys

#: Its web framework leaves objects in a process that break vLLM's look at all modules,
#: and pytest runs both.
_SERVE = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
print(f"http://{host}:{port}", flush=True)
input()
server.stop()
"""


@contextlib.contextmanager
def serve(**environment):
    """Start a server; yield its address.

    Args:
        environment: Settings of moto, as variables of its process.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        yield process.stdout.readline().strip()
        process.communicate("\n")
