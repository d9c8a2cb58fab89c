"""Steps traced for real; run where PyTorch is, by make test-traced."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from calibration.tracing.rows import Case, case_of, model_configs, parse_row
from calibration.tracing.setups import Setup, Traced
from calibration.tracing.shapes import shape_of

pytestmark = pytest.mark.torch

GRID = Path(__file__).parents[2] / "reference" / "traced_memory.csv"
NEAR = 1e-3
SMALL = "meta-llama/Llama-3.2-1B"


@pytest.fixture(scope="module")
def trace() -> Callable[..., Traced]:
    traced: Callable[..., Traced] = import_module("calibration.tracing.step").trace
    return traced


def features_of(case: Case) -> set[tuple[object, ...]]:
    """Its model, its recipe value by value, and its method with its recomputation."""
    setup = case.setup
    values = {
        (f.name, getattr(setup, f.name))
        for f in fields(setup)
        if f.name not in ("shape", "sequence", "batch", "loss_chunks")
    }
    return {*values, ("model", case.model), (setup.method, setup.recomputation)}


@cache
def rows() -> list[tuple[Case, Traced]]:
    """A slice of the grid: cases of at most eight layers with every feature that such cases have."""
    with GRID.open(encoding="utf-8", newline="") as file:
        known = [parse_row(row) for row in csv.DictReader(file)]
    chosen, seen = list[tuple[Case, Traced]](), set[tuple[object, ...]]()
    few = [row for row in known if row[0].setup.shape.layers <= 8]
    for case, traced in sorted(few, key=lambda row: row[0].setup.shape.layers):
        if not features_of(case) <= seen:
            seen |= features_of(case)
            chosen.append((case, traced))
    return chosen


def kept_per_token_and_layer(trace: Callable[..., Traced], setup: Setup) -> float:
    """What a layer keeps of a token: the difference of one layer, where the loss is the peak."""
    traced = [trace(replace(setup, shape=replace(setup.shape, layers=layers))) for layers in (2, 3)]
    assert [t.moment for t in traced] == ["loss", "loss"]
    return (traced[1].parts["kept"] - traced[0].parts["kept"]) / setup.micro_batch_tokens


def test_a_slice_of_the_grid_is_traced_as_it_was(trace: Callable[..., Traced]) -> None:
    for case, traced in rows():
        assert trace(case.setup).peak_bytes == pytest.approx(traced.peak_bytes, rel=NEAR), (case.model, case.setup)


def test_layers_keep_what_was_solved_from_synthetic_shapes(trace: Callable[..., Traced]) -> None:
    setup = case_of("meta-llama/Llama-3.1-8B", 2, sequence=8192, optimizer="none", loss="held").setup
    s = setup.shape
    h, nd, md, f, n = s.hidden, s.heads * s.head_dim, s.kv_heads * s.head_dim, s.mlp_width, s.heads
    attention = 4 * nd + 4 * md + 4 * n + 8
    for said, kept in (
        ({}, 16 * h + attention + 8 * f),
        ({"kernels": "fused"}, 8 * h + attention + 6 * f),
        ({"weights": "autocast"}, 26 * h + attention + 8 * f),
        ({"recomputation": "operators"}, 4 * h + 4 * nd + 2 * md + 2 * f + 4 * n),
        ({"recomputation": "full"}, 2 * h),
        ({"method": "lora", "adapter_dropout": True}, 33 * h + 9 * nd + 4 * md + 11 * f + 4 * n),
        ({"method": "lora", "adapter_precision": "16bit"}, 12 * h + 4 * nd + 4 * md + 8 * f + 4 * n),
    ):
        found = kept_per_token_and_layer(trace, replace(setup, **said))
        assert found == pytest.approx(kept, rel=0.005), said


def test_the_meta_device_and_fake_tensors_know_the_same(trace: Callable[..., Traced]) -> None:
    for said in (
        {"recomputation": "full"},
        {"recomputation": "operators", "kernels": "fused"},
        {"weights": "autocast"},
        {"method": "lora", "adapter_precision": "autocast"},
        {"weights": "sharded", "shards": 8, "recomputation": "full", "optimizer_implementation": "foreach"},
    ):
        setup = case_of(SMALL, 3, sequence=1024, **said).setup
        on_meta, fake = trace(setup), trace(setup, fake=True)
        assert on_meta.peak_bytes == pytest.approx(fake.peak_bytes, rel=NEAR), said
        assert on_meta.moments == pytest.approx(fake.moments, rel=NEAR), said


def test_parts_sum_to_the_peak_and_the_peak_is_the_highest_moment(trace: Callable[..., Traced]) -> None:
    for case, _ in rows()[::8]:
        traced = trace(case.setup)
        assert sum(traced.parts.values()) == traced.peak_bytes
        assert max(traced.moments.values()) == traced.moments[traced.moment] == traced.peak_bytes
        assert traced.reserved_bytes >= traced.peak_bytes


def test_optimizers_by_implementation(trace: Callable[..., Traced]) -> None:
    def update(**said: Any) -> Traced:
        return trace(case_of(SMALL, 2, sequence=512, **said).setup)

    fused, foreach = update(), update(optimizer_implementation="foreach")
    weights = fused.params * 2
    assert fused.moments["update"] == pytest.approx(4 * weights, rel=NEAR)  # weights, gradients, two moments
    assert foreach.moments["update"] == pytest.approx(5 * weights, rel=NEAR)  # and one copy
    paged = update(optimizer="adamw-8bit", optimizer_implementation="paged")
    assert paged.parts["optimizer"] == 0
    assert update(optimizer_implementation="in_backward").moments["update"] == 0


def test_shards_divide_states_and_gather_units(trace: Callable[..., Traced]) -> None:
    said: dict[str, Any] = {"sequence": 1024, "weights": "sharded", "recomputation": "full"}
    two, many = (trace(case_of(SMALL, 4, shards=shards, **said).setup) for shards in (2, 64))
    assert two.parts["params"] == pytest.approx(32 * many.parts["params"], rel=0.01)
    assert two.parts["gathered"] == pytest.approx(many.parts["gathered"], rel=0.01)
    assert many.parts["gathered"] > 0


def test_models_have_the_parameters_of_the_catalogue() -> None:
    torch: Any = import_module("torch")
    decoder = import_module("calibration.tracing.models").Decoder
    for name, total in (
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("microsoft/phi-1_5", 1_418_270_720),
        ("mosaicml/mpt-7b", 6_649_286_656),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("deepseek-ai/DeepSeek-V2-Lite", 15_706_484_224),
        ("google/gemma-2-9b", 9_241_705_984),
    ):
        with torch.device("meta"):
            model = decoder(Setup(shape_of(model_configs()[name]), 128))
        assert sum(p.numel() for p in model.parameters()) == total, name
