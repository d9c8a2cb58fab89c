"""Every model of the registry, and 94 architectures instantiated elsewhere, against the closed forms."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

from app.catalog.models import entry_architecture
from app.catalog.seed import model_entries
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.model.counting.read import is_known_type, read_architecture
from app.sizing.model.tensors import Part

ENTRIES = {e["hf_id"]: e for e in model_entries()}


READING = ("text", "vision-language", "speech")
CLOSED = {name: e for name, e in ENTRIES.items() if is_known_type(e["config"])}


INSTANTIATED = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "reference" / "instantiated.jsonl").read_text().splitlines()
]


# Checkpoint totals that do not reconcile, and why.
UNRECONCILED = {
    "deepseek-ai/DeepSeek-V4-Flash": "FP4 experts are packed two to a byte, and the hub counts bytes",
    "deepseek-ai/DeepSeek-V4-Pro": "FP4 experts are packed two to a byte, and the hub counts bytes",
    "moonshotai/Kimi-K2-Thinking": "INT4 group scales are counted, their records are not itemised",
    "moonshotai/Kimi-K2-Instruct": "FP8 block scales are not itemised",
    "moonshotai/Kimi-K2-Instruct-0905": "FP8 block scales are not itemised",
    "XiaomiMiMo/MiMo-V2-Flash": "multi-token-prediction layers and FP8 scales are not itemised",
}


# Published totals more than a twentieth off: names rounded far down, or a stored table counted in.
ROUNDED_FAR = {
    "microsoft/phi-1",
    "microsoft/phi-1_5",
    "ibm-granite/granite-4.0-micro",
    "Qwen/Qwen3.5-0.8B",
    "Qwen/Qwen3.5-2B",
    "ibm-granite/granite-4.0-h-micro",
    "Qwen/Qwen3.5-4B",
    "google-t5/t5-3b",
    "google/flan-t5-xl",
    "stabilityai/stable-diffusion-3.5-medium",
    "Wan-AI/Wan2.1-T2V-1.3B-Diffusers",
}


@cache
def _bare(name: str) -> ModelArchitecture:
    """The network itself, without the text encoders and decoders that accompany a denoiser."""
    return read_architecture(ENTRIES[name]["config"], name=name)


def test_nearly_every_model_has_a_closed_form() -> None:
    assert len(CLOSED) > 0.85 * len(ENTRIES)
    without = {e["config"]["model_type"] for name, e in ENTRIES.items() if name not in CLOSED}
    assert not {e["modality"] for e in ENTRIES.values() if e["config"]["model_type"] in without} & {
        "text",
        "vision-language",
        "embedding",
    }


def test_total_and_active_equal_the_registry_to_the_unit() -> None:
    for name, entry in CLOSED.items():
        model = _bare(name)
        assert model.total_params == entry["total_params"], name
        assert model.active_params == entry["active_params"], name
        assert sum(model.parts.values()) == model.total_params, name
        if entry.get("mtp_params"):
            assert model.mtp_params == entry["mtp_params"], name
        if entry["modality"] == "vision-language":
            assert model.parts["encoder_tower"] == entry["encoder_tower_params"], name


def test_cache_state_and_multiplied_elements_equal_the_registry() -> None:
    known = {name: e["derived"] for name, e in CLOSED.items() if e["modality"] in READING and e.get("derived")}
    assert len(known) > 400
    for name, derived in known.items():
        model = _bare(name)
        beyond = derived.get("kv_bytes_per_token_bf16_beyond_window", derived["kv_bytes_per_token_bf16"])
        source = derived.get("matmul_params_per_encoder_token", model.source_matmul_params)
        assert model.kv_cache_bytes_per_token() == derived["kv_bytes_per_token_bf16"], name
        assert model.kv_cache_bytes_per_token_beyond_window == beyond, name
        assert model.state_bytes_per_sequence == derived.get("recurrent_state_bytes_per_sequence", 0), name
        assert model.matmul_params == derived["matmul_params_per_token"], name
        assert model.source_matmul_params == source, name
        assert model.cross_kv_bytes_per_source_token == derived.get("cross_kv_bytes_per_source_token_bf16", 0), name


def test_networks_without_a_closed_form_keep_their_counted_parameters() -> None:
    for name, entry in ENTRIES.items():
        if name not in CLOSED:
            model = entry_architecture(entry)
            assert model.total_params - model.parts.get(Part.ENCODER_TOWER.value, 0) == entry["total_params"], name


def test_checkpoint_totals_reconcile_after_the_itemised_extras() -> None:
    known = {n: e for n, e in ENTRIES.items() if e.get("checkpoint_params")}
    off = {
        n
        for n, e in known.items()
        if _bare(n).total_params + sum((e.get("checkpoint_extras") or {}).values()) != e["checkpoint_params"]
    }
    assert off == UNRECONCILED.keys()
    assert len(off) / len(known) <= 0.03


def test_fp8_block_scales_follow_from_the_shapes() -> None:
    # one 32-bit scale for each 128 x 128 block, edge blocks whole
    model, entry = _bare("MiniMaxAI/MiniMax-M2"), ENTRIES["MiniMaxAI/MiniMax-M2"]
    scales = sum(t.count * math.ceil(t.outputs / 128) * math.ceil(t.inputs / 128) for t in model.tensors if t.quantized)
    assert scales == entry["checkpoint_extras"]["fp8_block_scales"]


def test_published_totals_agree_within_their_rounding() -> None:
    # half a unit of the last figure given, or a hundredth where a card rounds a name
    published = {n: e for n, e in CLOSED.items() if e.get("published_params")}

    def error(name: str) -> float:
        return abs(_bare(name).total_params / float(published[name]["published_params"]) - 1)

    errors = {n: error(n) for n in published}
    assert {n for n, e in errors.items() if e > 0.05} <= ROUNDED_FAR
    assert sum(e <= 0.01 for e in errors.values()) / len(errors) >= 0.85


def test_counts_equal_the_instantiated_model() -> None:
    for case in INSTANTIATED:
        counted = read_architecture(case["config"], name="x").total_params
        assert counted == case["parameters"], case["config"]["model_type"]


def test_forty_architectures_are_held_against_instantiation() -> None:
    assert len({c["config"]["model_type"] for c in INSTANTIATED}) >= 40  # the file, not the catalogue
