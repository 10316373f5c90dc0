"""CSV in: text stays text, null and empty are told apart, faults are named by line."""

import csv
import gzip
import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.csvtext import csv_line
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableLocation


def read(path, split_rows=100, **read_options):
    location = TableLocation(name=path.name, uri=str(path), read_options=read_options)
    location, pin = pin_table(location)
    source = open_source(location, pin)
    return [
        row
        for rows in source.read(source.splits(split_rows))
        for row in rows.batch.to_pylist()
    ]


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and returns its path."""

    def make(data, name="in.csv"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return make


def test_keeps_every_cell_as_the_text_it_is(write):
    path = write("id,a,b,c\n01234,NA,3e5,2024-01-05\nnull,nan,true, x \n")

    assert read(path) == [
        {"id": "01234", "a": "NA", "b": "3e5", "c": "2024-01-05"},
        {"id": "null", "a": "nan", "b": "true", "c": " x "},
    ]


def test_takes_an_empty_cell_for_null_and_a_quoted_one_for_empty_text(write):
    path = write('a,b,c\r\n,"",x\r\n"",,"say """""\r\n"",,"line\r\n"",\r\n"\r\n,,\r\n')

    assert read(path) == [
        {"a": None, "b": "", "c": "x"},
        {"a": "", "b": None, "c": 'say ""'},
        {"a": "", "b": None, "c": 'line\r\n",\r\n'},
        {"a": None, "b": None, "c": None},
    ]


def test_reads_the_column_without_a_name_that_an_index_becomes(write):
    path = write(",a\n0,x\n1,y\n")

    assert read(path) == [{"": "0", "a": "x"}, {"": "1", "a": "y"}]


def test_takes_line_breaks_commas_and_quotes_inside_of_quotes(write):
    path = write('id,p,l\n1,"one\ntwo, three\r\n\n""four""",en\n2,=x,de')

    assert read(path, split_rows=1) == [
        {"id": "1", "p": 'one\ntwo, three\r\n\n"four"', "l": "en"},
        {"id": "2", "p": "=x", "l": "de"},
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_skips_a_byte_order_mark_and_blank_lines_whatever_ends_a_line(write, end):
    path = write(f"\ufeffid,p{end}{end}1,ü{end}{end}2,東{end}{end}")

    assert read(path) == [{"id": "1", "p": "ü"}, {"id": "2", "p": "東"}]


def test_takes_a_file_with_a_header_alone_for_a_table_without_rows(write):
    location, pin = pin_table(TableLocation(name="x", uri=str(write("id,prompt\n"))))

    assert (location.format, pin.rows) == ("csv", 0)
    assert [(c.name, c.type) for c in pin.columns] == [
        ("id", "string"),
        ("prompt", "string"),
    ]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("id,prompt,prompt\n1,a,b\n", "column 'prompt' stands twice in 'in.csv'"),
        ("", "'in.csv' has no columns"),
        ("a,b\n1,2\n1\n\n1,2,3\n", "2 of .*line 3 has 1 cells, .* 2; line 5 has 3"),
        ('a,b\n1,"x\ny"z\n', "line 2 has a quoted cell with text after its closing"),
        ('a,b\n1,2\n3,"x\n' + "1,2\n" * 9, "line 3 begins a record whose quotes are"),
        (b"a\n\xdcber\n", "not UTF-8 text: line 2 has the byte 0xdc at position 0"),
        ("a\nx\n".encode("utf-16"), "'in.csv': the file is UTF-16, not UTF-8"),
        (gzip.compress(b"a\nx\n" * 99)[:-9], "cut off or damaged"),
    ],
)
def test_refuses_what_is_no_csv_naming_file_and_line(write, data, match):
    with pytest.raises(RequestError, match=match) as caught:
        read(write(data))

    assert "in.csv" in str(caught.value)


def test_lists_twenty_bad_records_and_counts_the_others(write):
    with pytest.raises(RequestError, match=r"50 of its records .* and 30 more\."):
        read(write("a,b\n" + "1\n" * 50))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "UTF-8", "utf_8"])
def test_reads_the_encoding_that_is_given(write, encoding):
    path = write("id;p\n1;Über „x“ ß\n".encode(encoding))

    rows = read(path, encoding=encoding, delimiter=";")

    assert rows == [{"id": "1", "p": "Über „x“ ß"}]


def test_reads_tabs_in_a_tsv_file_and_what_is_compressed(write):
    assert read(write("a\tb\n1,2\t3\n", "in.tsv")) == [{"a": "1,2", "b": "3"}]
    packed = write(gzip.compress(b"a\tb\n1\t2\n"), "in.tsv.gz")
    assert read(packed) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"encodin": "x"}, r"'encodin', .* Did you mean 'encoding'\? Known: encoding,"),
        ({"encoding": "klingon"}, "'encoding'.='klingon' is no encoding"),
        ({"encoding": 7}, "=7 is no encoding"),
        ({"encoding": "ascii"}, "the file is not ascii"),
        ({"delimiter": ";;"}, "'delimiter'.=';;' must be one character"),
        ({"delimiter": "\n"}, "must be one character"),
    ],
)
def test_refuses_options_that_csv_cannot_have(write, options, match):
    with pytest.raises(RequestError, match=match):
        read(write("p\nü\n"), **options)


def test_refuses_options_for_a_format_that_takes_none(write):
    with pytest.raises(RequestError, match="'in.jsonl' is jsonl, which takes none"):
        read(write('{"a": 1}', "in.jsonl"), encoding="cp1252")


def test_refuses_a_file_that_changed_since_the_pin(write):
    path = write("a,b\n1,2\n")
    location, pin = pin_table(TableLocation(name="x", uri=str(path)))
    source = open_source(location, pin)
    path.write_text("a,b\n1,2\n3,4\n")

    with pytest.raises(RequestError, match="has changed since the run was planned"):
        list(source.read(source.splits(9)))


def test_reads_cells_of_any_length(write):
    path = write("a\n" + "x" * 300_000 + "\n")

    (row,) = read(path)

    assert len(row["a"]) == 300_000


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["", " ", '"', '""', ",", "\r", "\n", "\r\n", '",', "a\n\nb", "\ufeff"]
)
RECORDS = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.none() | TEXT, min_size=width, max_size=width), max_size=8
    )
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records=RECORDS, split_rows=st.integers(1, 5))
def test_reads_back_the_cells_that_were_written(tmp_path_factory, records, split_rows):
    path = tmp_path_factory.mktemp("csv") / "in.csv"
    names = [f"c{i}" for i in range(len(records[0]) if records else 1)]
    # A record of one null is a blank line, which no reader can tell from none.
    records = [cells for cells in records if cells != [None]]
    path.write_text("".join(map(csv_line, [names, *records])), newline="")

    rows = read(path, split_rows)

    assert [list(row.values()) for row in rows] == records


@settings(max_examples=100, deadline=None)
@given(RECORDS)
def test_writes_what_other_readers_understand(records):
    text = "".join(map(csv_line, records))

    found = [r for r in csv.reader(io.StringIO(text, newline=""), strict=True) if r]

    assert found == [[c or "" for c in r] for r in records if r != [None]]
