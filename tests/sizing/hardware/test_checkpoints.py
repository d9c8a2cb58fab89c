"""Published checkpoints: models of the catalog, formats that exist, and tools whose checkpoints an engine loads."""

from __future__ import annotations

import json
import re
from importlib import resources

from app.sizing.hardware.checkpoints import GGUF, LOADED_BY, PUBLISHED_CHECKPOINTS, loaded_weights, published_checkpoint
from app.sizing.model.formats import WEIGHT_FORMATS


def test_rows_name_a_model_of_the_catalog_a_format_a_repository_and_a_dated_source() -> None:
    lines = resources.files("app.catalog").joinpath("data", "models.jsonl").read_text(encoding="utf-8").splitlines()
    models = {json.loads(line)["hf_id"] for line in lines}
    for row in PUBLISHED_CHECKPOINTS:
        assert row.model in models
        assert row.format == GGUF or row.format in WEIGHT_FORMATS
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row.repository, re.ASCII)
        assert row.repository != row.model
        assert row.source and re.fullmatch(r"2026-\d\d-\d\d", row.as_of)
    keys = [(row.model, row.format, row.tool) for row in PUBLISHED_CHECKPOINTS]
    assert len(set(keys)) == len(keys)


def test_the_repository_agrees_with_the_format() -> None:
    words = {
        "fp8": "fp8",
        "nvfp4": "fp4",
        "mxfp4": "mxfp4",
        "int8": "w8a8",
        "int4-awq": "awq",
        "int4-gptq": "gptq-int4",
    }
    words |= {"int4-gptq": "gptq-int4", "gguf": "gguf", "int4-mlx": "4bit", "int8-mlx": "8bit"}
    for row in PUBLISHED_CHECKPOINTS:
        assert words[row.format] in row.repository.lower()


def test_an_engine_gets_no_checkpoint_of_a_tool_that_it_does_not_load() -> None:
    model = "meta-llama/Llama-3.3-70B-Instruct"
    assert published_checkpoint(model, "int8", "vllm") is not None
    assert published_checkpoint(model, "int8", "tensorrt-llm") is None
    assert published_checkpoint(model, "fp8", "llama.cpp") is None
    for engine in ("vllm", "sglang"):
        on_amd = published_checkpoint(model, "fp8", engine, "amd")
        assert on_amd is not None and on_amd.repository == "amd/Llama-3.3-70B-Instruct-FP8-KV"  # ROCm has no modelopt
    assert {tool for row in PUBLISHED_CHECKPOINTS for tool in (row.tool,)} == {*LOADED_BY}


def test_a_checkpoint_is_served_with_the_cache_that_it_states() -> None:
    # Gemma's first NVFP4 checkpoint is one of compressed-tensors; MiniMax-M3's of ModelOpt has no kv_cache_quant_algo
    wide = ("google/gemma-4-31B-it", "MiniMaxAI/MiniMax-M3")
    assert not any(loaded_weights(name, "bf16", "nvfp4", "vllm", "nvidia").fp8_cache for name in wide)
    assert loaded_weights("google/gemma-4-31B-it", "bf16", "nvfp4", "tensorrt-llm", "nvidia").fp8_cache
