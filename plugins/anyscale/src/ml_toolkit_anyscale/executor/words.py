"""What vLLM says when it refuses or breaks, in one line for a person."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import ValidationError

#: A validation error can quote a whole schema.
_CHARS: Final = 600
#: vLLM 0.32.0, ``kv_cache_utils``: the context that is asked for, and what fits.
_NO_ROOM: Final = re.compile(
    r"max seq len \((\d+)\).*estimated maximum model length is (\d+)", re.DOTALL
)


def last_words(error: BaseException) -> str:
    """Return what an error says, in one line that is not too long."""
    if isinstance(error, ValidationError):
        text = "; ".join(dict.fromkeys(_complaints(error)))
    elif found := _NO_ROOM.search(str(error)):
        text = (
            f"max_model_len={found[1]} does not fit: the memory for the KV cache has "
            f"room for {found[2]} tokens. Leave max_model_len out to take what fits, "
            f"pass engine_kwargs={{'max_model_len': {found[2]}}} or less, or give the "
            "cache more: engine_kwargs={'kv_cache_memory_bytes': ...}."
        )
    else:
        text = str(error)
    return " ".join(text.split())[:_CHARS] or type(error).__name__


def _complaints(error: ValidationError) -> Iterator[str]:
    """Yield what pydantic says of each field, without its own types."""
    for complaint in error.errors():
        if complaint["type"] != "is_instance_of":
            path = [str(step) for step in complaint["loc"] if "[" not in str(step)]
            yield f"{'.'.join(path)}: {complaint['msg']}" if path else complaint["msg"]
