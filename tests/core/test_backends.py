import pytest

from ml_toolkit_core.backends import Backends
from ml_toolkit_core.errors import PluginError, RequestError
from ml_toolkit_core.hookspecs import hookimpl
from ml_toolkit_core.values import (
    ComputeTarget,
    InferenceRequest,
    InputPin,
    JobHandle,
    JobState,
    JobStatus,
    Missing,
    ModelKind,
    ModelLocation,
    Pinned,
    Prompts,
    TableLocation,
)

REQUEST = InferenceRequest(input_table="a.jsonl", model="m", output_table="o")
TARGET = ComputeTarget(name="two", gpu_nodes=2, gpus_per_node=8)
PINNED = Pinned(
    source=TableLocation(name="i", uri="i"),
    pin=InputPin(arrow_schema=""),
    model=ModelLocation(name="org/none", uri="org/none", kind=ModelKind.HUB),
    output=TableLocation(name="o", uri="o"),
    prompts=Prompts(),
)
HANDLE = JobHandle(backend="mine", job_id="1")


class Minimal:
    """The least that a backend can be; takes fewer arguments than are offered."""

    @hookimpl
    def resolve_compute(self):
        return TARGET

    @hookimpl
    def submit(self, order):
        del order
        return HANDLE

    @hookimpl
    def poll(self, handle):
        del handle
        return JobStatus(state=JobState.RUNNING)


@pytest.fixture
def backends():
    return Backends()


def test_a_backend_may_take_fewer_arguments(backends):
    backends.register("mine", Minimal())

    assert backends.get("mine").resolve_compute(REQUEST) == TARGET


def test_the_core_answers_what_a_backend_does_not(backends):
    backends.register("mine", Minimal())
    hooks = backends.get("mine")

    plan = hooks.plan_replicas(REQUEST, TARGET, PINNED)

    assert (plan.replicas, plan.gpus_per_replica) == (2, 8)
    assert isinstance(hooks.find_job("run-1"), Missing)
    with pytest.raises(RequestError, match="cannot be cancelled"):
        hooks.cancel(HANDLE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Lab!", "backend 'Lab!': a name is of small letters"),
        ("", "backend '': a name"),
        (None, "backend None: a name"),
        ("mine\n", "a name is of small letters"),
        (
            "local",
            "'local' is installed already, as 'ml_toolkit_core.local' of ml-toolkit-",
        ),
        ("anyscale", "'anyscale' is installed already, as .* of ml-toolkit-anyscale"),
        ("local_fast", "'local_fast' cannot be beside backend 'local'.*'local_fast_'"),
        ("lab", "backend 'lab' cannot be beside backend 'lab_two'.*'lab_two_'"),
    ],
)
def test_a_name_that_cannot_stand_beside_the_others_is_refused(backends, name, message):
    backends.register("lab_two", Minimal())
    before = backends.names()

    with pytest.raises(RequestError, match=message):
        backends.register(name, Minimal())

    assert backends.names() == before


def test_a_name_that_only_begins_alike_is_taken(backends):
    backends.register("lab_two", Minimal())
    backends.register("lab_twofold", Minimal())
    backends.register("defaults", Minimal())

    assert {"lab_two", "lab_twofold", "defaults"} < set(backends.names())


def test_the_same_name_again_takes_the_place_of_the_earlier_one(backends):
    class Later(Minimal):
        @hookimpl
        def poll(self):
            return JobStatus(state=JobState.SUCCEEDED)

    backends.register("mine", Minimal())
    backends.register("mine", Later())

    assert backends.get("mine").poll(HANDLE).state is JobState.SUCCEEDED


def test_a_class_is_refused(backends):
    with pytest.raises(PluginError, match="is the class Minimal"):
        backends.register("mine", Minimal)


def test_a_backend_without_hooks_is_named_as_such(backends):
    with pytest.raises(PluginError, match="registers no hooks"):
        backends.register("mine", object())


def test_a_missing_hook_is_named(backends):
    class NoPoll:
        resolve_compute = Minimal.resolve_compute
        submit = Minimal.submit

    with pytest.raises(PluginError, match="does not answer poll"):
        backends.register("mine", NoPoll())


def test_a_misspelt_hook_is_named_with_a_hint(backends):
    class Typo(Minimal):
        @hookimpl
        def plan_replica(self):
            return None

    with pytest.raises(
        PluginError, match=r"plan_replica.*Did you mean 'plan_replicas'"
    ):
        backends.register("mine", Typo())


def test_a_foreign_argument_is_named(backends):
    class Foreign(Minimal):
        @hookimpl
        def submit(self, order, cluster):
            return (order, cluster)

    with pytest.raises(PluginError, match="cluster"):
        backends.register("mine", Foreign())


def test_an_answer_of_none_is_the_plugins_fault(backends):
    class Silent(Minimal):
        @hookimpl
        def poll(self):
            return None

    backends.register("mine", Silent())

    with pytest.raises(PluginError, match="poll answered None"):
        backends.get("mine").poll(HANDLE)


def test_an_error_of_a_plugin_names_backend_and_hook(backends):
    class Broken(Minimal):
        @hookimpl
        def poll(self):
            raise KeyError("state")

    backends.register("mine", Broken())

    with pytest.raises(PluginError, match="backend 'mine': poll raised KeyError"):
        backends.get("mine").poll(HANDLE)


def test_an_unknown_backend_is_answered_with_the_likely_one(backends):
    with pytest.raises(RequestError, match="Did you mean 'anyscale'"):
        backends.get("anyscal")


def test_one_backend_never_answers_for_another(backends):
    class Other(Minimal):
        @hookimpl
        def resolve_compute(self):
            return ComputeTarget(name="other", gpu_nodes=1, gpus_per_node=0)

    backends.register("mine", Minimal())
    backends.register("other", Other())

    assert backends.get("mine").resolve_compute(REQUEST).name == "two"
    assert backends.get("other").resolve_compute(REQUEST).name == "other"
