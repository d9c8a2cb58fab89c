"""Relations of prefix caches that hold of whatever is asked: hits never cost, waiting and owning alone never pay."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.search import Search
from app.sizing.estimate import estimate_deployment
from app.sizing.finalists import find_finalists
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.capacity import crowded_batch, idle_sessions, prefix_bytes
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import AUTOREGRESSIVE
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo, z_score
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, present, registered
from tests.sizing.scores import best_score
from tests.sizing.serving.given import planned
from tests.sizing.small import ONE_MORE
from tests.sizing.test_competition import CROWDED
from tests.sizing.test_trace import check_estimate

ASSUMED = Assumptions()
# Of full attention, of windows, of a compressed cache and of recurrent states.
GPT_OSS_120B = registered("openai/gpt-oss-120b")
MODELS = (LLAMA_8B, LLAMA_70B, GPT_OSS_120B, registered("deepseek-ai/DeepSeek-V3"))


def session(
    model: ModelArchitecture,
    load: Load,
    peak: float,
    prompt: float,
    output: float,
    tpot: float,
    cached: float,
    share: float,
    gap: float,
) -> InferenceWorkload:
    """A service of sessions: turns that find `cached` of their prompt in the cache after `gap` seconds."""
    return replace(
        CHAT,
        model=model,
        load=load,
        in_flight=float(max(1, round(peak))),
        peak_per_s=peak,
        average_per_s=peak / 2,
        input_tokens=Lengths(prompt, 2 * prompt),
        output_tokens=Lengths(output),
        slo=Slo(4.0, tpot, None, 95.0),
        max_context_tokens=2 * prompt + output,
        cached_prefix_fraction=cached,
        shared_prefix_fraction=share * cached,
        turn_gap_s=gap,
    )


SERVICES = st.builds(
    session,
    st.sampled_from(MODELS),
    st.sampled_from([Load.OPEN, Load.OPEN, Load.CLOSED]),
    st.floats(0.05, 100),
    st.floats(64, 8000),
    st.floats(2, 1000),
    st.floats(0.02, 0.2),
    st.floats(0.05, 0.99),
    st.sampled_from([0.0, 0.0, 0.3, 0.9, 1.0]),
    st.floats(-1, 3.5).map(lambda exponent: 10.0**exponent),
)


def usd(workload: InferenceWorkload, catalog: Catalog = CROWDED) -> float:
    """What the cheapest deployment is ranked by; infinite where there is none."""
    return best_score(Question(workload, limit=1), catalog)


def digits(value: Any) -> Any:
    """Numbers to ten digits: how many plans are judged together moves the last one."""
    if is_dataclass(value):
        return {f.name: digits(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return tuple(map(digits, value))
    return float(f"{value:.10g}") if isinstance(value, float) else value


@pytest.mark.slow
@given(SERVICES, st.sampled_from([0.3, 1.0, 2.0]))
def test_what_is_recommended_is_as_sure_as_asked(catalog: Catalog, workload: InferenceWorkload, ttft_s: float) -> None:
    """Also if all prompts are computed in full because their requests do not wait for hits: these take longer."""
    asked = Question(replace(workload, slo=replace(workload.slo, ttft_s=ttft_s)), limit=3)
    for estimate_ in find_finalists(Search.start(asked, catalog)).estimates:
        sure = present(estimate_.assurance)
        assert sure.meets_slo is None or sure.meets_slo >= asked.constraints.confidence - 1e-6


def test_prompts_computed_whole_are_held_to_their_limits() -> None:
    """Sixty-four at once, each alone on its replica: without hits a second to the first token is too short."""
    sixty_four = replace(
        CHAT,
        model=LLAMA_70B,
        load=Load.CLOSED,
        in_flight=64.0,
        input_tokens=Lengths(8000.0, 12000.0),
        output_tokens=Lengths(1.0),
        slo=Slo(1.0, 0.015, None, 90.0),
        max_context_tokens=12001,
        cached_prefix_fraction=0.5,
        turn_gap_s=60.0,
    )
    question = Question(sixty_four, limit=50)
    for estimate_ in find_finalists(Search.start(question, CROWDED)).estimates:
        assert estimate_.assurance is not None
        assert (estimate_.assurance.meets_slo or 0.0) >= question.constraints.confidence


@pytest.mark.slow
@given(SERVICES)
def test_hits_never_cost_more_than_none(workload: InferenceWorkload) -> None:
    assert usd(workload) <= usd(workload.without_hits) * ONE_MORE


@pytest.mark.slow
@given(SERVICES, st.floats(1, 100))
def test_longer_gaps_never_cost_less(workload: InferenceWorkload, times: float) -> None:
    longer = replace(workload, turn_gap_s=times * workload.turn_gap_s)
    assert usd(workload) <= usd(longer) * ONE_MORE


@pytest.mark.slow
@given(SERVICES, st.floats(0, 1))
def test_more_that_all_share_never_costs_more(workload: InferenceWorkload, share: float) -> None:
    own = workload.cached_prefix_fraction - workload.shared_prefix_fraction
    shared = min(workload.shared_prefix_fraction + share * own, workload.cached_prefix_fraction)
    sharing = replace(workload, shared_prefix_fraction=shared)
    assert usd(sharing) <= usd(workload) * ONE_MORE
    if workload.load is Load.OPEN:
        plans = planned(workload.model, of=CROWDED)
        (_, alone), (_, together) = speeds(workload, plans), speeds(sharing, plans)
        assert (together.capacity_per_s >= alone.capacity_per_s * (1 - 1e-12)).all()


@pytest.mark.slow
@given(SERVICES)
def test_no_gap_is_hits_for_free(workload: InferenceWorkload) -> None:
    assert usd(replace(workload, turn_gap_s=0.0)) <= usd(workload) * ONE_MORE
    offline = replace(workload, load=Load.OFFLINE)
    assert usd(offline) == usd(replace(offline, turn_gap_s=0.0))


def speeds(workload: InferenceWorkload, plans: Plans) -> tuple[Any, Any]:
    memory = AUTOREGRESSIVE.estimate_memory(workload, plans, ASSUMED, Settings())
    alone = AUTOREGRESSIVE.unloaded_latency(workload, plans, memory, ASSUMED)
    return memory, AUTOREGRESSIVE.estimate_speed(workload, memory, alone, ASSUMED)


@given(SERVICES)
@example(session(LLAMA_70B, Load.CLOSED, 1.0, 64.0, 2.0, 0.125, 0.5, 0.0, 100.0))  # more in flight is slower
def test_running_and_idle_sequences_fit_at_the_stated_capacity(workload: InferenceWorkload) -> None:
    plans = planned(workload.model, of=CROWDED)
    memory, speed = speeds(workload, plans)
    rows = np.flatnonzero(memory.fits & speed.has_capacity & speed.prefix_reservation.hits_counted)
    if not len(rows):
        return
    memory, speed, prefixes = memory.take(rows), speed.take(rows), memory.prefixes.take(rows)
    rate = speed.capacity_per_s
    if workload.load is Load.OPEN:
        workload = replace(workload, peak_per_s=float(rate[0]))
        memory, speed, prefixes = (table.take(np.array([0])) for table in (memory, speed, prefixes))
        rate = rate[:1]
    operation = AUTOREGRESSIVE.operating_point(workload, memory, speed, np.ones(len(memory)))
    batch = speed.slo_batch
    if workload.load is Load.OPEN:
        batch = crowded_batch(operation.batch, z_score(workload.slo.percentile), speed.slo_batch)
    ranks = plans.take(rows).data_parallel[: len(batch)]
    waiting = prefix_bytes(idle_sessions(rate / ranks, prefixes.turn_gap_s), prefixes.own_bytes, prefixes.shared_bytes)
    assert (batch / ranks * memory.held_bytes_per_sequence + waiting <= memory.kv_pool_bytes * (1 + 1e-3)).all()


@given(SERVICES, st.floats(1, 100))
def test_a_replicas_capacity_never_grows_with_the_gap(workload: InferenceWorkload, times: float) -> None:
    plans = planned(workload.model, of=CROWDED)
    _, near = speeds(workload, plans)
    _, far = speeds(replace(workload, turn_gap_s=times * workload.turn_gap_s), plans)
    if workload.load is Load.OPEN:
        assert (far.capacity_per_s <= near.capacity_per_s * (1 + 1e-12)).all()
    _, bare = speeds(workload.without_hits, plans)
    if workload.load is Load.OPEN:
        assert (far.capacity_per_s >= bare.capacity_per_s * (1 - 1e-12)).all()


@pytest.mark.slow
@settings(max_examples=12)
@given(SERVICES)
def test_a_recommended_deployment_estimates_to_the_same_numbers(catalog: Catalog, workload: InferenceWorkload) -> None:
    workload = replace(workload, model=LLAMA_8B)
    for ranked in recommend_hardware(Question(workload, limit=2), catalog).recommendations:
        shown, fewer = ranked.estimate, workload.without_session_hits
        found = estimate_deployment(Question(workload), shown.deployment, catalog)
        if fewer is not None and digits(found.prefixes) != digits(shown.prefixes):  # fewer hits cost less
            found = estimate_deployment(Question(fewer), shown.deployment, catalog)
        assert found.performance is not None and shown.performance is not None
        if ranked.rank > 1:  # only the first option has its whole load curve
            found = replace(found, performance=replace(found.performance, load_curve=shown.performance.load_curve))
        for of in ("performance", "memory", "prefixes"):
            assert digits(getattr(found, of)) == digits(getattr(shown, of))


@pytest.mark.slow
@settings(max_examples=8)
@given(SERVICES)
@example(session(GPT_OSS_120B, Load.CLOSED, 1.0, 64.0, 2.0, 0.125, 0.5, 0.0, 1.0))  # some layouts compute on the host
def test_every_line_of_its_trace_recomputes(catalog: Catalog, workload: InferenceWorkload) -> None:
    for ranked in recommend_hardware(Question(workload, limit=2, trace=True), catalog).recommendations:
        check_estimate(ranked.estimate)


def test_a_trace_shows_sessions_and_what_they_fill(catalog: Catalog) -> None:
    workload = replace(CHAT, cached_prefix_fraction=0.9, turn_gap_s=5.0)
    (best,) = recommend_hardware(Question(workload, limit=1, trace=True), catalog).recommendations
    lines = {s.name: s.value for s in best.estimate.trace}
    kept, memory = best.estimate.prefixes, best.estimate.memory
    assert kept is not None
    assert memory is not None
    assert kept.counted
    assert lines["idle_sessions (at the load)"] == kept.sessions == memory.idle_sessions
    assert lines["prefix_bytes (at the load)"] == memory.prefix_cache_bytes
    assert {"capacity_with_hits_per_s (with hits, with idle prefixes)", "hits_counted"} <= set(lines)


def test_capacity_of_what_is_fixed_does_not_hang_on_the_load(catalog: Catalog) -> None:
    layout: dict[str, Any] = {"tensor_parallel": 4, "pipeline_parallel": 1, "weight_format": "fp8", "kv_format": "bf16"}
    deployment = Deployment("nvidia-h100-sxm5-80gb", engine="vllm", replicas=1, **layout)
    agents = replace(
        CHAT,
        model=LLAMA_70B,
        input_tokens=Lengths(20_000.0),
        output_tokens=Lengths(400.0),
        max_context_tokens=20_400.0,
        slo=Slo(8.0, 0.05, None, 95),
        cached_prefix_fraction=0.9,
        turn_gap_s=30.0,
    )
    capacities = []
    for rate in (0.1, 1.0, 20.0):
        asked = Question(replace(agents, peak_per_s=rate, average_per_s=rate))
        performance = present(estimate_deployment(asked, deployment, catalog).performance)
        capacities.append(performance.requests_per_s_capacity)
    assert capacities[0] == capacities[1] == capacities[2]
