"""What stands around a stack: the nearest result, the sources behind it, and that more of either never widens."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.evidence import Compared
from app.sizing.surroundings import (
    SERVING,
    EvidencePool,
    Shape,
    StackKey,
    build_evidence_pools,
    distinct_stacks,
    evidence_pool,
)
from app.sizing.uncertainty import MAX_DISTANCE, Neighborhood, Spread
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
