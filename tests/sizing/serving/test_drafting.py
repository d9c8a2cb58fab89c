"""Speculative decoding: what a draft takes, which engines draft, and when drafting pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import column
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.hardware.engines import ENGINES
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import Constraints, Deployment, DraftMethod, Question, Speculative
from app.sizing.serving.collectives import link_use
from app.sizing.serving.drafting import METHOD_WORDS, draft_attention, draft_bytes
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.search import search_plans
from app.sizing.serving.step import step_s, step_terms, step_work, with_speculative_decoding
from tests.examples import LLAMA_70B
from tests.sizing.serving.given import DENSE, MIXTURE, achieved, on_big, planned, varied
from tests.sizing.small import BIG, SMALL

BATCHES = (1, 8, 64, 512, 4096)
METHODS = (DraftMethod.NGRAM, DraftMethod.EAGLE, DraftMethod.MTP)


def drafted(rate: float, tokens: int = 3, method: DraftMethod = DraftMethod.EAGLE) -> Speculative:
    return Speculative(method, tokens, rate)


def step_at(model: ModelArchitecture, speculative: Speculative | None, batch: int) -> float:
    """Seconds in which each of `batch` sequences gains one token after a short context, without a server."""
    plans = on_big(model, tensor_parallel=8)
    link = link_use(plans, Assumptions())
    terms = step_terms(step_work(model, plans, link, context_tokens=50.0), achieved(1), served=0.0)
    return float(step_s(with_speculative_decoding(terms, model, speculative), column([batch]))[0])


def with_mtp(model: ModelArchitecture) -> ModelArchitecture:
    return replace(model, mtp_params=model.total_params // 10)


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
@pytest.mark.parametrize("method", METHODS)
def test_drafts_that_are_never_accepted_never_help(model: ModelArchitecture, method: DraftMethod) -> None:
    for tokens in (1, 3, 8):
        for batch in BATCHES:
            assert step_at(model, drafted(0.0, tokens, method), batch) >= step_at(model, None, batch)


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
def test_more_accepted_tokens_never_slow_a_step_down(model: ModelArchitecture) -> None:
    for batch in BATCHES:
        steps = [step_at(model, drafted(rate), batch) for rate in (0.0, 0.2, 0.5, 0.8, 1.0)]
        assert steps == sorted(steps, reverse=True)


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
@pytest.mark.parametrize("method", METHODS)
def test_one_sequence_gains_from_every_draft_that_is_always_accepted(
    model: ModelArchitecture, method: DraftMethod
) -> None:
    steps = [step_at(model, drafted(1.0, tokens, method), 1) for tokens in range(1, 12)]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] < step_at(model, None, 1)


def test_drafting_helps_a_small_batch_and_hurts_a_large_one() -> None:
    """A large model's batch of 1,024 is bound by compute, and most drafted tokens are computed in vain."""
    seldom = drafted(0.2, 8, DraftMethod.NGRAM)
    assert step_at(LLAMA_70B, seldom, 1) < step_at(LLAMA_70B, None, 1)
    assert step_at(LLAMA_70B, seldom, 1024) > 2 * step_at(LLAMA_70B, None, 1024)


def best_usd(speculative: Speculative | None, peak_per_s: float, model: ModelArchitecture = DENSE) -> float:
    """USD per hour of the cheapest option."""
    limits = Constraints(weight_formats=("bf16",), speculative=speculative)
    workload = varied(model=model, peak_per_s=peak_per_s)
    search = Search.start(Question(workload, limits), SMALL, Rejections(SMALL.accelerators)).of(workload)
    options = search_plans(search, planned(model, constraints=limits))
    return float(options.cost.usd_per_hour.min())


@pytest.mark.parametrize("peak_per_s", [20.0, 3000.0])
def test_a_higher_acceptance_never_costs_more(peak_per_s: float) -> None:
    costs = [best_usd(drafted(rate), peak_per_s) for rate in (0.05, 0.3, 0.6, 0.9)]
    assert costs == sorted(costs, reverse=True)


def test_drafting_costs_more_at_high_load_if_few_drafts_are_accepted() -> None:
    """Without latency limits batches are as large as they can be, and every drafted token takes compute."""
    assert best_usd(drafted(0.2, 8), 3000.0) > best_usd(None, 3000.0)


@pytest.mark.parametrize("method", list(DraftMethod))
def test_every_way_to_draft_has_words_and_an_engine(method: DraftMethod) -> None:
    assert METHOD_WORDS[method]
    assert any(method in engine.drafts for engine in ENGINES.values())


