"""The factors of a difference multiply to it, and each is what its name says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from app.sizing.compare import CostFactors, cost_factors, explain_difference, working_accelerators
from app.sizing.outcomes import Outcome
from app.sizing.question import Deployment, Pools
from app.sizing.workload import Load
from tests.examples import PRETRAIN
from tests.sizing.answer.given import COST, RUN, SPEED
from tests.sizing.compare.given import HEAVY, best, made, nothing, on_big, one_card, run, small_run

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


CARRIES = replace(SPEED, requests_per_s_capacity=60.0)
OFFLINE = replace(HEAVY, load=Load.OFFLINE, peak_per_s=0.0, average_per_s=0.0)


def test_factors_of_a_cost_are_those_of_eight_accelerators_of_which_six_work() -> None:
    # 40 USD/h for eight of which six work; 60 requests/s are twice the load of 30.
    assert cost_factors(made(performance=CARRIES)) == CostFactors(5.0, 8 / 6, 2.0, 30.0, 10.0)
    samples = replace(SPEED, requests_per_s_capacity=None, samples_per_s=60.0)
    assert cost_factors(made(performance=samples)) == CostFactors(5.0, 8 / 6, 2.0, 30.0, 10.0)
    # Without a load, per token; without any rate, per accelerator.
    tokens = replace(SPEED, total_tokens_per_s=1200.0)
    assert cost_factors(made(workload=OFFLINE, performance=tokens)) == CostFactors(5.0, 8 / 6, 1.0, 1200.0, 200.0)
    assert cost_factors(made(workload=OFFLINE)) == CostFactors(5.0, 8 / 6, 1.0, 1.0, 1 / 6)
    # 120 hours of a run: 100 billion tokens by six accelerators.
    paid = replace(COST, usd_total=4800.0)
    volume = replace(OFFLINE, volume_requests=7200.0)
    for ends, work in (
        (made(workload=PRETRAIN, cost=paid, performance=RUN), 1e11),
        (made(workload=volume, cost=paid), 7200.0),
    ):
        found = cost_factors(ends)
        assert found is not None and replace(found, speed=0.0) == CostFactors(5.0, 8 / 6, 1.0, work, 0.0)
        assert found.speed == pytest.approx(work / (6 * 120))


def test_no_factors_without_a_price_a_count_or_an_estimate() -> None:
    for unknown in (
        made(cost=None),
        made(cost=replace(COST, usd_per_hour=None)),
        made(performance=None),
        made(total_accelerators=None),
        made(replicas=0),
        made(workload=PRETRAIN, cost=replace(COST, usd_per_hour=None, usd_total=10.0)),
        nothing(),
    ):
        assert cost_factors(unknown) is None
        assert explain_difference(unknown, made(performance=CARRIES)) is None
        assert explain_difference(made(performance=CARRIES), unknown) is None
    side = Deployment("acme-big", replicas=2, accelerators_per_replica=4)
    assert working_accelerators(Deployment("acme-big", pools=Pools(side, Deployment("acme-big")))) is None
    assert working_accelerators(Deployment("acme-big", replicas=2, total_accelerators=5)) == 5.0


def test_each_cause_is_one_factor_alone_and_says_both_values() -> None:
    base = made(performance=CARRIES)
    for code, other, ratio, shown in (
        ("price", made(performance=CARRIES, cost=replace(COST, usd_per_hour=80.0)), 2.0, ("10.00 USD/h", "5.00 USD/h")),
        (
            "idle",
            made(performance=CARRIES, cost=replace(COST, usd_per_hour=60.0), total_accelerators=12),
            1.5,
            ("2 acc",),
        ),
    ):
        found = explain_difference(other, base)
        assert found is not None and [c.code for c in found.causes] == [code]
        assert found.causes[0].ratio == pytest.approx(ratio) == found.ratio
        assert all(text in found.causes[0].text for text in shown)
        back = explain_difference(base, other)
        assert back is not None and back.causes[0].ratio == pytest.approx(1 / ratio)
    # Twice the capacity of the same machines: half the speed per dollar, all of it headroom.
    twice = explain_difference(made(performance=replace(SPEED, requests_per_s_capacity=120.0)), base)
    assert twice is not None and {c.code: c.ratio for c in twice.causes} == pytest.approx({"speed": 0.5, "room": 2.0})
    by_code = {c.code: c.text for c in twice.causes}
    assert "4 times" in by_code["room"] and "20 instead of 10 requests/s" in by_code["speed"]
    # A tenth of the work of a run at a tenth of the cost.
    tenth = replace(PRETRAIN, units=PRETRAIN.units / 10)
    longer, shorter = (
        made(workload=w, cost=replace(COST, usd_total=usd), performance=RUN)
        for w, usd in ((PRETRAIN, 4800.0), (tenth, 480.0))
    )
    less = explain_difference(shorter, longer)
    assert less is not None and less.quantity == "usd_total" and [c.code for c in less.causes] == ["work"]
    assert less.causes[0].ratio == pytest.approx(0.1) and "0.1 times" in less.causes[0].text
    faster = explain_difference(made(workload=PRETRAIN, cost=replace(COST, usd_total=2400.0), performance=RUN), longer)
    assert faster is not None and "2 times as much work" in faster.causes[0].text
    assert "within" not in faster.causes[0].text
    # What has an end is not compared with what has none.
    assert explain_difference(base, longer) is None and explain_difference(longer, base) is None
    # Factors within half a percent are left out.
    near, far = (made(performance=CARRIES, cost=replace(COST, usd_per_hour=40.0 * t)) for t in (1.004, 1.006))
    kept = [explain_difference(o, base) for o in (near, far)]
    assert [len(d.causes) for d in kept if d is not None] == [0, 1]


def test_work_without_a_rate_is_compared_in_tokens() -> None:
    slow, fast = (
        made(workload=OFFLINE, performance=replace(SPEED, total_tokens_per_s=rate)) for rate in (600.0, 1200.0)
    )
    found = explain_difference(fast, slow)
    assert found is not None and found.ratio == 1.0
    assert {c.code: c.ratio for c in found.causes} == pytest.approx({"speed": 0.5, "work": 2.0})
    assert "requests/s" not in "".join(c.text for c in found.causes)
