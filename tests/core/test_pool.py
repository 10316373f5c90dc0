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


def pool(engine, **engine_kwargs):
    """Make a pool of one replica."""
    order = WorkOrder(
        run_id="r",
        executor="scripted",
        source=TableLocation(name="in", uri="in"),
        pin=InputPin(arrow_schema=""),
        model=ModelLocation(name="m", uri="m", kind=ModelKind.HUB),
        output=TableLocation(name="out", uri="out"),
        prompts=Prompts(prompt_column="prompt"),
        engine_kwargs=engine_kwargs,
        plan=ReplicaPlan(replicas=1),
        split_rows=8,
        ledger_uri="led",
    )
    return ThreadPool(order, engine=engine, writer=None)


def test_what_an_engine_refuses_stays_the_callers_to_mend():
    with pytest.raises(RequestError, match=r"^script has no 'txt'"):
        pool(SCRIPTED, script={"txt": "a"}).start()


def test_any_other_error_is_a_dead_replica_with_its_cause():
    with pytest.raises(ReplicaDied, match="a replica ended: TypeError") as died:
        pool("operator:floordiv").start()

    assert isinstance(died.value.__cause__, TypeError)
