"""What stands around a stack: the nearest result, the sources behind it, and that more of either never widens. How
far off a prediction may be: wider with distance, narrower with sources, and the same read either way.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.sizing.evidence import Compared
from app.sizing.uncertainty import (
    HIGH,
    LEVELS,
    LOW,
    MAX_DISTANCE,
    SERVING,
    UNKNOWN_SPREAD,
    EvidencePool,
    Neighborhood,
    Shape,
    Spread,
    Spreads,
    StackKey,
    build_evidence_pools,
    distinct_stacks,
    evidence_pool,
    interval_score,
)
from tests.examples import col
from tests.sizing.published import result

HERE, ASKED = StackKey("vllm", "nvidia_hopper", "fp8"), Shape(70e9, 1024.0, 1024.0)
ONE = EvidencePool([result()])


def seen(surroundings: EvidencePool, stack: StackKey = HERE, asked: Shape = ASKED) -> tuple[float, ...]:
    around = surroundings.index_stacks([stack]).neighborhood(asked)
    return tuple(float(c[0]) for c in (around.sources, around.distance, around.untabulated))


def test_a_published_stack_has_distance_zero() -> None:
    assert seen(ONE) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("stack", "distance"),
    [
        (HERE._replace(engine="sglang"), 0.3),  # of one runtime
        (HERE._replace(engine="llama.cpp"), 0.3 + 0.5),  # work is issued in another way
        (HERE._replace(format_class="16bit"), 0.3),
        (HERE._replace(family="nvidia_ada"), 0.5),
        (HERE._replace(family="amd_cdna3"), 0.5 + 1.0),  # and another maker
        (StackKey("llama.cpp", "apple", "weight_only"), 0.3 + 0.5 + 0.3 + 0.5 + 1.0),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, tuple) else "",
)
def test_what_is_another_word_adds_its_weight(stack: StackKey, distance: float) -> None:
    assert seen(ONE, stack)[1] == pytest.approx(distance)


def test_numbers_count_by_the_powers_of_two_they_are_apart() -> None:
    assert seen(ONE, asked=ASKED._replace(params=35e9))[1] == pytest.approx(0.4)
    # 4 times the prompt is 2 * 0.1 and twice the output 0.1: together sqrt(0.04 + 0.01), as distances of numbers add
    assert seen(ONE, asked=Shape(70e9, 4096.0, 2048.0))[1] == pytest.approx(math.sqrt(0.05))
    # words add to that whole: twice the parameters, in another format
    assert seen(ONE, HERE._replace(format_class="16bit"), ASKED._replace(params=140e9))[1] == pytest.approx(0.7)


def test_the_nearest_counts() -> None:
    found = EvidencePool([result("a"), result("b", format_class="16bit", params=35e9), result("c", family="gaudi")])
    assert seen(found, asked=ASKED._replace(params=35e9))[1] == pytest.approx(0.3)


def test_sources_of_engines_that_issue_work_alike_on_the_family_stand_behind() -> None:
    found = EvidencePool(
        [
            result("1", source="a"),
            result("2", source="a", params=8e9),
            result("3", source="b", engine="sglang"),
            result("4", source="c", engine="llama.cpp"),
            result("5", source="d", family="nvidia_ada"),
        ]
    )
    assert seen(found)[0] == 2.0
    assert seen(found, HERE._replace(engine="tensorrt-llm"))[0] == 2.0
    assert seen(found, HERE._replace(engine="llama.cpp"))[0] == 1.0
    assert seen(found, HERE._replace(family="amd_rdna")) == pytest.approx((0.0, 1.5, 1.0))


def test_where_nothing_was_published_it_is_as_far_as_can_be() -> None:
    assert seen(EvidencePool([])) == (0.0, MAX_DISTANCE, 0.0)


def test_every_quantity_uses_its_own_pool_without_excluded_results() -> None:
    assert [evidence_pool(q) for q in ("tpot", "prefill", "training", "training_samples", "training_memory")] == [
        SERVING,
        SERVING,
        "training",
        "training",
        "training_memory",
    ]
    found = build_evidence_pools([result("s"), result("t", metric="training_tokens_per_s"), result("x", excluded=True)])
    assert set(found) == {SERVING, "training", "training_memory"}
    assert [seen(found[pool])[0] for pool in (SERVING, "training", "training_memory")] == [1.0, 1.0, 0.0]


def test_distinct_stacks_are_listed_once() -> None:
    other = HERE._replace(engine="sglang")
    once, which = distinct_stacks([HERE, other, HERE])
    assert once == [HERE, other]
    assert which.tolist() == [0, 1, 0]
    both = EvidencePool([result()]).index_stacks(once).neighborhood(ASKED)
    assert both.distance.tolist() == pytest.approx([0.0, 0.3])


engines = st.sampled_from(["vllm", "sglang", "tensorrt-llm", "llama.cpp", "neuron"])
families = st.sampled_from(["nvidia_hopper", "nvidia_ada", "amd_cdna3", "amd_rdna", "gaudi", "apple"])
formats = st.sampled_from(["16bit", "fp8", "weight_only"])
lengths = st.integers(0, 17).map(lambda power: 2.0**power)
params = st.floats(1e8, 1e12)
published = st.builds(
    result,
    name=st.text("abc", max_size=3),
    source=st.sampled_from("abcd"),
    engine=engines,
    family=families,
    format_class=formats,
    params=params,
    input_tokens=lengths,
    output_tokens=lengths,
    excluded=st.booleans(),
)
stacks = st.lists(st.builds(StackKey, engines, families, formats), min_size=1, max_size=5)
shapes = st.builds(Shape, params, lengths, lengths)


def around(rows: list[Compared], asked: list[StackKey], shape: Shape) -> Neighborhood:
    return build_evidence_pools(rows)[SERVING].index_stacks(asked).neighborhood(shape)


@given(st.lists(published, max_size=8), published, stacks, shapes, st.floats(0, 5), st.floats(0, 2), st.floats(0, 3))
def test_more_evidence_never_widens(
    rows: list[Compared],
    another: Compared,
    asked: list[StackKey],
    shape: Shape,
    alone: float,
    remote: float,
    untabulated: float,
) -> None:
    spread = Spread("q", alone, remote, untabulated, (), 0, 0)
    before, after = (spread.relative_spread(around(known, asked, shape)) for known in (rows, [*rows, another]))
    assert (after <= before).all()


@given(st.lists(published, max_size=8), stacks, shapes)
def test_the_order_of_results_is_of_no_consequence_and_neither_is_company(
    rows: list[Compared], asked: list[StackKey], shape: Shape
) -> None:
    together, backwards = around(rows, asked, shape), around(rows[::-1], asked, shape)
    apart = [around(rows, [stack], shape) for stack in asked]
    for name in ("sources", "distance", "untabulated"):
        assert np.array_equal(getattr(together, name), getattr(backwards, name))
        assert getattr(together, name).tolist() == [float(getattr(a, name)[0]) for a in apart]


@given(st.lists(published, min_size=1, max_size=8), st.data())
def test_a_result_is_its_own_neighbour(rows: list[Compared], data: st.DataObject) -> None:
    own = replace(data.draw(st.sampled_from(rows)), excluded=False)
    s = own.setting
    stack, shape = StackKey(s.engine, s.family, s.format_class), Shape(s.params, s.input_tokens, s.output_tokens)
    found = around([*rows, own], [stack], shape)
    assert (found.distance[0], found.sources[0] >= 1) == (0.0, True)


# Quantiles that are easy to work with: results are 0.8 worse at most nine times in ten, and 0.4 better.
SPREAD = Spread("tpot", 3.0, 0.5, 2.0, (-0.6, -0.4, -0.2, 0.0, 0.3, 0.8, 1.2), 100, 10)


def uncertainty_around(
    sources: float = 10.0, distance: float = 0.0, untabulated: float = 0.0, widened: float = 1.0
) -> Neighborhood:
    return Neighborhood(col(sources), col(distance), col(untabulated), col(widened))


def scale(**changed: float) -> float:
    return float(SPREAD.relative_spread(uncertainty_around(**changed))[0])


counts = st.integers(0, 30).map(float)
distances = st.floats(0, 5)
confidences = st.floats(0.01, 0.99)
steps = st.lists(st.floats(0.01, 1), min_size=3, max_size=3)
spreads = st.builds(
    lambda below, above, alone, remote, untabulated: Spread(
        "q", alone, remote, untabulated, (*(-np.cumsum(below)[::-1]), 0.0, *np.cumsum(above)), 1, 1
    ),
    steps,
    steps,
    st.floats(0, 5),
    st.floats(0, 2),
    st.floats(0, 3),
)


def test_what_adds_to_a_spread_adds_in_squares() -> None:
    # at distance 0 from results of many sources: 1 + 3 / (1 + 299)
    assert scale(sources=299.0) ** 2 == pytest.approx(1.01)
    # no result of the runtime on the family, the nearest result is 1 away, kernels were never tabulated:
    # 1 + 3 / 1 + (0.5 * 1)**2 + 2
    assert scale(sources=0.0, distance=1.0, untabulated=1.0) == pytest.approx(math.sqrt(6.25)) == 2.5
    assert scale(distance=MAX_DISTANCE) == scale(distance=100.0) > scale(distance=MAX_DISTANCE - 0.1)


@given(spreads, counts, counts, distances, distances)
def test_nearer_and_with_more_sources_is_never_wider(
    spread: Spread, few: float, more: float, near: float, far: float
) -> None:
    known = spread.relative_spread(uncertainty_around(max(few, more), min(near, far)))
    assert known <= spread.relative_spread(uncertainty_around(min(few, more), max(near, far)))
    assert known >= 1


def test_a_confidence_reads_its_quantile_and_between_two_the_normal_score_counts() -> None:
    one = col(1.0)
    assert [float(SPREAD.log_factor(level, one)[0]) for level in LEVELS] == pytest.approx(list(SPREAD.worse))
    # twice the scale, twice the logarithm: exp(2 * 0.3)
    assert SPREAD.error_factor(0.8, 2 * one) == pytest.approx(math.exp(0.6))
    # a probit of 0.8416 at 80 % and of 1.2816 at 90 %: 85 % (1.0364) is 0.443 of the way from 0.3 to 0.8
    assert float(SPREAD.log_factor(0.85, one)[0]) == pytest.approx(
        0.3 + 0.5 * (1.0364 - 0.8416) / (1.2816 - 0.8416), abs=1e-3
    )


@given(spreads, st.floats(0.1, 10))
def test_at_even_odds_nothing_is_added(spread: Spread, scale: float) -> None:
    assert spread.error_factor(0.5, col(scale)) == 1.0


@given(spreads, st.floats(0.1, 10), confidences, confidences)
def test_more_confidence_asks_for_more_and_a_wider_interval_holds_the_narrower(
    spread: Spread, scale: float, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert spread.error_factor(less, col(scale)) <= spread.error_factor(more, col(scale))
    # central intervals: from (1 - c) / 2 to (1 + c) / 2, and always about the prediction
    (inner_low, inner_high), (outer_low, outer_high) = (
        [float(spread.error_factor(end, col(scale))[0]) for end in ((1 - c) / 2, (1 + c) / 2)] for c in (less, more)
    )
    assert outer_low <= inner_low <= 1 <= inner_high <= outer_high


@given(spreads, st.floats(0.1, 10), st.floats(LEVELS[0], LEVELS[-1]))
def test_the_probability_of_what_a_confidence_asks_for_is_that_confidence(
    spread: Spread, scale: float, confidence: float
) -> None:
    asked = spread.log_factor(confidence, col(scale))
    assert float(spread.probability_within(asked, col(scale))[0]) == pytest.approx(confidence, abs=1e-9)


@given(spreads, st.floats(-20, 20), st.floats(-20, 20))
def test_a_longer_way_to_the_limit_is_never_less_sure(spread: Spread, one: float, other: float) -> None:
    assume(one != other)
    less, more = spread.probability_within(np.array(sorted((one, other))), col(1.0, 1.0)).tolist()
    assert 0.0009 < less <= more < 0.9991


def test_beyond_what_was_seen_the_outermost_slope_goes_on() -> None:
    # from 0.8 (90 %, a probit of 1.2816) to 1.2 (95 %, 1.6449): 0.4 more is a probit of 2.0082, or 97.8 %
    assert float(SPREAD.probability_within(col(1.6), col(1.0))[0]) == pytest.approx(0.9777, abs=1e-3)
    assert float(SPREAD.probability_within(col(1000.0), col(1.0))[0]) == pytest.approx(0.999, abs=1e-4)
    assert float(SPREAD.probability_within(col(-1000.0), col(1.0))[0]) == pytest.approx(0.001, abs=1e-4)


def test_a_score_charges_for_width_and_ten_times_for_what_is_outside() -> None:
    results = np.array([1.0, 2.5, 0.2])
    # within 0.5 to 2; 0.5 above it; 0.3 below it
    assert interval_score(results, col(0.5), col(2.0)).tolist() == pytest.approx([1.5, 1.5 + 5, 1.5 + 3])


def test_what_was_never_compared_is_off_by_a_factor_of_two() -> None:
    known = Spreads({"tpot": SPREAD})
    assert known.get_spread("tpot") is SPREAD
    assert known.get_spread("ttft") is UNKNOWN_SPREAD
    low, high = (
        float(UNKNOWN_SPREAD.error_factor(level, UNKNOWN_SPREAD.relative_spread(uncertainty_around(0.0, 9.0, 1.0)))[0])
        for level in (LOW, HIGH)
    )
    assert (low, high) == pytest.approx((0.497, 2.01), abs=0.01)


@pytest.mark.parametrize("spread", [SPREAD, UNKNOWN_SPREAD], ids=lambda s: s.quantity)
def test_quantiles_stand_in_order_about_the_prediction(spread: Spread) -> None:
    assert len(spread.worse) == len(LEVELS)
    assert all(a < b for a, b in pairwise(spread.worse))
    assert spread.worse[LEVELS.index(0.5)] == 0
