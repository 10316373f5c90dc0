"""The local store: whole or not at all, and never in place of another file."""

import contextlib
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.tables.localstore import LocalStore
from ml_toolkit_core.tables.store import join, place, read_json
from ml_toolkit_core.tables.stores import store_for


@pytest.fixture
def store():
    return LocalStore()


def read(uri):
    return Path(uri).read_bytes()


def chunks_that_fail():
    yield b"half"
    raise OSError("the disk is full")


def test_creates_a_file_once(store, tmp_path):
    uri = join(str(tmp_path), "a", "b.txt")
    store.create(uri, [b"first", b" one"])

    with pytest.raises(FileExistsError):
        store.create(uri, [b"second"])

    assert read(uri) == b"first one"


@pytest.mark.parametrize("method", ["create", "replace"])
def test_leaves_nothing_of_a_write_that_failed(store, tmp_path, method):
    with pytest.raises(OSError, match="the disk is full"):
        getattr(store, method)(join(str(tmp_path), "a.txt"), chunks_that_fail())

    assert store.files(str(tmp_path)) == ()


def test_keeps_the_old_file_when_its_replacement_fails(store, tmp_path):
    uri = join(str(tmp_path), "a.txt")
    store.replace(uri, [b"old"])

    with pytest.raises(OSError, match="the disk is full"):
        store.replace(uri, chunks_that_fail())

    assert read(uri) == b"old"


def test_publishes_a_file_without_replacing_another(store, tmp_path):
    source, target = join(str(tmp_path), "a"), join(str(tmp_path), "b")
    store.create(source, [b"mine"])
    store.create(target, [b"theirs"])

    with pytest.raises(FileExistsError):
        store.publish(source, target)

    assert read(target) == b"theirs"


def test_finishes_a_publication_that_was_cut_off_between_link_and_unlink(
    store, tmp_path
):
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"mine")
    target.hardlink_to(source)

    store.publish(str(source), str(target))

    assert not source.exists()
    assert target.read_bytes() == b"mine"


def test_lists_files_below_a_folder_in_the_order_of_their_paths(store, tmp_path):
    for path in ("b/c", "a b/d", "a", "b.txt"):
        store.create(join(str(tmp_path), path + "_"), [b"x"])

    assert [f.path for f in store.files(str(tmp_path))] == [
        "a b/d_",
        "a_",
        "b/c_",
        "b.txt_",
    ]
    assert store.files(join(str(tmp_path), "nothing")) == ()


def test_changes_the_etag_with_the_content(store, tmp_path):
    uri = join(str(tmp_path), "a")
    store.replace(uri, [b"one"])
    before = store.stat(uri)
    store.replace(uri, [b"two"])

    assert store.stat(uri).bytes == before.bytes
    assert store.stat(uri).etag != before.etag


def test_removes_what_is_there_and_is_silent_when_nothing_is(store, tmp_path):
    store.create(join(str(tmp_path), "f", "a"), [b"x"])

    for _ in range(2):
        store.delete(join(str(tmp_path), "f", "a"))
        store.delete_folder(join(str(tmp_path), "f"))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", range(15))
def test_creates_a_table_for_one_of_many_that_race(store, tmp_path, number):
    uri = join(str(tmp_path), f"t{number}")
    schema = pa.schema([("a", pa.int64())])
    start = threading.Barrier(4)
    winners = []

    def race(racer):
        start.wait()
        with contextlib.suppress(DeltaError):
            store.create_table(uri, schema, CommitProperties())
            winners.append(racer)

    threads = [threading.Thread(target=race, args=(racer,)) for racer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(winners) == 1
    assert store.open_table(uri).version() == 0


def test_refuses_the_second_commit_of_one_transaction_number(store, tmp_path):
    uri = join(str(tmp_path), "t")
    schema = pa.schema([("a", pa.int64())])
    store.create_table(uri, schema, CommitProperties())
    handles = [store.open_table(uri), store.open_table(uri)]
    commit = CommitProperties(app_transactions=[Transaction("run", 1)])
    store.commit_files(handles[0], [], commit)

    with pytest.raises(CommitFailedError):
        store.commit_files(handles[1], [], commit)


def test_can_be_sent_to_another_process(store):
    assert isinstance(pickle.loads(pickle.dumps(store)), LocalStore)


def test_refuses_places_that_are_not_built_yet():
    with pytest.raises(RequestError, match="'gs://' are not built yet; use a path"):
        store_for("gs://bucket/table")


def test_takes_a_path_with_a_colon_for_a_path():
    assert isinstance(store_for("/data/c:/x"), LocalStore)


def test_reads_a_missing_or_torn_json_file_as_none(store, tmp_path):
    (tmp_path / "torn").write_text('{"a": ')

    assert read_json(store, join(str(tmp_path), "torn")) is None
    assert read_json(store, join(str(tmp_path), "nothing")) is None
    assert read_json(store, join(str(tmp_path), "torn", "below")) is None


def test_finds_the_files_of_a_table_that_is_one_file():
    assert place("/data/in.jsonl", "") == "/data/in.jsonl"
    assert place("/data/in", "a.jsonl") == "/data/in/a.jsonl"
