"""Computing against reading. Time of one decode step, worked by hand. What a server in front of an engine adds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.model.formats import KV_FORMATS
from app.sizing.question import DraftMethod, Speculative
from app.sizing.serving.collectives import ContextExchange, ExpertExchange, LinkUse
from app.sizing.serving.step import (
    DeviceRates,
    StepTerms,
    StepWork,
    active_expert_share,
    decode_step_s,
    smooth_maximum,
    step_s,
    step_terms,
    tokenise_s,
    uses_server,
    weight_byte_s,
    with_speculative_decoding,
)
from app.sizing.workload import Load
from tests.examples import col
from tests.sizing.serving.given import DENSE, MIXTURE, achieved, on_big, step_of


def test_touched_experts_follow_the_batch() -> None:
    assert active_expert_share(col(32), col(8 / 256))[0] == pytest.approx(1 - (1 - 1 / 32) ** 32)
    assert active_expert_share(col(5), col(0.0))[0] == 0
    assert active_expert_share(col(1), col(1.0))[0] == pytest.approx(1)


def test_smooth_maximum_is_at_least_either_bound() -> None:
    assert smooth_maximum(col(3, 1), col(4, 1), col(2, 1))[0] == pytest.approx(5)
    assert smooth_maximum(col(3, 1), col(4, 1), col(2, 1))[1] == pytest.approx(2)
    assert smooth_maximum(col(0), col(7), col(2.4))[0] == pytest.approx(7)
    assert smooth_maximum(col(4), col(3), col(2))[0] == pytest.approx(5)
    assert smooth_maximum(col(0), col(0), col(2))[0] == 0


# 32 layers, 8 of experts, on 4 x 3 devices over two machines; and the same on one device.
WORK = StepWork(
    linear_flops=col(14e9, 14e9),
    dense_bytes=col(16e9, 16e9),
    routed_bytes=col(4e9, 4e9),
    expert_share=col(0.25, 0.25),
    cache_read_bytes=col(3e6, 3e6),
    cache_flops=col(7e9, 1e9),
    layers=col(32, 32),
    reductions=col(64, 64),
    moe_layers=col(8, 8),
    expert_copies=col(0, 0),
    latent_layers=col(4, 4),
    hidden_bytes=col(8192, 8192),
    tensor_parallel=col(4, 1),
    pipeline_parallel=col(3, 1),
    data_parallel=col(1, 1),
    exchange=ExpertExchange(col(0, 0), col(0, 0), col(0, 0)),
    context=ContextExchange(col(0, 0), col(0, 0), col(0, 0)),
    rates=DeviceRates(col(2e15, 2e15), col(1e15, 1e15), col(3.2e12, 3.2e12), col(0, 0)),
    link=LinkUse(np.array([False, False]), col(450e9, 450e9), np.array([True, False]), col(50e9, 50e9), col(4, 1), 0.7),
)


def test_a_token_is_copied_to_its_experts_and_back() -> None:
    slope = [step_terms(replace(WORK, expert_copies=col(n, 0)), achieved(2)).linear_slope_s for n in (0, 8)]
    assert (slope[1] - slope[0]).tolist() == [pytest.approx(8 * 8 * 8192 * 4 / 3.2e12), 0]


def test_terms_of_a_step_are_its_work_over_what_the_device_achieves() -> None:
    found = step_terms(WORK, achieved(2))
    assert found.linear_slope_s[0] == pytest.approx(14e9 / (2e15 * 0.8))
    assert found.dense_s[0] == pytest.approx(16e9 / (3.2e12 * 0.85))  # no limit is known of the multiprocessors
    assert found.experts_s[0] == pytest.approx(4e9 / (3.2e12 * 0.85 * 0.75))
    # multiplying the first's scores takes longer than reading its cache, and the other way round for the second
    assert found.attention_slope_s[0] == pytest.approx(7e9 / (1e15 * 0.4))
    assert step_terms(replace(WORK, cache_flops=col(1e6, 1e6)), achieved(2)).attention_slope_s[0] == pytest.approx(
        3e6 / (3.2e12 * 0.6)
    )
    assert found.attention_fixed_s[0] == pytest.approx(32 * 2e-6)
    reduced = 2 * 3 / 4 * 8192 / (450e9 * 0.78)
    assert found.links_slope_s[0] == pytest.approx(2 * 32 * reduced + 2 * 8192 / (50e9 * 0.9))
    assert found.links_fixed_s[0] == pytest.approx(2 * 32 * 8e-6 + 2 * 15e-6)
    assert found.host_slope_s[0] == 20e-6
    assert found.host_fixed_s[0] == pytest.approx(32 * 10e-6 + 8 * 30e-6 + 4 * 5e-6 + 500e-6)
    assert found.stream_token_s[0] == 40e-6
    assert step_terms(WORK, achieved(2), served=0.0).stream_token_s[0] == 0
    assert (found.exponent[0], found.pipeline_parallel[0], found.expert_share[0]) == (3, 3, 0.25)
    assert (found.links_slope_s[1], found.links_fixed_s[1]) == (0, 0)


def test_weights_are_read_at_what_the_multiprocessors_request_if_that_is_less_than_the_memory_gives() -> None:
    # llama.cpp reads an 8B model in F16 (16.06 GB) 54.3 times a second on an RTX 4090 (128 multiprocessors at 2.52 GHz,
    # 1,008 GB/s) and 54.6 times on an A100 (108 at 1.41 GHz, 2,039 GB/s), of twice the bandwidth.
    rates = DeviceRates(col(1e15, 1e15), col(1e15, 1e15), col(1.008e12, 2.039e12), 1 / col(128 * 2.52e9, 108 * 1.41e9))
    kernels = replace(achieved(2), linear_memory_fraction=col(0.9, 0.9), read_bytes_per_clock=col(6, 6))
    assert 1 / (16.06e9 * weight_byte_s(rates, kernels)) == pytest.approx([54.3, 54.6], rel=0.08)
    unknown = replace(rates, clock_cycle_s=col(0, 0))
    assert 1 / weight_byte_s(unknown, kernels) == pytest.approx([0.9 * 1.008e12, 0.9 * 2.039e12])


def test_work_of_a_step() -> None:
    model = replace(DENSE, state_bytes_per_sequence=1e6, recurrent_flops_per_token=3e6)
    work = step_of(model, on_big(tensor_parallel=2, pipeline_parallel=2), context_tokens=1000.0)
    layer = 2 * 1024 * 1024 + 2 * 1024 * 512 + 3 * 1024 * 4096
    assert work.linear_flops[0] == pytest.approx(2 * (4 * layer + 1024 * 32000) / 2)
    assert work.dense_bytes[0] == pytest.approx((DENSE.total_params - 1024 * 32000) * 2 / 2)
    # keys and values of 4 heads of 128 in 4 layers, 2 bytes each, over two ranks; the state is read and written
    assert work.cache_read_bytes[0] == pytest.approx(4 * 2 * 4 * 128 * 1000 * 2 / 2 + 2 * 1e6 / 2)
    assert work.cache_flops[0] == pytest.approx((4 * 4 * 8 * 128 * 1000 + 3e6) / 2)
    assert (work.layers[0], work.moe_layers[0], work.hidden_bytes[0]) == (4, 0, 2048)
    assert (work.tensor_parallel[0], work.pipeline_parallel[0]) == (2, 2)
    assert (work.routed_bytes[0], work.expert_share[0]) == (0, 0)
    assert work.link.link_bytes_per_s[0] == 450e9


def test_heads_are_copied_beyond_their_number_and_experts_shared() -> None:
    work = step_of(MIXTURE, on_big(MIXTURE, tensor_parallel=8), context_tokens=1000.0)
    assert work.cache_read_bytes[0] == pytest.approx(4 * 2 * 4 * 128 * 1000 * 2 / 4)
    assert (work.moe_layers[0], work.expert_share[0]) == (4, 0.25)
    assert work.routed_bytes[0] == pytest.approx(4 * 8 * 3 * 1024 * 512 * 2 / 8)
    narrow = step_of(DENSE, on_big(kv_format="fp8"), context_tokens=1000.0)
    assert narrow.cache_read_bytes[0] == pytest.approx(4 * 2 * 4 * 128 * 1000 * KV_FORMATS["fp8"].element_bytes)


def terms(**changed: float) -> StepTerms:
    """Terms of a step; an exponent of one adds multiplying and reading up."""
    known: dict[str, float] = {
        "linear_slope_s": 0.001,
        "dense_s": 0.02,
        "experts_s": 0.0,
        "attention_slope_s": 0.0004,
        "attention_fixed_s": 0.003,
        "links_slope_s": 0.00005,
        "links_fixed_s": 0.0007,
        "host_slope_s": 0.000006,
        "host_fixed_s": 0.0009,
        "exponent": 1.0,
        "pipeline_parallel": 1.0,
        "data_parallel": 1.0,
        "expert_share": 0.0,
        "stream_token_s": 0.0,
    }
    columns: dict[str, Any] = {name: col(value) for name, value in (known | changed).items()}
    return StepTerms(**columns)


@pytest.mark.parametrize(
    ("changed", "batch", "seconds"),
    [
        ({}, 10, 0.01 + 0.02 + 10 * 0.00045 + 10 * 0.000006 + 0.003 + 0.0007 + 0.0009),
        # four stages: micro-batches of 10, the host still handles 40
        ({"pipeline_parallel": 4.0}, 40, 0.01 + 0.02 + 10 * 0.00045 + 40 * 0.000006 + 0.0046),
        # fewer sequences than stages: one at a time
        ({"pipeline_parallel": 4.0}, 2, 0.001 + 0.02 + 0.00045 + 2 * 0.000006 + 0.0046),
        # two tokens touch three quarters of the experts
        ({"experts_s": 0.08, "expert_share": 0.5}, 2, 0.002 + 0.02 + 0.06 + 2 * 0.00045 + 2 * 0.000006 + 0.0046),
    ],
)
def test_seconds_of_a_step(changed: dict[str, float], batch: float, seconds: float) -> None:
    assert step_s(terms(**changed), col(batch))[0] == pytest.approx(seconds)


def test_speculation_drafts_verifies_and_gains_several_tokens() -> None:
    """Three tokens drafted of a tenth of a pass each, accepted by half: 1 + 1/2 + 1/4 + 1/8 gained a step."""
    drafted = replace(terms(), drafted_tokens=3.0, draft_share=0.1, accepted_tokens_per_step=1.875)
    fixed = 10 * 0.000006 + 0.0046
    plain = 0.01 + 0.02 + 10 * 0.00045 + fixed
    verifying = 0.04 + 0.02 + 10 * (0.0004 + 4 * 0.00005) + fixed
    assert step_s(drafted, col(10))[0] == pytest.approx((verifying + 3 * 0.1 * plain) / 1.875)


def test_a_layer_and_the_head_draft_a_token() -> None:
    plain = terms()
    assert with_speculative_decoding(plain, DENSE, None) is plain
    found = with_speculative_decoding(plain, DENSE, Speculative(DraftMethod.EAGLE, 2, 0.5))
    layer, head = DENSE.prompt_matmul_params / 4, DENSE.head_matmul_params
    assert (found.drafted_tokens, found.accepted_tokens_per_step) == (2, 1.75)
    assert found.draft_share == pytest.approx((layer + head) / DENSE.matmul_params)


def test_a_step_takes_at_least_what_handing_out_its_tokens_does() -> None:
    assert decode_step_s(col(0.01, 0.01), col(100, 500), col(40e-6, 40e-6)).tolist() == [0.01, 0.02]


def test_a_prompt_is_tokenised_token_by_token() -> None:
    assert tokenise_s(col(1000), 1.0, achieved(1))[0] == pytest.approx(1000 * 2e-6)


def test_only_what_arrives_is_served() -> None:
    assert [uses_server(load) for load in (Load.OPEN, Load.CLOSED, Load.BATCH, Load.OFFLINE)] == [1, 1, 0, 0]
