"""Anyscale Jobs through the SDK; the one module that imports it.

The client is one of our own, never the SDK's global one. It is quiet, each of its
requests has a time limit, and its calls are those with the fewest requests: the
SDK's own ``status`` makes six and calls every failure "not found".
"""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

from anyscale._private.anyscale_client import AnyscaleClient
from anyscale.authenticate import AuthenticationBlock
from anyscale.cli_logger import BlockLogger
from anyscale.client.openapi_client.models.resource_tag_resource_type import (
    ResourceTagResourceType,
)
from anyscale.job import JobSDK
from anyscale.job.models import JobConfig, JobQueueConfig
from attrs import evolve

from ml_toolkit_anyscale.account import Account
from ml_toolkit_anyscale.calls import Calls, Shut
from ml_toolkit_anyscale.faults import Fault, Kind, Refused, fault_of
from ml_toolkit_anyscale.parcel import Parcel
from ml_toolkit_anyscale.registered import Registered
from ml_toolkit_anyscale.routing import queue_priority
from ml_toolkit_anyscale.states import LIVE, Seen
from ml_toolkit_anyscale.transport import Gate

T = TypeVar("T")

#: Seconds for one request, and for everything that one call sends.
REQUEST_S: Final = 30.0
CALL_S: Final = 300.0
#: Jobs of one page.
_PAGE: Final = 50


class _Client(AnyscaleClient):  # type: ignore[misc]  # the SDK is untyped
    """Makes the same job from everywhere.

    Inside a workspace of Anyscale's the SDK would add the workspace's own ``.env`` to
    the job's variables, which everybody can read, and its packages and project.
    """

    def get_current_workspace_id(self) -> None:
        """Be in no workspace."""

    def get_current_workspace_cluster(self) -> None:
        """Likewise."""


