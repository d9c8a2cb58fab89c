"""Several classes of traffic on one service: the mixture, what each waits for, and one service against several."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.search import Search
from app.sizing.finalists import find_finalists
from app.sizing.question import Constraints, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.load_curves import Curve
from app.sizing.serving.margins import Margins
from app.sizing.workload import (
    InferenceWorkload,
    Lengths,
    Slo,
    build_mixed_workload,
    draw_population,
    group_populations,
)
from tests.examples import CHAT, present, registered
from tests.sizing.serving.test_load_curves import found
from tests.sizing.small import SMALL

FEW = Assumptions().with_overrides({"simulated_requests": 4000.0})
NONE = Margins.without_margin(1)
LONGER = replace(CHAT, input_tokens=Lengths(6000, 9000), output_tokens=Lengths(400, 800), slo=Slo(None, None, 90.0, 90))
SHORTER = replace(CHAT, input_tokens=Lengths(400, 700), output_tokens=Lengths(100, 200), slo=Slo(0.5, 0.03, None, 95))
# By how much chance moves what a replica carries where the mixture is another, so that other requests are drawn: of
# sixty random mixtures at most 2.2 % with 4,000 requests, 0.7 % with 10,000.
CHANCE = 0.03


def together(*parts: InferenceWorkload) -> InferenceWorkload:
    return build_mixed_workload([(f"class {i}", part) for i, part in enumerate(parts)])


def usd_per_hour(workload: InferenceWorkload) -> float:
    """What the best on the small catalogue costs; infinite where there is none."""
    question = Question(workload, Constraints(confidence=0.5), limit=1, assumptions=FEW)
    return next(iter(find_finalists(Search.start(question, SMALL)).scores), math.inf)


def carried(curve: Curve, workload: InferenceWorkload) -> float:
    """Requests per second of one replica within all limits."""
    return float(min(curve.load_within_limits(workload.slo, NONE)[0], curve.stable_below))


CLASSES = st.builds(
    lambda rate, prompt, answer, ttft, tpot, percentile: replace(
        CHAT,
        peak_per_s=rate,
        average_per_s=rate / 2,
        input_tokens=Lengths(prompt, 2 * prompt),
        output_tokens=Lengths(answer, 2 * answer),
        slo=Slo(ttft, tpot, None, percentile),
    ),
    st.floats(1, 20),
    st.floats(50, 3000),
    st.floats(20, 500),
    st.sampled_from([0.3, 1.0, 4.0]),
    st.sampled_from([None, 0.05, 0.2]),
    st.sampled_from([50.0, 90.0, 95.0]),
)
FEW_EXAMPLES = settings(max_examples=12)


def test_rates_add_and_lengths_are_mixed_by_share() -> None:
    both = together(replace(SHORTER, peak_per_s=6.0, average_per_s=2.0), replace(LONGER, peak_per_s=2.0))
    assert (both.peak_per_s, both.average_per_s) == (8.0, 4.0)
    assert both.input_tokens.mean == pytest.approx((3 * 400 + 6000) / 4)
    assert both.output_tokens.mean == pytest.approx((3 * 100 + 400) / 4)
    assert 6000 < both.input_tokens.quantile(95) < 9000
    assert both.max_context_tokens == max(SHORTER.max_context_tokens, LONGER.max_context_tokens)
    assert both.slo == Slo(0.5, 0.03, 90.0, 95)


def test_every_request_is_of_a_class_by_its_share() -> None:
    both = together(replace(SHORTER, peak_per_s=6.0), replace(LONGER, peak_per_s=2.0))
    which = draw_population(both.classes, (np.arange(1000) + 0.5) / 1000)
    assert [p.share for p in group_populations(both.classes)] == [0.75, 0.25]
    assert np.bincount(which).tolist() == [750, 250]


def test_burstiness_is_the_mean_of_squares() -> None:
    both = together(replace(SHORTER, burstiness=3.0), LONGER)
    assert both.burstiness == pytest.approx(math.sqrt((9 + 1) / 2))
    assert together(SHORTER, LONGER).burstiness == 1.0


def test_too_rare_a_class_and_models_without_streams_are_refused() -> None:
    with pytest.raises(Unanswerable, match="less than 1 %"):
        together(replace(SHORTER, peak_per_s=1000.0), LONGER)
    encoder = replace(CHAT, model=registered("BAAI/bge-m3"))
    with pytest.raises(Unanswerable, match="generate tokens"):
        together(encoder, encoder)


def test_a_class_waits_as_its_own_requests_do_and_all_bind() -> None:
    both = together(replace(SHORTER, slo=Slo(2.0, None, None, 95)), replace(LONGER, slo=Slo(8.0, None, None, 90)))
    curve = found(both)
    short, long = curve.by_class
    assert (short.traffic_class.name, long.traffic_class.name) == ("class 0", "class 1")
    for part in (short, long):
        assert (np.diff(part.curve.statistic_s("ttft", "p95")) >= 0).all()
    assert short.curve.wait_s("ttft", "p50", curve.loads[0]) < long.curve.wait_s("ttft", "p50", curve.loads[0])
    assert carried(curve, both) < curve.loads[-1]
    for first_s, second_s in ((0.2, 9.0), (9.0, 0.2)):  # whichever is in a hurry binds
        limits = (Slo(first_s, None, None, 95), Slo(second_s, None, None, 95))
        mixed = together(replace(SHORTER, slo=limits[0]), replace(LONGER, slo=limits[1]))
        bound = found(mixed)
        each = {
            part.traffic_class.slo.ttft_s: part.curve.load_within_limits(part.traffic_class.slo, NONE)[0]
            for part in bound.by_class
        }
        assert bound.load_within_limits(mixed.slo, NONE)[0] == each[0.2] < each[9]


def same(one: Curve, other: Curve) -> bool:
    return one.loads.tobytes() == other.loads.tobytes() and one.waits_s.tobytes() == other.waits_s.tobytes()


def test_identical_classes_are_the_plain_workload() -> None:
    half = replace(SHORTER, peak_per_s=2.5, average_per_s=1.0)
    whole, both = replace(SHORTER, peak_per_s=5.0, average_per_s=2.0), together(half, half)
    assert both.input_tokens == whole.input_tokens
    plain, mixed = found(whole), found(both)
    assert same(plain, mixed)
    assert carried(plain, whole) == carried(mixed, both)
    assert mixed.goodput_share == pytest.approx(plain.goodput_share)
    assert usd_per_hour(whole) == usd_per_hour(both)


@FEW_EXAMPLES
@given(st.permutations([0, 1, 2]), CLASSES, CLASSES, CLASSES)
def test_the_order_of_classes_does_not_matter(
    order: list[int], one: InferenceWorkload, other: InferenceWorkload, third: InferenceWorkload
) -> None:
    named = [("one", one), ("other", other), ("third", third)]
    plain, mixed = build_mixed_workload(named), build_mixed_workload([named[i] for i in order])
    assert plain == mixed
    assert same(found(plain), found(mixed))


@FEW_EXAMPLES
@given(CLASSES, CLASSES, st.sampled_from([{"ttft_s": 8.0}, {"tpot_s": None}, {"ttft_s": None}, {"percentile": 50.0}]))
def test_a_looser_limit_of_a_class_never_carries_less(
    one: InferenceWorkload, other: InferenceWorkload, looser: dict[str, Any]
) -> None:
    """The same requests are simulated whatever the limits are: chance adds nothing."""
    tight, loose = together(one, other), together(replace(one, slo=replace(one.slo, **looser)), other)
    assert carried(found(loose), loose) >= carried(found(tight), tight)
    assert usd_per_hour(loose) <= usd_per_hour(tight)


@FEW_EXAMPLES
@given(CLASSES, CLASSES, CLASSES)
def test_a_class_more_never_costs_less(
    one: InferenceWorkload, other: InferenceWorkload, more: InferenceWorkload
) -> None:
    assert usd_per_hour(together(one, other, more)) >= usd_per_hour(together(one, other).scale_load(1 - CHANCE))


def test_an_answer_holds_one_service_against_one_for_each() -> None:
    both = together(replace(SHORTER, peak_per_s=40.0, average_per_s=10.0), replace(LONGER, peak_per_s=10.0))
    answer = recommend_hardware(Question(both, limit=2, assumptions=FEW), SMALL)
    first, *others = answer.recommendations
    shared = present(first.estimate.shared)
    assert all(ranked.estimate.shared is None for ranked in others)
    assert (
        [each.name for each in shared.by_class]
        == [each.name for each in shared.separate_services]
        == ["class 0", "class 1"]
    )
    assert first.estimate.cost is not None
    assert shared.usd_per_hour == first.estimate.cost.usd_per_hour
    prices = [find_alone(both.single_class_workload(c)) for c in both.classes]
    assert [each.usd_per_hour for each in shared.separate_services] == pytest.approx(prices)
    ours, theirs = first.estimate.cost.usd_per_hour, sum(prices)
    assert ours is not None
    assert shared.cheaper == ("together" if ours <= theirs else "apart")
    assert shared.saving_usd_per_hour == pytest.approx(abs(ours - theirs))
    apart = ours > theirs * (1 + Assumptions().near_tie_share)
    assert ("2 separate services, class 0 on" in answer.summary) == apart
    assert all(each.limits_met for each in shared.by_class)


def find_alone(workload: InferenceWorkload) -> float:
    question = Question(workload, limit=2, assumptions=FEW, objective=Objective.COST)
    return find_finalists(Search.start(question, SMALL)).scores[0]


def test_plain_traffic_has_no_classes() -> None:
    first = recommend_hardware(Question(CHAT, limit=1, assumptions=FEW), SMALL).recommendations[0].estimate
    assert first.shared is None
