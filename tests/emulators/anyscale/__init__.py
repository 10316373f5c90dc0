"""The HTTP twin of Anyscale: a control plane on loopback, for the unmodified SDK."""

from .cluster import alive
from .faults import Drop, Lost, Stall, Status
from .image import build_image
from .plane import CONFIGS
from .server import TOKEN, Twin

__all__ = [
    "CONFIGS",
    "TOKEN",
    "Drop",
    "Lost",
    "Stall",
    "Status",
    "Twin",
    "alive",
    "build_image",
]