class Jobs:
    """The jobs of one account.

    Args:
        account: Where, and with whose token.
        request_s: Seconds for one request.
        call_s: Seconds for everything that one call sends.
    """

    def __init__(
        self,
        account: Account,
        *,
        request_s: float = REQUEST_S,
        call_s: float = CALL_S,
    ) -> None:
        self.host = account.host
        self._account = account
        self._request_s = request_s
        self._call_s = call_s

    def create(self, parcel: Parcel) -> str:
        """Make a job and return its id.

        Raises:
            Refused: Its ``fate`` says whether there may be a job all the same.
        """
        config = {
            "name": parcel.name,
            "entrypoint": parcel.entrypoint,
            "working_dir": str(parcel.folder),
            "excludes": [".env"],
            "compute_config": parcel.compute_config,
            "image_uri": parcel.image_uri,
            "max_retries": parcel.max_retries,
            "timeout_s": parcel.timeout_s,
            "tags": parcel.tags,
            "cloud": parcel.cloud,
            "project": parcel.project,
        }
        if parcel.job_queue is None:
            config["priority"] = parcel.priority
        else:
            given = parcel.priority
            config["job_queue_config"] = JobQueueConfig(
                target_job_queue_name=parcel.job_queue,
                priority=None if given is None else queue_priority(given),
            )

        def submit(api: Any) -> str:
            sdk = JobSDK(client=api, logger=BlockLogger(log_output=False))
            return str(sdk.submit(JobConfig(**config)))

        return self._ask(submit)

    def registered(self, name: str, cloud: str | None) -> Registered | None:
        """Return the machines of a compute config; None when that cannot be told.

        Raises:
            Refused: When Anyscale cannot be asked.
        """

        def look(api: Any) -> Registered | None:
            found = api.get_compute_config_id(compute_config_name=name, cloud=cloud)
            template = None if found is None else api.get_compute_config(found)
            if template is None or template.config.deployment_configs:
                return None
            head = template.config.head_node_type
            resources = head.resources
            most: Counter[str] = Counter()
            for node in template.config.worker_node_types or ():
                most[str(node.instance_type)] += int(node.max_workers or 0)
            return Registered(
                head=str(head.instance_type),
                head_gpus=None if resources is None else int(resources.gpu or 0),
                workers=tuple(most.items()),
            )

        return self._ask(look, reading=True)

    def see(self, job_id: str) -> Seen | None:
        """Return a job as it stands, or None when there is none.

        Raises:
            Refused: When Anyscale cannot be asked.
        """
        named = {"name": None, "cloud": None, "project": None}
        return self._ask(
            lambda api: _seen(api.get_job(job_id=job_id, **named)), reading=True
        )

    def count_runs(self, job_id: str) -> int:
        """Return how many runs of a job have begun."""
        return self._ask(lambda api: len(api.get_job_runs(job_id)), reading=True)

    def tags(self, job_id: str) -> dict[str, str]:
        """Return a job's tags."""
        kind = ResourceTagResourceType.JOB
        return self._ask(
            lambda api: {
                str(tag.key): str(tag.value)
                for tag in api.list_resource_tags(kind, job_id)
            },
            reading=True,
        )

    def find(self, key: str, value: str, *, live: bool = False) -> tuple[Seen, ...]:
        """Return the jobs with a tag, whoever made them, the newest first.

        Args:
            key: Of the tag.
            value: Likewise.
            live: Only those that have not ended.

        Raises:
            Refused: When Anyscale cannot be asked; nothing is known then.
        """

        def pages(api: Any) -> tuple[Seen, ...]:
            found: list[Seen] = []
            token = None
            while True:
                page = api.list_jobs(
                    tags_filter=[f"{key}:{value}"],
                    archive_status="ALL",
                    state_filter=list(LIVE) if live else None,
                    sort_field="CREATED_AT",
                    sort_order="DESC",
                    count=_PAGE,
                    paging_token=token,
                )
                found += [seen for job in page.results if (seen := _seen(job))]
                token = page.metadata.next_paging_token
                if token is None:
                    return tuple(found)

        return self._ask(pages, reading=True)

    def terminate(self, job_id: str) -> None:
        """Ask for a job's end; it comes later."""
        self._ask(lambda api: api.terminate_job(job_id))

    def logs(self, run: str, tail: int) -> tuple[str, ...]:
        """Return the last lines of a run's log."""
        return self._ask(
            lambda api: tuple(
                api.logs_for_job_run(
                    job_run_id=run, max_lines=tail, parse_json=False
                ).splitlines()
            ),
            reading=True,
        )

    def _ask(self, call: Callable[[Any], T], *, reading: bool = False) -> T:
        """Make one call with a client and a time limit of its own.

        Uploads and logs go around the client's own requests and have no limit there;
        so the call runs in a thread, and when it is given up on nothing more is sent.
        """
        calls = Calls(self._request_s)
        answers: list[T] = []
        faults: list[Fault] = []

        def run() -> None:
            try:
                answers.append(call(self._client(calls)))
            except Exception as error:  # noqa: BLE001  the SDK raises anything
                faults.append(fault_of(error, calls))

        thread = threading.Thread(target=run, name="anyscale", daemon=True)
        try:
            thread.start()
            thread.join(self._call_s)
        finally:  # also on Ctrl-C
            calls.shut = True
        # A request that was under way has its own limit and ends by itself.
        thread.join(self._request_s)
        if thread.is_alive() and calls.last is not None:
            calls.last.timed_out = True
        if answers:
            return answers[0]
        fault = faults[0] if faults else fault_of(Shut(), calls)
        if reading and fault.kind is Kind.INVALID and fault.status is None:
            fault = evolve(fault, kind=Kind.TRANSIENT, said="no answer of Anyscale's")
        raise Refused(evolve(fault, said=self._account.hide(fault.said)))

    def _client(self, calls: Calls) -> Any:
        # Not anyscale.Anyscale(): that asks for the user at once, without a time limit,
        # and prints. This is what it does, in silence.
        block = AuthenticationBlock(
            cli_token=self._account.token,
            host=self._account.host,
            validate_credentials=False,
            log_output=False,
            raise_structured_exception=True,
        )
        apis = (block.anyscale_api_client, block.api_client)
        for api in apis:
            rest = api.api_client.rest_client
            rest.pool_manager = Gate(rest.pool_manager, calls)
        return _Client(
            api_clients=apis,
            host=self._account.host,
            logger=BlockLogger(log_output=False),
        )


def _seen(job: Any) -> Seen | None:
    """Turn an answer of the SDK into a value of ours."""
    if job is None:
        return None
    state = job.state
    said = [state.error, state.operation_message] if state else []
    return Seen(
        job_id=str(job.id),
        name=str(job.name),
        word=str(state.current_state) if state else "",
        said=next((str(text) for text in said if text), ""),
        last_run=job.last_job_run_id,
        created_at=str(job.created_at or ""),
    )
