"""Models of every kind of block, small enough to read."""

from __future__ import annotations

from typing import Any

from app.catalog.seed import model_entries
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture

ENTRIES = {e["hf_id"]: e for e in model_entries()}


def counted(name: str, **changes: Any) -> ModelArchitecture:
    return read_architecture({**ENTRIES[name]["config"], **changes}, name=name)


# One of each kind of block, small enough to read.
BASES = (
    "meta-llama/Llama-3.1-8B",
    "google/gemma-2-9b-it",
    "tiiuae/falcon-7b",
    "openai-community/gpt2",
    "bigcode/starcoder2-3b",
    "mistralai/Mixtral-8x7B-v0.1",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "openai/gpt-oss-20b",
    "ai21labs/Jamba-v0.1",
    "state-spaces/mamba2-130m",
    "google-t5/t5-base",
    "facebook/bart-base",
    "google-bert/bert-base-uncased",
    "answerdotai/ModernBERT-base",
    "openai/whisper-small",
    "google/vit-base-patch16-224",
    "Qwen/Qwen2.5-VL-3B-Instruct",
    "llava-hf/llava-1.5-7b-hf",
    "facebook/wav2vec2-base-960h",
    "black-forest-labs/FLUX.1-dev",
)
