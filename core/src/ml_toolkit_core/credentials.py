"""What references stand for, found on the machine that needs it.

A process of a run's far side serves one order. So a reference is brought, once, to the
variables that all readers of S3 know, and no reader needs a word of its own.
"""

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.values import CredentialKind, CredentialReference

_STANDARD: Final = "AWS"
_NEEDED: Final = ("_ACCESS_KEY_ID", "_SECRET_ACCESS_KEY")
#: Taken from the reference's names where they are set; else the standard ones stand.
_PLACES: Final = ("_REGION", "_ENDPOINT_URL")
#: Those of other keys, or ways to other keys; they would win, or be mixed in.
_OTHERS: Final = ("_SESSION_TOKEN", "_PROFILE")


def use(
    references: Mapping[str, CredentialReference],
    environment: MutableMapping[str, str] = os.environ,
) -> None:
    """Make this process find the credentials where the references say.

    Nothing is changed for what has no reference: the environment is read as it is.

    Raises:
        RequestError: When a variable is missing here, naming it.
    """
    reference = references.get("s3")
    if reference is None:
        return
    found: dict[str, str] = {}
    if reference.kind is CredentialKind.ENV:
        found = _variables(reference, environment)
    for ending in (*_NEEDED, *_OTHERS):
        environment.pop(f"{_STANDARD}{ending}", None)
    environment.update(found)


def _variables(
    reference: CredentialReference, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a reference, under the standard names."""
    missing = [
        reference.name + ending
        for ending in _NEEDED
        if not environment.get(reference.name + ending)
    ]
    if missing:
        raise RequestError(
            f"credentials={{'s3': '{reference}'}}: {' and '.join(missing)} not set on "
            "the machine that runs the job. Set it there, in the image or by a secret "
            "of the platform, or pass {'s3': 'identity'} for the machine's own role"
        )
    return {
        f"{_STANDARD}{ending}": environment[reference.name + ending]
        for ending in (*_NEEDED, "_SESSION_TOKEN", *_PLACES)
        if environment.get(reference.name + ending)
    }
