"""Text that is no UTF-8 makes an error row of its own row, in every type of text."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.tables.utf8 import mend_text
from ml_toolkit_core.values import TableFormat, TableLocation


def broken(kind=None):
    """Return four texts of which the second and the last are no UTF-8."""
    data = [b"ok", b"a\xffb", None, b"\xe2\x82"]
    if kind is not None and pa.types.is_large_string(kind):
        offsets = pa.py_buffer(pa.array([0, 2, 5, 5, 7], pa.int64()).buffers()[1])
    else:
        offsets = pa.py_buffer(pa.array([0, 2, 5, 5, 7], pa.int32()).buffers()[1])
    valid = pa.py_buffer(b"\x0b")
    text = pa.py_buffer(b"".join(filter(None, data)))
    return pa.Array.from_buffers(kind or pa.string(), 4, [valid, offsets, text])


MENDED = ["ok", "a\ufffdb", None, "\ufffd"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (broken(), MENDED),
        (broken(pa.large_string()), MENDED),
        (
            pa.StructArray.from_arrays([broken(), pa.array([1, 2, 3, 4])], ["t", "n"]),
            [{"t": text, "n": n} for n, text in enumerate(MENDED, start=1)],
        ),
        (
            pa.ListArray.from_arrays([0, 1, 2, 3, 4], broken()),
            [[text] for text in MENDED],
        ),
        (
            pa.MapArray.from_arrays([0, 1, 2, 3, 4], ["k"] * 4, broken()),
            [[("k", text)] for text in MENDED],
        ),
        (
            pa.FixedSizeListArray.from_arrays(broken(), 1),
            [[text] for text in MENDED],
        ),
    ],
)
def test_replaces_bytes_that_are_no_text_and_names_the_rows(array, expected):
    batch = pa.RecordBatch.from_arrays([array], ["c"])

    rows, errors = mend_text(batch)

    assert rows.column(0).to_pylist() == expected
    assert rows.schema == batch.schema
    assert sorted(errors) == [1, 3]
    assert {str(error) for error in errors.values()} == {
        "unreadable: column 'c' holds text that is no UTF-8"
    }


@pytest.mark.parametrize("other", [1704067200123456789, -(2**62), None])
def test_keeps_what_stands_beside_such_text_whatever_it_is(other):
    times = pa.array([other] * 4, pa.timestamp("ns"))
    array = pa.StructArray.from_arrays(
        [broken(), times], ["t", "at"], mask=pa.array([False, False, True, False])
    )

    rows, errors = mend_text(pa.RecordBatch.from_arrays([array], ["c"]))

    assert sorted(errors) == [1, 3]
    assert rows.column(0).field("at").equals(array.field("at"))
    assert rows.column(0).is_null().equals(array.is_null())


def test_takes_no_other_fault_for_text():
    too_long = pa.py_buffer((10**30).to_bytes(16, "little"))
    array = pa.Array.from_buffers(pa.decimal128(5, 2), 1, [None, too_long])

    _, errors = mend_text(pa.RecordBatch.from_arrays([array], ["c"]))

    assert errors == {}


def test_leaves_sound_rows_as_they_are():
    batch = pa.RecordBatch.from_pydict({"c": ["ä", None], "n": [1, 2]})

    rows, errors = mend_text(batch)

    assert rows is batch
    assert errors == {}


@pytest.mark.parametrize("is_delta", [False, True])
@pytest.mark.parametrize(
    "kind", ["jsonl", "jsonl file", "csv file", "parquet file", "delta"]
)
def test_such_rows_are_listed_in_every_output(kit, tmp_path, kind, is_delta):
    source = tmp_path / "in"
    sound = pa.table({"id": [0, 1, 2, 3], "prompt": ["a", "b", "c", "d"]})
    sound = sound.append_column("other", pa.array(["x"] * 4))
    if is_delta:
        write_deltalake(source, sound)
    else:
        source.mkdir()
        pq.write_table(sound, source / "part.parquet")
    (file,) = source.glob("*.parquet")
    pq.write_table(sound.set_column(2, "other", broken()), file)
    run = kit.run_of(kind, tmp_path)
    run.source = str(source)

    listed = run.to_end()

    failed = kit.read_list(TableFormat(kind.split()[0]), listed)
    assert [(row["id"], row["other"], row["kind"]) for row in failed] == [
        (1, "a\ufffdb", "unreadable"),
        (3, "\ufffd", "unreadable"),
    ]
    answers = [row["generated_text"] for row in kit.read_output(run)]
    assert answers == ["a", None, "c", None]


def test_says_such_rows_by_their_place_among_those_that_are_read(tmp_path):
    table = pa.table({"c": broken()})
    pq.write_table(table, tmp_path / "in.parquet")
    location = TableLocation(name="t", uri=str(tmp_path / "in.parquet"))
    source = open_source(*pin_table(location))

    found = list(source.read(source.splits(3)))

    assert [sorted(rows.errors) for rows in found] == [[1], [0]]
