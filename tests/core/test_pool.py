import pytest

from ml_toolkit_core.errors import ReplicaDied, RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.pool import ThreadPool
from ml_toolkit_core.values import (
    InputPin,
    ModelKind,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableLocation,
)

SCRIPTED = "ml_toolkit_core.testing.scripted_engine:ScriptedEngine"


def pool(engine, *, replicas=1, engine_timeout_s=600.0, load_s=600.0, **engine_kwargs):
    """Make a pool."""
    order = WorkOrder(
        run_id="r",
        executor="scripted",
        source=TableLocation(name="in", uri="in"),
        pin=InputPin(arrow_schema=""),
        model=ModelLocation(name="m", uri="m", kind=ModelKind.HUB),
        output=TableLocation(name="out", uri="out"),
        prompts=Prompts(prompt_column="prompt"),
        engine_kwargs=engine_kwargs,
        plan=ReplicaPlan(replicas=replicas),
        split_rows=8,
        ledger_uri="led",
        engine_timeout_s=engine_timeout_s,
    )
    return ThreadPool(order, engine=engine, writer=None, load_s=load_s)


def test_what_an_engine_refuses_stays_the_callers_to_mend():
    with pytest.raises(RequestError, match=r"^script has no 'txt'"):
        pool(SCRIPTED, script={"txt": "a"}).start()


def test_any_other_error_is_a_dead_replica_with_its_cause():
    with pytest.raises(ReplicaDied, match="a replica ended: TypeError") as died:
        pool("operator:floordiv").start()

    assert isinstance(died.value.__cause__, TypeError)


@pytest.mark.parametrize(("engine_timeout_s", "load_s"), [(0.2, 0.3), (0.3, 0.2)])
def test_a_replica_that_never_loads_is_named_after_the_longer_of_two_limits(
    engine_timeout_s, load_s
):
    slow = pool(
        SCRIPTED,
        replicas=2,
        engine_timeout_s=engine_timeout_s,
        load_s=load_s,
        script={"hang_load": True, "replica": 1},
    )

    with pytest.raises(ReplicaDied) as died:
        slow.start()

    assert str(died.value).startswith("replica 1 did not load within 0.3 s;")
    assert "raise engine_timeout_s" in str(died.value)
