"""Which Anyscale, and with whose token; no SDK, no network."""

import json
import os
from pathlib import Path
from typing import Final, Self

from attrs import field, frozen

from ml_toolkit_core.errors import RequestError

#: The SDK's own names and default (anyscale 0.26.112); it reads the host only once,
#: on import, so both are read here and handed to it.
HOST: Final = "ANYSCALE_HOST"
TOKEN: Final = "ANYSCALE_CLI_TOKEN"  # noqa: S105  a name, not a token
_DEFAULT_HOST: Final = "https://console.anyscale.com"
_FILE: Final = "~/.anyscale/credentials.json"


@frozen(kw_only=True)
class Account:
    """Where jobs go, and the token that sends them.

    Args:
        host: Without a slash at the end.
        token: Never shown.
    """

    host: str
    token: str = field(repr=False)

    @classmethod
    def here(cls) -> Self:
        """Find host and token as Anyscale's own command does.

        Raises:
            RequestError: When there is no token, or it cannot be one.
        """
        host = (os.environ.get(HOST) or _DEFAULT_HOST).rstrip("/")
        token, place = _token(host)
        # The SDK's own test of what a token looks like.
        if not (token.startswith("sss_") or (token.startswith("a") and "_" in token)):
            raise RequestError(
                f"the Anyscale token in {place} cannot be one: tokens begin with "
                f"'aph0_' or 'sss_'. {_get_one(host)}"
            )
        return cls(host=host, token=token)

    def hide(self, text: str) -> str:
        """Return the text without the token."""
        return text.replace(self.token, "***")


def _token(host: str) -> tuple[str, str]:
    given = os.environ.get(TOKEN)
    if given is not None:
        return given, TOKEN
    path = Path(_FILE).expanduser()
    try:
        token = json.loads(path.read_text(encoding="utf-8"))["cli_token"]
    except FileNotFoundError:
        raise RequestError(
            f"there is no Anyscale token: {TOKEN} is not set and there is no {_FILE}. "
            f"{_get_one(host)}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        # The error's own text would show what is in the file.
        raise RequestError(
            f"{_FILE} holds no 'cli_token' that can be read. {_get_one(host)}"
        ) from None
    return str(token), _FILE


def _get_one(host: str) -> str:
    return f"Get one under {host}/v2/api-keys and set {TOKEN}, or run 'anyscale login'"
