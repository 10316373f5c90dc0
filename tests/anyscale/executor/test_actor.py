"""The far half of the pool, as a process of a node sees it."""

import pytest

from ml_toolkit_anyscale.executor.actor import ReplicaActor
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import CredentialReference


def test_each_replica_looks_for_its_own_credentials(make_order):
    reference = CredentialReference.parse("env:NOWHERE_AWS")
    actor = ReplicaActor(make_order(credentials={"s3": reference}).dumps(), 0, ())

    with pytest.raises(RequestError, match="NOWHERE_AWS_ACCESS_KEY_ID and"):
        actor.load("no.such:engine", writer=None)
