"""What collectives and hand-overs achieve, worked by hand. Decode over a cache whose tokens lie on several ranks,
by hand. Tokens on their way to the ranks of their experts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.hardware.engines import ENGINES
from app.sizing.question import Deployment
from app.sizing.serving.collectives import (
    COLLECTIVES_PER_LAYER,
    ContextExchange,
    ExpertExchange,
    LinkSpeed,
    LinkUse,
    build_context_exchange,
    build_expert_exchange,
    context_fixed_s,
    context_slope_s,
    exchange_fixed_s,
    exchange_slope_s,
    link_speed,
    transfer_and_latency_s,
)
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.prefill import prefill_terms
from app.sizing.serving.step import step_terms
from tests.examples import col, registered
from tests.sizing.serving.given import MIXTURE, achieved, links_of, on_big, planned, prompt_of, step_of
from tests.sizing.serving.test_layouts import GIANT
from tests.sizing.small import BIG, OFFERS, SYSTEMS, snapshot
from tests.sizing.test_across import LATENT, MODEL


def test_links_achieve_a_share_of_their_rate_after_a_latency() -> None:
    """A slot, a scale-up link whose stages lie in two machines, and a lone device."""
    link = LinkUse(
        pcie=np.array([True, False, False]),
        link_bytes_per_s=col(32e9, 450e9, 0),
        across=np.array([False, True, False]),
        network_bytes_per_s=col(50e9, 25e9, 12e9),
        linked_ranks=col(2, 8, 1),
        exchange_share=0.7,
    )
    found = link_speed(link, achieved(3))
    assert found.collective_latency_s.tolist() == [22e-6, 8e-6, 8e-6]
    assert found.collective_bytes_per_s[:2].tolist() == pytest.approx([32e9 * 0.625, 450e9 * 0.78])
    assert found.collective_bytes_per_s[2] > 1e14  # never asked
    assert found.hop_latency_s.tolist() == [22e-6, 15e-6, 8e-6]
    assert found.hop_bytes_per_s[:2].tolist() == pytest.approx([32e9 * 0.625, 25e9 * 0.9])


def test_stages_talk_over_the_network_where_a_replica_leaves_its_machine_and_its_domain() -> None:
    for pipeline, across in ((1, False), (4, True)):
        found = links_of(on_big(tensor_parallel=8, pipeline_parallel=pipeline))
        assert found.across.tolist() == [across]
        assert found.pcie.tolist() == [False]
        assert found.link_bytes_per_s.tolist() == [450e9]
        assert found.network_bytes_per_s.tolist() == [50e9]


def test_a_domain_beyond_one_machine_needs_no_network() -> None:
    rack = [replace(s, scaleup_domain_size=16.0) if s.accelerator == BIG.slug else s for s in SYSTEMS]
    of = snapshot(systems=rack, offers=OFFERS)
    for pipeline, across in ((2, False), (4, True)):
        layout = Deployment(
            BIG.slug, provider="sky", tensor_parallel=8, pipeline_parallel=pipeline, engine="vllm", weight_format="bf16"
        )
        assert set(links_of(planned(fixed=layout, of=of)).across.tolist()) == {across}


def test_an_unknown_network_is_taken_for_a_hundred_gigabits() -> None:
    layout = Deployment("acme-card", tensor_parallel=4, system="host-4x-acme-card", engine="vllm", weight_format="bf16")
    found = links_of(planned(fixed=layout))
    assert found.pcie.tolist() == [True]
    assert found.network_bytes_per_s.tolist() == [12.5e9]


def test_tensor_parallel_over_machines_adds_up_inside_them_before_it_crosses_the_network() -> None:
    """Sixteen ranks on two machines of eight, and eight on one: two all-reduces in each of 126 layers."""
    wide, one = on_big(GIANT, tensor_parallel=16), on_big(GIANT, tensor_parallel=8)
    link, speed = links_of(wide), link_speed(links_of(wide), achieved())
    assert link.linked_ranks.tolist() == links_of(one).linked_ranks.tolist() == [8]
    passed, waited = transfer_and_latency_s(col(252), col(32768), col(16), col(1), link, speed)
    inside = 2 * 7 / 8 * 32768 / (450e9 * 0.78)
    across = 2 * 1 / 2 * 32768 / 8 / (50e9 * 0.9)
    assert passed[0] == pytest.approx(252 * (inside + across))
    assert waited[0] == pytest.approx(252 * (8e-6 + 2 * 15e-6))
    terms = [step_terms(step_of(GIANT, plans, context_tokens=800), achieved()) for plans in (wide, one)]
    assert terms[0].links_slope_s[0] == pytest.approx(passed[0])
    assert terms[0].links_fixed_s[0] == pytest.approx(waited[0])
    assert terms[0].links_fixed_s[0] > terms[1].links_fixed_s[0] > 0
    assert terms[0].dense_s[0] == pytest.approx(terms[1].dense_s[0] / 2)


def test_a_domain_of_several_machines_is_one_machine_to_its_ranks() -> None:
    rack = [replace(s, scaleup_domain_size=16.0) if s.accelerator == BIG.slug else s for s in SYSTEMS]
    of = snapshot(systems=rack, offers=OFFERS)
    layout = Deployment(BIG.slug, provider="sky", tensor_parallel=16, engine="vllm", weight_format="bf16")
    assert set(links_of(planned(GIANT, fixed=layout, of=of)).linked_ranks) == {16}


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


LINK = LinkUse(np.array([False]), col(450e9), np.array([True]), col(50e9), col(1), 0.5)


def test_a_rank_that_keeps_its_tokens_exchanges_none() -> None:
    found = build_expert_exchange(MIXTURE, on_big(MIXTURE))
    assert found.expert_layers[0] == found.inside_bytes[0] == found.across_bytes[0] == 0


def test_a_token_goes_once_to_each_rank_that_holds_one_of_its_experts() -> None:
    found = build_expert_exchange(MIXTURE, on_big(MIXTURE, data_parallel=4))
    reached = 3 * (1 - (3 / 4) ** MIXTURE.experts_per_token)
    assert found.inside_bytes[0] == pytest.approx(reached * MIXTURE.hidden_size * 3)  # sent in 8 bits, back in 16
    assert found.across_bytes[0] == 0
    assert found.expert_layers[0] == MIXTURE.moe_layers


def test_a_prompt_token_crosses_the_network_once_per_machine() -> None:
    """Thirty-two ranks on four machines of eight; the link forwards the token to the ranks of its machine."""
    plans = on_big(MIXTURE, data_parallel=32)
    prompt, decode = (build_expert_exchange(MIXTURE, plans, forwards=forwards) for forwards in (True, False))
    token, experts = MIXTURE.hidden_size * 3, MIXTURE.experts_per_token
    machines, ranks = 3 * (1 - (3 / 4) ** experts), 31 * (1 - (31 / 32) ** experts)
    assert prompt.across_bytes[0] == pytest.approx(machines * token)
    assert decode.across_bytes[0] == pytest.approx(ranks * 24 / 31 * token)
    assert prompt.inside_bytes[0] == pytest.approx(ranks * token)
    assert prefill_terms(prompt_of(MIXTURE, plans, prompt_tokens=800), achieved()).prompt_links_s[0] == pytest.approx(
        800 * exchange_slope_s(prompt, links_of(plans))[0]
    )
    one_machine = on_big(MIXTURE, data_parallel=8)
    both = [build_expert_exchange(MIXTURE, one_machine, forwards=forwards) for forwards in (True, False)]
    assert both[0].inside_bytes.tolist() == both[1].inside_bytes.tolist() and both[0].across_bytes[0] == 0


def test_links_and_network_carry_their_shares_side_by_side_of_exchange() -> None:
    inside, across = ExpertExchange(col(10), col(8e3), col(0)), ExpertExchange(col(10), col(8e3), col(8e3))
    assert exchange_slope_s(inside, LINK)[0] == pytest.approx(10 * 8e3 / 225e9)
    assert exchange_slope_s(across, LINK)[0] == pytest.approx(10 * 8e3 / 25e9)
    assert exchange_fixed_s(inside, SPEED)[0] == pytest.approx(10 * 2 * 8e-6)
    assert exchange_fixed_s(across, SPEED)[0] == pytest.approx(10 * 2 * 15e-6)


def test_more_ranks_reach_more_of_them_but_never_more_than_a_token_has_experts() -> None:
    sent = [build_expert_exchange(MIXTURE, on_big(MIXTURE, data_parallel=d)).inside_bytes[0] for d in (2, 4, 8)]
    assert np.all(np.diff(sent) > 0)
    assert sent[-1] <= MIXTURE.experts_per_token * MIXTURE.hidden_size * 3


def test_an_exchange_of_experts_replaces_one_all_reduce_of_its_layer() -> None:
    """Four expert layers: eight all-reduces, or four and the all-to-all; never both."""
    for data_parallel, reductions in ((1, 8), (4, 4)):
        plans = on_big(MIXTURE, tensor_parallel=2, data_parallel=data_parallel)
        decode = step_of(MIXTURE, plans, context_tokens=800)
        prompt = prompt_of(MIXTURE, plans, prompt_tokens=800)
        exchange = decode.exchange
        assert (decode.reductions[0], prompt.reductions[0]) == (reductions, reductions)
        found, filled = step_terms(decode, achieved()), prefill_terms(prompt, achieved())
        latency = reductions * 8e-6 + exchange.expert_layers[0] * 2 * 8e-6
        assert found.links_fixed_s[0] == pytest.approx(latency)
        assert filled.prefill_links_s[0] == pytest.approx(latency)
        # a ring of two passes half of a token of 2 KB twice
        passed = reductions * 2048 / (450e9 * 0.78) + exchange_slope_s(exchange, decode.link)[0]
        assert found.links_slope_s[0] == pytest.approx(passed)
        assert filled.prompt_links_s[0] == pytest.approx(800 * passed)
