"""Rows that are wide, and wider than their files: bounded splits, bounded memory."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake

from ml_toolkit.functions.llm.inference import JobError, run_inference

MIB = 1 << 20


def run(rows, output, **options):
    return run_inference(
        str(rows),
        "stub/any",
        str(output),
        **{"executor": "scripted", "progress": False, **options},
    )


def write(path, rows, mib):
    """Write rows that hold a thousand times what their file does, a group each."""
    schema = pa.schema(
        [("id", pa.int64()), ("prompt", pa.string()), ("doc", pa.string())]
    )
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for row in range(rows):
            doc = "z" * (mib * MIB)
            columns = {"id": [row], "prompt": [f"p{row}"], "doc": [doc]}
            writer.write_table(pa.table(columns, schema))
    return path


def test_wide_rows_come_back_whole_in_splits_of_what_they_decode_to(tmp_path):
    source = write(tmp_path / "in.parquet", rows=24, mib=3)

    job = run(source, tmp_path / "out.parquet", id_column="id")

    assert job.plan.split_rows == 16
    rows = pq.read_table(tmp_path / "out.parquet")
    assert rows["id"].to_pylist() == list(range(24))
    assert pc.utf8_length(rows["doc"]).unique().to_pylist() == [3 * MIB]


def test_a_row_beyond_the_bound_is_a_split_of_its_own(tmp_path):
    source = write(tmp_path / "in.parquet", rows=2, mib=65)

    plan = run(source, tmp_path / "out.parquet", dry_run=True)

    assert plan.split_rows == 1


def test_delta_tables_say_how_wide_their_rows_are(tmp_path):
    table = pa.table({"prompt": ["p"] * 8, "doc": [str(n) * MIB for n in range(8)]})
    properties = WriterProperties(compression="ZSTD")
    write_deltalake(tmp_path / "in", table, writer_properties=properties)

    plan = run(tmp_path / "in", tmp_path / "out", dry_run=True)

    assert plan.pinned.pin.bytes < 4 * MIB
    assert MIB <= plan.pinned.pin.row_bytes < 2 * MIB


def test_a_replica_gets_no_more_rows_than_half_a_gibibyte_of_them(tmp_path):
    source = write(tmp_path / "in.parquet", rows=96, mib=8)
    script = {"script": {"hang_after": 0}, "max_num_seqs": 256}

    with pytest.raises(JobError, match="; 64 rows were with it"):
        run(source, tmp_path / "out.jsonl", engine_kwargs=script, engine_timeout_s=3)
