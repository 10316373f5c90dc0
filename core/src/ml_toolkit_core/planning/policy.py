"""How many replicas are wanted: as many as possible, one deep pipeline, or ``n``."""

import enum
import re
import unicodedata
from typing import Self

import attrs

from ml_toolkit_core.errors import RequestError
from ml_toolkit_core.planning.amounts import whole

# Rust trims the characters of Unicode White_Space, which are not Python's: U+001C to
# U+001F stay. The list is Unicode 16's, PropList.txt.
_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_MOST = 2**64 - 1
_ESCAPES = {
    "\t": r"\t",
    "\n": r"\n",
    "\r": r"\r",
    "\0": r"\0",
    '"': r"\"",
    "\\": r"\\",
}


class PolicyKind(enum.StrEnum):
    """What is wanted of the pool."""

    DEPTH = "depth"
    """One replica over as many workers as the model has layers for."""
    THROUGHPUT = "throughput"
    """As many replicas as possible."""
    FIXED = "fixed"
    """Exactly so many replicas."""
    SHORTEST = "shortest"
    """One replica over the fewest workers that hold the model (lowest latency)."""


@attrs.frozen
class ReplicaPolicy:
    """One of the four policies; made with the class methods.

    >>> ReplicaPolicy.parse("max")
    ReplicaPolicy(kind=<PolicyKind.THROUGHPUT: 'throughput'>, count=None)
    >>> str(ReplicaPolicy.fixed(3))
    'fixed(3)'

    Attributes:
        kind: Which policy.
        count: The number of replicas of ``fixed``, else None.
    """

    kind: PolicyKind
    count: int | None = None

    @classmethod
    def depth(cls) -> Self:
        """Return the policy of one deep pipeline."""
        return cls(PolicyKind.DEPTH)

    @classmethod
    def throughput(cls) -> Self:
        """Return the policy of as many replicas as possible."""
        return cls(PolicyKind.THROUGHPUT)

    @classmethod
    def shortest(cls) -> Self:
        """Return the policy of one replica over the fewest workers."""
        return cls(PolicyKind.SHORTEST)

    @classmethod
    def fixed(cls, count: int) -> Self:
        """Return the policy of exactly ``count`` replicas.

        Args:
            count: Replicas, 0 or more; 0 means something to the seed's semantics only.

        Raises:
            RequestError: If ``count`` is negative or no whole number.
        """
        return cls(PolicyKind.FIXED, whole(count, "replicas"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the policy that ``--replicas`` names.

        Args:
            text: ``1`` or ``depth``; ``max``, ``auto`` or ``throughput``; or a number.
                White space around it and the case of ASCII letters do not matter.

        Raises:
            RequestError: If it is none of these or the number is 0.
        """
        if not isinstance(text, str):
            raise RequestError(
                f"--replicas expects 1|depth|max|auto|<N> as text, got {text!r}"
            )
        word = _ascii_lower(text.strip(_WHITE_SPACE))
        if word in {"1", "depth"}:
            return cls.depth()
        if word in {"max", "auto", "throughput"}:
            return cls.throughput()
        # The bound on digits keeps int() from its own limit; zeros may lead.
        digits = re.fullmatch(r"\+?(?=[0-9])0*([0-9]{0,20})", word)
        count = int(digits[1] or "0") if digits else _MOST + 1
        if count > _MOST:
            raise RequestError(
                f"--replicas expects 1|depth|max|auto|<N>, got {_quoted(text)}"
            )
        if count == 0:
            raise RequestError("--replicas must be ≥ 1")
        return cls.fixed(count)

    def __str__(self) -> str:
        """Return the policy as a word."""
        return self.kind if self.count is None else f"{self.kind}({self.count})"


def _ascii_lower(text: str) -> str:
    return re.sub("[A-Z]+", lambda found: found[0].lower(), text)


def _quoted(text: str) -> str:
    """Return ``text`` in quotes with the escapes of Rust's ``{:?}``."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable() and unicodedata.category(char) not in {"Mn", "Me"}:
        return char
    return f"\\u{{{ord(char):x}}}"
