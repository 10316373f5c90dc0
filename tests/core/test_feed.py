import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ml_toolkit_core.pipeline.feed import Feed
from ml_toolkit_core.tables.parts import RowError, RowFault, Split, SplitRows
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableLocation


@pytest.mark.parametrize(("limit", "taken"), [(None, [100] * 10), (102, [100, 2])])
def test_rows_travel_to_a_replica_without_the_rows_of_others(tmp_path, limit, taken):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"q": ["x" * 1000] * 1000}), path)
    source = open_source(*pin_table(TableLocation(name="in", uri=str(path))))

    feed = Feed(source=source, splits=source.splits(100), published={}, limit=limit)

    sent = [(rows.batch.num_rows, len(pickle.dumps(rows))) for rows in feed]
    assert [rows for rows, _ in sent] == taken
    assert all(size < 1100 * rows + 2000 for rows, size in sent)


def test_rows_that_cannot_be_read_arrive_as_they_were():
    split = Split(index=3, file=0, start=10, stop=12)
    batch = pa.record_batch({"q": ["a", None]})
    error = RowError(RowFault.UNREADABLE, "no UTF-8")
    rows = SplitRows(split=split, batch=batch, errors={1: error})

    arrived = pickle.loads(pickle.dumps(rows))

    assert (arrived.split, arrived.batch) == (split, batch)
    assert str(arrived.errors[1]) == "unreadable: no UTF-8"
    assert arrived.errors[1].kind is RowFault.UNREADABLE
