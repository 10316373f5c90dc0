"""JSON Lines in: what is refused, which types columns get, and what is read."""

import decimal
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.jsonlines import parse_strictly, parse_with_texts
from ml_toolkit_core.tables.jsontext import json_lines
from ml_toolkit_core.tables.kinds import Kinds, is_json
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableFormat, TableLocation


def pin(path, **kwargs):
    return pin_table(TableLocation(name=path.name, uri=str(path)), **kwargs)


def read(path, split_rows=100):
    location, pinned = pin(path)
    source = open_source(location, pinned)
    return list(source.read(source.splits(split_rows)))


def columns_of(tmp_path, *lines):
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    _, pinned = pin(path)
    return {
        column.name: "json" if column.json else column.type for column in pinned.columns
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["true", "null"], "bool"),
        (["1", "-9223372036854775808"], "int64"),
        (["1", "2.5"], "double"),
        (["9007199254740993", "2.5"], "json"),
        (["9223372036854775808"], "json"),
        (["1e999"], "json"),
        (["0.5", "1e2", "1.50", "-0.0", "5e-324", "0.30000000000000004"], "double"),
        (["0.5", "12345678901234567890.123456789"], "json"),
        (["0.1000000000000000055511151231257827"], "json"),
        (["1e-999"], "json"),
        (["1e-99999999999999999999"], "json"),
        (["[0.5, 3.14159265358979323846]"], "json"),
        (['"2024-01-05T10:00:00Z"'], "string"),
        (["null", "null"], "string"),
        (["[]", "null"], "list<item: string>"),
        (["[1, null]", "[]"], "list<item: int64>"),
        (["[1, 2.5]"], "list<item: double>"),
        (['[1, "a"]'], "json"),
        (["[[1]]"], "json"),
        (['{"a": 1}'], "json"),
        (["1", '"a"'], "json"),
        (["true", "1"], "json"),
    ],
)
def test_types_a_column_by_what_is_written_in_all_rows(tmp_path, values, expected):
    lines = [f'{{"x": {value}}}' for value in values]

    assert columns_of(tmp_path, *lines) == {"x": expected}


def test_keeps_a_key_that_first_appears_in_the_last_row(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 1}\n' * 52 + '{"late": 0.5, "a": 2}\n')

    (rows,) = read(path)

    assert rows.batch.schema.names == ["a", "late"]
    assert rows.batch.column("late").to_pylist() == [None] * 52 + [0.5]


def test_lists_every_bad_line_in_one_message(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes(
        b'{"a": 1}\n[1]\n"text"\nnull\n7\n\n{"a": \n{"a": 1, "a": 2}\n{"a": NaN}\n'
        b'{"a": \xff}\n{"a" 1}\n{"\\ud800": 1}\n' + b'{"a": ' + b"1" * 5000 + b"}\n"
    )

    with pytest.raises(RequestError) as caught:
        pin(path)

    message = str(caught.value)
    for fault in (
        "11 of its lines",
        "line 2 is a list",
        "line 3 is a string",
        "line 4 is null",
        "line 5 is a number",
        "line 7 is cut off",
        "line 8 has an object with the same key twice",
        "line 9 holds NaN",
        "line 10 is not UTF-8 (byte 0xff at position 6)",
        "line 11 is not JSON",
        "line 12 has a key with half of a surrogate pair",
        "line 13 holds a number of too many digits",
    ):
        assert fault in message


def test_recognises_one_json_document_over_many_lines(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps([{"a": 1}, {"a": 2}], indent=1))

    with pytest.raises(RequestError, match="looks like one JSON document"):
        pin(path)


def test_counts_the_bad_lines_it_does_not_list(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("[]\n" * 50)

    with pytest.raises(RequestError, match=r"50 of its lines .* and 30 more\. "):
        pin(path)


def test_names_the_file_of_a_bad_line_in_a_folder(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "t" / "b.jsonl").write_text('{"a": 1}\n{\n')

    with pytest.raises(RequestError, match=r"b\.jsonl line 2 is cut off"):
        pin(tmp_path / "t")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ('{"a": 1}\n'.encode("utf-16"), "UTF-16"),
        ('{"a": 1}\n'.encode("utf-16-le"), "UTF-16"),
        ('{"a": 1}\n'.encode("utf-16-be"), "UTF-16"),
        ('{"a": 1}\n'.encode("utf-32"), "UTF-32"),
        (gzip.compress(gzip.compress(b"{}")), "compressed with gzip twice"),
    ],
)
def test_names_the_encoding_of_a_file_that_is_not_utf8(tmp_path, data, word):
    (tmp_path / "in.jsonl").write_bytes(data)

    with pytest.raises(RequestError, match=word):
        pin(tmp_path / "in.jsonl")


