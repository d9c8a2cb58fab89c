"""Properties that hold for every request: monotone, conserving, bounded, blind to the order of rows."""

from __future__ import annotations

import random
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from app.catalog.snapshot import CatalogStore
from app.db import make_engine
from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.parts import Environment, Offer, PricingModel, System
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer
from app.sizing.snapshot import Catalog
from app.sizing.uncertainty import POOLS
from app.sizing.workload import InferenceWorkload, Lengths, Load, Redundancy, Slo, TrainingWorkload
from tests.examples import CHAT, LLAMA_8B, LLAMA_70B, PRETRAIN, present
from tests.sizing.scores import shown_performance
from tests.sizing.small import ONE_MORE

WORKLOADS = st.builds(
    lambda model, peak, prompt, spread, output, ttft, tpot, percentile, burst, spare: replace(
        CHAT,
        model=model,
        peak_per_s=peak,
        average_per_s=peak / 2,
        input_tokens=Lengths(prompt, prompt * spread),
        output_tokens=Lengths(output),
        slo=Slo(ttft, tpot, None, percentile),
        burstiness=burst,
        redundancy=Redundancy(spare=spare),
        max_context_tokens=prompt * spread + output,
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B]),
    st.floats(0.05, 200),
    st.floats(16, 8000),
    st.floats(1, 3),
    st.floats(2, 2000),
    st.floats(0.2, 5),
    st.floats(0.01, 0.2),
    st.sampled_from([50.0, 90.0, 95.0, 99.0]),
    st.floats(0, 4),
    st.integers(0, 2),
)


def cheapest(answer: Answer) -> float:
    """Cost of the best plan; infinite where there is none."""
    costs = [r.estimate.cost.usd_per_hour for r in answer.recommendations if r.estimate.cost is not None]
    return costs[0] if costs and costs[0] is not None else float("inf")


@pytest.mark.slow
@given(WORKLOADS, st.floats(1.01, 4))
def test_more_traffic_is_never_cheaper(catalog: Catalog, workload: InferenceWorkload, factor: float) -> None:
    busier = replace(workload, peak_per_s=workload.peak_per_s * factor)
    assert (
        cheapest(recommend_hardware(Question(busier, limit=1), catalog))
        >= cheapest(recommend_hardware(Question(workload, limit=1), catalog)) - 1e-9
    )


@pytest.mark.slow
@given(WORKLOADS, st.floats(1.01, 4))
def test_a_looser_slo_is_never_dearer(catalog: Catalog, workload: InferenceWorkload, factor: float) -> None:
    slo = workload.slo
    loose = replace(workload, slo=replace(slo, ttft_s=(slo.ttft_s or 1) * factor, tpot_s=(slo.tpot_s or 1) * factor))
    found, tight = (cheapest(recommend_hardware(Question(w, limit=1), catalog)) for w in (loose, workload))
    assert found <= tight * ONE_MORE


QUESTIONS = st.one_of(
    st.builds(Question, WORKLOADS, limit=st.integers(1, 5)),
    st.builds(
        lambda model, tokens, days, limit: Question(
            replace(PRETRAIN, model=model, units=tokens, deadline_s=days * 86400), limit=limit
        ),
        st.sampled_from([LLAMA_8B, LLAMA_70B]),
        st.floats(1e9, 1e11),
        st.floats(2, 60),
        st.integers(1, 5),
    ),
)


@pytest.mark.slow
@given(QUESTIONS)
def test_the_first_is_at_most_a_near_tie_dearer_than_another_and_says_so(catalog: Catalog, question: Question) -> None:
    ranked = recommend_hardware(question, catalog).recommendations
    if not ranked:
        return
    best = max(place.score for place in ranked)
    assert best == 1 and ranked[0].score >= 1 / (1 + question.assumptions.near_tie_share) - 1e-9
    assert [place.score for place in ranked[1:]] == sorted((place.score for place in ranked[1:]), reverse=True)
    said = {reason.code for reason in ranked[0].estimate.explanation}
    assert ranked[0].score == 1 or {"published_use", "near_tie"} <= said


