import fcntl
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ml_toolkit_anyscale.executor.models import folder_for, move, stage
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import ModelKind, ModelLocation


def gguf(path):
    return ModelLocation(name=path.name, uri=str(path), kind=ModelKind.GGUF)


def test_a_folder_is_taken_as_it_is(tmp_path):
    model = ModelLocation(name="m", uri=str(tmp_path), kind=ModelKind.FOLDER)

    assert stage(model, tmp_path) is model


def test_a_file_that_is_no_gguf_is_named(tmp_path):
    path = tmp_path / "page.gguf"
    path.write_text("<html>not found</html>")

    with pytest.raises(RequestError, match=r"page\.gguf' is no GGUF file"):
        stage(gguf(path), tmp_path / "home")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(RequestError, match=r"gone\.gguf' cannot be read: No such file"):
        stage(gguf(tmp_path / "gone.gguf"), tmp_path / "home")


def test_a_cut_off_gguf_leaves_nothing_in_the_cache(tmp_path):
    path = tmp_path / "half.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00")

    with pytest.raises(RequestError, match=r"half\.gguf' cannot be converted"):
        stage(gguf(path), tmp_path / "home")

    assert list((tmp_path / "home" / "cache" / "models").iterdir()) == []


def test_processes_that_want_the_same_model_come_one_after_the_other(tmp_path):
    path = tmp_path / "half.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00")
    folder = folder_for(path, tmp_path / "home")
    folder.parent.mkdir(parents=True)
    held = os.open(folder.parent, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as threads:
        second = threads.submit(stage, gguf(path), tmp_path / "home")
        while not is_waited_for(folder.parent):
            assert not second.done()
        folder.mkdir()
        os.close(held)

        # It is taken as the first one made it: this file cannot be converted.
        assert second.result().uri == str(folder)


def is_waited_for(folder):
    """Whether a process waits for the lock of a folder, as the kernel says."""
    locks = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and f":{folder.stat().st_ino} " in line for line in locks)


def test_a_file_is_read_once_and_again_when_it_has_changed(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF one")
    first = folder_for(path, tmp_path)
    (kept,) = (tmp_path / "cache" / "digests").iterdir()
    kept.write_text(json.dumps("told-before"))

    again = folder_for(path, tmp_path)
    times = path.stat()
    path.write_bytes(b"GGUF two")
    while path.stat().st_ctime_ns == times.st_ctime_ns:  # the disk's clock has ticks
        path.touch()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = folder_for(path, tmp_path)

    assert again.name == "model-told-before"
    assert changed.name not in {first.name, again.name}


def test_the_same_bytes_elsewhere_are_one_model(tmp_path):
    (tmp_path / "a").mkdir()
    for path in (tmp_path / "m.gguf", tmp_path / "a" / "m.gguf"):
        path.write_bytes(b"GGUF one")

    one = folder_for(tmp_path / "m.gguf", tmp_path)

    assert folder_for(tmp_path / "a" / "m.gguf", tmp_path) == one


def made(folder, text):
    folder.mkdir()
    (folder / "config.json").write_text(text)
    return folder


def test_a_faster_run_s_folder_stays(tmp_path):
    first = made(tmp_path / "model", "first")

    move(made(tmp_path / "aside", "second"), first)

    assert (first / "config.json").read_text() == "first"


def test_a_place_that_cannot_be_taken_is_told_with_its_cause(tmp_path):
    (tmp_path / "model").write_text("a file")

    with pytest.raises(RequestError, match="/model' cannot be made: Not a dir") as told:
        move(made(tmp_path / "aside", "mine"), tmp_path / "model")

    assert isinstance(told.value.__cause__, NotADirectoryError)
