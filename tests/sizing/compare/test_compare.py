"""The whole comparison: outcomes in their order, each compared with the cheapest."""

from __future__ import annotations

from app.sizing.compare import compare_outcomes
from tests.sizing.compare.given import best, nothing, on_big, one_card, run
from tests.sizing.small import SMALL


def test_options_are_compared_with_the_cheapest_in_order_of_cost() -> None:
    found = compare_outcomes((on_big(), one_card(), best(), nothing()), SMALL)
    assert [o.name for o in found.outcomes] == ["big", "a card", "best", "for a cent"]
    assert {d.baseline for d in found.differences} == {"best"}
    assert [d.ratio for d in found.differences] == sorted(d.ratio for d in found.differences)
    assert {s.name for s in found.spending} == {"big", "a card", "best"}
    assert {a.name for a in found.assumptions} == {"rent_decline_per_year", "resale_decline_per_year"}
    assert not found.priorities and not found.on_other_hardware


def test_phases_have_priorities_and_no_differences() -> None:
    found = compare_outcomes((run(), best()), SMALL, phases=True)
    assert [p.name for p in found.priorities] == ["training", "best"]
    assert found.differences == () and all(line.best is None for line in found.table)


def test_the_same_compared_twice_is_the_same() -> None:
    assert compare_outcomes((on_big(), best()), SMALL) == compare_outcomes((on_big(), best()), SMALL)