@pytest.mark.slow
@given(WORKLOADS)
def test_nothing_ranked_exceeds_its_memory_and_parts_sum(catalog: Catalog, workload: InferenceWorkload) -> None:
    answer = recommend_hardware(Question(workload, limit=50), catalog)
    for ranked in answer.recommendations:
        memory = present(ranked.estimate.memory)
        assert memory.total_bytes <= memory.usable_bytes * (1 + 1e-9)
        assert memory.usable_bytes <= memory.capacity_bytes
        parts = (memory.weights_bytes, memory.kv_cache_bytes, memory.activation_bytes, memory.overhead_bytes)
        assert sum(parts) == pytest.approx(memory.total_bytes)
    whole = [r.estimate.deployment for r in answer.recommendations if r.estimate.deployment.pools is None]
    accelerators = [deployment.accelerator for deployment in whole]
    assert len(accelerators) == len(set(accelerators))


LIMITS = st.builds(
    Constraints,
    environments=st.sampled_from([(), (Environment.CLOUD,), (Environment.ON_PREM,)]),
    regions=st.sampled_from([(), ("eu-*",)]),
    vendors=st.sampled_from([(), ("NVIDIA",), ("amd", "google")]),
    weight_formats=st.sampled_from([(), ("bf16",), ("fp16",), ("int4-awq", "nvfp4"), ("gguf-q4_k_m",)]),
    kv_formats=st.sampled_from([(), ("fp8",), ("bf16", "int8")]),
    engines=st.sampled_from([(), ("vllm",), ("llama.cpp", "mlx")]),
    max_accelerators=st.sampled_from([None, 1, 8]),
    max_usd_per_hour=st.sampled_from([None, 1.0, 20.0]),
    max_purchase_usd=st.sampled_from([None, 3000.0]),
    max_power_w=st.sampled_from([None, 1000.0]),
)


@pytest.mark.slow
@given(WORKLOADS, LIMITS)
def test_every_type_is_ranked_or_turned_down(
    catalog: Catalog, workload: InferenceWorkload, limits: Constraints
) -> None:
    answer = recommend_hardware(Question(workload, limits, limit=50), catalog)
    for ranked in answer.recommendations:
        d, cost = ranked.estimate.deployment, ranked.estimate.cost
        assert cost is not None
        assert limits.max_accelerators is None or (d.total_accelerators or 0) <= limits.max_accelerators
        assert limits.max_usd_per_hour is None or (cost.usd_per_hour or 0) <= limits.max_usd_per_hour
        assert limits.max_purchase_usd is None or (cost.purchase_usd or 0) <= limits.max_purchase_usd
        assert not limits.weight_formats or d.weight_format in limits.weight_formats
        assert not limits.kv_formats or d.kv_format in limits.kv_formats
        assert not limits.engines or d.engine in limits.engines
    feasible = answer.considered.feasible_accelerators
    assert (
        feasible + sum(answer.rejected_by_code.values()) == answer.considered.accelerators == len(catalog.accelerators)
    )


@pytest.mark.slow
@given(WORKLOADS)
def test_every_ranked_plan_meets_the_limits_it_was_given(catalog: Catalog, workload: InferenceWorkload) -> None:
    answer = recommend_hardware(Question(workload, limit=5), catalog)
    for ranked in answer.recommendations:
        performance = present(ranked.estimate.performance)
        stable_per_s = performance.unstable_above_requests_per_s or 0  # the reserve is a share of it
        assert workload.peak_per_s <= workload.target_utilization * stable_per_s * (1 + 1e-6)
        assert (performance.utilization_at_peak or 0) <= 1 + 1e-6
        assert performance.tpot is not None
        at = {50.0: performance.tpot.p50_s, 95.0: performance.tpot.p95_s, 99.0: performance.tpot.p99_s}.get(
            workload.slo.percentile
        )
        if at is not None:
            assert at <= (workload.slo.tpot_s or 0) * 1.01


