"""An engine that plays a script; a word counts as a token."""

import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from ml_toolkit_core.errors import ReplicaDied
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.engine import Completion, EngineRequest
from ml_toolkit_core.tables.parts import RowError, RowFault
from ml_toolkit_core.testing.scripted import Script
from ml_toolkit_core.wire import to_json

_MAX_TOKENS: Final = 256


class ScriptedEngine:
    """Answers up to ``max_num_seqs`` requests with each step, in order.

    Args:
        order: Its ``engine_kwargs["script"]`` is played.
        replica: The number of this replica.
    """

    def __init__(self, order: WorkOrder, replica: int) -> None:
        self._script = Script.of(order.engine_kwargs)
        self._max_model_len = order.engine_kwargs.get("max_model_len")
        self._per_step = int(order.engine_kwargs.get("max_num_seqs", 64))
        self._waiting: deque[tuple[int, EngineRequest]] = deque()
        self._answered = 0
        self._misbehaves = self._script.attempt in {
            None,
            order.attempt,
        } and self._script.replica in {None, replica}
        if self._misbehaves and self._script.fail_load is not None:
            raise ReplicaDied(self._script.fail_load)
        if self._misbehaves and self._script.hang_load:
            threading.Event().wait()

    @property
    def capacity(self) -> int:
        """Twice what one step answers."""
        return 2 * self._per_step

    def add(self, key: int, request: EngineRequest) -> None:
        """Take a request, unless the script or its length forbids it."""
        text = _rendered(request)
        if self._script.fail_if is not None and self._script.fail_if in text:
            raise RowError(RowFault.ENGINE_ERROR, "the script lets this row fail")
        words = len(text.split())
        if self._max_model_len is not None and words >= self._max_model_len:
            raise RowError(
                RowFault.PROMPT_TOO_LONG,
                f"prompt has {words} tokens, max_model_len is {self._max_model_len} "
                "and one token must be left for the answer",
            )
        self._waiting.append((key, request))

    def step(self) -> Sequence[Completion]:
        """Answer the oldest requests."""
        if self._script.sleep_ms:
            time.sleep(self._script.sleep_ms / 1000)
        completions: list[Completion] = []
        while self._waiting and len(completions) < self._per_step:
            self._misbehave()
            completions.append(self._answer(*self._waiting.popleft()))
            self._answered += 1
        return completions

    def _misbehave(self) -> None:
        if not self._misbehaves:
            return
        if self._answered == self._script.die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._answered == self._script.raise_after:
            raise ReplicaDied(f"the engine broke after {self._answered} answers")
        if self._answered == self._script.hang_after:
            threading.Event().wait()

    def _answer(self, key: int, request: EngineRequest) -> Completion:
        rendered = _rendered(request)
        if self._script.text is not None:
            text = self._script.text
        elif self._script.answer == "messages":
            text = json.dumps(request.messages, ensure_ascii=False)
        elif self._script.answer == "request":
            text = json.dumps(to_json(request), ensure_ascii=False)
        else:
            text = rendered
        words, most = (
            text.split(),
            request.sampling_params.get("max_tokens", _MAX_TOKENS),
        )
        cut = self._script.text is not None and len(words) > most
        return Completion(
            key=key,
            text=" ".join(words[:most]) if cut else text,
            finish_reason="length" if cut else "stop",
            prompt_tokens=len(rendered.split()),
            completion_tokens=min(len(words), most) if cut else len(words),
        )


def _rendered(request: EngineRequest) -> str:
    if request.messages is None:
        return request.prompt or ""
    return "\n".join(f"{m['role']}: {m.get('content', '')}" for m in request.messages)
