"""Fixtures of all tests: a home of its own for each, and small real tables."""

import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    """Keep our state of one test apart from all others."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ML_TOOLKIT_HOME", str(folder))
    for name in ("ML_TOOLKIT_WAREHOUSE", "ML_TOOLKIT_CATALOG", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def jsonl(tmp_path):
    """Return a function that writes rows as a JSONL file."""

    def write(rows, name="rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
            encoding="utf-8",
        )
        return path

    return write


@pytest.fixture
def read_parts():
    """Return a function that reads a folder of JSONL parts in name order."""

    def read(folder):
        return [
            json.loads(line)
            for part in sorted(Path(folder).glob("part-*.jsonl"))
            for line in part.read_text(encoding="utf-8").splitlines()
        ]

    return read