@pytest.mark.slow
@given(WORKLOADS, st.booleans())
def test_an_estimate_of_a_recommendation_gives_its_numbers(
    catalog: Catalog, workload: InferenceWorkload, trace: bool
) -> None:
    for ranked in recommend_hardware(Question(workload, limit=3), catalog).recommendations:
        again = estimate_deployment(Question(workload, trace=trace), ranked.estimate.deployment, catalog)
        assert shown_performance(again, ranked.rank) == shown_performance(ranked.estimate, ranked.rank)
        assert again.memory == ranked.estimate.memory
        assert again.cost == ranked.estimate.cost
        assert again.deployment == ranked.estimate.deployment


RUNS = st.builds(
    lambda model, units, sequence, batch, days: replace(
        PRETRAIN,
        model=model,
        units=units,
        units_per_sequence=float(sequence),
        global_batch=batch,
        deadline_s=days * 86400.0,
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B]),
    st.floats(1e8, 1e12),
    st.sampled_from([512, 2048, 8192]),
    st.sampled_from([16, 128, 1024, 1536]),
    st.floats(1, 365),
)


@pytest.mark.slow
@given(RUNS)
def test_training_plans_fit_meet_the_deadline_and_round_trip(catalog: Catalog, workload: TrainingWorkload) -> None:
    answer = recommend_hardware(Question(workload, limit=3), catalog)
    for ranked in answer.recommendations:
        memory, performance, d = ranked.estimate.memory, ranked.estimate.performance, ranked.estimate.deployment
        assert memory is not None
        assert performance is not None
        assert memory.total_bytes <= memory.usable_bytes
        assert (performance.days or 0) * 86400 <= workload.deadline_s * (1 + 1e-9)
        assert sum((performance.step_breakdown_s or {}).values()) == pytest.approx(performance.step_time_s)
        assert 0 < (performance.mfu or 0) < 1
        assert (d.tensor_parallel or 0) * (d.pipeline_parallel or 0) * (
            d.data_parallel or 0
        ) == d.accelerators_per_replica
        again = estimate_deployment(Question(workload), d, catalog)
        assert again.performance == performance
        assert again.memory == memory
        assert again.cost == ranked.estimate.cost


@pytest.mark.slow
@given(RUNS, st.floats(1.01, 5))
def test_a_longer_run_is_never_cheaper(catalog: Catalog, workload: TrainingWorkload, factor: float) -> None:
    def total(w: TrainingWorkload) -> float:
        found = recommend_hardware(Question(w, limit=1), catalog).recommendations
        cost = found[0].estimate.cost if found else None
        return cost.usd_total if cost is not None and cost.usd_total is not None else float("inf")

    assert total(replace(workload, units=workload.units * factor)) >= total(workload) * (1 - 1e-9)


T = TypeVar("T")
QUANTITIES = ("throughput", "single_stream", "tpot", "e2e", "ttft", "prefill", *POOLS)


def bought_whole(catalog: Catalog) -> list[System]:
    """The systems that the catalog was built from, without those that it made of parts."""
    return [system for system in catalog.systems.values() if not system.slug.startswith("host-")]


def shuffled(catalog: Catalog, seed: int) -> Catalog:
    """The same catalogue with rows in another order."""
    rng = random.Random(seed)

    def mixed(rows: Iterable[T]) -> list[T]:
        listed = list(rows)
        rng.shuffle(listed)
        return listed

    coefficients = mixed(catalog.coefficients.rows.values())
    return Catalog(
        accelerators=mixed(catalog.accelerators),
        systems=mixed(bought_whole(catalog)),
        offers=mixed(catalog.offers),
        support=tuple(catalog.documents.rows.values()),
        coefficients=coefficients,
        factors=[f for found in catalog.coefficients.factors.values() for f in found],
        spreads=[catalog.spreads.get_spread(quantity) for quantity in QUANTITIES],
        evidence=catalog.evidence,
        version=catalog.version,
        prices_as_of=catalog.prices_as_of,
        created_at=catalog.created_at,
        places=catalog.places,
        region_countries=catalog.region_countries,
    )


@pytest.mark.slow
def test_the_order_of_rows_changes_nothing(catalog: Catalog) -> None:
    mixed = shuffled(catalog, seed=1)
    for workload in (CHAT, PRETRAIN):
        assert recommend_hardware(Question(workload, trace=True), mixed) == recommend_hardware(
            Question(workload, trace=True), catalog
        )


