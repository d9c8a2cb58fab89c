"""The steady state of a replica, worked by hand: prompts of 10 ms, steps of 20 ms, 200 tokens after the first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.serving.continuous_batching import SchedulingTerms, decode_cadence
from app.sizing.serving.steady_state import (
    batch_rate_per_s,
    burst_wait_s,
    closed_entry_s,
    closed_loop,
    closed_overlap_share,
    decoding_s,
    loop_rate_per_s,
    mva_wait_s,
    open_entry_s,
    open_loop,
    open_overlap_share,
    sequences_seen,
    shared_server_wait_s,
    slots_full_share,
    static_batches,
    steady_batch,
    steady_state,
    token_budget_sequences,
)
from app.sizing.workload import Load
from tests.examples import col
from tests.sizing.serving.test_continuous_batching import stream


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("clients", [1.0, 2.0, 16.0, 64.0])
def test_a_loop_conserves_what_it_does(clients: float, first: bool) -> None:
    """As many turns as requests, and in a turn no more prompts than those of the others."""
    found = closed_loop(stream(prefill_first=first), col(clients), col(256))
    turn = found.ttft_s[0] + 200 * found.tpot_s[0]
    assert found.rate_per_s[0] == pytest.approx(clients / turn)
    added = 200 * (found.tpot_s[0] - 0.020)
    assert 0.9 * (clients - 1) * 0.010 <= added + 1e-12 <= (clients - 1) * 0.010 + 1e-9


def test_more_in_flight_never_lowers_anything() -> None:
    clients = np.unique(np.round(2.0 ** np.arange(0, 11, 0.25)))
    for terms in ({}, {"prefill_first": True}, {"prompt": 0.2, "new_tokens": 2400.0}, {"receive_interval_steps": 10.0}):
        flows = [closed_loop(stream(**terms), col(c), col(512)) for c in clients]
        for name in ("ttft_s", "tpot_s", "rate_per_s"):
            values = np.array([getattr(f, name)[0] for f in flows])
            assert (np.diff(values) >= -3e-3 * values[1:]).all(), (terms, name)


def test_a_saturated_loop_waits_for_the_prompts_of_all_the_others() -> None:
    """Prompts of 1 s and few tokens: 20 clients are served one after another."""
    found = closed_loop(stream(prompt=1.0, new_tokens=1000.0, step=0.001), col(20), col(64))
    assert found.rate_per_s[0] == pytest.approx(1 / 1.0, rel=0.1)
    assert mva_wait_s(col(4), col(1), col(1e-9))[0] == pytest.approx(3)
    assert mva_wait_s(col(4), col(1), col(1e9))[0] == pytest.approx(0, abs=1e-6)
    assert mva_wait_s(col(1), col(1), col(5))[0] == pytest.approx(0)


def test_little_holds_of_a_rate() -> None:
    found = open_loop(stream(), col(5.0), col(64))
    assert found.batch[0] == pytest.approx(5 * 200 * found.tpot_s[0], rel=1e-3)
    assert batch_rate_per_s(col(20), col(200), col(0.02))[0] == 5
    assert sequences_seen(col(3.0, 8.0), col(8, 8)).tolist() == [4, 8]
    assert open_overlap_share(col(0.0), col(0.0), col(1.0))[0] == 0
    assert 0 < slots_full_share(col(32), col(64))[0] < 1e-3 < slots_full_share(col(62), col(64))[0] < 1


def test_a_queue_is_shorter_where_a_step_takes_several() -> None:
    # M/M/1 at 0.8: 4 s; M/D/1 half of it
    assert shared_server_wait_s(col(0.8), col(0.8), col(1), col(1), col(1.0))[0] == pytest.approx(4)
    assert shared_server_wait_s(col(0.8), col(0.8), col(1), col(1), col(0.5))[0] == pytest.approx(2)
    assert shared_server_wait_s(col(0.8), col(0.8), col(1), col(8), col(1.0))[0] < 2.5
    assert np.isinf(shared_server_wait_s(col(1.0), col(1.0), col(1), col(1), col(1.0))[0])
    assert burst_wait_s(col(0.5, 3.0), col(2.0, 2.0), col(0.01, 0.01)).tolist() == pytest.approx([0, 0.01])


def test_entering() -> None:
    # an answer ends a step, so what comes in within it is seen at its end; else in the middle of another
    assert closed_entry_s(col(0.001, 0.1), col(0.02, 0.02), col(0.0, 0.0)).tolist() == pytest.approx([0.02, 0.11])
    assert open_entry_s(col(0.001), col(0.02), col(0.02))[0] == pytest.approx(0.031)
    assert closed_overlap_share(col(1, 1.5, 9)).tolist() == [0, 0.5, 1]


def test_what_a_steps_tokens_leave_room_for() -> None:
    # 1,000 tokens: 200 sequences and the prompt of 800 that follows one of them in every step
    rules = SchedulingTerms.mixing_only(col(1000.0))
    assert token_budget_sequences(rules, col(200), col(800)).tolist() == [200]
    assert loop_rate_per_s(col(10), col(0.0), col(0.001), col(0.01))[0] == 100  # tokenised one after another
    assert decoding_s(col(200), col(0.02), col(1), col(0.01), col(0.5), col(0.01))[0] == pytest.approx(4)


def test_a_static_batch_computes_every_prompt_first() -> None:
    found = static_batches(stream(), col(16), col(64))
    assert found.ttft_s[0] == pytest.approx(0.005 + 16 * 0.010)
    assert found.rate_per_s[0] == pytest.approx(16 / (0.165 + 4))
    assert steady_state(Load.BATCH, stream(), col(16), col(64)).rate_per_s[0] == found.rate_per_s[0]
    assert steady_batch(col(16, 80, 0), col(64, 64, 64)).tolist() == [16, 64, 1]
    offline = steady_state(Load.OFFLINE, stream(), col(64), col(64))
    assert offline.rate_per_s[0] > closed_loop(stream(), col(64), col(64)).rate_per_s[0]


@pytest.mark.parametrize("first", [False, True])
def test_stages_of_a_pipeline_take_prompts_at_the_same_time(first: bool) -> None:
    """Queued prompts of 1 s with few tokens: four stages serve four times the prompts of one."""
    rates = []
    for stages in (1.0, 2.0, 4.0):
        plain = stream(prompt=1.0, new_tokens=1000.0, step=0.001, prefill_first=first)
        piped = replace(plain, step=replace(plain.step, pipeline_parallel=col(stages)))
        found = closed_loop(piped, col(64), col(64), queued=True)
        cadence = decode_cadence(piped, col(4), queued=True)
        assert cadence.added_prompt_s[0] == pytest.approx(1.0 / stages, rel=0.01)
        assert cadence.prompt_service_s[0] == pytest.approx(1.0 / stages, rel=0.01)
        rates.append(found.rate_per_s[0])
    assert rates == pytest.approx([1, 2, 4], rel=0.1)


def test_stages_share_the_latency_of_prompts_that_have_steps_of_their_own() -> None:
    """A step of 3 prompts of 10 ms and 6 ms of link latency: 12 ms each, and 3 ms each on four busy stages."""
    plain = stream(prefill_first=True, new_tokens=1000 / 3)
    linked = replace(plain, prefill=replace(plain.prefill, prefill_links_s=col(0.006)))
    for stages in (1.0, 4.0):
        piped = replace(linked, step=replace(linked.step, pipeline_parallel=col(stages)))
        assert decode_cadence(piped, col(21)).prompt_service_s[0] == pytest.approx(0.012 / stages)


def test_a_closed_loop_waits_for_what_its_scheduler_holds_back() -> None:
    """All 16 clients meet others: a step planned ahead, or 9 steps between polls, delays every first token."""
    plain = closed_loop(stream(), col(16), col(64))
    ahead = closed_loop(stream(planning_lag_steps=1.0), col(16), col(64))
    assert ahead.ttft_s[0] - plain.ttft_s[0] == pytest.approx(plain.mean_step_s[0], rel=0.02)
    polled = stream(receive_interval_steps=9.0)
    seldom, cadence = closed_loop(polled, col(16), col(64)), decode_cadence(polled, col(16))
    own = closed_entry_s(polled.entry_s, cadence.mean_step_s, col(0)) + cadence.prefill_own_s
    held = seldom.ttft_s[0] - seldom.queue_wait_s[0] - own[0]
    assert held == pytest.approx(4 * cadence.tpot_s[0], rel=0.02)
    opened = open_loop(stream(planning_lag_steps=1.0), col(5.0), col(64))
    meeting = 1 - np.exp(-opened.batch[0] - 5 * 0.015)
    later = opened.ttft_s[0] - open_loop(stream(), col(5.0), col(64)).ttft_s[0]
    assert later == pytest.approx(meeting * opened.mean_step_s[0], rel=1e-3)
    for slower in (ahead, seldom):
        assert slower.rate_per_s[0] < plain.rate_per_s[0]
        assert slower.rate_per_s[0] == pytest.approx(16 / (slower.ttft_s[0] + 200 * slower.tpot_s[0]))


def test_a_request_of_an_open_loop_meets_those_whose_prompts_are_computed_too() -> None:
    """No sequence decodes and a prompt takes 0.1 s, twice a second: one in five meets another."""
    assert open_overlap_share(col(0.0), col(2.0), col(0.1))[0] == pytest.approx(1 - np.exp(-0.2))
    assert open_overlap_share(col(1.0), col(2.0), col(0.1))[0] == pytest.approx(1 - np.exp(-1.2))
    single = stream(prompt=1.0, step=0.0001)
    found = open_loop(single, col(0.1), col(64))
    met = 1 - np.exp(-found.batch[0] - 0.1 * (0.005 + 1.0))
    entry = 0.005 + found.mean_step_s[0] / 2
    free = found.ttft_s[0] - found.queue_wait_s[0] - found.slot_wait_s[0]
    assert free == pytest.approx(1.005 + met * (entry + found.prefill_own_s[0] - 1.005))
