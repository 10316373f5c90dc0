"""Where the machines of a run find their way into stores; never the way itself."""

import enum
import re
from collections.abc import Mapping
from typing import Final, Self

from attrs import field, frozen

from ml_toolkit_core.errors import RequestError, did_you_mean

#: What references can be given for.
SERVICES: Final = ("s3",)
_NAME: Final = r"[A-Z][A-Z0-9_]{0,63}"
#: The id of a key of AWS's, which is no variable's name.
_KEY_ID: Final = r"A[KS]IA[A-Z0-9]{12,}"
#: A text that is short and plain enough to be shown.
_PLAIN: Final = r"[a-z][a-z0-9_]{0,15}"


class CredentialKind(enum.StrEnum):
    """How credentials are found."""

    ENV = "env"
    """In environment variables of the machine, by the names that a prefix makes."""
    IDENTITY = "identity"
    """By the role that the cloud gives the machine, with keys that renew."""


def _check_name(value: "CredentialReference", _field: object, name: str) -> None:
    fits = re.fullmatch(_NAME, name) and not re.fullmatch(_KEY_ID, name)
    if bool(name) != (value.kind is CredentialKind.ENV) or (name and not fits):
        raise ValueError("not the name of environment variables")


@frozen(kw_only=True)
class CredentialReference:
    """Where credentials are found; it holds none.

    Args:
        kind: How.
        name: For ``env``, what stands in the place of ``AWS`` in the variables' names:
            ``TEAM_AWS`` for ``TEAM_AWS_ACCESS_KEY_ID`` and so on.

    >>> str(CredentialReference.parse("env:TEAM_AWS"))
    'env:TEAM_AWS'
    """

    kind: CredentialKind
    name: str = field(default="", validator=_check_name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``identity`` or ``env:NAME``.

        Raises:
            ValueError: When the text is neither; it is not repeated.
        """
        kind, _, name = text.partition(":")
        return cls(kind=CredentialKind(kind), name=name)

    def __str__(self) -> str:
        """Return ``identity`` or ``env:NAME``."""
        return f"{self.kind}:{self.name}" if self.name else self.kind.value


def parse_credentials(given: object) -> dict[str, CredentialReference]:
    """Read ``{"s3": "identity"}``.

    Raises:
        RequestError: When it is none; what was given may be a secret and is not
            repeated.
    """
    if not isinstance(given, Mapping):
        raise RequestError(
            f"credentials is a {type(given).__name__}, and must be a dict like "
            "{'s3': 'identity'} or {'s3': 'env:TEAM_AWS'}"
        )
    return {_service(key): _reference(key, value) for key, value in given.items()}


def _service(key: object) -> str:
    if key in SERVICES:
        return str(key)
    plain = isinstance(key, str) and re.fullmatch(_PLAIN, key.lower())
    shown = f"{key!r}" if plain else "a key that is not shown"
    hint = did_you_mean(str(key).lower(), SERVICES)
    raise RequestError(
        f"credentials has {shown}, which is nothing that references are for.{hint} "
        f"Known: {', '.join(map(repr, SERVICES))}"
    )


def _reference(key: str, value: object) -> CredentialReference:
    if isinstance(value, CredentialReference):
        return value
    try:
        return CredentialReference.parse(value if isinstance(value, str) else "")
    except ValueError:
        pass
    near = did_you_mean(str(value).lower(), [kind.value for kind in CredentialKind])
    hint = near.replace("'env'", "'env:NAME'")
    # Outside the handler: an exception that is chained would show the text.
    raise RequestError(
        f"credentials[{key!r}] is no reference; what was given is not shown, as it may "
        f"be a secret.{hint} Pass 'identity' for the role of the machines, or "
        "'env:TEAM_AWS' for their variables TEAM_AWS_ACCESS_KEY_ID and "
        "TEAM_AWS_SECRET_ACCESS_KEY; never the credentials themselves"
    )
