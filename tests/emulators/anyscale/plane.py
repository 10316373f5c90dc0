"""The control plane: what it holds, and what it answers to each request."""

import threading
import uuid

from . import answers
from .answers import Refusal
from .cluster import Cluster, Job, end
from .nodes import CPU, P5, P6, machines_of
from .scheduler import Scheduler

#: The 14 registered configs: name, head, GPU workers.
CONFIGS = {
    f"{gpu}-{name}": (kind if head == "gpu" else CPU, [(kind, n)] if n else [])
    for gpu, kind in (("h100", P5), ("b200", P6))
    for name, head, n in (
        ("single-node", "gpu", 0),
        ("two-nodes", "gpu", 1),
        ("four-nodes", "gpu", 3),
        ("cpu-head-1gpu", "cpu", 1),
        ("cpu-head-2gpu", "cpu", 2),
        ("cpu-head-4gpu", "cpu", 4),
        ("cpu-head-8gpu", "cpu", 8),
    )
}
LONGEST_TAG = 256


class Plane:
    """An organization with one cloud, one project and the registered configs.

    Args:
        folder: For runs and logs.
        path: ``PATH`` of a run.
        rules: A scheduler config's file, or None.
        slots: Jobs that run at the same time.
        mode: ``run`` runs entrypoints; ``hold`` runs nothing and leaves jobs PENDING
            until :meth:`move`; ``pretend`` runs nothing and lets them succeed;
            ``nodes`` is ``run`` where each job has a Ray cluster with the nodes of its
            compute config, which takes about ten seconds to start.

    Attributes:
        image: Environment variables of the image, which all runs and nodes have.
    """

    def __init__(self, folder, path, *, rules=None, slots=8, mode="run"):
        self.jobs = {}
        self.uploads = {}
        self.writes = 0
        self.host = ""
        self.extra_configs = {}
        self.heads_without_gpus = set()
        self.scheduler = Scheduler.of(rules, slots) if rules else Scheduler(slots=slots)
        self._mode = mode
        self._changes = threading.Condition()
        self.image = {"PATH": path, "LANG": "C.UTF-8"}
        machines = self._machines if mode == "nodes" else None
        self._cluster = Cluster(folder, self.image, self.uploads, self.move, machines)
        self._players = []

    # --- for tests --------------------------------------------------------------------

    def move(self, job, state, error=None):
        """Put a job into a state."""
        with self._changes:
            job.state, job.error = state, error
            job.changed_at = answers.now()
            job.history.append(state)
            self._changes.notify_all()
        if job.ended:
            self._admit()

    def add_run(self, job):
        """Let a run begin that runs nothing."""
        job.runs.append(self._cluster.new_run(job))

    def wait(self, job_id, *states, timeout_s=60):
        """Wait until a job is, or has been, in one of the states."""
        job = self.jobs[job_id]
        with self._changes:
            seen = self._changes.wait_for(
                lambda: set(states) & set(job.history), timeout_s
            )
        assert seen, f"{job_id} went through {job.history}"
        return job

    def close(self):
        for job in list(self.jobs.values()):
            self._stop(job)
        for player in self._players:
            player.join(60)

    # --- what is asked before a job is made -------------------------------------------

    def find_cloud(self, body):
        if body["name"] != "main":
            raise Refusal(404, f"Cloud {body['name']} was not found.")
        return {"result": answers.cloud("cld_1", "main")}

    def a_cloud(self):
        return {"result": answers.cloud("cld_1", "main")}

    def search_templates(self, body):
        name, version = body["name"]["equals"], body.get("version")
        if self._config(name) is None or version not in {None, -1, 1}:
            return {"results": [], "metadata": {}}
        return {"results": [self._template(name)], "metadata": {}}

    def a_template(self, config_id):
        name = config_id.removeprefix("cpt_").removesuffix("_1")
        if self._config(name) is None:
            raise Refusal(404, f"Compute config {config_id} was not found.")
        return {"result": self._template(name)}

    def _config(self, name):
        return {**CONFIGS, **self.extra_configs}.get(name)

    def _template(self, name):
        head, workers = machines = self._config(name)
        # The SDK registers a head beside workers with nothing, unless it is told more.
        gpus = 0 if head == CPU or name in self.heads_without_gpus else 8
        resources = {"cpu": 24 * gpus, "gpu": gpus} if workers else None
        return answers.template(name, 1, machines, resources)

    def default_project(self):
        return {"result": answers.project("prj_1", "default")}

    def search_projects(self, body):
        known = body["name"]["equals"] == "default"
        return {"results": [answers.project("prj_1", "default")] if known else []}

    def find_project(self, query):
        known = query.get("name") == ["default"]
        return {"results": [answers.project("prj_1", "default")] if known else []}

    def infra(self):
        return {"result": {"deployment_infra": "aws"}}

    def a_build(self, body):
        if not body.get("image_uri"):
            raise Refusal(422, "image_uri is needed.")
        return {"result": answers.build("bld_1")}

    def known_build(self, build_id):
        return {"result": answers.build(build_id)}

    def environment(self, environment_id):
        build = answers.build("bld_1")
        return {"result": {**build["application_template"], "id": environment_id}}

    def presign(self, body):
        name = body["file_name"]
        uri = f"s3://bucket/{name}"
        return {
            "result": {
                "file_uri": uri,
                "url": f"{self.host}/bucket/{name}?signature=SIGNATURE",
                "file_exists": uri in self.uploads,
                "bucket_name": "bucket",
                "bucket_path": name,
                "url_scheme": "http",
            }
        }

    def write(self, name, query, data):
        if query.get("signature") != ["SIGNATURE"]:
            raise Refusal(403, "SignatureDoesNotMatch")
        self.uploads[f"s3://bucket/{name}"] = data
        self.writes += 1
        return {}

    # --- jobs -------------------------------------------------------------------------

    def create(self, body):
        config = body["config"]
        self._check(body, config)
        tags = body.get("tags") or {}
        queue, priority = self.scheduler.route(tags, config.get("priority"))
        if body.get("job_queue_config"):
            given = body["job_queue_config"]
            queue = self.scheduler.job_queue(given, config).name
            priority = given.get("priority", 0)
        with self._changes:
            job = Job(
                id=f"prodjob_{uuid.uuid4().hex[:20]}",
                number=len(self.jobs),
                name=body["name"],
                config=config,
                project_id=body["project_id"],
                tags=tags,
                queue=queue,
                priority=priority,
            )
            self.jobs[job.id] = job
        if self._mode == "pretend":
            self.move(job, "SUCCESS")
        self._admit()
        return {"result": answers.job(job)}

    def _check(self, body, config):
        for key in ("entrypoint", "build_id", "compute_config_id"):
            if not config.get(key):
                raise Refusal(422, f"config.{key} is needed.")
        self.a_template(config["compute_config_id"])
        if body.get("project_id") != "prj_1":
            raise Refusal(404, "The project was not found.")
        uri = (config.get("runtime_env") or {}).get("working_dir")
        if uri is not None and uri not in self.uploads:
            raise Refusal(400, f"working_dir {uri} was not uploaded.")
        for key, value in (body.get("tags") or {}).items():
            if not isinstance(value, str) or not 0 < len(value) <= LONGEST_TAG:
                raise Refusal(422, f"Tag '{key}' has a value that is too long or none.")

    def a_job(self, job_id):
        return {"result": answers.job(self._job(job_id))}

    def terminate(self, job_id):
        job = self._job(job_id)
        self._stop(job)
        return {"result": answers.job(job)}

    def list_jobs(self, query):
        jobs = list(self.jobs.values())
        for given in query.get("tag_filter", []):
            key, _, value = given.partition(":")
            jobs = [job for job in jobs if job.tags.get(key) == value]
        if "state_filter" in query:
            jobs = [job for job in jobs if job.state in query["state_filter"]]
        if "name" in query:
            jobs = [job for job in jobs if query["name"][0] in job.name]
        if query.get("sort_field") == ["CREATED_AT"]:
            down = query.get("sort_order") == ["DESC"]
            jobs.sort(key=lambda job: job.number, reverse=down)
        start = int(query.get("paging_token", ["0"])[0])
        stop = start + int(query.get("count", ["50"])[0])
        token = str(stop) if stop < len(jobs) else None
        return {
            "results": [answers.job(job) for job in jobs[start:stop]],
            "metadata": {"total": len(jobs), "next_paging_token": token},
        }

    def search_runs(self, body):
        found = {}
        for job_id in body["ha_job_ids"]:
            job = self._job(job_id)
            found[job_id] = [answers.run(job, run) for run in job.runs]
        return {"results": found, "metadata": {}}

    def tags(self, query):
        job = self._job(query["resource_id"][0])
        found = [answers.tag(job.id, *item) for item in job.tags.items()]
        return {"result": {"tags": found}}

    def put_tags(self, body):
        self._job(body["resource_id"]).tags.update(body["tags"])
        return {"result": {}}

    def logs(self, run_id):
        run = self._run(run_id)
        url = f"{self.host}/logs/{run_id}?signature=SIGNATURE"
        chunk = answers.chunk(url, run.log.stat().st_size)
        return {"result": {"log_chunks": [chunk]}}

    def log_text(self, run_id, query):
        if query.get("signature") != ["SIGNATURE"]:
            raise Refusal(403, "SignatureDoesNotMatch")
        return self._run(run_id).log.read_bytes()

    def job_queues(self, body):
        wanted = (body.get("name") or {}).get("equals")
        found = [
            answers.queue(queue)
            for queue in self.scheduler.queues.values()
            if wanted in {None, queue.name}
        ]
        return {"results": found, "metadata": {}}

    def user(self):
        return {"result": answers.user()}

    # --- running ----------------------------------------------------------------------

    def _job(self, job_id):
        if job_id not in self.jobs:
            raise Refusal(404, f"Job {job_id} was not found.")
        return self.jobs[job_id]

    def _run(self, run_id):
        for job in self.jobs.values():
            for run in job.runs:
                if run.id == run_id:
                    return run
        raise Refusal(404, f"Job run {run_id} was not found.")

    def _admit(self):
        if self._mode not in {"run", "nodes"}:
            return
        with self._changes:
            known = list(self.jobs.values())
            waiting = [job for job in known if not job.admitted and not job.ended]
            running = [job for job in known if job.admitted and not job.ended]
            for job in self.scheduler.ready(waiting, running):
                job.admitted = True
                player = threading.Thread(target=self._cluster.play, args=(job,))
                self._players.append(player)
                player.start()

    def _machines(self, job):
        return machines_of(self.a_template(job.config["compute_config_id"])["result"])

    def _stop(self, job):
        """End a job; one that runs ends in its own time."""
        if job.ended:
            return
        job.stop.set()
        if not job.admitted:
            self.move(job, "TERMINATED")
        elif job.process is not None:
            threading.Thread(target=end, args=(job.process,), daemon=True).start()
