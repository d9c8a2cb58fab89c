"""Loads what a run starts from: records, tokenizer and model. train.sh names them in environment variables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from datasets import Dataset, load_dataset
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from transformers.utils import is_flash_attn_2_available

LOADERS = {".json": "json", ".jsonl": "json", ".parquet": "parquet", ".csv": "csv", ".txt": "text"}
COLUMNS = ("messages", "conversations", "prompt", "text")  # conversations, prompts with completions, plain text
ROLES = {"human": "user", "gpt": "assistant"}  # roles of conversations whose turns have `from` and `value`


def load_records(source: str, columns: tuple[str, ...] = COLUMNS) -> Dataset:
    """Training data with one of `columns`: a file, a folder of such files, or a data set of the Hugging Face hub."""
    path, split = Path(source), os.environ["DATASET_SPLIT"]
    if path.is_file():
        if path.suffix not in LOADERS:
            sys.exit(f"DATASET is {source}. Use a file that ends in one of: {', '.join(LOADERS)}.")
        records = load_dataset(LOADERS[path.suffix], data_files=source, split="train")
    else:
        records = load_dataset(source, split=split)
    if not any(name in records.column_names for name in columns):
        sys.exit(f"DATASET has the columns {', '.join(records.column_names)}. It needs one of: {', '.join(columns)}.")
    return records


def is_conversational(record: dict) -> bool:
    """Whether a record is a conversation: a list of messages, not text."""
    return any(isinstance(record.get(name), list) for name in ("messages", "conversations", "prompt"))


def to_messages(turns: list[dict]) -> list[dict]:
    """Turns of a conversation as messages with role and content."""
    return [
        {"role": ROLES.get(turn["from"], turn["from"]), "content": turn["value"]} if "from" in turn else turn
        for turn in turns
    ]


def load_tokenizer(start_from: str, records: Dataset) -> AutoTokenizer:
    """Tokenizer of the base checkpoint, with a chat template if the data are conversations."""
    tokenizer = AutoTokenizer.from_pretrained(start_from, revision=os.environ["REVISION"])
    if template := os.environ["CHAT_TEMPLATE"]:
        tokenizer.chat_template = Path(template).read_text()
    if tokenizer.chat_template is None and is_conversational(records[0]):
        sys.exit(
            f"DATASET has conversations, but the tokenizer of {start_from} has no chat template. Set CHAT_TEMPLATE to "
            "a file with a Jinja template, or start from the instruct version of the model."
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_model(start_from: str, settings: dict) -> AutoModelForCausalLM:
    """Model with the weights of the base checkpoint, or with random weights if the run pre-trains."""
    attention = "flash_attention_2" if torch.cuda.is_available() and is_flash_attn_2_available() else "sdpa"
    options = {"dtype": getattr(torch, settings["dtype"]), "attn_implementation": attention}
    revision = os.environ["REVISION"]
    print(f"Attention: {attention}.")
    if settings["random_weights"]:
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(start_from, revision=revision), **options)
    if (four_bit := settings.get("four_bit")) is not None:
        types = {key: getattr(torch, four_bit[key]) for key in ("bnb_4bit_compute_dtype", "bnb_4bit_quant_storage")}
        options["quantization_config"] = BitsAndBytesConfig(**{**four_bit, **types})
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            options["device_map"] = {"": 0}
    return AutoModelForCausalLM.from_pretrained(start_from, revision=revision, **options)