def test_skips_a_byte_order_mark_and_takes_crlf_and_blank_lines(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_bytes('\ufeff{"id": 1}\r\n\r\n  \n{"id": "ü"}\r\n'.encode())

    (rows,) = read(path)

    assert rows.batch.schema.names == ["id"]
    assert rows.batch.column("id").to_pylist() == ["1", '"ü"']


def test_carries_the_exact_json_text_of_a_json_column(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"m": [{"role":"user",  "n": 1.50, "s": "\\u00e9"}]}\n{"m": null}\n'
    )

    (rows,) = read(path)

    assert is_json(rows.batch.schema.field("m"))
    assert rows.batch.column("m").to_pylist() == [
        '[{"role":"user",  "n": 1.50, "s": "\\u00e9"}]',
        None,
    ]


def test_notes_a_mixed_column_with_the_first_line_of_each_kind(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": null, "b": {}}\n{"a": 1}\n{"a": "x"}\n{"a": 2}\n')

    _, pinned = pin(path, text_columns=["a"])

    (note,) = pinned.notes
    assert (
        "'a' holds whole numbers (first on line 2) and text (first on line 3)" in note
    )
    assert "error rows" in note


def test_keeps_all_digits_of_a_number_and_says_so(kit, tmp_path):
    digits = "12345678901234567890.123456789"
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"prompt": "p", "x": 0.5}}\n{{"prompt": "q", "x": {digits}}}\n')
    run = kit.run_of("jsonl", tmp_path, fails=frozenset({"q"}))

    _, pinned = pin(path)
    listed = Path(run.to_end()).read_text()

    (note,) = pinned.notes
    assert "numbers of more digits than 64 bits keep (first on line 2)" in note
    part = (tmp_path / "out" / "part-000000.jsonl").read_text()
    assert f'"x": {digits},' in part
    assert f'"x": {digits},' in listed


@given(
    st.from_regex(
        r"-?(0|[1-9][0-9]{0,25})\.[0-9]{1,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True
    )
)
def test_reads_any_number_as_one_of_the_same_value(text):
    kind = Kinds()
    kind.see(parse_strictly(f'{{"x": {text}}}'.encode())["x"], "line 1")

    if kind.arrow_type is not None:
        written = json.dumps(json.loads(text))
        assert decimal.Decimal(written) == decimal.Decimal(text)
    elif json.loads(text) not in (float("inf"), -float("inf")):
        assert decimal.Decimal(repr(float(text))) != decimal.Decimal(text)


def test_says_of_a_line_that_is_a_long_number_what_it_is(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("0.1234567890123456789\n")

    with pytest.raises(RequestError, match="line 1 is a number, not an object"):
        pin(path)


def test_replaces_half_a_surrogate_pair_and_says_so_for_that_row(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"prompt": "ok", "m": {"a": "\\ud83d\\ude00"}}\n'
        '{"prompt": "m\\udcb2", "m": 1}\n'
        '{"prompt": "ok", "m": {"a": "\\ud83d"}}\n'
    )

    (rows,) = read(path)

    assert rows.batch.column("prompt").to_pylist() == ["ok", "m\ufffd", "ok"]
    assert rows.batch.column("m").to_pylist()[2] == '{"a": "\ufffd"}'
    assert {row: str(error) for row, error in rows.errors.items()} == {
        1: "unreadable: column 'prompt' holds half of a surrogate pair",
        2: "unreadable: column 'm' holds half of a surrogate pair",
    }


def test_refuses_a_table_without_rows_since_it_has_no_columns(tmp_path):
    (tmp_path / "in.jsonl").write_text("\n\n")

    with pytest.raises(RequestError, match="no rows, so no columns"):
        pin(tmp_path / "in.jsonl")


def test_cuts_splits_at_file_borders_and_skips_the_others_when_reading(tmp_path):
    (tmp_path / "t" / "sub").mkdir(parents=True)
    (tmp_path / "t" / "_hidden").mkdir()
    (tmp_path / "t" / "_hidden" / "x.jsonl").write_text("[]")
    (tmp_path / "t" / "a.jsonl").write_text(
        "".join(f'{{"i": {i}}}\n' for i in range(5))
    )
    (tmp_path / "t" / "b.jsonl").write_text("")
    (tmp_path / "t" / "sub" / "c.jsonl").write_text('{"i": 5}\n\n{"i": 6}')
    location, pinned = pin(tmp_path / "t")
    source = open_source(location, pinned)

    splits = source.splits(2)
    read_back = [
        rows.batch.column("i").to_pylist()
        for rows in source.read([splits[1], splits[2], splits[3]])
    ]

    assert [file.path for file in pinned.files] == ["a.jsonl", "b.jsonl", "sub/c.jsonl"]
    assert [(s.file, s.start, s.stop) for s in splits] == [
        (0, 0, 2),
        (0, 2, 4),
        (0, 4, 5),
        (2, 0, 2),
    ]
    assert read_back == [[2, 3], [4], [5, 6]]


