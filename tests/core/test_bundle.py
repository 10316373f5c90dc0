"""What crosses to a far side: our packages and the order, and nothing else."""

import zipfile
from pathlib import Path

import pytest
from attrs import evolve

from ml_toolkit_core.bundle import ORDER, bundle
from ml_toolkit_core.errors import PluginError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import (
    InputPin,
    ModelKind,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableLocation,
)


@pytest.fixture
def order(tmp_path):
    return WorkOrder(
        run_id="night",
        executor="ray-vllm",
        source=TableLocation(name="a.b.c", uri=str(tmp_path / "in"), catalog="local"),
        pin=InputPin(arrow_schema=""),
        model=ModelLocation(name="m", uri="m", kind=ModelKind.HUB),
        output=TableLocation(name="out", uri=str(tmp_path / "out")),
        prompts=Prompts(prompt_column="prompt"),
        plan=ReplicaPlan(replicas=1),
        split_rows=32,
        ledger_uri=str(tmp_path / "out" / "ledger"),
    )


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Install a stranger's executor in a folder on the path, as a wheel or editable."""

    def install(*, editable):
        site = tmp_path / "site"
        code = tmp_path / "project" if editable else site
        info = site / "strange_one-1.0.dist-info"
        (code / "strange" / "__pycache__").mkdir(parents=True)
        info.mkdir(parents=True, exist_ok=True)
        (code / "strange/__init__.py").write_text("")
        (code / "strange/run.py").write_text("def execute(order): ...\n")
        (code / "strange/data.txt").write_text("data")
        (code / "strange/__pycache__/run.pyc").write_text("compiled")
        (code / "strange/.env").write_text("TOKEN=hush")
        if editable:
            (code / "private.txt").write_text("not ours")
            (code / "other").mkdir()
            (site / "strange.pth").write_text(f"{code}\n")
            listed = ["strange.pth"]
            (info / "direct_url.json").write_text(f'{{"url": "file://{code}"}}')
        else:
            listed = ["strange/__init__.py", "strange/run.py", "strange/data.txt"]
            listed += ["strange/__pycache__/run.pyc"]
        (info / "METADATA").write_text("Name: strange-one\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[ml_toolkit.executors]\nstrange = strange.run\n"
        )
        (info / "RECORD").write_text(
            "".join(
                f"{file},,\n" for file in [*listed, "strange_one-1.0.dist-info/RECORD"]
            )
        )
        monkeypatch.syspath_prepend(site)
        return site

    return install


def files_of(folder):
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }


def test_the_core_and_the_executors_distribution_are_sent(order, tmp_path):
    names = bundle(order, tmp_path / "b")

    assert names == ("ml-toolkit-anyscale", "ml-toolkit-core")
    found = files_of(tmp_path / "b")
    assert {
        "order.json",
        "ml_toolkit_core/worker.py",
        "ml_toolkit_anyscale/executor/__init__.py",
        "ml_toolkit_anyscale/scheduler.yaml",
        "ml_toolkit_core-0.1.0.dist-info/entry_points.txt",
        "ml_toolkit_anyscale-0.1.0.dist-info/METADATA",
    } <= found
    assert not any("direct_url" in name or "__pycache__" in name for name in found)


def test_the_core_alone_is_sent_for_an_executor_of_its_own(order, tmp_path):
    order = evolve(order, executor="scripted")

    assert bundle(order, tmp_path / "b") == ("ml-toolkit-core",)


def test_the_order_is_sent_as_it_is(order, tmp_path):
    bundle(order, tmp_path / "b")

    assert WorkOrder.load(tmp_path / "b" / ORDER) == order


@pytest.mark.parametrize("editable", [False, True])
def test_a_strangers_executor_is_sent_without_what_lies_beside_it(
    order, tmp_path, plugin, editable
):
    plugin(editable=editable)

    names = bundle(evolve(order, executor="strange"), tmp_path / "b")

    assert names == ("ml-toolkit-core", "strange-one")
    strange = {name for name in files_of(tmp_path / "b") if "ml_toolkit" not in name}
    assert strange == {
        "order.json",
        "strange/__init__.py",
        "strange/data.txt",
        "strange/run.py",
        "strange_one-1.0.dist-info/METADATA",
        "strange_one-1.0.dist-info/entry_points.txt",
    }


def test_the_same_order_is_the_same_zip_whenever_it_is_written(order, tmp_path):
    zips = []
    for number in (1, 2):
        folder = tmp_path / str(number) / "b"
        bundle(order, folder)
        archive = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for path in sorted(folder.rglob("*")):
                file.write(path, path.relative_to(folder))
        zips.append(archive.read_bytes())

    assert zips[0] == zips[1]


def test_no_path_of_this_checkout_is_in_it(order, tmp_path):
    bundle(order, tmp_path / "b")

    root = str(Path(__file__).parents[2])
    assert not [
        path
        for path in (tmp_path / "b").rglob("*")
        if path.is_file() and root in path.read_text(encoding="utf-8")
    ]


def test_a_folder_that_holds_something_is_refused(order, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(PluginError, match="is not empty"):
        bundle(order, tmp_path)


def test_an_install_that_hides_its_files_is_refused_with_a_way_out(
    order, tmp_path, plugin
):
    site = plugin(editable=True)
    (site / "strange.pth").write_text("import _finder\n")

    with pytest.raises(PluginError, match="'strange-one' .*install it as a wheel"):
        bundle(evolve(order, executor="strange"), tmp_path / "b")
