"""Turns a GGUF file into a folder of float32 safetensors; run as its own process."""

import os
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging


def convert(source: Path, folder: Path) -> None:
    """Write model, tokenizer and chat template of ``source`` into ``folder``."""
    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    # What a GGUF calls the end of a turn is the tokenizer's; the engine stops there.
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
