"""The factors of a difference multiply to it, and each is what its name says."""

from __future__ import annotations

import math

import pytest

from app.sizing.comparing.causes import cost_factors, explain_difference, working_accelerators
from app.sizing.comparing.outcomes import Outcome
from app.sizing.question import Deployment, Pools
from tests.sizing.comparing.given import best, nothing, on_big, one_card, run, small_run

ROUNDED_AWAY = 0.03  # of factors so near 1 that the text omits them


@pytest.mark.parametrize(
    ("mine", "other"), [(on_big, best), (best, on_big), (one_card, best), (run, small_run), (small_run, run)]
)
def test_factors_multiply_to_the_difference(mine: object, other: object) -> None:
    a, b = mine(), other()  # type: ignore[operator]
    found = explain_difference(a, b)
    assert found is not None and found.ratio == a.usd / b.usd
    assert math.prod(c.ratio for c in found.causes) == pytest.approx(found.ratio, rel=ROUNDED_AWAY)
    distance = [abs(math.log(c.ratio)) for c in found.causes]
    assert distance == sorted(distance, reverse=True)


def test_a_cost_is_the_product_of_its_footing() -> None:
    for o in (best(), on_big(), one_card(), run()):
        f = cost_factors(o)
        assert f is not None and o.usd is not None
        assert f.price * f.idle * f.headroom * f.work / f.speed == pytest.approx(o.usd)


def test_a_tenth_of_the_work_is_a_cause() -> None:
    found = explain_difference(run(), small_run())
    assert found is not None
    assert next(c.ratio for c in found.causes if c.code == "work") == pytest.approx(10.0)


def test_what_has_no_cost_or_another_kind_is_not_compared() -> None:
    assert explain_difference(nothing(), best()) is None
    assert explain_difference(best(), nothing()) is None
    assert explain_difference(run(), best()) is None


def test_spares_and_pools_are_counted_as_they_work() -> None:
    side = Deployment("acme-big", replicas=2, spare_replicas=1, accelerators_per_replica=4, total_accelerators=16)
    assert working_accelerators(side) == 8.0
    assert working_accelerators(Deployment("acme-big", pools=Pools(side, side))) == 16.0
    assert working_accelerators(Deployment("acme-big", total_accelerators=5)) == 5.0
    assert working_accelerators(Deployment("acme-big")) is None


def test_the_reason_of_speed_names_hardware() -> None:
    found = explain_difference(on_big(), best())
    assert found is not None
    if best().accelerator != on_big().accelerator:
        text = next(c.text for c in found.causes if c.code == "speed")
        assert "requests/s within the limits" in text and "times the memory bandwidth" in text


def test_an_outcome_compared_with_itself_has_no_differences() -> None:
    o: Outcome = best()
    found = explain_difference(o, o)
    assert found is not None and found.ratio == 1.0 and found.causes == ()
