import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.names import ThreePartName, is_path, parse_name


@pytest.mark.parametrize(
    "text",
    [
        "rows.jsonl",
        "./cat.sch.tbl",
        "/a/b",
        "s3://b/k",
        "~/x",
        "dir/",
        "a.b.parquet",
        "answers",
    ],
)
def test_a_word_and_text_with_a_slash_a_scheme_or_a_known_suffix_is_a_path(text):
    assert is_path(text)


@pytest.mark.parametrize("text", ["cat.sch.tbl", "main.`my/odd`.t", "a.b.c-d"])
def test_other_text_is_a_name(text):
    assert not is_path(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("cat.sch.tbl", ("cat", "sch", "tbl")),
        ("main.my-schema.t1", ("main", "my-schema", "t1")),
        ("`a.b`.`c``d`.e", ("a.b", "c`d", "e")),
    ],
)
def test_three_parts_are_read_without_their_quotes(text, parts):
    assert parse_name("input_table", text).parts == parts


@pytest.mark.parametrize(
    "text", ["a", "a.b", "a.b.c.d", "a..c", "a b.c.d", "", "`.a.b"]
)
def test_anything_else_is_refused_naming_the_argument(text):
    with pytest.raises(RequestError, match="input_table="):
        parse_name("input_table", text)


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=3, max_size=3))
def test_any_name_written_as_sql_reads_back_as_itself(parts):
    name = ThreePartName(*parts)

    assert parse_name("model", str(name)) == name
