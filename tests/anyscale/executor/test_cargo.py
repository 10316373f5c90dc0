import pickle

import pyarrow as pa

from ml_toolkit_anyscale.executor.cargo import Cargo
from ml_toolkit_core.tables.parts import RowError, Split, SplitRows

SPLIT = Split(index=3, file=0, start=10, stop=12)


def test_rows_and_errors_arrive_as_they_were():
    batch = pa.record_batch({"q": ["a", None]})
    rows = SplitRows(
        split=SPLIT, batch=batch, errors={1: RowError("unreadable", "no JSON")}
    )

    arrived = pickle.loads(pickle.dumps(Cargo.pack(rows))).unpack()

    assert arrived.split == SPLIT
    assert arrived.batch.equals(batch)
    assert [(i, error.kind, error.message) for i, error in arrived.errors.items()] == [
        (1, "unreadable", "no JSON")
    ]


def test_a_slice_travels_without_the_rest():
    batch = pa.record_batch({"q": ["x" * 1000] * 10_000})

    cargo = Cargo.pack(SplitRows(split=SPLIT, batch=batch.slice(10, 2)))

    assert len(cargo.rows) < 10_000
