"""A tokenizer and a model that are small enough to be made in the test."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ml_toolkit_core.order import WorkOrder
from ml_toolkit_core.values import (
    InputPin,
    ModelKind,
    ModelLocation,
    Prompts,
    ReplicaPlan,
    TableFormat,
    TableLocation,
)

#: Llama 2's manners: turns alternate, and the system's turn is left out.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% set ns = namespace(i=0) %}{% for m in messages %}"
    "{% if m['role'] != 'system' %}"
    "{% if (m['role'] == 'user') != (ns.i % 2 == 0) %}"
    "{{ raise_exception('user and assistant turns have to take turns') }}{% endif %}"
    "{% set ns.i = ns.i + 1 %}{% endif %}[{{ m['role'] }}] {{ m['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
)


def make_tokenizer(chat_template: str | None) -> PreTrainedTokenizerFast:
    """One token for each byte, and a start token that is put before every text."""
    special = ["<s>", "</s>"]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*special, *letters])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<s>",  # noqa: S106  a token of the vocabulary
        eos_token="</s>",  # noqa: S106
    )
    made.chat_template = chat_template
    return made


@pytest.fixture(scope="session")
def chat_tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer(CHAT_TEMPLATE)


@pytest.fixture(scope="session")
def base_tokenizer() -> PreTrainedTokenizerFast:
    return make_tokenizer(None)


@pytest.fixture(scope="session")
def tiny_model(
    tmp_path_factory: pytest.TempPathFactory, chat_tokenizer: PreTrainedTokenizerFast
) -> Path:
    """A Llama of two layers that writes nonsense, always the same."""
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            bos_token_id=0,
            eos_token_id=1,
            hidden_size=64,
            intermediate_size=128,
            max_position_embeddings=512,
            num_attention_heads=2,
            num_hidden_layers=2,
            num_key_value_heads=2,
            vocab_size=len(chat_tokenizer),
        )
    ).save_pretrained(folder)
    chat_tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def make_order(tmp_path: Path) -> Callable[..., WorkOrder]:
    """Return a maker of orders; what a test is not about has a value already."""

    def make(**given: object) -> WorkOrder:
        model = ModelLocation(name="none", uri="none", kind=ModelKind.FOLDER)
        table = TableLocation(name="t", uri=str(tmp_path), format=TableFormat.JSONL)
        plain = {
            "run_id": "run-7",
            "executor": "ray-vllm",
            "source": table,
            "pin": InputPin(arrow_schema=""),
            "model": model,
            "output": table,
            "prompts": Prompts(prompt_column="prompt"),
            "plan": ReplicaPlan(replicas=1),
            "split_rows": 5,
            "ledger_uri": str(tmp_path),
        }
        return WorkOrder(**(plain | given))

    return make
