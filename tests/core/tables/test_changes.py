"""Inputs that change under a run: what is read of them is never of two contents."""

import os
import traceback
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.sink import open_sink
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


def change(file: Path, old: bytes, new: bytes, *, later: int = 1) -> None:
    """Write over a file where it is, as an editor does that keeps the inode.

    Args:
        file: The file.
        old: What goes.
        new: What comes in its place.
        later: By how many nanoseconds the file says that it is newer.
    """
    before = file.stat()
    data = file.read_bytes()
    with file.open("r+b") as handle:
        handle.write(data.replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + later))


@pytest.mark.parametrize("kind", WRITERS)
def test_ends_the_run_when_a_file_changes_in_place_while_it_is_read(tmp_path, kind):
    file = WRITERS[kind](tmp_path / f"in.{kind}")
    source = source_of(file.parent if kind == "delta" else file)
    reading = source.read(source.splits(10))
    next(reading)
    change(file, b"secret", b"public")

    with pytest.raises(RequestError, match="has changed since the run was planned"):
        next(reading)


def told(error):
    """Return all that a log shows of an error."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("value", [b'"zq"', b"9e99", b'[""]'])
def test_tells_no_value_of_a_line_that_is_not_as_it_was_checked(tmp_path, value):
    file = write_jsonl(tmp_path / "in.jsonl")
    source = source_of(file)
    change(file, b" 1500,", b" %b," % value, later=0)

    with pytest.raises(
        RequestError, match=r"was planned \((Arrow\w+|ValueError)\)"
    ) as caught:
        list(source.read(source.splits(10)))

    assert value.decode().strip('"') not in told(caught.value)
    assert "secret" not in told(caught.value)


def test_tells_no_value_that_the_type_of_its_column_cannot_hold(tmp_path):
    file = write_delta(tmp_path / "in.delta")
    ids = pa.array([4321.125] * ROWS.num_rows)
    pq.write_table(ROWS.set_column(0, "id", ids), file)
    source = source_of(file.parent)

    with pytest.raises(RequestError, match="to its end: ArrowInvalid") as caught:
        list(source.read(source.splits(10)))

    assert "4321" not in told(caught.value)


def test_tells_no_value_of_a_published_part_that_somebody_edited(kit, tmp_path):
    write_jsonl(tmp_path / "in.jsonl")
    run = kit.run_of("csv", tmp_path, split_rows=500)
    run.to_end()
    part = Path(run.output) / "part-000001.csv"
    part.write_text(part.read_text().replace(",1,1", ",zq,1"))

    with pytest.raises(RequestError, match=r"wrote it \(ValueError\)") as caught:
        open_sink(run.order()).open()

    assert "zq" not in told(caught.value)
