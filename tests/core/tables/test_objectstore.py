"""S3: the same store, the same outputs, the same kills, on a server of this machine."""

import contextlib
import io
import threading
import urllib.request
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from emulators.s3 import serve

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.objectstore import ObjectStore
from ml_toolkit_core.tables.pin import pin_table
from ml_toolkit_core.tables.source import open_source
from ml_toolkit_core.tables.stores import store_for
from ml_toolkit_core.values import TableFormat, TableLocation, WriteMode

NEW = list(range(7))


@pytest.fixture(scope="module")
def server():
    """Start a server on a free port; yield its address."""
    with serve() as address:
        yield address


@pytest.fixture
def bucket(server, monkeypatch):
    """Make a bucket of the test's own and point the environment to it."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{uuid.uuid4().hex}"
    request = urllib.request.Request(f"{server}/{name}", method="PUT")  # noqa: S310
    with urllib.request.urlopen(request):  # noqa: S310
        return f"s3://{name}"


@pytest.fixture
def store():
    return ObjectStore()


def read(store, uri):
    with store.open(uri) as handle:
        return handle.read()


def test_creates_an_object_once_and_replaces_it_when_asked(store, bucket):
    uri = f"{bucket}/a/b ü#%41.txt"
    store.create(uri, [b"first", b" one"])

    with pytest.raises(FileExistsError):
        store.create(uri, [b"second"])

    assert read(store, uri) == b"first one"
    before = store.stat(uri)
    store.replace(uri, [b"another"])
    assert read(store, uri) == b"another"
    assert store.stat(uri) != before


def test_creates_a_large_object_once_and_leaves_nothing_beside_it(store, bucket):
    uri, pieces = f"{bucket}/large", [b"x" * (3 << 20)] * 4
    store.create(uri, pieces)

    with pytest.raises(FileExistsError):
        store.create(uri, pieces)

    assert store.stat(uri).bytes == 12 << 20
    assert [info.path for info in store.files(bucket)] == ["large"]


def test_creates_an_object_for_one_of_many_that_race(store, bucket):
    start, winners = threading.Barrier(6), []

    def race(racer):
        start.wait()
        with contextlib.suppress(FileExistsError):
            store.create(f"{bucket}/claim", [str(racer).encode()])
            winners.append(racer)

    threads = [threading.Thread(target=race, args=(racer,)) for racer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [str(winner).encode() for winner in winners] == [
        read(store, f"{bucket}/claim")
    ]


def test_publishes_an_object_without_replacing_another(store, bucket):
    one, two = f"{bucket}/one", f"{bucket}/two"
    store.create(one, [b"mine"])
    store.create(two, [b"theirs"])

    with pytest.raises(FileExistsError):
        store.publish(one, two)

    assert read(store, two) == b"theirs"
    store.replace(two, [b"mine"])  # as if it had been cut off before the delete
    store.publish(one, two)
    assert store.stat(one) is None
    with pytest.raises(FileNotFoundError):
        store.publish(one, two)


def test_lists_and_globs_keys_in_the_order_of_their_paths(store, bucket):
    for key in ("t/b/c.csv", "t/a b/d.csv", "t/a.csv", "t/b.txt", "tt/x.csv"):
        store.create(f"{bucket}/{key}", [b"x"])

    assert [info.path for info in store.files(f"{bucket}/t")] == [
        "a b/d.csv",
        "a.csv",
        "b/c.csv",
        "b.txt",
    ]
    assert store.is_folder(f"{bucket}/t/b")
    assert not store.is_folder(f"{bucket}/t/a.csv")
    assert store.glob(f"{bucket}/t/*.csv") == (f"{bucket}/t/a.csv",)
    assert store.glob(f"{bucket}/t/*/[cd].csv") == (
        f"{bucket}/t/a b/d.csv",
        f"{bucket}/t/b/c.csv",
    )
    assert len(store.glob(f"{bucket}/t/**/*.csv")) == 3
    store.delete_folder(f"{bucket}/t")
    assert [info.path for info in store.files(bucket)] == ["tt/x.csv"]


def test_is_the_store_of_s3_uris(bucket):
    assert isinstance(store_for(f"{bucket}/x"), ObjectStore)


def test_reads_parquet_of_a_glob_with_columns_in_its_folders(store, bucket):
    for lang in ("de", "en"):
        data = io.BytesIO()
        pq.write_table(pa.table({"prompt": [f"in {lang}"]}), data)
        store.create(f"{bucket}/ds/lang={lang}/p.parquet", [data.getvalue()])

    assert rows_of(f"{bucket}/ds/*/*.parquet") == [
        {"prompt": "in de", "lang": "de"},
        {"prompt": "in en", "lang": "en"},
    ]


def test_says_that_nothing_is_there(bucket):
    with pytest.raises(RequestError, match="there is nothing at 's3://"):
        rows_of(f"{bucket}/gone.jsonl")


def rows_of(uri, kind=None):
    location = TableLocation(name=uri, uri=uri, format=kind)
    source = open_source(*pin_table(location))
    return [
        row
        for found in source.read(source.splits(100))
        for row in found.batch.to_pylist()
    ]


@pytest.fixture
def make(kit, bucket, tmp_path):
    """Return a maker of runs into the bucket."""
    kit.write_jsonl(tmp_path / "in.jsonl", [{"id": i, "prompt": f"p{i}"} for i in NEW])

    def run(kind, mode=WriteMode.ERROR, **options):
        one = kit.run_of(kind, tmp_path, mode=mode, split_rows=4, **options)
        one.output = f"{bucket}/{one.output.rpartition('/')[2]}"
        return one

    return run


def ids(one):
    kind = one.format if one.format is TableFormat.DELTA else None
    return sorted(int(row["id"]) for row in rows_of(one.output, kind))


CASES = [
    ("parquet", WriteMode.APPEND),
    ("csv file", WriteMode.ERROR),
    ("jsonl file", WriteMode.OVERWRITE),
    ("delta", WriteMode.ERROR),
    ("delta", WriteMode.OVERWRITE),
]


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_has_each_row_once_wherever_a_run_is_killed(kit, make, store, bucket, case):
    kind, mode = case
    counter = kit.DyingStore(inner=store)
    make(kind, mode, fails=frozenset({"p1"})).to_end(counter)
    for number, lives in enumerate(range(1, counter.calls + 1, 8)):
        store.delete_folder(bucket)
        dying = kit.DyingStore(lives, after=bool(number % 2), inner=store)
        with contextlib.suppress(kit.Killed):
            make(kind, mode, fails=frozenset({"p1"})).to_end(dying)
        again = make(kind, mode, fails=frozenset({"p1"}), attempt=2)

        listed = again.to_end()

        assert ids(again) == NEW, lives
        listed_kind = TableFormat.DELTA if kind == "delta" else None
        assert [row["id"] for row in rows_of(listed, listed_kind)] == [1], lives


@pytest.mark.parametrize("kind", ["jsonl file", "parquet", "delta"])
def test_appends_to_what_another_run_wrote(make, kind):
    make(kind, WriteMode.APPEND, run_id="one").to_end()
    two = make(kind, WriteMode.APPEND, run_id="two")

    two.to_end()

    assert ids(two) == sorted([*NEW, *NEW])


def test_refuses_to_overwrite_a_folder_which_no_object_store_can_swap(make):
    make("csv").to_end()

    with pytest.raises(RequestError, match="a folder of objects cannot be overwritten"):
        make("csv", WriteMode.OVERWRITE, run_id="two").to_end()
