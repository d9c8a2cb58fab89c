"""Translates formats and versions of published results into the catalog's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from app.sizing.hardware.engines import engine_named

_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "fp4": "nvfp4",
        "int4": "int4-awq",
        "int4-gguf": "gguf-q4_k_m",
        "int8-eetq": "int8-gptq",
        "gguf-bf16": "gguf-f16",
        "gguf-mxfp4": "mxfp4",
        "gguf-q3_k_xl": "gguf-q3_k_m",
        "gguf-q4_k_xl": "gguf-q4_k_m",
        "gguf-q5_k_xl": "gguf-q5_k_m",
        "gguf-q6_k_xl": "gguf-q6_k",
        "gguf-q8_k_xl": "gguf-q8_0",
    }
)


def weight_format(engine: str, published: str) -> str | None:
    """The catalog's name of the weight format; None if the source states none."""
    if engine_named(engine).splits_layers and published in ("fp16", "bf16"):
        return "gguf-f16"
    return _FORMATS.get(published, published) or None


CACHED = re.compile(r"(\d+) tokens already in the cache \(prefill of (\d+) more\)")


def cached_and_prompt_tokens(row: Mapping[str, Any], input_tokens: float) -> tuple[float, float]:
    """(tokens in the cache, whole prompt): `input_tokens`, unless the notes say that the row adds to a filled cache.

    Check: llama-bench's `pp2048 @ d32768`.
        >>> cached_and_prompt_tokens({"notes": "32768 tokens already in the cache (prefill of 2048 more)"}, 32768.0)
        (32768.0, 34816.0)
    """
    found = CACHED.search(row.get("notes") or "")
    return (float(found[1]), float(found[1]) + float(found[2])) if found else (0.0, input_tokens)


# Sources that run a vendor's checkpoints, which state an FP8 KV cache, and the formats and engines that follow it.
VENDOR_CHECKPOINTS = ("inferencex-aiconfigurator",)
STATED_FP8 = (("vllm", "fp8"), ("vllm", "nvfp4"), ("sglang", "nvfp4"))


def kv_format(engine: str, weights: str | None, published: str, source: str) -> str | None:
    """The KV cache format that the source states or implies.

    None applies the format that checkpoints of such a deployment usually carry.
    """
    if published:
        return {"fp16": "bf16"}.get(published, published)
    return "fp8" if source in VENDOR_CHECKPOINTS and (engine, weights) in STATED_FP8 else None


# Runs of vLLM's second engine that name no version, before 0.28 made the steps of large accelerators longer.
SECOND_ENGINE, LONGER_STEPS, BEFORE_LONGER_STEPS = "2025-03", "2026-09", "0.27"


def engine_version(engine: str, published: str, date: str) -> str | None:
    """The engine's version; None for TensorRT-LLM published under Dynamo's version, and if neither it nor the date of
    the run says which defaults applied.
    """
    if not published and engine == "vllm" and SECOND_ENGINE <= date < LONGER_STEPS:
        return BEFORE_LONGER_STEPS
    return None if not published or (engine == "tensorrt-llm" and published.startswith("0.8.1.post")) else published
