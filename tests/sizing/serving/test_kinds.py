"""Streams of tokens and single passes: decided once, judged by the same steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelKind
from app.sizing.model.sample import SampleWork
from app.sizing.question import DraftMethod, Speculative
from app.sizing.serving.capacity import StreamSpeed
from app.sizing.serving.collectives import link_speed
from app.sizing.serving.continuous_batching import idle_first_token_s
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE, SINGLE_FORWARD, meets_unloaded_limits, serving_backend
from app.sizing.serving.margins import Margins
from app.sizing.serving.prefill import prefill_terms
from app.sizing.serving.step import step_terms
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import row
from tests.sizing.serving.given import DENSE, STEADY, links_of, on_big, prompt_of, step_of, varied

ASSUMED = Assumptions()
PICTURES = replace(DENSE, sample=SampleWork(flops=1e12, moved_bytes=1e9, live_bytes=1e8, layers=30))


def test_what_generates_streams_and_the_rest_passes_once() -> None:
    assert serving_backend(STEADY) is AUTOREGRESSIVE
    assert serving_backend(varied(model=replace(DENSE, kind=ModelKind.ENCODER))) is SINGLE_FORWARD
    assert serving_backend(varied(model=PICTURES)) is SINGLE_FORWARD
    assert (AUTOREGRESSIVE.phase, SINGLE_FORWARD.phase) == ("inference", "sample_inference")


def streamed(workload: InferenceWorkload, speculative: Speculative | None = None) -> StreamSpeed:
    plans = on_big(workload.model, speculative=speculative)
    memory = AUTOREGRESSIVE.estimate_memory(workload, plans, ASSUMED, Settings())
    return AUTOREGRESSIVE.estimate_speed(
        workload, memory, AUTOREGRESSIVE.unloaded_latency(workload, plans, memory, ASSUMED), ASSUMED
    )


def test_a_streams_memory_holds_its_own_lengths() -> None:
    """1001 tokens in the end, of which 201 come out one by one; at most 2048."""
    memory = AUTOREGRESSIVE.estimate_memory(STEADY, on_big(), ASSUMED, Settings(memory_fraction=np.full(1, 0.1)))
    token = 4 * 2 * 4 * 128 * 2
    assert memory.cache_bytes_per_sequence.tolist() == [1001 * token]
    assert memory.longest_sequence_bytes.tolist() == [2048 * token]
    assert memory.sequences.tolist() == [min(1024, memory.kv_pool_bytes[0] // (900.5 * token))]


def test_a_streams_step_reads_half_its_output_and_its_prompt_is_computed_but_for_the_cached_part() -> None:
    workload = varied(input_tokens=Lengths(800.0, 2000.0), cached_prefix_fraction=0.25, encoder_flops_per_request=1e12)
    found = streamed(workload)
    plans = on_big()
    links = link_speed(links_of(plans), plans.achieved_rates)
    step = step_terms(step_of(DENSE, plans, context_tokens=900.5), plans.achieved_rates, links)
    assert found.step.attention_slope_s.tolist() == step.attention_slope_s.tolist()
    assert found.prefill.new_tokens.tolist() == [600]
    work = prompt_of(DENSE, plans, prompt_tokens=800.0, cached_tokens=200.0, encoder_flops=1e12)
    assert found.prefill.prompt_linear_s[0] == pytest.approx(work.prompt_linear_flops[0] / (1e15 * 0.8 * 0.7))
    # the limit is held against the prompt of the 95th percentile: 2000 tokens of which 500 are cached
    tail = prompt_of(DENSE, plans, prompt_tokens=2000.0, cached_tokens=500.0, encoder_flops=1e12)
    alone = idle_first_token_s(prefill_terms(tail, plans.achieved_rates, links), np.full(1, 8192.0))
    assert found.unloaded.fastest_ttft_s.tolist() == pytest.approx(alone.tolist())
    assert alone[0] > streamed(STEADY).unloaded.fastest_ttft_s[0]


def test_speculation_reaches_the_step() -> None:
    found = streamed(STEADY, Speculative(DraftMethod.NGRAM, 3, 0.5))
    assert (found.step.drafted_tokens, found.step.accepted_tokens_per_step) == (3, 1.875)
    assert streamed(STEADY).step.drafted_tokens == 0


@pytest.mark.parametrize(
    ("slo", "met"),
    [
        (Slo(None, None, None, 95), (True, True)),
        (Slo(None, 1e-5, None, 95), (False, True)),
        (Slo(1e-4, None, None, 95), (True, False)),
    ],
)
def test_a_stream_must_meet_its_limits_alone(slo: Slo, met: tuple[bool, bool]) -> None:
    alone = streamed(varied(slo=slo)).unloaded
    limits = AUTOREGRESSIVE.latency_limits(alone, slo)
    assert [limit.code for limit in limits] == ["too_slow_per_token", "too_slow_to_first_token"]
    assert tuple(bool(limit.met[0]) for limit in limits) == met
    assert tuple(bool(limit.expected[0]) for limit in limits) == met
    assert limits[0].needed_s.tolist() == alone.fastest_tpot_s.tolist()
    assert limits[1].needed_s.tolist() == alone.fastest_ttft_s.tolist()
    assert limits[0].available_s.tolist() == alone.tpot_limit_s.tolist()
    assert limits[1].available_s.tolist() == alone.ttft_limit_s.tolist()


def test_margins_scale_the_limits() -> None:
    """Half as slow again at the confidence asked for: alone 1.5 times as slow, of the limit two thirds are left."""
    plans, slo = on_big(), Slo(1.0, 0.05, None, 95)
    memory = AUTOREGRESSIVE.estimate_memory(STEADY, plans, ASSUMED, Settings())
    expected = streamed(varied(slo=slo)).unloaded
    by = Margins(np.full(1, 1.2), np.full(1, 1.5), np.full(1, 2.0), np.zeros(1))
    found = AUTOREGRESSIVE.unloaded_latency(varied(slo=slo), plans, memory, ASSUMED, by)
    again = AUTOREGRESSIVE.with_margins(varied(slo=slo), expected, by)
    assert (again.tpot_limit_s, again.ttft_limit_s) == (found.tpot_limit_s, found.ttft_limit_s)
    assert again.margins is by
    token, first = AUTOREGRESSIVE.latency_limits(found, STEADY.slo)
    assert token.needed_s == pytest.approx(1.5 * expected.fastest_tpot_s)
    assert first.needed_s == pytest.approx(2.0 * expected.fastest_ttft_s)
    assert (token.available_s[0], first.available_s[0]) == pytest.approx((0.05, 1.0))
    assert (found.tpot_limit_s[0], found.ttft_limit_s[0]) == pytest.approx((0.05 / 1.5, 0.5))
    limit = float(np.sqrt(1.5)) * found.fastest_tpot_s  # met as predicted, not by the margin
    (token, _) = AUTOREGRESSIVE.latency_limits(
        replace(found, within=replace(found.within, tpot_limit_s=limit / 1.5)), STEADY.slo
    )
    assert (bool(token.met[0]), bool(token.expected[0])) == (False, True)


def test_a_whole_request_takes_its_parts_by_their_margins() -> None:
    operation: Any = row(ttft_p50_s=np.array([1.0, np.inf]), e2e_p50_s=np.array([5.0, np.inf]))
    by = Margins(*np.array([[1.2, 1.2], [1.5, 1.5], [2.0, 2.0], [0.0, 0.0]]))
    assert AUTOREGRESSIVE.latency_s(operation, by).tolist() == [2.0 + 4 * 1.5, np.inf]
    assert SINGLE_FORWARD.latency_s(operation, by).tolist() == [6.0, np.inf]


def test_limits_met_to_the_nanosecond_are_met() -> None:
    speed = streamed(STEADY)
    alone = speed.unloaded
    within = replace(alone.within, tpot_limit_s=alone.fastest_tpot_s, ttft_limit_s=alone.fastest_ttft_s)
    assert all(bool(limit.met[0]) for limit in AUTOREGRESSIVE.latency_limits(replace(alone, within=within), STEADY.slo))


def test_a_replica_that_does_nothing_within_its_limits_is_not_able() -> None:
    memory, speed = AUTOREGRESSIVE.estimate_memory(STEADY, on_big(), ASSUMED, Settings()), streamed(STEADY)
    assert meets_unloaded_limits(STEADY, memory, speed).tolist() == [True]
    assert meets_unloaded_limits(STEADY, memory, replace(speed, capacity_per_s=np.zeros(1))).tolist() == [False]


def test_a_single_pass_has_one_limit() -> None:
    workload = varied(model=PICTURES, load=Load.OPEN, slo=Slo(None, None, 0.1, 95))
    plans: Any = on_big()
    memory = SINGLE_FORWARD.estimate_memory(workload, plans, ASSUMED, Settings())
    alone = SINGLE_FORWARD.unloaded_latency(workload, plans, memory, ASSUMED)
    speed = SINGLE_FORWARD.estimate_speed(workload, memory, alone, ASSUMED)
    (limit,) = SINGLE_FORWARD.latency_limits(alone, STEADY.slo)
    assert (limit.code, bool(limit.met[0]), limit.available_s[0]) == ("too_slow", True, 0.1)
    assert limit.needed_s.tolist() == alone.fastest_e2e_s.tolist()
    (exact,) = SINGLE_FORWARD.latency_limits(replace(alone, e2e_limit_s=alone.fastest_e2e_s), STEADY.slo)
    assert bool(exact.met[0])
    operation = SINGLE_FORWARD.operating_point(workload, memory, speed, np.ones(1))
    assert operation.rate_per_s.tolist() == [10]


def test_nothing_beats_reading_the_weights_at_full_bandwidth() -> None:
    """A card at its sheet's rates: a token takes the weights and caches over 3.2 TB/s, a prompt its FLOP over 1e15."""
    workload, plans = varied(load=Load.CLOSED, in_flight=4.0), on_big()
    memory = AUTOREGRESSIVE.estimate_memory(workload, plans, ASSUMED, Settings())
    speed = AUTOREGRESSIVE.estimate_speed(
        workload, memory, AUTOREGRESSIVE.unloaded_latency(workload, plans, memory, ASSUMED), ASSUMED
    )
    operation = AUTOREGRESSIVE.operating_point(workload, memory, speed, np.ones(1))
    best = AUTOREGRESSIVE.hardware_bound(workload, plans, memory, speed, operation, ASSUMED)
    work = step_of(DENSE, plans, context_tokens=900.5)
    prompt = prompt_of(DENSE, plans, prompt_tokens=800.0)
    prefill = (prompt.prompt_linear_flops + prompt.score_flops) / 1e15
    step = (plans.streamed_bytes + 4 * work.cache_read_bytes) / 3.2e12
    assert best.tpot_s == pytest.approx(step + 3 / 200 * prefill, rel=0.02)
    assert best.ttft_s == pytest.approx(prefill, rel=0.02)  # on an idle replica
    assert best.rate_per_s == pytest.approx(4 / (4 * prefill + 200 * step), rel=0.02)
    assert best.tpot_s < operation.tpot_p50_s
    assert best.ttft_s < operation.ttft_p50_s
    assert best.rate_per_s > operation.rate_per_s


