"""What method, precision and optimizer make of one parameter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.sizing.model.sample import Footprint, SampleWork
from app.sizing.training.counts import (
    adapter_flops_per_token,
    adapter_params,
    counts_of,
    flops_per_unit,
    score_flops_per_token,
)
from app.sizing.training.recipes import nf4_bytes, recipe_of
from app.sizing.workload import Method
from tests.examples import LLAMA_8B, OPT_13B, PRETRAIN
from tests.sizing.serving.given import DENSE, MIXTURE

NF4 = 4.127 / 8


@pytest.mark.parametrize(
    ("run", "known"),
    [
        (
            {},
            {
                "frozen": False,
                "mixed": True,
                "weight_bytes_per_param": 2,
                "base_bytes_per_param": 2,
                "gathered_bytes_per_param": 2,
                "layer_bytes_per_param": 2,
                "gradient_bytes_per_param": 2,
                "master_bytes_per_param": 4,
                "state_bytes_per_param": 8,
                "narrow_state_bytes_per_param": 4,
                "matrix_update_bytes_per_param": 0,
                "element_bytes": 2,
                "optimizer_moved_bytes_per_param": 30,
                "dequantised_bytes_per_param": 0,
                "conversion_bytes_per_input": 0,
                "kept_bytes_saved_per_input": 0,
                "products_per_param": 3,
            },
        ),
        (
            {"method": Method.LORA, "precision": "fp8"},
            {
                "frozen": True,
                "mixed": False,
                "base_bytes_per_param": 1,
                "gathered_bytes_per_param": 2,
                "adapter_rank": 16,
                "wide_state_bytes_per_param": 8,
                "conversion_bytes_per_input": 5,
                "kept_bytes_saved_per_input": 1,
                "products_per_param": 2,
            },
        ),
        (
            {"precision": "fp32"},
            {
                "mixed": False,
                "weight_bytes_per_param": 4,
                "base_bytes_per_param": 4,
                "layer_bytes_per_param": 4,
                "master_bytes_per_param": 0,
                "state_bytes_per_param": 8,
                "element_bytes": 4,
            },
        ),
        ({"precision": "bf16-true"}, {"state_bytes_per_param": 4, "mixed": False}),
        ({"precision": "bf16-true", "optimizer": "adamw-8bit"}, {"state_bytes_per_param": 2.03}),
        ({"precision": "nvfp4"}, {"conversion_bytes_per_input": 5, "weight_bytes_per_param": 2}),
        ({"optimizer": "muon"}, {"optimizer_flops_per_param_width": 30, "optimizer_moved_bytes_per_param": 22}),
    ],
)
def test_bytes_of_a_parameter(run: dict[str, Any], known: dict[str, float]) -> None:
    found = recipe_of(replace(PRETRAIN, **run))
    assert {name: getattr(found, name) for name in known} == known


FOOTPRINT = Footprint(5e9, 4.0, 3.0, 8.0, 30.0, kept_wide_bytes=1.0, grouped_bytes=2.0, grouped_taps=7.0)


def test_a_base_in_nf4_keeps_the_rest_in_16_bit() -> None:
    found = recipe_of(replace(PRETRAIN, method=Method.QLORA))
    linear, rest = LLAMA_8B.linear_params, LLAMA_8B.total_params - LLAMA_8B.linear_params
    mean = (linear * NF4 + rest * 2) / LLAMA_8B.total_params
    assert nf4_bytes(LLAMA_8B) == pytest.approx(mean, rel=1e-3)
    assert found.base_bytes_per_param == found.gathered_bytes_per_param == nf4_bytes(LLAMA_8B)
    assert found.dequantised_bytes_per_param == pytest.approx(NF4 + 4, rel=1e-3)


def test_counts_of_a_dense_model() -> None:
    """Four layers of 1024 with MLPs of 4096, eight heads of 128 over four KV heads, 32,000 words at either end."""
    run = replace(PRETRAIN, model=DENSE)
    found = counts_of(run)
    ends = 1024 * 32000
    assert (found.num_layers, found.weight_layers, found.hidden_size, found.mlp_width) == (4, 4, 1024, 4096)
    assert (found.num_heads, found.attention_width, found.kv_heads) == (8, 1024, 4)
    assert (found.kv_elements, found.vocab_size) == (4 * 2 * 4 * 128, 32000)
    assert (found.is_moe, found.routing_layers, found.routed_params) == (False, 0, 0)
    assert (found.embedding_params, found.head_params, found.head_matmul_params) == (ends, ends, ends)
    assert found.dense_matmul_params == 4 * (1024 * 1024 * 2 + 2 * 1024 * 512 + 3 * 1024 * 4096)
    assert found.total_params == found.checkpointed_params == DENSE.total_params
    assert (found.layer.queries, found.layer.keys, found.layer.dense) == (2048, 1024, 4096)
    assert (found.layer.norms, found.layer.written_products, found.layer.adapted_inputs) == (2, 4, 0)
    assert (found.tied_params, found.largest_matrix_params) == (0, 32000 * 1024)
    assert found.adapter_params == found.adapter_flops_per_token == 0
    assert (found.dataset_bytes, found.asked_checkpoint_interval_s) == (0, 0)
    assert (found.units, found.global_batch, found.units_per_sequence) == (1e11, 512, 4096)
    said = counts_of(replace(run, dataset_bytes=5.0, checkpoint_interval_s=60.0))
    assert (said.dataset_bytes, said.asked_checkpoint_interval_s) == (5, 60)
    plain = counts_of(replace(PRETRAIN, model=OPT_13B)).layer
    assert (plain.dense, plain.products, plain.written_norms) == (20480, 2, 0)


def test_counts_of_experts_adapters_and_samples() -> None:
    mixed = counts_of(replace(PRETRAIN, model=MIXTURE))
    assert (mixed.is_moe, mixed.routing_layers, mixed.experts_per_token) == (True, 4, 2)
    assert mixed.routed_params == 4 * 8 * 3 * 1024 * 512
    assert mixed.routed_matmul_params == 4 * 2 * 3 * 1024 * 512
    lora = replace(PRETRAIN, model=MIXTURE, method=Method.LORA)
    adapters = MIXTURE.lora_params(16, "all-linear")
    experts = counts_of(lora).layer
    assert (experts.routed, experts.sent, experts.router, experts.choices) == (2 * 512, 2 * 1024, 8, 2)
    assert experts.adapted_inputs == 3 * 1024 + 1024 + 2 * (2 * 1024 + 512)
    assert adapter_params(lora) == counts_of(lora).checkpointed_params == adapters
    assert adapter_params(PRETRAIN) == 0
    # two experts of eight see a token
    assert adapter_flops_per_token(MIXTURE, 100.0) == 6 * 100 / 4
    assert adapter_flops_per_token(DENSE, 100.0) == 600
    scores = score_flops_per_token(DENSE, 512.0)
    assert scores == DENSE.prefill_attention_flops(512.0) / 512
    tuned = flops_per_unit(replace(lora, model=DENSE), 7.0, 11.0)
    assert tuned == 4 * DENSE.training_matmul_params + 3 * 7 + 11
    picture = replace(DENSE, sample=SampleWork(5e9, layers=9, footprint=FOOTPRINT))
    samples = counts_of(replace(PRETRAIN, model=picture, units_per_sequence=1.0))
    assert (samples.in_samples, samples.weight_layers, samples.score_flops_per_token) == (True, 9, 0)
    assert (samples.sample_forward_flops, samples.sample_matrix_bytes, samples.sample_kept_bytes) == (5e9, 3, 4)
    assert samples.flops_per_unit == 15e9
    wide = counts_of(replace(PRETRAIN, model=picture, units_per_sequence=1.0, precision="fp32"))
    assert (wide.sample_matrix_bytes, wide.sample_kept_bytes) == (6, 2 * (4 - 1) + 1)  # 32-bit parts stay 32 bit
    assert (wide.sample_grouped_taps, wide.sample_operations) == (7, 30)
