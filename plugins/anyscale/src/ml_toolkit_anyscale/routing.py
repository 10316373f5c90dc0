"""The labels that take a job to its queue."""

import enum


class AnyscaleJobKind(enum.StrEnum):
    """What a job is for, the most urgent first."""

    INCREMENTAL = "incremental"
    """A refresh that comes back again and again."""
    BACKFILL = "backfill"
    """The past computed anew, once."""
    FINE_TUNING = "fine_tuning"
    """Supervised fine-tuning."""
    TRAINING = "training"
    """Training from scratch."""


class AnyscaleTeam(enum.StrEnum):
    """Whose queue partition a job goes to."""

    CORPORATE = "corporate"
    """The Corporate workspace."""
    YODA = "yoda"
    """The YODA workspace."""
