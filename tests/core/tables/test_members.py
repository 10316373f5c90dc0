"""Which files a table has: folders, globs, lists, and columns in folders' names."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.values import TableLocation


@pytest.fixture
def tree(tmp_path):
    """Write files of one row each, which holds the file's own path."""

    def write(*paths):
        for path in paths:
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            row = {"at": path}
            if path.endswith(".parquet"):
                pq.write_table(pa.Table.from_pylist([row]), file)
            elif path.endswith(".csv"):
                file.write_text(f"at\n{path}\n")
            else:
                file.write_text(json.dumps(row) + "\n")

    return write


@pytest.fixture
def read(tmp_path):
    """Return a function that reads the rows of paths below ``tmp_path``."""

    def rows(*members, **more):
        texts = [str(tmp_path / member) for member in members]
        location = TableLocation(
            name=", ".join(members),
            uri=texts[0],
            members=tuple(texts) if len(texts) > 1 else (),
            **more,
        )
        source = open_source(*pin_table(location))
        return [
            row
            for found in source.read(source.splits(3))
            for row in found.batch.to_pylist()
        ]

    return rows


def test_reads_the_files_that_a_glob_matches_but_the_hidden_ones(tree, read):
    tree("t/b.jsonl", "t/a.jsonl", "t/_x.jsonl", "t/.y.jsonl", "t/c.csv", "t/s/d.jsonl")

    assert [row["at"] for row in read("t/*.jsonl")] == ["t/a.jsonl", "t/b.jsonl"]
    assert [row["at"] for row in read("t/[bc].jsonl")] == ["t/b.jsonl"]
    assert [row["at"] for row in read("t/**/*.jsonl")] == [
        "t/a.jsonl",
        "t/b.jsonl",
        "t/s/d.jsonl",
    ]


def test_takes_a_name_with_a_wildcard_for_itself_when_it_is_there(tree, read):
    tree("t/a[1].jsonl", "t/a1.jsonl", "t/q?.jsonl", "t/qq.jsonl")

    assert [row["at"] for row in read("t/a[1].jsonl")] == ["t/a[1].jsonl"]
    assert [row["at"] for row in read("t/q?.jsonl")] == ["t/q?.jsonl"]


def test_reads_files_folders_and_globs_of_a_list_in_its_order(tree, read):
    tree("b/2.jsonl", "b/1.jsonl", "a/x/3.jsonl", "c/4.jsonl", "c/5.csv")

    rows = read("b", "a/x/3.jsonl", "c/*.jsonl")

    assert [row["at"] for row in rows] == [
        "b/1.jsonl",
        "b/2.jsonl",
        "a/x/3.jsonl",
        "c/4.jsonl",
    ]


@pytest.mark.parametrize(
    ("members", "match"),
    [
        (["t/*.csv"], "nothing matches '.*/t/\\*.csv'"),
        (["t/a.jsonl", "t/gone.jsonl"], "nothing at '.*/t/gone.jsonl'"),
        (["t/a.jsonl", "t/*.jsonl"], "'a.jsonl' twice"),
        (["t/a.jsonl", "u/a.parquet"], "mixes jsonl and parquet"),
        (["t", "delta"], "delta' is a Delta table, which is read alone"),
        (["delt*"], "is a Delta table, which is read alone"),
    ],
)
def test_refuses_members_that_make_no_table(tmp_path, tree, read, members, match):
    tree("t/a.jsonl", "t/b.jsonl", "u/a.parquet")
    write_deltalake(tmp_path / "delta", pa.table({"at": ["x"]}))

    with pytest.raises(RequestError, match=match):
        read(*members)


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_reads_columns_in_the_names_of_folders_as_text(tree, read, suffix):
    paths = [
        f"ds/lang={lang}/code={code}/p.{suffix}"
        for lang, code in [("__HIVE_DEFAULT_PARTITION__", "1"), ("de", "007")]
    ]
    tree(*paths, f"ds/lang=e%2Fn/code=10/k=v.{suffix}")

    rows = read("ds")

    assert [(row["lang"], row["code"]) for row in rows] == [
        (None, "1"),
        ("de", "007"),
        ("e/n", "10"),
    ]
    assert list(rows[0]) == ["at", "lang", "code"]
    assert rows[1]["at"] == paths[1]


def test_reads_the_column_of_a_folder_with_a_single_file_and_of_a_glob(tree, read):
    tree("one/lang=fr/only.parquet", "ds/lang=de/a.parquet", "ds/lang=en/a.parquet")

    assert [row["lang"] for row in read("one")] == ["fr"]
    assert [row["lang"] for row in read("ds/lang=*/*.parquet")] == ["de", "en"]
    assert [row["lang"] for row in read("ds/lang=*")] == ["de", "en"]
    assert list(read("one/lang=fr")[0]) == ["at"]


@pytest.mark.parametrize(
    ("paths", "match"),
    [
        (["t/k=1/a.csv", "t/j=1/a.csv"], "do not name the same columns: .'j'. in"),
        (["t/k=1/a.csv", "t/a.csv"], "do not name the same columns"),
        (["t/at=1/a.csv"], "column 'at' stands in the names of folders and in the"),
    ],
)
def test_refuses_folders_whose_columns_do_not_fit(tree, read, paths, match):
    tree(*paths)

    with pytest.raises(RequestError, match=match):
        read("t")


def test_reads_a_folder_in_which_one_file_is_empty(tmp_path, tree, read):
    tree("t/a.csv", "t/c.csv")
    (tmp_path / "t" / "b.csv").touch()

    assert [row["at"] for row in read("t")] == ["t/a.csv", "t/c.csv"]
