"""An output of one run is the input of the next."""

import csv
import json
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ml_toolkit.functions.llm.inference import run_inference

#: A cell with line breaks, commas and quotes; one that looks like a formula.
RECORDS = """id,prompt,lang
1,"First line
second line, with comma

fourth ""quoted"" line",en
2,plain,de
3,"=SUM(A1:A2)",fr
"""
ANSWER = ["error", "finish_reason", "prompt_tokens", "completion_tokens"]
ROWS = [{"id": i, "prompt": f"q{i}"} for i in range(5)]


def run(rows, output, **options):
    return run_inference(
        str(rows),
        "stub/any",
        str(output),
        **{"executor": "scripted", "progress": False, **options},
    )


def read(path):
    """Return the rows of an output of any format, by id."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return [{**row, "id": int(row["id"])} for row in csv.DictReader(file)]
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def test_text_of_many_lines_goes_from_csv_to_csv_to_jsonl(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text(RECORDS)
    options = {"prompt_column": "prompt", "id_column": "id"}

    run(source, tmp_path / "out.csv", **options)
    job = run(tmp_path / "out.csv", tmp_path / "out2.jsonl", **options)

    rows = read(tmp_path / "out2.jsonl")
    text = 'First line\nsecond line, with comma\n\nfourth "quoted" line'
    assert [row["prompt"] for row in rows] == [text, "plain", "=SUM(A1:A2)"]
    assert [row["generated_text"] for row in rows] == [row["prompt"] for row in rows]
    assert [row["lang"] for row in rows] == ["en", "de", "fr"]
    assert list(rows[0]) == ["id", "prompt", "lang", "generated_text", *ANSWER]
    assert job.result().rows == 3


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a"])
def test_a_second_step_asks_with_the_answer_of_the_first(jsonl, tmp_path, name):
    run(jsonl(ROWS), tmp_path / name)
    again = {"prompt_column": "generated_text"}

    replaced = run(tmp_path / name, tmp_path / f"replaced-{name}", **again)
    run(tmp_path / name, tmp_path / f"b{name}", output_column="second", **again)

    rows = read(tmp_path / f"b{name}")
    assert list(rows[0]) == ["id", "prompt", "generated_text", "second", *ANSWER]
    assert [(row["generated_text"], row["second"]) for row in rows] == [
        (f"q{i}", f"q{i}") for i in range(5)
    ]
    assert list(read(tmp_path / f"replaced-{name}")[0]) == list(
        read(tmp_path / name)[0]
    )
    assert any(
        "its 'generated_text', 'error'" in note and "left out of the output" in note
        for note in replaced.plan.notes
    )


@pytest.mark.parametrize(
    ("name", "listed"), [("a.jsonl", "a.jsonl.errors.jsonl"), ("a", "a_errors")]
)
def test_the_list_of_failed_rows_is_asked_again(jsonl, tmp_path, name, listed):
    rows = [{"id": 0, "prompt": None, "other": "x"}, *ROWS[1:]]
    run(jsonl(rows), tmp_path / name)

    run(tmp_path / listed, tmp_path / f"again-{name}", prompt_column="other")

    (row,) = read(tmp_path / f"again-{name}")
    assert list(row) == ["id", "prompt", "other", "generated_text", *ANSWER]
    assert (row["id"], row["generated_text"], row["error"]) == (0, "x", None)


def test_typed_columns_of_csv_keep_their_types_over_the_wire(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("id,prompt,n,price\n01,a,7,3e5\n02,b,,\n")
    types = {"n": "int64", "price": "decimal128(9, 2)"}

    run(source, tmp_path / "out.parquet", read_options={"types": types})

    table = pq.read_table(tmp_path / "out.parquet")
    assert table.select(["id", "n", "price"]).to_pylist() == [
        {"id": "01", "n": 7, "price": Decimal("300000.00")},
        {"id": "02", "n": None, "price": None},
    ]