def test_refuses_to_read_a_file_that_changed_since_the_pin(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 1}\n')
    location, pinned = pin(path)
    path.write_text('{"a": 1}\n{"a": 2}\n')

    source = open_source(location, pinned)
    with pytest.raises(RequestError, match="has changed since the run was planned"):
        list(source.read(source.splits(2)))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (Path.exists, "there is nothing at"),
        (lambda p: p.mkdir(), "has no files in it"),
        (lambda p: (p.mkdir(), (p / ".keep").touch()), "has no files in it"),
        (
            lambda p: (p.mkdir(), (p / "a.jsonl").touch(), (p / "b.parquet").touch()),
            "mixes jsonl and parquet",
        ),
        (lambda p: (p.mkdir(), (p / "a.xls").touch()), "no format is known for '.xls'"),
        (lambda p: p.touch(), "no format is known for 'a file without a suffix'"),
    ],
)
def test_says_what_is_wrong_with_a_place_and_what_can_be_read(tmp_path, make, match):
    make(tmp_path / "t")

    with pytest.raises(RequestError, match=match) as caught:
        pin(tmp_path / "t")

    assert "'t'" in str(caught.value)


def test_reads_a_file_of_any_name_when_the_format_is_given(tmp_path):
    path = tmp_path / "cat.sch.tbl"
    path.write_text('{"a": 1}\n')

    _, pinned = pin_table(
        TableLocation(name="./cat.sch.tbl", uri=str(path), format=TableFormat.JSONL)
    )

    assert pinned.rows == 1


@pytest.mark.parametrize("char", [*" #;%?[+=&'", "ü東", "%7D"])
def test_takes_odd_characters_in_names_as_they_are(tmp_path, char):
    (tmp_path / f"a{char}b").mkdir()
    path = tmp_path / f"a{char}b" / f"x{char}.jsonl"
    path.write_text('{"a": 1}\n')

    assert read(path)[0].batch.to_pylist() == [{"a": 1}]


def test_reads_a_compressed_file_by_its_first_bytes_whatever_its_name(tmp_path):
    for name in ("in.jsonl.gz", "in.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))

        (rows,) = read(tmp_path / name)

        assert rows.batch.column("a").to_pylist() == [1, 2]


def test_refuses_a_compressed_file_that_is_cut_off(tmp_path):
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 999)[:-9])

    with pytest.raises(RequestError, match="compressed file is cut off or damaged"):
        pin(tmp_path / "in.jsonl.gz")


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=6,
)
KEY = st.sampled_from(["a", "b", "c d", "ü", "", "q'\"\\"])
ROWS = st.lists(st.dictionaries(KEY, VALUE, min_size=1), min_size=1, max_size=8)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=ROWS, ascii_only=st.booleans(), indent=st.sampled_from([None, (", ", ": ")])
)
def test_a_round_trip_through_json_lines_changes_no_value(
    tmp_path_factory, rows, ascii_only, indent
):
    path = tmp_path_factory.mktemp("trip") / "in.jsonl"
    path.write_text(
        "\r\n".join(
            json.dumps(row, ensure_ascii=ascii_only, separators=indent) for row in rows
        ),
        encoding="utf-8",
        newline="",
    )

    tables = [
        pa.Table.from_batches([found.batch]) for found in read(path, split_rows=3)
    ]
    back = [json.loads(line) for table in tables for line in json_lines(table)]

    columns = list(dict.fromkeys(key for row in rows for key in row))
    assert [list(row) for row in back] == [columns] * len(rows)
    for row, found in zip(rows, back, strict=True):
        for key in columns:
            assert found[key] == row.get(key)
            assert isinstance(found[key], bool) == isinstance(row.get(key), bool)
            assert isinstance(found[key], str) == isinstance(row.get(key), str)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(TEXT, VALUE), st.sampled_from(["", " ", "\t ", " \n"]))
def test_the_texts_of_a_line_are_its_values(row, space):
    line = json.dumps(row, separators=(f"{space},{space}", f"{space}:{space}"))
    line = f"{space}{{{space}{line[1:-1]}{space}}}{space}"

    found = parse_with_texts(line)

    assert {key: value for key, (value, _) in found.items()} == row
    assert {key: json.loads(text) for key, (_, text) in found.items()} == row
