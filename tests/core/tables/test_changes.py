"""Inputs that change under a run: what is read of them is never of two contents."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableLocation

ROWS = pa.table({"id": range(2000), "prompt": [f"secret {i:04}" for i in range(2000)]})


def write_jsonl(path):
    path.write_text(
        "".join(
            f'{{"id": {row["id"]}, "prompt": "{row["prompt"]}"}}\n'
            for row in ROWS.to_pylist()
        )
    )
    return path


def write_csv(path):
    lines = [f"{row['id']},{row['prompt']}\n" for row in ROWS.to_pylist()]
    path.write_text("id,prompt\n" + "".join(lines))
    return path


def write_parquet(path):
    pq.write_table(ROWS, path, row_group_size=100)
    return path


def write_delta(path):
    folder = path.with_suffix("")
    write_deltalake(folder, ROWS)
    (file,) = folder.glob("*.parquet")
    return file


WRITERS = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
    "delta": write_delta,
}


def source_of(path):
    return open_source(*pin_table(TableLocation(name=path.name, uri=str(path))))


def change(file: Path, old: bytes, new: bytes) -> None:
    """Write over a file where it is, as an editor does that keeps the inode."""
    before = file.stat()
    data = file.read_bytes()
    with file.open("r+b") as handle:
        handle.write(data.replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


@pytest.mark.parametrize("kind", WRITERS)
def test_ends_the_run_when_a_file_changes_in_place_while_it_is_read(tmp_path, kind):
    file = WRITERS[kind](tmp_path / f"in.{kind}")
    source = source_of(file.parent if kind == "delta" else file)
    reading = source.read(source.splits(10))
    next(reading)
    change(file, b"secret", b"public")

    with pytest.raises(RequestError, match="has changed since the run was planned"):
        next(reading)
