"""Which waiting job runs next: the scheduler's rules on tags, and job queues."""

from attrs import define, field

from anyscale.scheduler.models import Operator, SchedulerConfig

from .answers import Refusal


@define(eq=False)
class JobQueue:
    """A job queue: one shared cluster, one job at a time unless it says more."""

    id: str
    name: str
    mode: str
    slots: int
    idle_timeout_sec: int
    compute_config_id: str


@define
class Scheduler:
    """Admits jobs: rules are read with the SDK's own models.

    Attributes:
        rules: The scheduling rules, in order; without any, all jobs go to one queue.
        slots: Jobs that run at the same time, over all resource queues.
        queues: Job queues by name.
    """

    rules: list = field(factory=list)
    slots: int = 8
    queues: dict = field(factory=dict)

    @classmethod
    def of(cls, path, slots=8):
        config = SchedulerConfig.from_yaml(str(path))
        return cls(rules=list(config.scheduling_rules or []), slots=slots)

    def route(self, tags, priority):
        """Return resource queue and priority of a job; the first match wins.

        Raises:
            Refusal: When the priority is out of the rule's bounds.
        """
        for rule in self.rules:
            if all(_holds(match, tags) for match in rule.selector or ()):
                return rule.resource_queue, _grant(rule.priority_policy, priority)
        if self.rules:
            raise Refusal(400, "No scheduling rule matches this job.")
        return "default", priority if priority is not None else 0

    def job_queue(self, given, config):
        """Return the job queue that a job names or makes.

        Raises:
            Refusal: When there is none of that name, or the job says it twice.
        """
        spec, target = given.get("job_queue_spec"), given.get("target_job_queue_name")
        if bool(spec) == bool(target):
            raise Refusal(422, "Exactly one of job_queue_spec and target is needed.")
        if target is not None:
            if target not in self.queues:
                raise Refusal(404, f"Job queue '{target}' was not found.")
            return self.queues[target]
        name = spec.get("job_queue_name") or f"queue-{len(self.queues) + 1}"
        if name not in self.queues:
            self.queues[name] = JobQueue(
                id=f"jq_{len(self.queues) + 1}",
                name=name,
                mode=spec.get("execution_mode", "FIFO"),
                slots=spec.get("max_concurrency", 1),
                idle_timeout_sec=spec["idle_timeout_sec"],
                compute_config_id=spec.get("compute_config_id")
                or config["compute_config_id"],
            )
        return self.queues[name]

    def ready(self, waiting, running):
        """Return the waiting jobs that start now."""
        started = []
        for job in sorted(waiting, key=self._order):
            busy = [*running, *started]
            queue = self.queues.get(job.queue)
            if queue is not None:
                free = queue.slots - sum(j.queue == job.queue for j in busy)
            else:
                free = self.slots - sum(j.queue not in self.queues for j in busy)
            if free > 0:
                started.append(job)
        return started

    def _order(self, job):
        queue = self.queues.get(job.queue)
        if queue is None:  # the scheduler: the higher first
            return (-job.priority, job.number)
        if queue.mode == "PRIORITY":  # a job queue: the lower first
            return (job.priority, job.number)
        return (0, -job.number if queue.mode == "LIFO" else job.number)


def _holds(match, tags):
    value = tags.get(match.key)
    values = match.values or []
    return {
        Operator.IN: value in values,
        Operator.NOT_IN: value not in values,
        Operator.EXISTS: value is not None,
        Operator.DOES_NOT_EXIST: value is None,
    }[match.operator]


def _grant(policy, asked):
    if policy is None:
        return asked or 0
    if asked is None:
        return policy.default or 0
    low = policy.min or 0
    high = max(asked, low) if policy.max is None else policy.max
    granted = min(max(asked, low), high)
    if granted != asked and str(policy.on_violation).lower().endswith("reject"):
        raise Refusal(400, f"Priority {asked} is not within {low} and {high}.")
    return granted