def test_nothing_beats_reading_the_weights_for_every_token_of_one_at_a_time() -> None:
    """A short prompt alone reads the weights as often as an answer has tokens: the first comes with the prompt."""
    workload, plans = (
        varied(load=Load.CLOSED, in_flight=1.0, input_tokens=Lengths(8), output_tokens=Lengths(4)),
        on_big(),
    )
    memory = AUTOREGRESSIVE.estimate_memory(workload, plans, ASSUMED, Settings(max_sequences=np.ones(1)))
    speed = AUTOREGRESSIVE.estimate_speed(
        workload, memory, AUTOREGRESSIVE.unloaded_latency(workload, plans, memory, ASSUMED), ASSUMED
    )
    operation = AUTOREGRESSIVE.operating_point(workload, memory, speed, np.ones(1))
    best = AUTOREGRESSIVE.hardware_bound(workload, plans, memory, speed, operation, ASSUMED)
    read = plans.streamed_bytes / 3.2e12
    assert best.rate_per_s == pytest.approx(1 / (4 * read), rel=0.05)


def test_nothing_beats_a_pass_at_full_rate() -> None:
    workload, plans = varied(model=PICTURES, load=Load.OPEN, slo=Slo(None, None, 0.1, 95)), on_big()
    memory = SINGLE_FORWARD.estimate_memory(workload, plans, ASSUMED, Settings())
    speed = SINGLE_FORWARD.estimate_speed(
        workload, memory, SINGLE_FORWARD.unloaded_latency(workload, plans, memory, ASSUMED), ASSUMED
    )
    operation = SINGLE_FORWARD.operating_point(workload, memory, speed, np.ones(1))
    best = SINGLE_FORWARD.hardware_bound(workload, plans, memory, speed, operation, ASSUMED)
    assert best.rate_per_s == pytest.approx(1e15 / 1e12, rel=0.02)  # 1e12 FLOP a picture
    assert speed.capacity_per_s < best.rate_per_s
    assert best.tpot_s < operation.e2e_p50_s
