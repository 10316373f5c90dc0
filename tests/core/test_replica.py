import threading
import time

import pyarrow as pa
import pytest
from attrs import define, field

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.engine import Completion
from ml_toolkit_core.pipeline.replica import Replica
from ml_toolkit_core.tables.parts import Part, Split, SplitRows
from ml_toolkit_core.values import (
    InputPin,
    ModelKind,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableLocation,
)

ORDER = WorkOrder(
    run_id="r",
    executor="scripted",
    source=TableLocation(name="in", uri="in"),
    pin=InputPin(arrow_schema=""),
    model=ModelLocation(name="m", uri="m", kind=ModelKind.HUB),
    output=TableLocation(name="out", uri="out"),
    prompts=Prompts(prompt_column="prompt"),
    plan=ReplicaPlan(replicas=1),
    split_rows=1,
    ledger_uri="led",
)


@define
class OneByOne:
    """An engine that answers one row a step."""

    capacity: int = 4
    answered: int = 0
    second: threading.Event = field(factory=threading.Event)
    _keys: list[int] = field(factory=list, init=False)

    def add(self, key, _request):
        self._keys.append(key)

    def step(self):
        self.answered += 1
        if self.answered == 2:
            self.second.set()
        return [Completion(key=self._keys.pop(0), text="a")]


@define
class Writer:
    """Writes nothing; the first part takes as long as ``during`` does."""

    during: object
    seen: list[object] = field(factory=list)

    def write(self, split, rows, tally):
        if split.index == 0:
            self.seen.append(self.during())
        return Part(split=split.index, path="p", bytes=rows.nbytes, tally=tally)


def replica(engine, writer, splits):
    """Make a replica that has some splits of one row."""
    made = Replica(ORDER, engine, writer)
    for index in range(splits):
        split = Split(index=index, file=0, start=index, stop=index + 1)
        batch = pa.record_batch({"prompt": ["q"]})
        made.take(SplitRows(split=split, batch=batch))
    return made


def to_end(made):
    """Return the parts of all turns."""
    parts = []
    while not made.is_idle:
        parts += made.turn()[0]
    return [part.split for part in parts]


def test_the_engine_steps_on_while_a_part_is_written():
    engine = OneByOne()
    writer = Writer(during=lambda: engine.second.wait(timeout=5))

    parts = to_end(replica(engine, writer, splits=2))

    assert parts == [0, 1]
    assert writer.seen == [True]


def test_a_writer_that_is_too_slow_is_waited_for():
    engine = OneByOne(capacity=9)
    slow = Writer(during=lambda: time.sleep(0.3) or engine.answered)

    parts = to_end(replica(engine, slow, splits=9))

    assert parts == list(range(9))
    assert slow.seen[0] <= 4


def test_what_breaks_a_write_breaks_the_turn():
    def broken():
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        to_end(replica(OneByOne(), Writer(during=broken), splits=1))
