"""Work and traffic of a training step, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.catalog.snapshot import SnapshotStore
from app.sizing.snapshot import Market
from app.sizing.training.ranks import rank_params
from app.sizing.training.work import elementwise_bytes_per_token_layer, training_work
from tests.examples import LLAMA_8B
from tests.sizing.training.layouts import SINGLE, WORKLOAD, one


def test_tensor_parallel_traffic_is_two_all_reduces_of_the_hidden_states_per_layer_and_pass(market: Market) -> None:
    plans = one(market, zero_stage=1, tensor_parallel=8, pipeline_parallel=1, context_parallel=1)
    work = training_work(WORKLOAD, plans, np.ones(1))
    message = 4096 * 4096 * 2
    crossed = 4 * 32 * 2 * 7 / 8 * message
    assert float(work.micro.tensor.inside_s[0]) == pytest.approx(crossed / 450e9)
    assert float(work.micro.tensor.across_s[0]) == 0
    assert float(work.micro.tensor.inside_messages[0]) == 4 * 32


def test_gradients_and_weights_cross_the_ring_once_a_step(market: Market) -> None:
    """ZeRO-1 on 16 x 8: 2 bytes of gradients scattered and 2 of weights gathered, over eight cards of 50 GB/s a
    machine.
    """
    plans = one(market, zero_stage=1, **SINGLE)
    state = training_work(replace(WORKLOAD, global_batch=128), plans, np.full(1, 128.0)).state
    crossed = 127 / 128 * LLAMA_8B.total_params * 4
    assert float(state.data.across_s[0]) == pytest.approx(crossed / 400e9)
    assert float(state.shard.across_s[0]) == 0


def test_experts_are_shared_by_their_group_and_their_tokens_exchanged(market: Market, snapshots: SnapshotStore) -> None:
    moe = replace(WORKLOAD, model=snapshots.model("Qwen/Qwen3-30B-A3B"))
    plans = one(market, moe, zero_stage=1, expert_parallel=8, **SINGLE)
    dense, routed = rank_params(moe, plans)
    assert float(routed[0]) == pytest.approx(moe.model.routed_params / 8)
    assert float(dense[0]) == pytest.approx(moe.model.total_params - moe.model.routed_params)
    exchange = training_work(moe, plans, np.full(1, 8.0)).micro.expert
    tokens, layers, each = 4096, 48, 2048 * 2 * 8
    assert float(exchange.inside_s[0]) == pytest.approx(4 * layers * tokens * each * 7 / 8 / 450e9)


def test_fp8_converts_what_it_multiplies(market: Market) -> None:
    wide = elementwise_bytes_per_token_layer(WORKLOAD, one(market, zero_stage=1, **SINGLE))
    fp8 = replace(WORKLOAD, precision="fp8")
    narrow = elementwise_bytes_per_token_layer(fp8, one(market, fp8, zero_stage=1, **SINGLE))
    assert float((narrow - wide)[0]) == 5 * (2 * 4096 + 4096 + 14336)
