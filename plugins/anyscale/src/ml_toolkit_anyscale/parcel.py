"""One job to be made, before the SDK sees it."""

from pathlib import Path

from attrs import frozen


@frozen(kw_only=True)
class Parcel:
    """What a submit sends.

    Args:
        name: Not unique at Anyscale.
        entrypoint: A shell command, run in ``folder``.
        folder: Sent as the working directory.
        compute_config: A name, with or without ``:version``.
        image_uri: The container image.
        max_retries: Runs after the first.
        timeout_s: Seconds of one run.
        tags: The labels.
        priority: In the scheduler's direction; Anyscale's default when None.
        job_queue: A job queue to wait in, instead of the scheduler's queues.
        cloud: Anyscale's default when None.
        project: Likewise.
    """

    name: str
    entrypoint: str
    folder: Path
    compute_config: str
    image_uri: str
    max_retries: int
    timeout_s: int
    tags: dict[str, str]
    priority: int | None = None
    job_queue: str | None = None
    cloud: str | None = None
    project: str | None = None
