"""Delta tables as files: data files, the actions that add them, notes in the log.

Only the part of the Delta library is used that takes every path as it is: for some
names its ``history()`` is empty, and ``write_deltalake()`` ends the thread.
"""

import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties
from deltalake.transaction import AddAction

from ml_toolkit_core.tables.store import Store, join
from ml_toolkit_core.wire import Json

LOG: Final = "_delta_log"
_COMMIT: Final = re.compile(r"\d{20}\.json")
#: Rows that are gathered for one file; bounds memory.
_FILE_ROWS: Final = 50_000


def is_table(store: Store, uri: str) -> bool:
    """Whether there is a Delta table."""
    return store.is_folder(join(uri, LOG))


def put_parquet(store: Store, uri: str, path: str, rows: pa.Table) -> int:
    """Write a file that no version of the table has yet; return its bytes."""
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer)
    data = buffer.getvalue().to_pybytes()
    store.create(join(uri, path), [data])
    return len(data)


def add_action(path: str, size: int, rows: int) -> AddAction:
    """Return what makes a file part of a table."""
    return AddAction(
        path=path,
        size=size,
        partition_values={},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": rows}),
    )


def notes(store: Store, uri: str, key: str) -> Iterator[Json]:
    """Yield what commits of a table note under ``key``, the oldest first."""
    log = join(uri, LOG)
    for file in store.files(log):
        if not _COMMIT.fullmatch(file.path):
            continue
        with store.open(join(log, file.path)) as handle:
            actions = [json.loads(line) for line in handle if line.strip()]
        for action in actions:
            if key in action.get("commitInfo", ()):
                yield json.loads(action["commitInfo"][key])


def replace_rows(
    store: Store, uri: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Make a table of exactly these rows; readers see the old or the new ones."""
    files = [
        add_action(path, put_parquet(store, uri, path, rows), rows.num_rows)
        for rows in _gathered(schema, batches)
        if (path := f"{secrets.token_hex(8)}.parquet")
    ]
    commit = CommitProperties()
    if is_table(store, uri):
        table = store.open_table(uri)
    else:
        table = store.create_table(uri, schema, commit)
    store.commit_files(table, files, commit, replace=schema)


def _gathered(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Yield tables of enough rows for a file each."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(piece.num_rows for piece in waiting) >= _FILE_ROWS:
            yield pa.Table.from_batches(waiting, schema)
            waiting = []
    rows = pa.Table.from_batches(waiting, schema)
    if rows.num_rows:
        yield rows
