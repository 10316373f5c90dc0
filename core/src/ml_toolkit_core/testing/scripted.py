"""The executor ``scripted``: the whole pipeline, with an engine that plays a script.

``run_inference(..., executor="scripted", engine_kwargs={"script": {...}})`` needs no
GPU, no Ray and no model; ``model`` may be any name. Crash tests are written with it.
"""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Final

from attrs import field, fields, frozen
from attrs.validators import ge, in_, instance_of, optional

from ml_toolkit_core.errors import RequestError, did_you_mean
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.wire import Json

_RUN: Final = "ml_toolkit_core.pipeline.driver:run"
_POOL: Final = "ml_toolkit_core.pipeline.pool:ThreadPool"
_ENGINE: Final = "ml_toolkit_core.testing.scripted_engine:ScriptedEngine"

_count = optional([instance_of(int), ge(0)])


@frozen(kw_only=True)
class Script:
    """What a scripted engine does.

    Args:
        answer: ``echo`` the prompt (a chat as ``role: content`` lines), the
            ``messages`` as JSON, or the whole ``request`` as JSON.
        text: Answer this instead.
        sleep_ms: How long a step takes.
        fail_if: Rows whose prompt holds this text fail.
        die_after: The process is killed (SIGKILL) after so many answers.
        raise_after: The engine breaks after so many answers.
        hang_after: A step never returns after so many answers.
        fail_load: The engine breaks on loading, with this message.
        hang_load: Loading never returns.
        attempt: The six above are played in this attempt of the run alone.
        replica: And in this replica alone.
    """

    answer: str = field(default="echo", validator=in_(("echo", "messages", "request")))
    text: str | None = field(default=None, validator=optional(instance_of(str)))
    sleep_ms: int = field(default=0, validator=[instance_of(int), ge(0)])
    fail_if: str | None = field(default=None, validator=optional(instance_of(str)))
    die_after: int | None = field(default=None, validator=_count)
    raise_after: int | None = field(default=None, validator=_count)
    hang_after: int | None = field(default=None, validator=_count)
    fail_load: str | None = field(default=None, validator=optional(instance_of(str)))
    hang_load: bool = field(default=False, validator=instance_of(bool))
    attempt: int | None = field(default=None, validator=_count)
    replica: int | None = field(default=None, validator=_count)

    @classmethod
    def of(cls, engine_kwargs: Mapping[str, Json]) -> "Script":
        """Read the script of a request.

        Raises:
            RequestError: When it is none.
        """
        script = engine_kwargs.get("script", {})
        if not isinstance(script, Mapping):
            raise RequestError(f"script={script!r} must be a dict")
        known = [f.name for f in fields(cls)]
        for key in script:
            if key not in known:
                raise RequestError(
                    f"script has no {key!r}.{did_you_mean(key, known)} "
                    f"Known: {', '.join(known)}"
                )
        try:
            return cls(**script)
        except (TypeError, ValueError) as error:
            raise RequestError(f"script={script!r}: {error.args[0]}") from error


#: It is plain Python.
NEEDS: Final[Mapping[str, str]] = {}
#: vLLM's names that the scripted engine honours.
ENGINE_KWARGS: Final = ("script", "max_model_len", "max_num_seqs")


def check(order: WorkOrder) -> None:
    """Refuse what the scripted engine does not know, before anything starts."""
    for key in order.engine_kwargs:
        if key not in ENGINE_KWARGS:
            raise RequestError(
                f"engine_kwargs has {key!r}, which the scripted engine does not take."
                f"{did_you_mean(key, ENGINE_KWARGS)} Known: {', '.join(ENGINE_KWARGS)}"
            )
    Script.of(order.engine_kwargs)


def execute(order: WorkOrder) -> None:
    """Run the order with scripted engines in threads of this process."""
    resolve_name(_RUN)(order, pool=_POOL, engine=_ENGINE)
