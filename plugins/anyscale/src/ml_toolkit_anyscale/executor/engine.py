"""One vLLM engine, driven step by step; imported only in a replica's own process."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from attrs import evolve
from pydantic import TypeAdapter
from vllm import EngineArgs, LLMEngine, RequestOutput, SamplingParams
from vllm.exceptions import VLLMClientError
from vllm.inputs import TokensPrompt
from vllm.platforms import current_platform
from vllm.sampling_params import RequestOutputKind

from ml_toolkit_anyscale.executor.checks import check_chat
from ml_toolkit_anyscale.executor.models import stage
from ml_toolkit_anyscale.executor.settings import (
    MAX_TOKENS,
    engine_arguments,
    runs_on_cpu,
)
from ml_toolkit_anyscale.executor.tokens import Tokens
from ml_toolkit_anyscale.executor.words import last_words
from ml_toolkit_core import paths
from ml_toolkit_core.errors import ReplicaDied, RequestError
from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.pipeline.engine import Completion, EngineRequest
from ml_toolkit_core.tables.parts import RowError, RowFault
from ml_toolkit_core.wire import Json

log = logging.getLogger(__name__)

_SAMPLING: Final = TypeAdapter(SamplingParams)
#: What vLLM raises for a value that it does not take.
_REFUSALS: Final = (TypeError, ValueError, VLLMClientError)


class VLLMEngine:
    """A copy of the model in this process.

    Sampling parameters that the run does not give are the model author's
    (``generation_config.json``), as in ``vllm serve``, then vLLM's own;
    ``engine_kwargs={"generation_config": "vllm"}`` leaves the author's out.
    ``max_tokens`` alone has a default of ours.

    Args:
        order: The run's order.
        replica: The replica's number, from 0.

    Raises:
        RequestError: When vLLM refuses the parameters, the model or the memory.
        ReplicaDied: When it fails otherwise.
    """

    def __init__(self, order: WorkOrder, replica: int) -> None:
        self._replica = replica
        _sampling(order.sampling_params, {})  # before anything costly
        on_cpu = runs_on_cpu(order.plan, is_cpu_build=current_platform.is_cpu())
        has_bfloat16 = torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001  as vLLM asks
        # Nothing to do where the driver did it already, on the same machine.
        order = evolve(order, model=stage(order.model, paths.home()))
        arguments = engine_arguments(order, on_cpu=on_cpu, has_bfloat16=has_bfloat16)
        self._engine = _load(arguments, replica)
        config = self._engine.model_config
        self._defaults = _author_defaults(config)
        self._seqs: int = self._engine.vllm_config.scheduler_config.max_num_seqs
        self._tokens = Tokens(self._engine.get_tokenizer(), config.max_model_len)
        # Here the client may not have known it: a model from the hub.
        has_chat_template = self._tokens.has_chat_template
        check_chat(
            order.prompts, evolve(order.model, has_chat_template=has_chat_template)
        )
        self._params: tuple[Mapping[str, Json], Any] = ({}, None)
        self._unfinished: set[str] = set()
        log.info(
            "replica=%d loaded max_model_len=%d max_num_seqs=%d dtype=%s defaults=%s",
            replica,
            config.max_model_len,
            self._seqs,
            config.dtype,
            self._defaults,
        )

    @property
    def capacity(self) -> int:
        """Twice what runs at once: all of it may end in one step."""
        return 2 * self._seqs

    def add(self, key: int, request: EngineRequest) -> None:
        """Take a request.

        Raises:
            RowError: When the model cannot take this one; others are not touched.
            ReplicaDied: When the engine cannot go on.
        """
        ids = self._tokens.ids(request)
        name = str(key)
        self._unfinished.add(name)
        try:
            self._engine.add_request(
                name, TokensPrompt(prompt_token_ids=ids), self._sampling_of(request)
            )
        except (RequestError, *_REFUSALS) as error:
            self._abort(name)
            raise RowError(RowFault.REQUEST_REFUSED, last_words(error)) from None
        except Exception as error:
            self._abort(*self._unfinished)
            raise self._died(error) from error

    def step(self) -> Sequence[Completion]:
        """Do one step for all requests in flight; return those that are done.

        Raises:
            ReplicaDied: When the engine cannot go on.
        """
        try:
            outputs = self._engine.step()
        except Exception as error:
            # What was scheduled stays scheduled, and the next step would spin.
            self._abort(*self._unfinished)
            raise self._died(error) from error
        done = [_completion(output) for output in outputs if output.finished]
        self._unfinished.difference_update(str(answer.key) for answer in done)
        return done

    def _sampling_of(self, request: EngineRequest) -> Any:
        given, params = self._params
        if params is None or given != request.sampling_params:
            params = _sampling(request.sampling_params, self._defaults)
            self._params = (request.sampling_params, params)
        return params

    def _abort(self, *names: str) -> None:
        try:
            self._engine.abort_request(list(names))
        except Exception:
            log.exception("replica=%d abort failed", self._replica)
        self._unfinished.difference_update(names)

    def _died(self, error: Exception) -> ReplicaDied:
        return ReplicaDied(
            f"replica {self._replica}: the engine failed: {last_words(error)}"
        )


def _sampling(given: Mapping[str, Json], defaults: Mapping[str, Json]) -> Any:
    named = {"max_tokens": MAX_TOKENS, **defaults, **given}
    try:
        params = _SAMPLING.validate_python(named)
    except _REFUSALS as error:
        raise RequestError(
            f"sampling_params={dict(given)!r}: {last_words(error)}"
        ) from error
    params.output_kind = RequestOutputKind.FINAL_ONLY
    return params


def _author_defaults(config: Any) -> dict[str, Json]:
    defaults = dict(config.get_diff_sampling_param())
    defaults.pop("max_tokens", None)
    return defaults


def _load(arguments: Mapping[str, Json], replica: int) -> Any:
    try:
        return LLMEngine.from_engine_args(EngineArgs(**arguments))
    except (OSError, *_REFUSALS) as error:
        raise RequestError(
            f"vLLM cannot load model={arguments['model']!r}: {last_words(error)}"
        ) from error
    except Exception as error:
        raise ReplicaDied(
            f"replica {replica} cannot load model={arguments['model']!r}: "
            f"{type(error).__name__}: {last_words(error)}"
        ) from error


def _completion(output: RequestOutput) -> Completion:
    answer = output.outputs[0]
    failed = answer.finish_reason in {"abort", "error"}
    return Completion(
        key=int(output.request_id),
        text=None if failed else answer.text,
        error=RowError(
            RowFault.ENGINE_ERROR, f"vLLM ended the request: {answer.finish_reason}"
        )
        if failed
        else None,
        finish_reason=answer.finish_reason,
        prompt_tokens=len(output.prompt_token_ids or ()),
        completion_tokens=len(answer.token_ids),
    )
