"""Work and traffic of a training step, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.catalog.snapshot import CatalogStore
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.layouts import FULL
from app.sizing.training.plans import rank_params
from app.sizing.training.work import (
    eager_bytes_per_token_layer,
    elementwise_bytes_per_token,
    elementwise_bytes_per_token_layer,
    matrix_passes,
)
from tests.examples import LLAMA_8B, col
from tests.sizing.training.counted import COUNTS, layout
from tests.sizing.training.layouts import SINGLE, WORKLOAD, one, work


def test_tensor_parallel_traffic_is_two_all_reduces_of_the_hidden_states_per_layer_and_pass(catalog: Catalog) -> None:
    plans = one(catalog, zero_stage=1, tensor_parallel=8, pipeline_parallel=1, context_parallel=1)
    found = work(WORKLOAD, plans, np.ones(1))
    message = 4096 * 4096 * 2
    crossed = 4 * 32 * 2 * 7 / 8 * message
    assert float(found.micro.traffic.tensor.scale_up_s[0]) == pytest.approx(crossed / 450e9)
    assert float(found.micro.traffic.tensor.network_s[0]) == 0
    assert float(found.micro.traffic.tensor.scale_up_messages[0]) == 4 * 32


def test_gradients_and_weights_cross_the_ring_once_a_step(catalog: Catalog) -> None:
    """ZeRO-1 on 16 x 8: 2 bytes of gradients scattered and 2 of weights gathered, over eight cards of 50 GB/s a
    machine.
    """
    plans = one(catalog, zero_stage=1, **SINGLE)
    state = work(replace(WORKLOAD, global_batch=128), plans, np.full(1, 128.0)).state
    crossed = 127 / 128 * LLAMA_8B.total_params * 4
    assert float(state.traffic.synchronized.network_s[0]) == pytest.approx(crossed / 400e9)
    assert float(state.traffic.sharded.network_s[0]) == 0


def test_experts_are_shared_by_their_group_and_their_tokens_exchanged(
    catalog: Catalog, catalog_store: CatalogStore
) -> None:
    moe = replace(WORKLOAD, model=catalog_store.find_model("Qwen/Qwen3-30B-A3B"))
    plans = one(catalog, moe, zero_stage=1, expert_parallel=8, **SINGLE)
    rank = rank_params(counts_of(moe), plans)
    assert float(rank.routed[0]) == pytest.approx(moe.model.routed_params / 8)
    assert float(rank.dense[0]) == pytest.approx(moe.model.total_params - moe.model.routed_params)
    exchange = work(moe, plans, np.full(1, 8.0)).micro.traffic.expert
    # each of seven others has one of the token's eight experts with the chance 1 - (7/8)^8
    tokens, layers, each = 4096, 48, 2048 * 2 * 7 * (1 - (7 / 8) ** 8)
    assert float(exchange.scale_up_s[0]) == pytest.approx(4 * layers * tokens * each / 450e9)


def test_fp8_converts_what_it_multiplies() -> None:
    wide, narrow = counts_of(WORKLOAD), counts_of(replace(WORKLOAD, precision="fp8"))
    more = elementwise_bytes_per_token_layer(narrow, narrow.recipe) - elementwise_bytes_per_token_layer(
        wide, wide.recipe
    )
    assert more == 5 * (2 * 4096 + 4096 + 14336)


def test_operators_kept_in_part_are_multiplied_again_by_half() -> None:
    recipe = COUNTS.recipe
    assert matrix_passes(layout(), recipe).tolist() == [3]
    assert matrix_passes(layout(recomputes_half=True), recipe).tolist() == [3.5]
    assert matrix_passes(layout(activation_checkpointing=FULL), recipe).tolist() == [4]


def test_a_kernel_for_every_operator_moves_more() -> None:
    """56 of 100 elements, 3.5 of a kilobyte of attention, 4 of 400 elements; a plain MLP has its own kernels."""
    assert eager_bytes_per_token_layer(replace(COUNTS, gated=1.0)) == 5600 + 3500 + 1600
    assert eager_bytes_per_token_layer(replace(COUNTS, gated=0.0)) == 0
    forward = elementwise_bytes_per_token_layer(COUNTS, COUNTS.recipe)
    fused, eager = (
        elementwise_bytes_per_token(COUNTS, layout(fused_kernels=k), forward, 10700.0, col(4))[0] for k in (True, False)
    )
    assert eager - fused == pytest.approx(12 * 10700 * 3 / 3)


def test_only_a_head_that_is_multiplied_moves_logits() -> None:
    forward = elementwise_bytes_per_token_layer(COUNTS, COUNTS.recipe)
    with_head, without = (
        elementwise_bytes_per_token(replace(COUNTS, head_matmul_params=h), layout(), forward, 10700.0, col(4))[0]
        for h in (0.7e6, 0.0)
    )
    assert with_head - without == pytest.approx(5000 * 22 / 4 / 3)
