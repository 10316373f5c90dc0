import json
import subprocess
import sys

import pytest

from ml_toolkit_anyscale import catalog
from ml_toolkit_anyscale.catalog import (
    DOCUMENTED,
    FAMILY_1,
    FAMILY_2,
    P5,
    AnyscaleComputeConfig,
    auto_resolve,
    resolve,
)
from ml_toolkit_anyscale.shapes import Node, Shape
from ml_toolkit_core.errors import RequestError

H200 = Node(
    instance="p5en.48xlarge",
    cpus=192,
    memory_gib=2048,
    gpus=8,
    gpu_type="h200",
    gpu_memory_gib=141,
)
H200_THREE = Shape(name="h200-three", head=H200, worker=H200, workers=2, auto=True)


def choose(known=DOCUMENTED, **given):
    asked = {"config": None, "gpu_type": None, "num_gpus": None, **given}
    return resolve(known, **asked)


def test_every_member_has_a_shape_and_every_shape_a_member():
    members = [member.value for member in AnyscaleComputeConfig]

    assert members == list(DOCUMENTED)
    assert len(members) == 14


@pytest.mark.parametrize(
    ("gpu_type", "num_gpus", "name"),
    [
        ("h100", 8, "h100-single-node"),
        ("h100", 16, "h100-two-nodes"),
        ("h100", 32, "h100-four-nodes"),
        ("b200", 8, "b200-single-node"),
        ("b200", 16, "b200-two-nodes"),
        ("b200", 32, "b200-four-nodes"),
        ("H100", 16, "h100-two-nodes"),
        (" h100 ", 8, "h100-single-node"),
        ("B200\n", 32, "b200-four-nodes"),
    ],
)
def test_type_and_count_choose_family_1(gpu_type, num_gpus, name):
    assert name == choose(gpu_type=gpu_type, num_gpus=num_gpus).name


def test_a_gpu_that_no_count_chooses_is_offered_by_name():
    by_name = [
        Shape(name=f"h200-{n}", head=H200, worker=H200, workers=n - 1) for n in (1, 3)
    ]
    known = {**DOCUMENTED, **{shape.name: shape for shape in by_name}}

    with pytest.raises(RequestError) as caught:
        choose(known, gpu_type="h200", num_gpus=8)

    assert str(caught.value) == (
        "gpu_type='h200' is in no Family-1 config, so num_gpus=8 chooses none. Pass "
        "anyscale_compute_config= with a name: 'h200-1' (8 GPUs), 'h200-3' (24 GPUs)"
    )


def test_a_gpu_of_no_config_is_refused_by_its_name():
    with pytest.raises(RequestError, match="gpu_type='a100' is in no compute config"):
        auto_resolve("a100", 8)


@pytest.mark.parametrize("shape", FAMILY_1.values(), ids=lambda shape: shape.name)
def test_family_1_has_gpus_on_every_node(shape):
    assert shape.num_gpus == shape.total_nodes * 8
    assert shape.gpu_nodes == shape.total_nodes


@pytest.mark.parametrize("shape", FAMILY_2.values(), ids=lambda shape: shape.name)
def test_a_name_of_family_2_counts_gpu_workers(shape):
    workers = int(shape.name.removesuffix("gpu").rpartition("-")[2])

    assert (shape.workers, shape.gpu_nodes) == (workers, workers)
    assert (shape.total_nodes, shape.num_gpus) == (workers + 1, workers * 8)
    assert shape.head == catalog.CPU_HEAD


def test_family_2_is_never_chosen_by_count():
    chosen = {
        auto_resolve(gpu_type, count).name
        for gpu_type in ("h100", "b200")
        for count in (8, 16, 32)
    }

    assert chosen == set(FAMILY_1)