def test_every_engine_names_known_methods_with_source_and_day() -> None:
    for engine in ENGINES.values():
        assert {*engine.drafts} <= {*DraftMethod}
        assert all(", 2026-" in source and ":" in source for source in engine.drafts.values())


def test_types_without_an_engine_that_drafts_are_rejected_with_that_reason() -> None:
    def left(method: DraftMethod) -> tuple[set[str], Rejections]:
        rejections = Rejections(SMALL.accelerators)
        limits = Constraints(speculative=drafted(0.5, method=method))
        plans = planned(with_mtp(DENSE), constraints=limits, rejections=rejections)
        return {SMALL.engines[i] for i in plans.engine.tolist()}, rejections

    for method in DraftMethod:
        engines, rejections = left(method)
        assert all(method in ENGINES[name].drafts for name in engines)
        gone = [r for r in rejections.by_accelerator.values() if "draft tokens" in r.text]
        assert all(r.code == "no_engine" and METHOD_WORDS[method] in r.text for r in gone)
    limits = Constraints(engines=("llama.cpp",), speculative=drafted(0.5))
    assert {SMALL.engines[i] for i in planned(DENSE, constraints=limits).engine.tolist()} <= {"llama.cpp"}


def test_pipeline_stages_are_left_out_where_the_engine_is_not_known_to_draft_across_them() -> None:
    def is_left(method: DraftMethod) -> bool:
        split = Deployment(BIG.slug, engine="vllm", tensor_parallel=1, pipeline_parallel=2)
        return len(planned(with_mtp(DENSE), fixed=replace(split, speculative=drafted(0.5, method=method)))) > 0

    assert {method for method in DraftMethod if is_left(method)} == {*ENGINES["vllm"].drafts_across_stages}
    for engine in ENGINES.values():
        assert {*engine.drafts_across_stages} <= {*engine.drafts}


@pytest.mark.parametrize(
    ("speculative", "params"),
    [
        (Speculative(DraftMethod.NGRAM, 3, 0.5), 0.0),
        (Speculative(DraftMethod.DRAFT_MODEL, 3, 0.5, draft_parameters=3e7), 3e7),
        # One layer: 2 x (8 + 4) heads x 128 x 1,024 and 3 x 1,024 x 4,096. The head: 32,000 x 1,024.
        (Speculative(DraftMethod.EAGLE, 3, 0.5), 2 * 12 * 128 * 1024 + 3 * 1024 * 4096 + 32000 * 1024),
    ],
)
def test_the_weights_of_a_draft_count_in_16_bits(speculative: Speculative, params: float) -> None:
    plain, found = on_big(), on_big(speculative=speculative)
    assert found.weights_bytes - plain.weights_bytes == pytest.approx(2 * params)
    assert found.streamed_bytes == plain.streamed_bytes  # a decode step's own reads stay


def test_a_prediction_layer_is_stored_as_the_model_and_its_experts_with_it() -> None:
    mtp = Speculative(DraftMethod.MTP, 1, 0.8)
    weights, experts = draft_bytes(with_mtp(MIXTURE), mtp, column([100.0, 50.0]), column([60.0, 30.0]))
    assert weights == pytest.approx([10.0, 5.0], rel=1e-4)
    assert experts == pytest.approx([6.0, 3.0], rel=1e-4)


def test_a_draft_keeps_a_cache_of_its_own() -> None:
    plain = cache_bytes(DENSE, 1000.0, on_big())
    eagle = cache_bytes(DENSE, 1000.0, on_big(speculative=drafted(0.5)))
    assert eagle == pytest.approx(plain * 5 / 4)  # one layer more than the four of the model
    ngram = cache_bytes(DENSE, 1000.0, on_big(speculative=drafted(0.5, method=DraftMethod.NGRAM)))
    assert ngram == pytest.approx(plain)
    sizes = [
        draft.layers * draft.cached_elements(1.0)
        for size in (1e8, 1e9, 8e9)
        if (draft := draft_attention(DENSE, Speculative(DraftMethod.DRAFT_MODEL, 3, 0.5, size))) is not None
    ]
    assert len(sizes) == 3 and sizes == sorted(sizes)


def test_the_layer_of_a_draft_has_no_window() -> None:
    windowed = replace(DENSE.attention[0], layers=3, window_tokens=64.0)
    model = replace(DENSE, attention=(windowed, replace(DENSE.attention[0], layers=1)))
    found = draft_attention(model, drafted(0.5))
    assert found is not None and (found.layers, found.window_tokens) == (1, None)
    assert np.isfinite(found.cached_elements(1e6))
