"""Peak memory of the worker and rows per second, by the size of the table.

Flat memory means that ten times the rows take the same memory; run it as
``python tests/benchmarks/memory.py [ROWS ...]``.
"""

import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from ml_toolkit.functions.llm.inference import run_inference

_GROUP = 100_000


def write_table(path: Path, rows: int) -> None:
    """Write rows with a text of some 100 characters, group by group."""
    schema = pa.schema([("id", pa.int64()), ("prompt", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, _GROUP):
            ids = range(start, min(rows, start + _GROUP))
            prompts = [f"row {i} " + "lorem ipsum dolor " * 5 for i in ids]
            writer.write_table(pa.table({"id": ids, "prompt": prompts}, schema))


def measure(rows: int, output: str) -> None:
    """Run the scripted engine over a table of so many rows."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.parquet"
        write_table(source, rows)
        job = run_inference(
            str(source),
            "stub/any",
            str(Path(folder) / output),
            output_format="parquet" if output == "out" else None,
            executor="scripted",
            engine_kwargs={"max_num_seqs": 1024},
            wait=False,
        )
        me, peak, begin = psutil.Process(), 0, time.monotonic()
        while not job.status().state.is_final:
            for child in me.children(recursive=True):
                try:
                    peak = max(peak, child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.05)
        result = job.wait().result()
        rate = rows / (time.monotonic() - begin)
        print(
            f"{output:<12} {result.rows:>9,} rows  peak {peak / 2**20:7.0f} MiB"
            f"  {rate:8,.0f} rows/s"
        )


if __name__ == "__main__":
    sizes = [int(text.replace("_", "")) for text in sys.argv[1:]] or [
        100_000,
        1_000_000,
    ]
    for name in ("out", "out.parquet", "out.jsonl", "out.delta"):
        for size in sizes:
            measure(size, name)
