"""The next smaller model of a family. Names as people type them find the model meant, or the choices, or the
nearest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from app.catalog.models import Models, load_models
from app.catalog.names import (
    fold_name,
    format_slug,
    formats_in_name,
    kv_format_slug,
    models_containing,
    split_name_words,
    squash_name,
    strip_file_suffix,
    strip_size,
)
from app.catalog.seed import model_entries
from app.catalog.snapshot import CatalogStore
from app.db import make_engine
from app.errors import AmbiguousModel, UnknownModel
from app.sizing.columns import GIB
from app.sizing.hardware.checkpoints import CHECKPOINT_MODULES, checkpoint_quantization
from app.sizing.model.architecture import OTHER_WEIGHTS_NOTE, ModelArchitecture
from app.sizing.model.counting.quantization import KEY as QUANTIZATION
from app.sizing.model.counting.quantization import native_quantization


@pytest.mark.parametrize(
    ("identity", "smaller"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.1-70B"),
        ("meta-llama/Llama-3.1-8B-Instruct", None),
        ("deepseek-ai/DeepSeek-V3", None),
        ("no-such-org/nothing-7b", None),
    ],
)
def test_the_next_smaller_of_a_family_is_named_alike(
    catalog_store: CatalogStore, identity: str, smaller: str | None
) -> None:
    assert catalog_store.smaller_model(identity) == smaller


def test_names_differ_by_size_alone() -> None:
    assert strip_size("Qwen/Qwen3-30B-A3B") == strip_size("Qwen/Qwen3-235B-A22B")
    assert strip_size("mistralai/Mixtral-8x7B-v0.1") == strip_size("mistralai/Mixtral-8x22B-v0.1")
    assert strip_size("Qwen/Qwen2.5-7B-Instruct") != strip_size("Qwen/Qwen2.5-7B")
    assert strip_size("Qwen/Qwen2.5-VL-7B") != strip_size("Qwen/Qwen2.5-7B")


TYPED = {
    "Llama 3.1 70B": "meta-llama/Llama-3.1-70B",
    "LLAMA_3.1_8B": "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen-7B": "Qwen/Qwen-7B-Chat",
    "deepseek-v2.5:236b": "deepseek-ai/DeepSeek-V2.5",
    "L3.3-70B-Euryale-v2.3": "meta-llama/Llama-3.3-70B-Instruct",
    "MythoMax-L2-13B": "meta-llama/Llama-2-13b-hf",
    "Qwen/Qwen-1_8B-Chat-Int8": "Qwen/Qwen-1_8B-Chat",
    "llama 3.1 70 billion": "meta-llama/Llama-3.1-70B",
    "llama3.1:70b": "meta-llama/Llama-3.1-70B-Instruct",
    "llama3.1:70b-instruct-q4_K_M": "meta-llama/Llama-3.1-70B-Instruct",
    "mistral:latest": "mistralai/Mistral-7B-Instruct-v0.3",
    "TheBloke/Llama-2-70B-AWQ": "meta-llama/Llama-2-70b-hf",
    "mistralai/Mistral-7B-Instruct-v0.1": "mistralai/Mistral-7B-v0.1",
    "nvidia/DeepSeek-R1-FP4": "deepseek-ai/DeepSeek-R1",
    "mistralai/Ministral-3-8B-Base-2512": "mistralai/Ministral-3-8B-Reasoning-2512",
    "mlx-community/GLM-4.7-8bit-gs32": "zai-org/GLM-4.7",
    "allenai/Olmo-3-32B-Think": "allenai/Olmo-3-1125-32B",
    "openai/gpt-oss-safeguard-20b": "openai/gpt-oss-20b",
    "Qwen/Qwen1.5-7B-Chat-GPTQ-Int4": "Qwen/Qwen1.5-7B",
    "RedHatAI/Qwen3-32B-quantized.w4a16": "Qwen/Qwen3-32B",
    "liuhaotian/llava-v1.5-7b": "llava-hf/llava-1.5-7b-hf",
    "microsoft/Phi-4-reasoning": "microsoft/phi-4",
    "NousResearch/Hermes-3-Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "cognitivecomputations/dolphin-2.5-mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1",
    "Jackrong/Qwen3.5-9B-Claude-4.6-Opus-Reasoning-Distilled-GGUF": "Qwen/Qwen3.5-9B",
    "nvidia/Llama-3.3-Nemotron-Super-49B-v1": "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5-FP8": "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
    "Systran/faster-whisper-large-v3": "openai/whisper-large-v3",
    "gradientai/Llama-3-8B-Instruct-262k": "meta-llama/Meta-Llama-3-8B-Instruct",
    "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8": "meta-llama/Llama-3.1-70B-Instruct",
    "unsloth/llama-3-8b-bnb-4bit": "meta-llama/Meta-Llama-3-8B",
    "Qwen 2.5 72B": "Qwen/Qwen2.5-72B",
    "deepcogito/cogito-671b-v2.1": "deepseek-ai/DeepSeek-V3",
    "deepseek v3": "deepseek-ai/DeepSeek-V3",
    "gemma2:9b": "google/gemma-2-9b-it",
    "gpt-oss:20b": "openai/gpt-oss-20b",
    "bge large en": "BAAI/bge-large-en-v1.5",
    "whisper large v3": "openai/whisper-large-v3",
    "ResNet 50": "microsoft/resnet-50",
    "stable diffusion xl": "stabilityai/stable-diffusion-xl-base-1.0",
    "560 million bloom": "bigscience/bloom-560m",
    "accounts/fireworks/models/llama-v3p1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "accounts/fireworks/models/qwen2p5-72b-instruct": "Qwen/Qwen2.5-72B-Instruct",
    "us.meta.llama3-3-70b-instruct-v1:0": "meta-llama/Llama-3.3-70B-Instruct",
    "mistral.mixtral-8x7b-instruct-v0:1": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "openai.gpt-oss-120b-1:0": "openai/gpt-oss-120b",
    "ai21.jamba-1-5-large-v1:0": "ai21labs/AI21-Jamba-1.5-Large",
    "minimax/minimax-m2:free": "MiniMaxAI/MiniMax-M2",
    "elyza/Llama-3-ELYZA-JP-8B": "meta-llama/Meta-Llama-3-8B",
    "tokyotech-llm/Llama-3.3-Swallow-70B-Instruct-v0.4": "meta-llama/Llama-3.3-70B-Instruct",
}


@pytest.fixture(scope="module")
def models(sqlite_url: str) -> Models:
    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        found = load_models(session)
    engine.dispose()
    return found


@pytest.mark.parametrize("typed", TYPED)
def test_names_find_the_model_meant(models: Models, typed: str) -> None:
    assert models.find_entry(typed)[0]["hf_id"] == TYPED[typed]


def test_every_alias_and_id_finds_its_model_in_any_case_and_punctuation(models: Models) -> None:
    for entry in model_entries():
        for name in (entry["hf_id"], *entry["aliases"]):
            for typed in (name, name.upper(), name.replace("-", " "), name.replace("-", "_")):
                assert models.find_entry(typed)[0]["hf_id"] == entry["hf_id"], typed


def test_a_loose_reading_is_reported(models: Models) -> None:
    assert any(
        "was read as meta-llama/Llama-2-70b-hf" in a
        for a in models.find_architecture("TheBloke/Llama-2-70B-AWQ").assumed
    )
    assert not any("was read as" in a for a in models.find_architecture("meta-llama/Llama-2-70b-hf").assumed)


@pytest.mark.parametrize(
    ("typed", "differs"),
    [
        ("qwen3-235b-a22b-thinking-2507", True),
        ("NousResearch/Hermes-3-Llama-3.1-8B", True),
        ("mistralai/Mistral-7B-Instruct-v0.1", True),
        ("openai/gpt-oss-safeguard-20b", True),
        ("TheBloke/Llama-2-70B-AWQ", False),
        ("llama3.1:70b-instruct-q4_K_M", False),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", False),
        ("RedHatAI/Qwen3-32B-quantized.w4a16", False),
        ("llama 3.1 70 billion", False),
    ],
)
def test_a_name_of_other_weights_of_the_same_shape_is_reported(models: Models, typed: str, differs: bool) -> None:
    assert any(a.endswith(OTHER_WEIGHTS_NOTE) for a in models.find_architecture(typed).assumed) == differs


@pytest.mark.parametrize("typed", ["llama", "llama 70b", "qwen instruct", "bert"])
def test_an_ambiguous_name_is_refused_with_the_choices(models: Models, typed: str) -> None:
    with pytest.raises(AmbiguousModel) as caught:
        models.find_entry(typed)
    choices = caught.value.facts["choices"]
    assert 2 <= len(choices) <= 8
    for choice in choices:
        assert models.find_entry(choice)[0]["hf_id"] == choice


def test_models_of_one_shape_are_no_ambiguity(models: Models) -> None:
    # gemma-2-9b and gemma-2-9b-it differ in no count
    assert models.find_entry("gemma 9b")[0]["hf_id"] == "google/gemma-2-9b"


@pytest.mark.parametrize(
    "typed",
    [
        "gpt-9",
        "7b",
        "llama-3.1-7b",
        "Qwen/Qwen2.5-Audio-7B",
        "llama-3.1-8b-eagle-2b",
        "acme/none",
        "x" * 200,
        "\u00e9",
        "%",
        "_",
        "' OR 1=1",
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(models: Models, typed: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        models.find_entry(typed)
    assert len(caught.value.facts["nearest"]) <= 5


@given(st.text(max_size=60))
def test_folding_is_stable(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name)
    assert not set(squash_name(name)) & {"-", ":"}
    assert strip_file_suffix(strip_file_suffix(name)) == strip_file_suffix(name)


def test_words_are_letters_and_numbers_apart() -> None:
    assert split_name_words("Qwen2.5-7B Instruct") == {"qwen", "2.5", "7b", "instruct"}
    assert models_containing("7b", [("llama-7b", "a")]) == []
    assert models_containing("7B llama", [("llama-2-7b", "a"), ("llama-7b", "b"), ("llama-13b", "c")]) == ["b", "a"]


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("TheBloke/Llama-2-70B-AWQ", ("int4-awq",)),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4", ("int4-gptq",)),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8", ("int8-gptq",)),
        ("llama3.1:70b-instruct-q4_K_M", ("gguf-q4_k_m",)),
        ("gemma-3-27b-it-qat-q4_0-gguf", ("gguf-q4_0",)),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", ("fp8",)),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", ("nvfp4",)),
        ("unsloth/llama-3-8b-bnb-4bit", ("nf4",)),
        ("mlx-community/Llama-3.3-70B-Instruct-4bit", ("int4-mlx",)),
        ("mlx-community/GLM-4.7-8bit-gs32", ("int8-mlx",)),
        ("mlx-community/gpt-oss-120b-MXFP4-Q8", ("int4-mlx",)),
        ("RedHatAI/Qwen3-32B-quantized.w4a16", ("int4-gptq", "int4-awq")),
        ("Intel/Qwen3-30B-A3B-int4-AutoRound", ("int4-gptq",)),
        ("meta-llama/Llama-3.1-8B", ()),
        ("openai/gpt-oss-20b", ()),
        ("mistral:latest", ()),
    ],
)
def test_a_name_says_how_weights_are_stored(name: str, formats: tuple[str, ...]) -> None:
    assert formats_in_name(name) == formats


@pytest.mark.parametrize(
    ("name", "file_bytes"),
    [
        # github:exo-explore/exo, resources/inference_model_cards; github:kaito-project/kaito, model_catalog.yaml
        ("mlx-community/MiniMax-M2.5-6bit", 185_826_705_408),
        ("mlx-community/GLM-4.7-8bit-gs32", 396_963_397_248),
        ("mlx-community/GLM-5-MXFP4-Q8", 405_478_939_008),
        ("mlx-community/NVIDIA-Nemotron-3-Nano-30B-A3B-MLX-MXFP4", 16_788_808_704),
        ("mistralai/Ministral-3-8B-Instruct-2512", 9.70 * GIB),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", 8 * 57.752 * GIB),  # loaded on eight ranks
    ],
)
def test_a_checkpoint_named_by_its_repository_is_as_large_as_its_files(
    models: Models, name: str, file_bytes: float
) -> None:
    assert models.find_architecture(name).published_bytes() == pytest.approx(file_bytes, rel=0.02)


def test_every_pattern_of_modules_left_in_16_bit_finds_weights(models: Models) -> None:
    def stored_bytes(model: ModelArchitecture, config: Mapping[str, Any], left_wide: list[str]) -> float:
        native = native_quantization({QUANTIZATION: {**config, "ignore": left_wide}}, model)
        return replace(model, native=native).published_bytes()

    for known in CHECKPOINT_MODULES:
        config, model = checkpoint_quantization(known.repository), models.find_architecture(known.repository)
        for pattern in known.left_wide:
            assert stored_bytes(model, config, [pattern]) > stored_bytes(model, config, []), (known.repository, pattern)


def test_no_model_of_the_catalogue_says_a_format_by_its_id() -> None:
    for entry in model_entries():
        assert formats_in_name(entry["hf_id"]) == () or any(
            word in entry["hf_id"].lower() for word in ("fp8", "bf16", "int")
        )


@pytest.mark.parametrize(
    ("written", "slug"),
    [("AWQ", "int4-awq"), ("Q4_K_M", "gguf-q4_k_m"), ("gguf q8_0", "gguf-q8_0"), ("modelopt", "fp8"), ("fp7", "fp7")],
)
def test_formats_are_read_as_people_write_them(written: str, slug: str) -> None:
    assert format_slug(written) == slug


@pytest.mark.parametrize(
    ("written", "slug"),
    [("int4", "int4"), ("int4_per_token_head", "int4"), ("fp4_e2m1", "nvfp4"), ("IQ4_NL", "gguf-q4_0")],
)
def test_cache_formats_are_read_as_engines_name_them(written: str, slug: str) -> None:
    assert kv_format_slug(written) == slug
