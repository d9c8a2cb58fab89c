"""Decode over a cache whose tokens lie on several ranks, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.hardware.engines import ENGINES
from app.sizing.serving.cache import cache_bytes
from app.sizing.serving.communication import LinkSpeed
from app.sizing.serving.context import (
    COLLECTIVES_PER_LAYER,
    ContextExchange,
    build_context_exchange,
    context_fixed_s,
    context_slope_s,
)
from app.sizing.serving.step import step_terms
from tests.examples import col, registered
from tests.sizing.serving.given import achieved, on_big, step_of
from tests.sizing.test_across import LATENT, MODEL

SPEED = LinkSpeed(col(8e-6), col(400e9), col(15e-6), col(40e9), col(15e-6), col(40e9))
R1 = registered("deepseek-ai/DeepSeek-R1")


def test_ranks_that_keep_all_tokens_exchange_nothing() -> None:
    found = build_context_exchange(MODEL, on_big(MODEL, tensor_parallel=8))
    assert found.layers[0] == found.inside_bytes[0] == found.across_bytes[0] == 0


def test_queries_are_gathered_and_outputs_scattered_among_the_ranks_that_share_a_context() -> None:
    """64 heads of 128 in each of 16 layers: a rank has eight of them, and three others send it theirs."""
    found = build_context_exchange(MODEL, on_big(MODEL, tensor_parallel=8, context_parallel=4))
    assert found.inside_bytes[0] == pytest.approx(3 * 16 * 8 * (128 + 128) * 2)
    assert (found.across_bytes[0], found.layers[0]) == (0, 16)


def test_an_engine_that_scatters_wider_outputs_sends_more() -> None:
    sent = [
        build_context_exchange(
            LATENT, on_big(LATENT, tensor_parallel=8, context_parallel=8, engine=engine)
        ).inside_bytes[0]
        for engine in ("vllm", "sglang")
    ]
    assert sent[1] == pytest.approx(1.5 * sent[0])


def test_ranks_of_other_machines_are_reached_over_the_network() -> None:
    """Of sixteen that share a context, eight lie in one machine: eight of the other fifteen are far."""
    found = build_context_exchange(R1, on_big(R1, tensor_parallel=16, context_parallel=16, weight_format="fp8"))
    sent = 15 * 61 * 128 / 16 * (576 + 512) * 2
    assert found.across_bytes[0] == pytest.approx(sent * 8 / 15)
    assert found.inside_bytes[0] == pytest.approx(sent * 7 / 15)


def test_links_and_network_carry_their_shares_side_by_side() -> None:
    inside, across = ContextExchange(col(10), col(8e3), col(0)), ContextExchange(col(10), col(8e3), col(8e3))
    assert context_slope_s(inside, SPEED)[0] == pytest.approx(8e3 / 400e9)
    assert context_slope_s(across, SPEED)[0] == pytest.approx(8e3 / 40e9)
    assert context_fixed_s(inside, SPEED)[0] == pytest.approx(10 * COLLECTIVES_PER_LAYER * 8e-6)
    assert context_fixed_s(across, SPEED)[0] == pytest.approx(10 * COLLECTIVES_PER_LAYER * 15e-6)


def test_a_rank_keeps_and_reads_its_part_of_a_latent_that_all_kept_before() -> None:
    """70,272 bytes a token of DeepSeek-R1, on each of eight ranks or once on all of them; the same arithmetic."""
    whole, parts = (
        on_big(R1, tensor_parallel=8, context_parallel=c, weight_format="fp8", kv_format="bf16") for c in (1, 8)
    )
    assert cache_bytes(R1, 1000.0, whole)[0] == pytest.approx(1000 * 61 * 576 * 2)
    assert cache_bytes(R1, 1000.0, parts)[0] == pytest.approx(1000 * 61 * 576 * 2 / 8)
    work = [step_of(R1, plans, context_tokens=1000) for plans in (whole, parts)]
    assert work[1].cache_read_bytes[0] == pytest.approx(work[0].cache_read_bytes[0] / 8)
    assert work[1].cache_flops[0] == work[0].cache_flops[0]
    assert work[1].dense_bytes[0] == work[0].dense_bytes[0]
    terms = [step_terms(w, achieved()) for w in work]
    assert terms[1].links_fixed_s[0] - terms[0].links_fixed_s[0] == pytest.approx(61 * 3 * 8e-6)
    assert terms[1].links_slope_s[0] - terms[0].links_slope_s[0] == pytest.approx(14_866_432 / (450e9 * 0.78))


def test_states_and_rows_without_it_are_left_as_they_are() -> None:
    plans = on_big(MODEL, tensor_parallel=8, context_parallel=4).take(np.array([0, 0]))
    mixed = replace(plans, context_parallel=col(1, 4))
    found = build_context_exchange(MODEL, mixed)
    assert found.layers.tolist() == [0, 16]
    assert found.inside_bytes[0] == 0


def test_engine_facts_have_a_source_file_and_a_date() -> None:
    splits = {name: engine.context_parallel for name, engine in ENGINES.items() if engine.context_parallel}
    assert {"vllm", "sglang"} <= set(splits)
    assert all(split.source and split.read >= "2026-11-23" for split in splits.values())
