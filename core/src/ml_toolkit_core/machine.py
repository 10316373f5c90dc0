"""What this machine has."""

import os
import re
from pathlib import Path
from typing import Final

_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


def cores() -> int:
    """Return the CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def gpus() -> list[str]:
    """Return the model names of this machine's NVIDIA GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = []
    for facts in sorted(_NVIDIA.glob("*/information")):
        match = re.search(r"^Model:\s*(.+)$", facts.read_text(), re.MULTILINE)
        names.append(match[1].strip() if match else "NVIDIA GPU")
    if visible is not None:
        names = names[
            : len([d for d in visible.split(",") if d.strip() not in {"", "-1"}])
        ]
    return names
