"""Planning: how many replicas of a model fit, where, and whether they will start."""

from ml_toolkit_core.planning.fleet import (
    Semantics,
    max_replicas,
    plan_replicas,
    plan_stages,
)
from ml_toolkit_core.planning.policy import PolicyKind, ReplicaPolicy
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
    "FleetPlan",
    "PolicyKind",
    "Proof",
    "Replica",
    "ReplicaPolicy",
    "Semantics",
    "max_replicas",
    "plan_replicas",
    "plan_stages",
]
