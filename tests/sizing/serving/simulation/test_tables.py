"""A simulated replica takes the times that the closed form takes, where nothing is left to chance."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.hardware.engines.record import Policy, Preemption, Scheduling
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.question import DraftMethod, Speculative
from app.sizing.serving.collectives import link_use
from app.sizing.serving.continuous_batching import idle_first_token_s
from app.sizing.serving.kv_cache import cache_bytes
from app.sizing.serving.prefill import prefill_terms, prefill_work
from app.sizing.serving.simulation import Replica
from app.sizing.serving.simulation.kernel import prompt_attention_total_s, sequence_cache_bytes
from app.sizing.serving.simulation.record import NEVER, PREFILL_FIRST
from app.sizing.serving.simulation.tables import build_replica, piecewise_linear, replica_work
from app.sizing.serving.step import step_s, step_terms, step_work, with_speculative_decoding
from tests.examples import col
from tests.sizing.serving.given import DENSE, MIXTURE, achieved, on_big
from tests.sizing.serving.simulation.given import requests, simulated, ttft_s

SCHEDULER = Scheduling().for_device(80 * GIB)


def made(model: ModelArchitecture, speculative: Speculative | None = None, **scheduled: object) -> Replica:
    plan = on_big(model)
    (work,) = replica_work(model, plan, link_use(plan, Assumptions()))
    scheduler = Scheduling(**scheduled).for_device(80 * GIB)  # type: ignore[arg-type]
    return build_replica(work, achieved(1), scheduler, pool_bytes=20 * GIB, speculative=speculative)


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
@pytest.mark.parametrize("prompt", [64, 1000, 7000])
def test_a_prompt_alone_takes_what_the_closed_form_says(model: ModelArchitecture, prompt: int) -> None:
    plan = on_big(model)
    link = link_use(plan, Assumptions())
    terms = prefill_terms(prefill_work(model, plan, link, prompt_tokens=float(prompt)), achieved(1))
    graphs = int(plan.scheduling_rules.graph_tokens[0])
    found = simulated(made(model, graph_tokens=graphs), requests(prompt, 1, count=1, in_flight=1))
    assert ttft_s(found)[0] == pytest.approx(idle_first_token_s(terms, col(8192))[0], rel=0.02)


@pytest.mark.parametrize("batch", [1, 16, 200])
def test_a_step_of_decodes_takes_what_the_closed_form_says(batch: int) -> None:
    plan = on_big(DENSE)
    link = link_use(plan, Assumptions())
    terms = step_terms(step_work(DENSE, plan, link, context_tokens=500.0), achieved(1), served=0.0)
    found = made(DENSE)
    said = found.decode_s[batch] + batch * found.attention_token_s * 500
    assert said == pytest.approx(step_s(terms, col(batch))[0], rel=1e-6)
    drafting = Speculative(DraftMethod.NGRAM, 3, 0.5, 0.0)
    faster = made(DENSE, speculative=drafting)
    expected = step_s(with_speculative_decoding(terms, DENSE, drafting), col(batch))[0]
    assert faster.decode_s[batch] + batch * faster.attention_token_s * 500 == pytest.approx(expected, rel=1e-6)


def test_the_cache_of_a_sequence_is_the_one_that_memory_counts() -> None:
    found, plan = made(DENSE), on_big(DENSE)
    for tokens in (10, 1000, 8000):
        assert sequence_cache_bytes(found, tokens) == pytest.approx(cache_bytes(DENSE, tokens, plan)[0], rel=1e-9)


def test_a_window_bounds_what_a_sequence_adds() -> None:
    contexts, values = col(0, 100, 1100), col(5, 205, 1205)
    fit = piecewise_linear(contexts, values)
    for context, value in zip(contexts, values, strict=True):
        assert fit.fixed + fit.token * context + fit.windows[0] * min(context, 100) == value


def test_attention_of_a_prompt_grows_with_its_square() -> None:
    found = made(DENSE)
    assert prompt_attention_total_s(found, 0.0) == 0
    assert prompt_attention_total_s(found, 8000.0) / prompt_attention_total_s(found, 4000.0) == pytest.approx(
        4, rel=0.15
    )


def test_an_engine_that_reserves_keeps_room_for_the_whole_output() -> None:
    assert made(DENSE).output_reserve_share == 0
    reserving = made(DENSE, preemption=Preemption.NONE, policy=Policy.PREFILL_FIRST)
    assert (reserving.output_reserve_share, reserving.preemption, reserving.policy) == (1, NEVER, PREFILL_FIRST)


def test_times_are_whole_multiples_of_a_grain() -> None:
    seconds = made(DENSE).decode_s
    assert np.array_equal(np.rint(seconds * 2.0**40), seconds * 2.0**40)
