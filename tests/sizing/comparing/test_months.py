"""Money month by month: by hand, against a loop, against the break-even of the answer, and where lines cross."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import HOURS_PER_MONTH
from app.sizing.comparing.months import HOSTED, Spending, committed_usd, rent_usd, resale_usd, spending_by_month
from app.sizing.comparing.outcomes import Option, evaluate_option
from app.sizing.question import Constraints, Economics, Question
from app.sizing.result import AcquisitionOption, HostedPrice
from tests.sizing.comparing.given import HEAVY, nothing, run
from tests.sizing.small import SMALL, snapshot

ON_BIG = Constraints(accelerators=("acme-big",))
PRICES = st.floats(1.0, 1e6)
DECLINES = st.floats(0.0, 0.9)


@given(PRICES, DECLINES, st.integers(0, 60))
def test_rent_is_the_sum_of_months_at_the_price_of_their_day(usd: float, decline: float, months: int) -> None:
    by_hand = sum(usd * (1 - decline) ** (m / 12) for m in range(months))
    assert float(rent_usd(usd, np.array(float(months)), decline)) == pytest.approx(by_hand, rel=1e-6)


@given(PRICES, DECLINES, st.integers(0, 60), st.sampled_from([12, 36]))
def test_terms_keep_the_price_of_their_first_day(usd: float, decline: float, months: int, term: int) -> None:
    by_hand = sum(usd * (1 - decline) ** (m // term * term / 12) for m in range(months))
    paid = float(committed_usd(usd, np.array(float(months)), decline, float(term)))
    assert paid == pytest.approx(by_hand, rel=1e-6)
    assert paid >= float(rent_usd(usd, np.array(float(months)), decline)) * (1 - 1e-9)


def test_a_value_falls_to_nothing_and_never_rises() -> None:
    left = resale_usd(1e5, np.arange(0.0, 121.0), 0.35)
    assert left[0] == 1e5 and (np.diff(left) < 0).all() and left[-1] < 2e3


def spent(**assumed: float) -> Spending:
    question = Question(HEAVY, ON_BIG, assumptions=replace(Assumptions(), **assumed))
    found = spending_by_month(evaluate_option(Option("big", question), SMALL))
    assert found is not None
    return found


def test_without_declines_owning_overtakes_where_the_answer_says_it_breaks_even() -> None:
    found = evaluate_option(Option("big", Question(HEAVY, ON_BIG)), SMALL)
    assert found.estimate is not None
    months = {a.way.value: a.break_even_month for a in found.estimate.alternatives}
    crossed = {
        o.overtakes: o.month for o in spent(rent_decline_per_year=0.0).crossovers if o.way == AcquisitionOption.OWNED
    }
    if found.estimate.deployment.pricing_model == "owned":
        paths = {way: month for way, month in months.items() if month is not None and month < 35}
        assert paths.keys() <= crossed.keys()
        for way, month in paths.items():
            assert crossed[way] == pytest.approx(month, rel=1e-6)
    else:
        assert crossed[str(found.estimate.deployment.pricing_model)] == pytest.approx(
            months[AcquisitionOption.OWNED.value], rel=1e-6
        )


def test_ways_begin_at_what_is_paid_at_once_and_end_with_what_is_left_and_owed() -> None:
    found = spent()
    by_way = {p.way: p for p in found.paths}
    assert by_way[AcquisitionOption.OWNED].usd[0] > 0 and by_way[AcquisitionOption.OWNED].left_usd > 0
    assert all(p.usd[0] == 0 for p in found.paths if p.way != AcquisitionOption.OWNED)
    assert all(len(p.usd) == 37 and list(p.usd) == sorted(p.usd) for p in found.paths)
    assert [p.net_usd for p in found.paths] == sorted(p.net_usd for p in found.paths)
    assert by_way[AcquisitionOption.ONE_YEAR].committed_usd == pytest.approx(0)
    question = Question(HEAVY, ON_BIG, economics=Economics(horizon_months=30))
    within = spending_by_month(evaluate_option(Option("big", question), SMALL))
    assert within is not None
    year = next(p for p in within.paths if p.way == AcquisitionOption.ONE_YEAR)
    assert year.committed_usd == pytest.approx(year.usd[30] - year.usd[24])


def test_falling_rents_put_owning_off() -> None:
    def month(decline: float) -> float:
        found = spent(rent_decline_per_year=decline)
        crossed = [
            o.month
            for o in found.crossovers
            if o.way == AcquisitionOption.OWNED and o.overtakes == AcquisitionOption.ON_DEMAND
        ]
        return crossed[0] if crossed else np.inf

    months = [month(d) for d in (0.0, 0.1, 0.3, 0.6)]
    assert months == sorted(months) and months[0] < np.inf


def test_a_host_is_a_way_too_and_its_price_stays() -> None:
    price = HostedPrice(HEAVY.model.name, "cloudy", 0.1, 0.3, None, "a price page", "2026-01-01")
    catalog = snapshot(hosted=[price])
    found = evaluate_option(Option("big", Question(HEAVY, ON_BIG)), catalog)
    hosted, ways = found.hosted_api, spending_by_month(found)
    assert hosted is not None and ways is not None and hosted.hosts[0].usd_per_month is not None
    path = next(p for p in ways.paths if p.way == HOSTED)
    assert path.usd[12] == pytest.approx(12 * hosted.hosts[0].usd_per_month)
    assert path.provider == "cloudy"


def test_runs_and_what_was_not_found_have_no_months() -> None:
    assert spending_by_month(run()) is None
    assert spending_by_month(nothing()) is None


def test_an_hour_is_the_730th_part_of_a_month() -> None:
    found = evaluate_option(Option("big", Question(HEAVY, replace(ON_BIG, pricing_models=()))), SMALL)
    rent = next(
        a for a in (found.estimate.alternatives if found.estimate else ()) if a.way is not AcquisitionOption.OWNED
    )
    path = next(p for p in spent(rent_decline_per_year=0.0).paths if p.way == rent.way.value)
    assert path.usd[1] == pytest.approx(rent.usd_per_hour * HOURS_PER_MONTH)
