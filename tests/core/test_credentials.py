"""References are brought to the variables that every reader of S3 knows."""

import pytest

from ml_toolkit_core.credentials import use
from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import CredentialReference

STANDARD = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_SESSION_TOKEN": "c",
    "AWS_PROFILE": "d",
    "AWS_REGION": "e",
    "AWS_ROLE_ARN": "f",
}
TEAMS = {"TEAM_AWS_ACCESS_KEY_ID": "x", "TEAM_AWS_SECRET_ACCESS_KEY": "y"}
S3 = {
    how: {"s3": CredentialReference.parse(how)}
    for how in ("identity", "env:TEAM_AWS", "env:AWS")
}


def test_nothing_said_changes_nothing():
    environment = dict(STANDARD)

    use({}, environment)

    assert environment == STANDARD


def test_an_identity_takes_the_keys_away_and_leaves_ways_to_a_role():
    environment = dict(STANDARD)

    use(S3["identity"], environment)

    assert environment == {"AWS_REGION": "e", "AWS_ROLE_ARN": "f"}


@pytest.mark.parametrize("more", [{}, {"TEAM_AWS_SESSION_TOKEN": "z"}])
def test_variables_take_the_place_of_the_standard_ones_whole(more):
    environment = STANDARD | TEAMS | more | {"TEAM_AWS_REGION": "far"}

    use(S3["env:TEAM_AWS"], environment)

    assert {k: v for k, v in environment.items() if not k.startswith("TEAM")} == {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_REGION": "far",
        "AWS_ROLE_ARN": "f",
        **({"AWS_SESSION_TOKEN": "z"} if more else {}),
    }


@pytest.mark.parametrize("how", S3)
def test_twice_is_once(how):
    environment = STANDARD | TEAMS
    use(S3[how], environment)
    once = dict(environment)

    use(S3[how], environment)

    assert environment == once


def test_all_that_is_missing_is_named_and_nothing_is_changed():
    environment = STANDARD | {"TEAM_AWS_ACCESS_KEY_ID": ""}
    before = dict(environment)

    with pytest.raises(
        RequestError, match="TEAM_AWS_ACCESS_KEY_ID and TEAM_AWS_SECRET_ACCESS_KEY not"
    ):
        use(S3["env:TEAM_AWS"], environment)

    assert environment == before
