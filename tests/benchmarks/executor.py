"""The executor against raw vLLM: the same prompts and settings, after start.

``python tests/benchmarks/executor.py [--model FOLDER] [--rows 256] [--rounds 5]``

Each round runs both, one after the other, each in fresh processes. Raw is
``vllm.LLM.chat`` on a list that is in memory; the executor reads a JSON Lines file and
publishes a Delta table. Times are from "the model is loaded" to "all is answered" (and
published); starting up is in neither. The figure is the ratio of the medians.
"""

import argparse
import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import pycountry

from ml_toolkit_anyscale.executor.models import stage
from ml_toolkit_core.paths import home
from ml_toolkit_core.references import find_model

SEQS = 64
GREEDY = {"max_tokens": 32, "temperature": 0, "ignore_eos": True}

RAW = """
import json, sys, time
from vllm import LLM, SamplingParams
model, rows, seqs, sampling = json.loads(sys.argv[1])
llm = LLM(model, dtype="float32", enforce_eager=True, max_num_seqs=seqs,
          max_model_len=-1, kv_cache_memory_bytes=1 << 30, disable_log_stats=True)
chats = [[{"role": "user", "content": row}] for row in rows]
begin = time.perf_counter()
outputs = llm.chat(chats, SamplingParams(**sampling), use_tqdm=False)
seconds = time.perf_counter() - begin
print(json.dumps([seconds, [output.outputs[0].text for output in outputs]]))
"""


def main() -> None:
    """Run the rounds and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", help="a Hugging Face folder; the quickstart's")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    model = given.model or quickstart_model()
    names = [language.name for language in pycountry.languages][: given.rows]
    rows = [f"Where is {name} spoken?" for name in names]
    raw_times, our_times, same = [], [], []
    for number in range(given.rounds):
        raw_s, raw_texts = raw(model, rows)
        our_s, our_texts = ours(model, rows)
        raw_times.append(raw_s)
        our_times.append(our_s)
        same.append(sum(a == b for a, b in zip(raw_texts, our_texts, strict=True)))
        print(
            f"round {number + 1}: raw {raw_s:.1f} s, executor {our_s:.1f} s, "
            f"{same[-1]}/{len(rows)} answers equal",
            flush=True,
        )
    raw_s, our_s = statistics.median(raw_times), statistics.median(our_times)
    print(f"medians: raw {raw_s:.1f} s, executor {our_s:.1f} s")
    print(f"throughput, executor / raw: {raw_s / our_s:.2f}")


def quickstart_model() -> str:
    """Return the quickstart's model as the executor converts it."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
    quickstart = importlib.import_module("quickstart")
    quickstart.HERE.mkdir(exist_ok=True)
    quickstart.fetch_model()
    return stage(find_model(str(quickstart.MODEL)), home()).uri


def raw(model: str, rows: list[str]) -> tuple[float, list[str]]:
    """Time ``vllm.LLM.chat`` in a process of its own."""
    cores = len(os.sched_getaffinity(0))
    environment = {
        **os.environ,
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": str(cores),
        "LD_PRELOAD": str(Path(sys.prefix) / "lib" / "libiomp5.so"),
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    order = json.dumps([model, rows, SEQS, GREEDY])
    done = subprocess.run(
        [sys.executable, "-c", RAW, order],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, texts = json.loads(done.stdout.splitlines()[-1])
    return seconds, texts


def ours(model: str, rows: list[str]) -> tuple[float, list[str]]:
    """Time the executor by its own log, from ``running`` to ``finishing``."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "rows.jsonl", Path(folder) / "out"
        lines = [json.dumps({"prompt": row}) + "\n" for row in rows]
        source.write_text("".join(lines), encoding="utf-8")
        environment = {**os.environ, "ML_TOOLKIT_HOME": f"{folder}/home"}
        subprocess.run(
            [
                *(Path(sys.executable).parent / "ml-toolkit", "run", source, model),
                *(output, "--run-id", "bench", "--output-format", "jsonl"),
                *("--sampling-params", json.dumps(GREEDY), "--no-progress"),
            ],
            env=environment,
            capture_output=True,
            check=True,
        )
        log = Path(folder) / "home/runs/bench/attempt-0001/worker.log"
        text = log.read_text(encoding="utf-8")
        parts = sorted(output.glob("part-*.jsonl"))
        answers = [
            json.loads(line)["generated_text"]
            for part in parts
            for line in part.read_text(encoding="utf-8").splitlines()
        ]
    seconds = (_time(text, "finishing") - _time(text, "running")).total_seconds()
    return seconds, answers


def _time(log: str, phase: str) -> datetime:
    (stamp,) = re.findall(rf"^(\S+ \S+) INFO .* phase={phase}$", log, re.MULTILINE)
    return datetime.strptime(stamp + "+0000", "%Y-%m-%d %H:%M:%S,%f%z")


if __name__ == "__main__":
    main()
