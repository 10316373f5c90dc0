"""Dates and times in JSON: exact in every year that a column can hold."""

import datetime as dt
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_toolkit_core.tables.jsontext import json_lines

INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
EPOCH = dt.date(1970, 1, 1).toordinal()
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def written(count, kind):
    """Return the JSON of the one value of a column, which must be text."""
    width = pa.int32() if kind == pa.date32() else pa.int64()
    column = pa.array([count], width).view(kind)
    (line,) = json_lines(pa.table({"x": column}))
    return json.loads(line)["x"]


def days_of(text):
    """Read a date by the rules of the calendar alone."""
    assert re.fullmatch(r"(\d{4}|-\d{4,}|\+[1-9]\d{4,})-\d\d-\d\d", text)
    year, month, day = map(int, re.fullmatch(r"(.+)-(\d\d)-(\d\d)", text).groups())
    cycles = (year - 2000) // 400
    near = dt.date(year - 400 * cycles, month, day).toordinal()
    return near - EPOCH + 146_097 * cycles


@given(days=st.integers(-(2**31), 2**31 - 1))
def test_writes_any_date_exactly(days):
    assert days_of(written(days, pa.date32())) == days


@given(days=st.integers(-(2**63) // 86_400_000 + 1, 2**63 // 86_400_000 - 1))
def test_writes_any_date_of_64_bits_exactly(days):
    assert days_of(written(days * 86_400_000, pa.date64())) == days


@given(count=INT64, unit=st.sampled_from([*PER_SECOND]), zone=st.booleans())
def test_writes_any_time_exactly(count, unit, zone):
    text = written(count, pa.timestamp(unit, "Asia/Tokyo" if zone else None))

    day, time = text.split("T")
    assert time.endswith("Z") is zone
    hours, minutes, seconds, fraction = re.fullmatch(
        r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z?", time
    ).groups()
    second = days_of(day) * 86_400 + int(hours) * 3600 + int(minutes) * 60
    found = (second + int(seconds)) * PER_SECOND[unit] + int(fraction or 0)
    assert (found, len(fraction or "")) == (count, len(str(PER_SECOND[unit])) - 1)


@pytest.mark.parametrize("days", [2**31 - 1, 2932897, -719529, -(2**31)])
@pytest.mark.parametrize("kind", ["jsonl", "csv file"])
def test_answers_rows_that_have_dates_beyond_those_of_python(kit, tmp_path, kind, days):
    far = pa.array([days], pa.int32()).view(pa.date32())
    nested = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), far)
    keyed = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), far, far)
    rows = pa.table({"prompt": ["p"], "d": far, "l": nested, "m": keyed})
    pq.write_table(rows, tmp_path / "in.parquet")
    run = kit.run_of(kind, tmp_path, fails=frozenset({"p"}))
    run.source = str(tmp_path / "in.parquet")

    (listed,) = kit.read_jsonl(run.to_end())

    assert days_of(listed["d"]) == days
    assert listed["l"] == [listed["d"]]
    assert listed["m"] == [{"key": listed["d"], "value": listed["d"]}]


@pytest.mark.parametrize("kind", ["parquet", "parquet file"])
@pytest.mark.parametrize(("unit", "count"), [("ns", 1234567), ("s", 2**62)])
def test_lists_a_failed_row_with_any_duration(kit, tmp_path, kind, unit, count):
    far = pa.array([count], pa.int64()).view(pa.duration(unit))
    nested = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), far)
    rows = pa.table({"prompt": ["p"], "d": far, "l": nested})
    pq.write_table(rows, tmp_path / "in.parquet")
    run = kit.run_of(kind, tmp_path, fails=frozenset({"p"}))
    run.source = str(tmp_path / "in.parquet")

    (listed,) = kit.read_jsonl(run.to_end())

    assert (listed["d"], listed["l"]) == (count, [count])
