"""Planning: how many replicas of a model fit, where, and whether they will start.

Mixed pools are planned by :func:`plan_replicas` and :func:`plan_stages`, equal nodes by
:func:`plan_for` and a shelf of cards by :func:`plan_shelf`, from what
:func:`read_profile` finds out about a model.
"""

from ml_toolkit_core.planning.config import profile_from_config
from ml_toolkit_core.planning.fit import FitPlan, plan_for
from ml_toolkit_core.planning.fleet import (
    Semantics,
    max_replicas,
    plan_replicas,
    plan_stages,
)
from ml_toolkit_core.planning.policy import PolicyKind, ReplicaPolicy
from ml_toolkit_core.planning.profile import ModelProfile, Quantization
from ml_toolkit_core.planning.shelf import ShelfPlan, devices_of, plan_shelf
from ml_toolkit_core.planning.sources import read_profile
from ml_toolkit_core.planning.values import (
    Certificate,
    Demand,
    FleetPlan,
    Proof,
    Replica,
)

__all__ = [
    "Certificate",
    "Demand",
    "FitPlan",
    "FleetPlan",
    "ModelProfile",
    "PolicyKind",
    "Proof",
    "Quantization",
    "Replica",
    "ReplicaPolicy",
    "Semantics",
    "ShelfPlan",
    "devices_of",
    "max_replicas",
    "plan_for",
    "plan_replicas",
    "plan_shelf",
    "plan_stages",
    "profile_from_config",
    "read_profile",
]
