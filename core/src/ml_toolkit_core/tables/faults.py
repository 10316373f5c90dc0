"""What is wrong with a text file: a message names some of it, and counts all."""

from typing import Final

from attrs import define, field

#: Faults that a message lists; the others are counted.
_LISTED: Final = 20


@define
class Faults:
    """What is wrong with a file: the first are told, and all are counted."""

    count: int = 0
    first: list[str] = field(factory=list)

    def note(self, fault: str) -> None:
        """Count one more."""
        self.count += 1
        if self.count <= _LISTED:
            self.first.append(fault)

    def __str__(self) -> str:
        """Return the first, and the number of the others."""
        rest = self.count - len(self.first)
        return "; ".join(self.first) + f" and {rest} more" * bool(rest)