@pytest.mark.parametrize("name", [*AnyscaleComputeConfig, "h100-cpu-head-2gpu"])
def test_a_config_is_taken_as_member_and_as_text(name):
    assert choose(config=name).name == str(name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gpu_type": "H100-8X", "num_gpus": 8}, "'H100-8X' .*Did you mean 'h100'"),
        ({"gpu_type": "h200", "num_gpus": 8}, "Known: 'h100', 'b200'"),
        ({"gpu_type": "gb200", "num_gpus": 8}, "'gb200' is in no compute config"),
        ({"gpu_type": "h100-mega", "num_gpus": 8}, "'h100-mega' is in no"),
        ({"gpu_type": "h1", "num_gpus": 8}, "'h1' is in no"),
        ({"gpu_type": "b20", "num_gpus": 8}, "Did you mean 'b200'"),
        ({"gpu_type": " ", "num_gpus": 8}, "gpu_type=' ' is in no"),
        ({"num_gpus": 8}, "gpu_type=None, num_gpus=8: .*needs both"),
        ({"gpu_type": "h100"}, "h100 with 8, 16, 32; b200 with 8, 16, 32 GPUs"),
        ({}, "needs both, or anyscale_compute_config="),
        (
            {"gpu_type": "h100", "num_gpus": 24},
            r"num_gpus=24 .*Near: 16 \('h100-two-nodes'\) or 32 \('h100-four-nodes'\)",
        ),
        ({"gpu_type": "h100", "num_gpus": 1}, r"Near: 8 \('h100-single-node'\)\."),
        (
            {"gpu_type": "b200", "num_gpus": 64},
            "Near: 32 .*has 64: 8 GPU workers .*compute_config='b200-cpu-head-8gpu'",
        ),
        (
            {"config": "h100-cpu-head-2gpu", "num_gpus": 2},
            r"'h100-cpu-head-2gpu' has 16 GPUs \(2 GPU nodes of 8 GPUs\).*num_gpus=2",
        ),
        (
            {"config": "h100-two-nodes", "gpu_type": "b200", "num_gpus": 16},
            "'h100-two-nodes' has 'h100' GPUs, but gpu_type='b200'",
        ),
        ({"config": "h100-two-node"}, "Did you mean 'h100-two-nodes'"),
        ({"config": "mine:3"}, r"submit_anyscale_inference\(compute_config='mine:3'"),
    ],
)
def test_what_fits_nothing_is_refused_with_what_would(given, message):
    with pytest.raises(RequestError, match=message):
        choose(**given)


def test_a_site_shape_is_found_by_name_and_by_count():
    known = catalog.known_shapes([H200_THREE])

    assert choose(known, config="h200-three") == H200_THREE
    assert choose(known, gpu_type="h200", num_gpus=24) == H200_THREE
    with pytest.raises(RequestError, match="'h100', 'b200', 'h200'"):
        choose(known, gpu_type="a100", num_gpus=8)


def test_a_shape_registered_in_python_is_known_in_this_process_alone():
    script = (
        "import json, sys\n"
        "from ml_toolkit_anyscale import catalog, shapes\n"
        "shape = shapes.Shape(name='mine', head=catalog.CPU_HEAD, worker=catalog.P5,"
        " workers=3)\n"
        "catalog.register(shape)\n"
        "print(json.dumps(sorted(catalog.known_shapes())))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert set(json.loads(done.stdout)) - set(DOCUMENTED) == {"mine"}
    assert "mine" not in catalog.known_shapes()


def test_a_documented_name_is_not_taken_over():
    mine = Shape(name="h100-two-nodes", head=P5, worker=P5, workers=8, auto=True)

    with pytest.raises(RequestError, match="'h100-two-nodes' is a documented one"):
        catalog.register(mine)


def test_a_shape_without_gpus_is_refused():
    cpu = Shape(name="cpu", head=catalog.CPU_HEAD, worker=catalog.CPU_HEAD, workers=1)

    with pytest.raises(RequestError, match="need gpus and gpu_type"):
        catalog.register(cpu)
