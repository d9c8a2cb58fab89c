"""Prefix cache hits, and requests that wait for memory. The simulated scheduler against queues whose theory is
exact, and against steps counted by hand. Times between the points of a replica's tables.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.serving.load_curves import saturation_rate_per_s
from app.sizing.serving.simulation import PREFILL_FIRST, SimulationResult
from app.sizing.serving.simulation.kernel import linear_s, prompt_attention_total_s
from app.sizing.serving.simulation.record import NEVER, SWAPPED, DrawnRequests
from tests.sizing.serving.simulation.given import one_at_a_time, poisson, replica, requests, simulated, ttft_s


def hits(cache_bytes: float, gap_s: float, shared: int = 0) -> float:
    q = requests(
        100,
        10,
        count=400,
        arrival_s=np.cumsum(np.full(400, 0.1)),
        prefix_tokens=np.full(400, 80),
        shared_tokens=shared,
        reuse_gap_s=gap_s,
    )
    return simulated(replica(cache_bytes=cache_bytes), q).hit_tokens


def test_a_prefix_is_found_until_others_have_taken_its_room() -> None:
    # each request allocates 30 tokens in addition to its prefix or 110 without it; ten arrive in a second
    assert hits(1e9, 1.0) == pytest.approx(80)
    assert hits(500.0, 10.0) < 4  # of the first few
    assert hits(800.0, 1.0) < 4  # the ten renew 1,100 tokens, though they add only 300
    assert hits(500.0, 10.0, shared=50) == pytest.approx(50, abs=2)
    assert hits(20_000.0, 1.0) >= hits(20_000.0, 60.0)


def test_no_more_sequences_run_than_are_allowed() -> None:
    found = simulated(replica(max_sequences=4), requests(100, 50, count=200, in_flight=16))
    assert found.running <= 4
    assert found.waiting == pytest.approx(12, rel=0.2)


def test_a_prompt_larger_than_the_cache_runs_alone() -> None:
    found = simulated(replica(cache_bytes=50.0), requests(100, 5, count=3, in_flight=3))
    assert found.running <= 1


MANY = 1_000_000


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_equal_prompts_wait_as_in_m_d_1(load: float) -> None:
    q = requests(1000, 1, count=MANY, arrival_s=poisson(load / 0.01, MANY))
    found = simulated(one_at_a_time(), q, warm=1000)
    assert (ttft_s(found) - 0.01).mean() == pytest.approx(load / (2 * (1 - load)) * 0.01, rel=0.02)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_exponential_prompts_wait_as_in_m_m_1(load: float) -> None:
    tokens = np.maximum(np.rint(np.random.default_rng(3).exponential(10_000, MANY)), 1)
    q = requests(tokens, 1, count=MANY, arrival_s=poisson(load / 0.1, MANY))
    found = simulated(one_at_a_time(), q, warm=1000)
    whole = ttft_s(found)
    assert whole.mean() == pytest.approx(0.1 / (1 - load), rel=0.02)
    assert np.quantile(whole, 0.95) == pytest.approx(0.1 / (1 - load) * np.log(20), rel=0.02)  # exponential too


def test_littles_law_holds() -> None:
    rng = np.random.default_rng(5)
    q = requests(
        rng.integers(100, 2000, 60_000), rng.integers(10, 300, 60_000), count=60_000, arrival_s=poisson(8.0, 60_000)
    )
    found = simulated(replica(max_sequences=64), q, warm=2000, wanted=58_000)
    whole = (found.finish_s - found.arrival_s).mean()
    assert found.running + found.waiting == pytest.approx(found.finished / found.lasts_s * whole, rel=0.02)


@pytest.mark.parametrize("in_flight", [1, 7, 64])
def test_a_closed_loop_gives_its_batch_over_the_time_of_a_step(in_flight: int) -> None:
    r = replica(linear_s=np.zeros(200), prompt_step_s=0.01, decode_s=np.full(4097, 0.01))
    rng = np.random.default_rng(7)
    output = rng.integers(50, 150, 12_000)
    found = simulated(r, requests(10, output, count=12_000, in_flight=in_flight), warm=1000, wanted=11_000)
    tokens_per_s = found.finished / found.lasts_s * 99.5
    assert tokens_per_s == pytest.approx(in_flight / 0.01, rel=0.02)
    assert found.running == pytest.approx(in_flight, rel=0.02)


def test_a_lone_request_takes_its_steps() -> None:
    found = simulated(replica(), requests(20_000, 5, count=1, in_flight=1))
    assert ttft_s(found)[0] == pytest.approx(0.2)  # 20,000 tokens of 10 us in three chunks
    assert found.finish_s[0] - found.first_token_s[0] == pytest.approx(4 * 0.01)
    assert found.gaps.quantiles_s([50])[0] == pytest.approx(0.01, rel=0.02)


def test_decodes_wait_for_prompts_where_these_go_first_and_share_steps_where_they_are_mixed() -> None:
    arrival = np.array([0.0, 0.5])
    q = requests(np.array([10, 4000]), np.array([200, 5]), count=2, arrival_s=arrival)
    mixed, first = simulated(replica(), q), simulated(replica(policy=PREFILL_FIRST), q)
    # the second prompt takes 40 ms: together with a decode it makes one step of 50, alone it holds the decode up
    assert mixed.gaps.quantiles_s([99.9])[0] == pytest.approx(0.05, rel=0.02)
    assert first.gaps.quantiles_s([99.9])[0] == pytest.approx(0.05, rel=0.02)
    assert ttft_s(first)[1] < ttft_s(mixed)[1]


def test_a_burst_waits_for_the_prompts_before_it_and_a_steady_loop_does_not() -> None:
    rng = np.random.default_rng(11)
    output = rng.integers(100, 300, 3000)
    r = replica(max_batched_tokens=1024)
    q = requests(1000, output, count=3000, in_flight=100)
    burst, steady = simulated(r, q, wanted=100), simulated(r, q, warm=1000, wanted=2500)
    assert np.median(ttft_s(burst)) > 5 * np.median(ttft_s(steady))


def test_what_does_not_fit_waits_and_what_outgrows_the_cache_is_computed_again() -> None:
    q = requests(100, 400, count=40, in_flight=10)
    roomy, tight = simulated(replica(), q), simulated(replica(cache_bytes=2000.0), q)
    assert roomy.preempted == 0
    assert tight.preempted > 0
    assert tight.to_s > roomy.to_s
    assert tight.cache_share <= 1
    assert simulated(replica(cache_bytes=2000.0, preemption=SWAPPED), q).preempted > 0
    reserved = simulated(replica(cache_bytes=2000.0, preemption=NEVER, output_reserve_share=1.0), q)
    assert (reserved.preempted, reserved.waiting > 0) == (0, True)


def test_new_requests_are_seen_late_by_who_looks_seldom_or_plans_ahead() -> None:
    arrival = np.array([0.0, 0.505])
    q = requests(np.array([10, 10]), np.array([300, 5]), count=2, arrival_s=arrival)
    usual, seldom = simulated(replica(), q), simulated(replica(receive_interval_steps=30), q)
    ahead = simulated(replica(planning_lag_steps=1), q)
    assert ttft_s(usual)[1] < ttft_s(ahead)[1] < ttft_s(seldom)[1]
    waits = simulated(replica(batch_wait_steps=20, batch_wait_share=0.9), q)
    assert ttft_s(waits)[1] == pytest.approx(ttft_s(usual)[1] + 20 * 0.01, abs=0.011)


def test_streaming_and_tokenising_bound_what_a_server_gives() -> None:
    output = np.random.default_rng(2).integers(50, 151, 9000)
    q = requests(10, output, count=9000, in_flight=64)
    found = simulated(replica(stream_token_s=1e-3), q, warm=500, wanted=8500)
    assert found.finished / found.lasts_s * 100 == pytest.approx(1000, rel=0.03)
    slow = simulated(replica(tokenise_token_s=1e-2, linear_s=np.zeros(200)), requests(10, 1, count=500, in_flight=64))
    assert 500 / slow.to_s == pytest.approx(10, rel=0.03)


def bytes_of(found: SimulationResult) -> bytes:
    """Everything a run found, to the last bit."""
    return b"".join(a.tobytes() for a in (found.first_token_s, found.finish_s, found.gaps.tokens))


def test_the_same_requests_give_the_same_bytes_on_every_machine() -> None:
    tokens = np.arange(3000) * 37 % 1500 + 1
    q = requests(tokens, tokens % 200 + 1, count=3000, arrival_s=np.arange(3000) / 8.0)
    r = replica(attention_token_s=2.0**-30, cache_bytes=60_000.0)
    once, again = simulated(r, q), simulated(r, q)
    assert bytes_of(once) == bytes_of(again)
    assert sha256(bytes_of(once)).hexdigest()[:16] == "888a40f506bf1738"


@given(st.integers(1, 60), st.floats(200.0, 5000.0), st.integers(0, 1), st.integers(0, 2))
def test_every_request_is_answered_in_order_whatever_the_room(
    in_flight: int, room: float, policy: int, preemption: int
) -> None:
    rng = np.random.default_rng(in_flight)
    share = 1.0 if preemption == NEVER else 0.0
    r = replica(policy=policy, preemption=preemption, cache_bytes=room, output_reserve_share=share, max_sequences=20)
    q = requests(rng.integers(1, 150, 300), rng.integers(1, 150, 300), count=300, in_flight=in_flight)
    found = simulated(r, q)
    assert np.isfinite(found.finish_s).all()
    assert (found.finish_s >= found.first_token_s).all()
    assert (found.first_token_s > found.arrival_s).all()
    assert found.running <= 20 + 1e-9
    assert int(found.gaps.tokens.sum()) <= int(q.output_tokens.sum())


@pytest.mark.parametrize(("tokens", "seconds"), [(0.0, 0.0), (2.5, 25.0), (4.0, 40.0), (7.0, 70.0), (40.0, 400.0)])
def test_linear_layers_are_read_between_the_points_and_beyond_them(tokens: float, seconds: float) -> None:
    r = replica(linear_s=np.array([0.0, 10, 20, 30, 40, 80, 120]), linear_exact=4, linear_stride=4)
    assert linear_s(r, tokens) == pytest.approx(seconds)


def test_attention_of_a_prompt_is_read_between_eighths_of_doublings() -> None:
    tokens = np.append(np.outer(2.0 ** np.arange(5), 1 + np.arange(8) / 8).ravel(), 32.0)
    r = replica(prompt_attention_s=tokens)  # as many seconds a token as tokens
    for asked in (1.0, 3.3, 8.0, 20.0, 32.0):
        assert prompt_attention_total_s(r, asked) == pytest.approx(asked**2)


def test_chunks_of_one_prompt_run_in_all_stages_and_the_first_stage_waits_for_the_last_chunk() -> None:
    tokens = np.append(np.outer(2.0 ** np.arange(5), 1 + np.arange(8) / 8).ravel(), 32.0)
    # chunks of 4 tokens; attention of the first t tokens takes t^2 ms: 16, 48, 80 and 112 ms; all else takes no time
    r = replica(
        max_batched_tokens=4,
        stages=2,
        stages_overlap=True,
        prompt_attention_s=tokens * 1e-3,
        linear_s=np.zeros(200),
        decode_s=np.zeros(4097),
    )
    found = simulated(r, requests(16, 1, count=2, arrival_s=np.zeros(2)))
    assert ttft_s(found)[0] == pytest.approx((0.256 + 0.112) / 2)  # the second stage still computes the last chunk
    # the second prompt starts when that chunk has left: (112 - 16) / 2 ms later than stages of equal chunks allow
    assert ttft_s(found)[1] == pytest.approx(0.256 / 2 + (0.112 - 0.016) / 2 + (0.256 + 0.112) / 2)
    in_a_row = simulated(r._replace(stages_overlap=False), requests(16, 1, count=1, arrival_s=np.zeros(1)))
    assert ttft_s(in_a_row)[0] == pytest.approx(0.256)


def test_a_full_replica_finds_the_prefixes_that_sessions_left_a_short_time_ago() -> None:
    # Four sequences of 1,010 tokens and those of 0.5 s fit easily in a cache of 50,000; all that ever ran do not.
    r = replica(max_sequences=4, cache_bytes=5e4)
    count, same = 3200, np.full
    sent = DrawnRequests(
        np.arange(count, dtype=np.float64), same(count, 1000), same(count, 10), same(count, 900), 0, 0.5
    )
    short = DrawnRequests(np.arange(count, dtype=np.float64), same(count, 100), same(count, 10), same(count, 0))
    assert saturation_rate_per_s(r, sent) == pytest.approx(saturation_rate_per_s(r, short), rel=0.05)
    forgotten = replace(sent, reuse_gap_s=1e3)
    assert saturation_rate_per_s(r, forgotten) < 0.9 * saturation_rate_per_s(r, sent)
    # copies in the memory of the machine last longer
    assert saturation_rate_per_s(r._replace(host_cache_bytes=1e9), forgotten) == pytest.approx(
        saturation_rate_per_s(r, sent), rel=0.05
    )


def test_a_prompt_of_one_chunk_delays_decodes_as_much_where_chunks_overlap() -> None:
    """Alone in the pipeline, it leaves the other stage idle; a prompt of two chunks fills both stages once."""

    def lasts_s(chunk: int, *, overlap: bool) -> float:
        r = replica(max_batched_tokens=chunk + 1, stages=2, stages_overlap=overlap)
        late = requests(np.array([1, 100]), np.array([100, 2]), count=2, arrival_s=np.array([0.0, 0.5]))
        return float(simulated(r, late).finish_s[0])

    assert lasts_s(150, overlap=True) == pytest.approx(lasts_s(150, overlap=False), abs=1e-5)
    saved_s = lasts_s(50, overlap=False) - lasts_s(50, overlap=True)
    assert saved_s == pytest.approx(50 * 1e-5 / 2, abs=1e-5)  # half of the first chunk


def test_few_tokens_pad_few_experts() -> None:
    r = replica(padding_equivalent=160.0, expert_share=1 / 16)
    waits = [ttft_s(simulated(r, requests(tokens, 1, count=1, in_flight=1)))[0] for tokens in (8, 16, 32)]
    assert waits == pytest.approx([88e-5, 176e-5, 192e-5])  # 10 us per token: half of the experts, then all


def test_captured_graphs_launch_only_steps_that_they_hold() -> None:
    r = replica(dispatch_s=0.5, graph_dispatch_s=0.1, graph_tokens=512)
    first = [ttft_s(simulated(r, requests(tokens, 1, count=1, in_flight=1)))[0] for tokens in (512, 513)]
    assert first[1] - first[0] == pytest.approx(0.4, abs=0.01)
