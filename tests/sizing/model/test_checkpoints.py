"""Checkpoints in their own formats against published sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.catalog.seed import model_entries
from app.sizing.columns import GIB
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import read_architecture
from app.sizing.model.formats import WEIGHT_FORMATS

ENTRIES = {e["hf_id"]: e for e in model_entries()}


def _bare(entry: dict[str, Any]) -> ModelArchitecture:
    """The network itself, without the text encoders and decoders that accompany a denoiser."""
    return read_architecture(entry["config"], name=entry["hf_id"])


@pytest.mark.parametrize(
    ("name", "bytes_on_disk", "rel"),
    [
        ("deepseek-ai/DeepSeek-V3.2", 689_483_049_129, 0.001),
        ("openai/gpt-oss-20b", 12.8 * GIB, 0.003),
        ("openai/gpt-oss-120b", 60.8 * GIB, 0.003),
    ],
)
def test_a_checkpoint_in_its_own_format_is_as_large_as_published(name: str, bytes_on_disk: float, rel: float) -> None:
    entry, model = ENTRIES[name], _bare(ENTRIES[name])
    # also published: prediction layers in the same format, and the 16-bit copies of embedding and head they carry
    copies = (entry.get("checkpoint_extras") or {}).get("mtp_embedding_and_head_copies", 0)
    assert model.published_bytes() + model.mtp_params + 2 * copies == pytest.approx(bytes_on_disk, rel=rel)


# bits per weight of the whole file: llama.cpp's table of Llama-3.1-8B, and the same rules on two other sizes
GGUF = {
    "q2_k": (3.1593, 2.9802, 3.3768),
    "q3_k_s": (3.6429, 3.4846, 3.8223),
    "q3_k_m": (3.9960, 3.8754, 4.1816),
    "q3_k_l": (4.2979, 4.2104, 4.5008),
    "q4_0": (4.6358, 4.5312, 4.7544),
    "q4_k_s": (4.6672, 4.5650, 4.7819),
    "q4_k_m": (4.8944, 4.8157, 5.0089),
    "q5_0": (5.5704, 5.5163, 5.6317),
    "q5_k_s": (5.5704, 5.5163, 5.6317),
    "q5_k_m": (5.7036, 5.6629, 5.7628),
    "q6_k": (6.5633, 6.5630, 6.5639),
    "q8_0": (8.5008, 8.5004, 8.5013),
    "f16": (16.0005, 16.0003, 16.0009),
}


@pytest.mark.parametrize("kind", GGUF)
def test_gguf_file_types_have_llama_cpps_bits_per_weight(kind: str) -> None:
    names = (
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.2-3B-Instruct",
    )
    for name, bits in zip(names, GGUF[kind], strict=True):
        model = _bare(ENTRIES[name])
        assert model.weights_bytes(WEIGHT_FORMATS[f"gguf-{kind}"]) * 8 / model.total_params == pytest.approx(
            bits, abs=5.1e-5
        )


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 5.449),
        ("meta-llama/Llama-3.1-8B-Instruct", 5.614),
        ("google/gemma-2-9b-it", 6.071),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 24.819),
        ("meta-llama/Llama-3.1-70B-Instruct", 39.776),
    ],
)
def test_nf4_base_weights(name: str, gib: float) -> None:
    assert _bare(ENTRIES[name]).weights_bytes(WEIGHT_FORMATS["nf4"]) / GIB == pytest.approx(gib, abs=5.1e-4)


# GGUF files of ggml-org and unsloth, in which llama.cpp keeps the experts in MXFP4: 12.1 GB and 63.4 GB
@pytest.mark.parametrize(("name", "gib"), [("openai/gpt-oss-20b", 11.27), ("openai/gpt-oss-120b", 59.03)])
def test_gguf_files_keep_experts_that_are_published_in_4_bits(name: str, gib: float) -> None:
    model = _bare(ENTRIES[name])
    assert model.weights_bytes(WEIGHT_FORMATS["gguf-q8_0"]) / GIB == pytest.approx(gib, rel=0.01)
    experts = model.routed_expert_bytes(WEIGHT_FORMATS["gguf-q2_k"])
    assert experts == model.routed_expert_bytes(WEIGHT_FORMATS["gguf-f16"])


def test_gguf_files_keep_the_vision_tower_apart() -> None:
    """gemma-3-27b-it-Q4_K_M.gguf of ggml-org: 16.5 GB; its projector file is loaded for images only."""
    model = _bare(ENTRIES["google/gemma-3-27b-it"])
    text, stored = replace(model, reads_images=False), WEIGHT_FORMATS["gguf-q4_k_m"]
    assert text.weights_bytes(stored) == pytest.approx(16.55e9, rel=0.005)
    assert model.weights_bytes(stored) - text.weights_bytes(stored) == pytest.approx(2 * 0.42e9, rel=0.02)
    assert text.weights_bytes(WEIGHT_FORMATS["bf16"]) == model.weights_bytes(WEIGHT_FORMATS["bf16"])


# bits per weight of Llama-3.1-8B in llama.cpp's table of file types that need an importance matrix
IMPORTANCE = {
    "iq1_s": 2.0042,
    "iq1_m": 2.1460,
    "iq2_xxs": 2.3824,
    "iq2_xs": 2.5882,
    "iq2_s": 2.7403,
    "iq2_m": 2.9294,
    "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977,
    "iq3_s": 3.6606,
    "iq3_m": 3.7628,
    "iq4_xs": 4.4597,
    "iq4_nl": 4.6818,
}


@pytest.mark.parametrize("kind", IMPORTANCE)
def test_importance_file_types_have_llama_cpps_bits_per_weight(kind: str) -> None:
    model = _bare(ENTRIES["meta-llama/Llama-3.1-8B-Instruct"])
    bits = model.weights_bytes(WEIGHT_FORMATS[f"gguf-{kind}"]) * 8 / model.total_params
    assert bits == pytest.approx(IMPORTANCE[kind], rel=0.002)


# llama.cpp pull request 8836: files of a model with two query heads to a key/value head
@pytest.mark.parametrize(("kind", "bits"), [("iq1_s", 2.05), ("iq1_m", 2.20)])
def test_importance_file_types_store_values_narrower_where_few_heads_share_them(kind: str, bits: float) -> None:
    model = _bare(ENTRIES["google/gemma-2-9b-it"])
    assert model.weights_bytes(WEIGHT_FORMATS[f"gguf-{kind}"]) * 8 / model.total_params == pytest.approx(
        bits, abs=0.006
    )