THREE_TYPES = ("nvidia-l4", "nvidia-h100-sxm5-80gb", "amd-mi300x")


@pytest.mark.slow
@given(
    WORKLOADS,
    st.sampled_from(THREE_TYPES),
    st.sampled_from([1.0, 8.0]),
    st.floats(0.01, 100),
)
def test_adding_an_offer_never_worsens_the_best(
    catalog: Catalog, workload: InferenceWorkload, accelerator: str, count: float, price: float
) -> None:
    offer = Offer(
        "new", "eu-1", f"new-{count:g}", None, accelerator, count, PricingModel.ON_DEMAND, price, "a test", "2026-01-01"
    )
    more = copy(catalog)
    for name in ("capacity", "price_days", "first_rent_day"):
        vars(more).pop(name, None)
    more._index_prices(bought_whole(catalog), [*catalog.offers, offer], catalog.past_offers)
    question = Question(workload, Constraints(accelerators=THREE_TYPES), limit=1)
    assert cheapest(recommend_hardware(question, more)) <= cheapest(recommend_hardware(question, catalog)) + 1e-9


LARGEST = "nvidia-b300-sxm-270gb"
FEW_REQUESTS = Assumptions(simulated_requests=1000)


@pytest.mark.slow
def test_every_model_of_the_catalogue_is_sized_without_error(
    catalog: Catalog, catalog_store: CatalogStore, sqlite_url: str
) -> None:
    """Each on the type that holds the largest, and one in eight on the best of four types."""
    from sqlalchemy import select  # noqa: PLC0415

    from app.catalog.tables import ModelRow  # noqa: PLC0415

    engine = make_engine(sqlite_url)
    with Session(engine) as session:
        names = session.scalars(select(ModelRow.id).order_by(ModelRow.id)).all()
    engine.dispose()
    limits = Constraints(accelerators=(*THREE_TYPES, LARGEST))
    for place, name in enumerate(names):
        model: ModelArchitecture = catalog_store.find_model(name)
        context = float(min(512, model.max_context_tokens or 512))
        workload = replace(
            CHAT,
            model=model,
            peak_per_s=0.2,
            average_per_s=0.1,
            input_tokens=Lengths(context / 2),
            output_tokens=Lengths(context / 4),
            slo=Slo(60.0, 5.0, None, 95) if model.kind.value == "decoder" else Slo(None, None, 20000.0, 95),
            max_context_tokens=context,
        )
        question = Question(workload, limits, limit=1, extras=frozenset(), assumptions=FEW_REQUESTS)
        if place % 8:
            found = estimate_deployment(question, Deployment(LARGEST), catalog)
        else:
            (ranked,) = recommend_hardware(question, catalog).recommendations
            found = ranked.estimate
        assert found.fits and found.performance is not None, name
        assert np.isfinite(found.performance.interval.low), name


def test_load_kinds_agree_on_the_same_operating_point(catalog: Catalog) -> None:
    """64 in flight for ever and the rate that this comes to keep as many sequences running."""
    deployment = Deployment(
        accelerator="nvidia-h100-sxm5-80gb",
        tensor_parallel=1,
        engine="vllm",
        weight_format="bf16",
        replicas=1,
        spare_replicas=0,
        max_batch=256,
    )
    flat = replace(CHAT, input_tokens=Lengths(1024), output_tokens=Lengths(256), slo=Slo(None, None, None, 95))
    closed = present(
        estimate_deployment(Question(replace(flat, load=Load.CLOSED, in_flight=64.0)), deployment, catalog).performance
    )
    assert closed.tpot is not None
    rate = (closed.output_tokens_per_s or 0.0) / 256
    opened = present(
        estimate_deployment(
            Question(replace(flat, peak_per_s=rate, average_per_s=rate)), deployment, catalog
        ).performance
    )
    # a closed loop leaves a slot empty while its next request is taken in
    assert opened.batch_at_peak == pytest.approx(64, rel=0.06)
