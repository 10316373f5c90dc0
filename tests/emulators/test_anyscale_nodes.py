"""The twin of Anyscale with the Ray cluster that each job has there."""

import json
from pathlib import Path

import anyscale
import pytest
from anyscale.job.models import JobConfig
from emulators.anyscale import TOKEN, Twin, build_image
from emulators.anyscale.nodes import CPU, MACHINES, Nodes

#: Says what a driver and an actor on a node with GPUs see.
DRIVER = """
import json, os, ray
ray.init()  # RAY_ADDRESS alone says where
@ray.remote(num_gpus=8)
class Replica:
    def say(self):
        import shipped
        return [ray.util.get_node_ip_address(), shipped.__file__, os.environ["FOO"]]
nodes = {
    node["NodeManagerAddress"]: [node["Resources"].get(k, 0) for k in ("CPU", "GPU")]
    for node in ray.nodes()
}
print(json.dumps({
    "driver": ray.util.get_node_ip_address(),
    "nodes": nodes,
    "replica": ray.get(Replica.remote().say.remote()),
}))
"""


@pytest.fixture
def twin(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    path = f"{build_image(tmp_path / 'image')}:/usr/bin:/bin"
    twin = Twin(tmp_path / "twin", path, mode="nodes")
    yield twin
    twin.close()


@pytest.fixture
def submit(twin, tmp_path):
    """Return a function that makes a job with a module in its working directory."""
    sdk = anyscale.Anyscale(auth_token=TOKEN, _host=twin.host).job
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "driver.py").write_text(DRIVER)
    (folder / "shipped.py").touch()

    def make(compute_config, entrypoint="python driver.py 2>/dev/null"):
        job = JobConfig(
            name="job",
            entrypoint=entrypoint,
            working_dir=str(folder),
            env_vars={"FOO": "bar"},
            compute_config=compute_config,
            image_uri="registry.example.org/llm:1",
            max_retries=0,
        )
        return twin.plane.jobs[sdk.submit(job)]

    return make


def test_no_two_clusters_of_a_process_have_an_address_in_common():
    clusters = [Nodes([MACHINES[CPU]] * 2, {}) for _ in range(1000)]
    for cluster in clusters:
        cluster.stop()

    addresses = [address for cluster in clusters for address in cluster.addresses]
    assert len(set(addresses)) == 2000


def said(job):
    return json.loads(job.runs[0].log.read_text().splitlines()[-1])


def test_jobs_have_clusters_of_their_own_with_the_registered_machines(twin, submit):
    twin.plane.heads_without_gpus.add("b200-two-nodes")
    jobs = [submit("h100-cpu-head-1gpu"), submit("b200-two-nodes")]

    for job in jobs:
        twin.plane.wait(job.id, "SUCCESS", timeout_s=180)

    assert not set(jobs[0].nodes.addresses) & set(jobs[1].nodes.addresses)
    for job in jobs:
        head, worker = job.nodes.addresses
        answer = said(job)
        assert answer["driver"] == head
        # A head beside workers has what its registration says, and here that is none.
        assert answer["nodes"] == {head: [0, 0], worker: [192, 8]}
        node, file, variable = answer["replica"]
        assert (node, variable) == (worker, "bar")
        # Not the driver's copy: each node unpacks the upload for itself.
        assert "/1/" in file
        assert "working_dir_files" in file
        assert Path(file).name == "shipped.py"


def test_a_cluster_ends_with_its_job(twin, submit):
    job = submit("h100-single-node", "sleep 600")
    twin.plane.wait(job.id, "RUNNING", timeout_s=120)

    twin.plane.terminate(job.id)
    twin.plane.wait(job.id, "TERMINATED")

    assert len(job.nodes.seen) > 3
    assert not any(process.is_running() for process in job.nodes.seen)
