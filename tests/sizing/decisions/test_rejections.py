"""Why accelerator types are rejected: one reason each, that of the nearest plan. Types without software for the
work are rejected with a rule, phase and method.
"""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.columns import Codes, Column
from app.sizing.decisions.rejections import NullRejections, Rejections, SupportFilter, is_at_most
from app.sizing.hardware.support.records import Work
from app.sizing.result import FilterStage, Rejection
from tests.examples import col
from tests.sizing.small import SMALL

BIG, CARD, DESK, RARE = range(4)


def lost(accelerator: list[int], kept: list[bool], needed: list[float], available: list[float]) -> Rejections:
    rejections = Rejections(SMALL.accelerators)
    rejections.reject_with_shortfall(
        np.array(accelerator),
        np.array(kept),
        code="memory",
        text="{name} needs {needed}, has {available}",
        needed=col(*needed),
        available=col(*available),
        unit="GiB",
        count=col(*[8] * len(needed)),
        reached=FilterStage.MEMORY,
    )
    return rejections


def test_a_type_with_a_surviving_plan_is_not_turned_down() -> None:
    found = lost([BIG, BIG, CARD], [False, True, False], [9, 1, 5], [4, 4, 4])
    assert list(found.by_accelerator) == [CARD]
    assert lost([BIG], [True], [9], [4]).by_accelerator == {}


def test_the_nearest_miss_is_named_for_every_kind_of_miss() -> None:
    # too much by 3, by 2, by 2.5; and too little of a rate: 1 of 4 is farther than 2 of 4
    assert lost([BIG] * 3, [False] * 3, [12, 8, 10], [4, 4, 4]).by_accelerator[BIG].needed == 8
    assert lost([BIG] * 2, [False] * 2, [1, 2], [4, 4]).by_accelerator[BIG].needed == 2
    assert lost([BIG] * 2, [False] * 2, [8, 1], [4, 3]).by_accelerator[BIG].needed == 8
    assert lost([BIG] * 2, [False] * 2, [np.nan, 9], [4, 4]).by_accelerator[BIG].needed == 9
    assert lost([BIG] * 2, [False] * 2, [8, 8], [0, 4]).by_accelerator[BIG].available == 4
    assert lost([BIG] * 3, [False] * 3, [0.4, 0.02, 12], [0] * 3).by_accelerator[BIG].needed == 0.02  # none is allowed
    assert lost([BIG] * 2, [False] * 2, [0, 80], [4, 4]).by_accelerator[BIG].needed == 80
    assert lost([BIG] * 2, [False] * 2, [8, 16], [4, 8]).by_accelerator[BIG].needed == 8  # the first of equals


def test_each_type_keeps_its_own_nearest_miss() -> None:
    # a rate of half the least and one of 1.5 times the most: the second is nearer
    found = lost([CARD, BIG, CARD, BIG], [False] * 4, [20, 2, 12, 6], [4, 4, 4, 4]).by_accelerator
    assert (found[CARD].needed, found[BIG].needed) == (12, 6)
    assert lost([BIG] * 2, [False] * 2, [9, 90], [0.5, 10]).by_accelerator[BIG].needed == 90
    assert lost([BIG] * 2, [False] * 2, [-8, 800], [4, 4]).by_accelerator[BIG].needed == 800


def test_a_rejection_reads_like_a_sentence() -> None:
    found = lost([CARD], [False], [123_456.7], [0.12345]).by_accelerator[CARD]
    assert found.text == "Acme Card needs 123,457, has 0.123"
    assert (found.accelerator, found.code, found.needed, found.available, found.unit) == (
        "acme-card",
        "memory",
        123_456.7,
        0.12345,
        "GiB",
    )
    # as many digits as it takes to tell them apart
    assert lost([CARD], [False], [100.4], [99.97]).by_accelerator[CARD].text == "Acme Card needs 100.4, has 99.97"
    assert lost([CARD], [False], [-2504.4], [99.4]).by_accelerator[CARD].text == "Acme Card needs -2,504, has 99.4"


def test_the_first_reason_stands() -> None:
    rejections = lost([BIG], [False], [9], [4])
    rejections.reject(np.array([BIG, CARD]), "excluded", "{name} is out")
    rejections.reject(np.array([CARD]), "no_offer", "{name} is sold out")
    rejections.reject_with_shortfall(
        np.array([BIG, CARD]),
        np.array([False, False]),
        code="late",
        text="",
        needed=col(1, 1),
        available=col(2, 2),
        unit="s",
        count=col(1, 1),
        reached=FilterStage.SPEED,
    )
    assert {i: r.code for i, r in rejections.by_accelerator.items()} == {BIG: "memory", CARD: "excluded"}
    assert rejections.by_accelerator[CARD].text == "Acme Card is out"


def test_the_probability_that_a_type_fits_is_worked_out_for_its_closest_row_alone() -> None:
    rejections, asked = Rejections(SMALL.accelerators), list[list[int]]()

    def fit_probability(rows: Codes) -> Column:
        asked.append(rows.tolist())
        return np.full(len(rows), 0.4)

    rejections.reject_with_shortfall(
        np.array([BIG, CARD, CARD, CARD]),
        np.zeros(4, bool),
        code="memory",
        text="",
        needed=col(1, 9, 5, 3),
        available=col(2, 2, 2, 2),
        unit="gib",
        count=col(1, 1, 1, 1),
        reached=FilterStage.MEMORY,
        among=np.array([False, True, True, False]),
        fit_probability=fit_probability,
    )
    assert asked == [[2]]
    assert {i: (r.needed, r.fit_probability) for i, r in rejections.by_accelerator.items()} == {CARD: (5.0, 0.4)}


