"""A job is not made on machines other than those it was planned for."""

import pytest
from emulators.anyscale import CONFIGS, Status

from ml_toolkit.functions.llm.inference import (
    RequestError,
    submit_anyscale_inference,
)
from ml_toolkit_anyscale.catalog import DOCUMENTED
from ml_toolkit_anyscale.registered import Registered, check_registered


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_as_it_should_be_is_accepted(jobs, quiet_twin, name):
    del quiet_twin

    check_registered(DOCUMENTED[name], jobs.registered(name, None))


def test_a_head_without_gpus_is_refused_with_the_fix(ask, quiet_twin):
    quiet_twin.plane.heads_without_gpus.add("h100-two-nodes")

    with pytest.raises(RequestError) as caught:
        ask(wait=False)

    assert str(caught.value) == (
        "compute config 'h100-two-nodes' registers its head with 0 GPUs, so 8 of its "
        "16 GPUs can be used. The platform team sets them in it: head_node: "
        "{instance_type: p5.48xlarge, resources: {CPU: 192, GPU: 8}}. No job was made"
    )
    assert quiet_twin.jobs == []


@pytest.mark.parametrize(
    ("machines", "words"),
    [
        (("p6-b200.48xlarge", [("p6-b200.48xlarge", 1)]), "but a p6-b200.48xlarge"),
        (("p5.48xlarge", [("p5.48xlarge", 3)]), "3 x p5.48xlarge at Anyscale"),
        (("p5.48xlarge", []), "but a p5.48xlarge head at Anyscale"),
    ],
)
def test_other_machines_are_refused_with_both_sides(ask, quiet_twin, machines, words):
    quiet_twin.plane.extra_configs["h100-two-nodes"] = machines

    with pytest.raises(RequestError, match="p5.48xlarge head and 1 x") as caught:
        ask(wait=False)

    assert words in str(caught.value)
    assert quiet_twin.jobs == []


def test_a_caller_who_takes_it_as_it_is_is_not_stopped(quiet_twin, jsonl, tmp_path):
    quiet_twin.plane.heads_without_gpus.add("h100-two-nodes")

    submit_anyscale_inference(
        *(str(jsonl([{"prompt": "a"}])), "stub/any", str(tmp_path / "out")),
        compute_config="h100-two-nodes",
        executor="scripted",
    )

    assert len(quiet_twin.jobs) == 1


def test_a_check_that_cannot_be_made_stops_nobody(ask, quiet_twin):
    quiet_twin.faults.plan(Status(500), "GET .*/compute_templates/cpt")

    ask(wait=False)

    assert len(quiet_twin.jobs) == 1


def test_a_head_of_which_nothing_is_said_has_all_its_gpus():
    shape = DOCUMENTED["b200-two-nodes"]
    kind = shape.head.instance

    check_registered(shape, Registered(head=kind, head_gpus=None, workers=((kind, 1),)))