def fill_text(sentence: str, count: float, needed: float = 13.9, available: float = 13.6, unit: str = "gib") -> str:
    return Rejection("acme-card", "Acme Card", "code", sentence, needed, available, unit, count).text


def test_a_miss_names_the_accelerators_it_was_found_on() -> None:
    assert fill_text("{name} needs {needed} GiB on {each}", 32) == "Acme Card needs 13.9 GiB on each of 32 accelerators"
    assert fill_text("{needed} GiB on {each}", 1) == "13.9 GiB on one accelerator"
    assert fill_text("{needed} ms on {on}", 1024) == "13.9 ms on 1,024 accelerators"
    assert fill_text("{needed} ms on {on}", 1) == "13.9 ms on 1 accelerator"
    assert fill_text("needs {needed} of {available}", 8, 106.2, 1 / 24, "days") == "needs 106 days of 1 hour"


def test_a_miss_of_memory_that_may_fit_says_how_likely_that_is() -> None:
    near, far = (Rejection("acme-card", "Acme Card", "code", "No.", fit_probability=p).text for p in (0.57, 0.09))
    assert (near, far) == ("No. This is borderline: it is 57 % likely to fit.", "No.")


def test_who_passed_more_filters_is_nearer() -> None:
    """A type that only costs too much comes before one that is slow, and that before one that lacks a little memory."""
    rejections = Rejections(SMALL.accelerators)
    for i, (reached, needed) in enumerate(
        ((FilterStage.MEMORY, 4.1), (FilterStage.LIMITS, 40), (FilterStage.SPEED, 8))
    ):
        rejections.reject_with_shortfall(
            np.array([i]),
            np.array([False]),
            code="x",
            text="",
            needed=col(needed),
            available=col(4),
            unit="",
            count=col(1),
            reached=reached,
        )
    rejections.reject(np.array([RARE]), "excluded", "{name} is out", FilterStage.EXCLUDED)
    assert [r.accelerator for r in rejections.closest_first()] == ["acme-card", "bolt-desk", "acme-big", "bolt-rare"]


def test_the_nearest_comes_first_and_what_was_not_wanted_last() -> None:
    rejections = lost([BIG, CARD, DESK], [False] * 3, [40, 8, 1], [4, 4, 8])
    rejections.reject(np.array([RARE]), "excluded", "{name} is out", FilterStage.EXCLUDED)
    assert [r.accelerator for r in rejections.closest_first()] == ["acme-card", "bolt-desk", "acme-big", "bolt-rare"]
    assert [r.shortfall_ratio for r in rejections.closest_first()] == pytest.approx([2, 8, 10, np.inf])


def test_a_figure_as_an_answer_shows_it_is_a_limit_that_is_kept() -> None:
    assert is_at_most(col(34.900000000000006, 12.99592, 12.997), 34.9).tolist() == [True, True, True]
    assert is_at_most(col(12.99592, 12.9961), 12.9959).tolist() == [True, False]
    assert is_at_most(col(1_000_000, 1_000_001), 1e6).tolist() == [True, False]  # nothing that is counted slips through
    assert is_at_most(col(1e12), float("inf")).tolist() == [True]


NO_FRAMEWORK = SupportFilter(SMALL, (), frozenset({"nf4"}), Work("fine_tuning", "qlora", precision="bf16"))
TENSORRT_LLM = SupportFilter(SMALL, ("tensorrt-llm",), frozenset({"fp8"}), Work("inference"))


def test_types_without_software_fall_out_with_what_is_missing() -> None:
    everything, none = np.arange(len(SMALL.accelerators)), np.zeros(0, dtype=np.int64)
    rejections = Rejections(SMALL.accelerators)
    NO_FRAMEWORK.reject_unsupported(rejections, everything, everything[1:])
    (found,) = rejections.by_accelerator.values()
    assert found.code == "no_framework"
    assert "QLoRA fine-tuning" in found.text
    named = Rejections(SMALL.accelerators)
    TENSORRT_LLM.reject_unsupported(named, everything, none)
    assert {r.code for r in named.by_accelerator.values()} == {"no_engine"}
    assert all(r.text.startswith("TensorRT-LLM does not serve") for r in named.by_accelerator.values())
    desk = named.by_accelerator[SMALL.accelerator_index["bolt-desk"]]
    assert desk.rule == "TensorRT-LLM has no known build for ROCm or Vulkan."


def test_unused_reasons_are_not_looked_up() -> None:
    unread = NullRejections(SMALL.accelerators)
    TENSORRT_LLM.reject_unsupported(unread, np.arange(2), np.zeros(0, dtype=np.int64))
    assert not unread.by_accelerator


def test_of_two_searches_the_reason_that_came_closer_is_kept() -> None:
    near, far = (lost([BIG], [False], [needed], [4]).by_accelerator[BIG] for needed in (5, 50))
    further = Rejection("a", "A", "slow", "{name}", 50.0, 4.0, "ms", stage=FilterStage.SPEED)
    for own, other, kept in (
        (near, far, near),
        (far, near, near),
        (near, further, further),  # a later filter is closer whatever is missing there
        (further, near, further),
        (None, far, far),
    ):
        ours, theirs = Rejections(SMALL.accelerators), Rejections(SMALL.accelerators)
        ours.by_accelerator.update({} if own is None else {BIG: own})
        theirs.by_accelerator[BIG] = other
        ours.merge_alternative(theirs, np.zeros(0, np.int64))
        assert ours.by_accelerator == {BIG: kept}
        # What the other search accepted is no longer rejected.
        ours.merge_alternative(Rejections(SMALL.accelerators), np.array([BIG, BIG]))
        assert ours.by_accelerator == {}
