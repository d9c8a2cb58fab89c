"""Money month by month: by hand, against a loop, against the break-even of the answer, and where lines cross."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import HOURS_PER_MONTH
from app.sizing.compare import HOSTED, Spending, SpendingPath, committed_usd, rent_usd, resale_usd, spending_by_month
from app.sizing.decisions.acquisition import running_usd_per_hour
from app.sizing.hardware.parts import PriceKind, PricingModel
from app.sizing.outcomes import Option, Outcome, evaluate_option
from app.sizing.question import Constraints, Economics, Question
from app.sizing.result import AcquisitionOption, Alternative, HostedApi, HostedCost, HostedPrice
from tests.sizing.answer.given import COST
from tests.sizing.compare.given import HEAVY, made, nothing, run
from tests.sizing.small import BIG, SMALL, snapshot

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


def test_months_paid_by_hand() -> None:
    # Two years at 100 USD a month, half the price every year.
    assert float(rent_usd(100.0, np.array(1.0), 0.5)) == pytest.approx(100.0)
    assert float(rent_usd(100.0, np.array(24.0), 0.0)) == 2400.0
    monthly = [100 * 0.5 ** (m / 12) for m in range(24)]
    assert float(rent_usd(100.0, np.array(24.0), 0.5)) == pytest.approx(sum(monthly))
    assert float(committed_usd(100.0, np.array(30.0), 0.5, 12.0)) == pytest.approx(1200 + 600 + 6 * 25)
    assert float(committed_usd(100.0, np.array(36.0), 0.0, 12.0)) == 3600.0
    assert float(committed_usd(100.0, np.array(40.0), 0.5, 36.0)) == pytest.approx(3600 + 4 * 12.5)
    assert float(resale_usd(100.0, np.array(12.0), 0.35)) == pytest.approx(65.0)


def way(option: AcquisitionOption, usd_per_hour: float, purchase_usd: float | None = None) -> Alternative:
    return Alternative(
        option, "cloudy", "us-1", usd_per_hour, purchase_usd, PriceKind.PROVIDER, "2026-01-01", True, None
    )


def rented(
    *alternatives: Alternative,
    months: float = 18.0,
    decline: float = 0.0,
    resale: float | None = 0.5,
    **deployment: Any,
) -> Outcome:
    """Machines for one USD/h, with other ways to have them."""
    found = made(cost=replace(COST, usd_per_hour=1.0, purchase_usd=None), **deployment)
    assert found.estimate is not None
    assumed = replace(Assumptions(), rent_decline_per_year=decline)
    if resale is not None:
        assumed = replace(assumed, resale_decline_per_year=resale)
    question = Question(HEAVY, economics=Economics(horizon_months=months), assumptions=assumed)
    return replace(found, question=question, estimate=replace(found.estimate, alternatives=alternatives))


def test_a_path_is_paid_by_the_rules_of_its_way() -> None:
    ways = (
        way(AcquisitionOption.ONE_YEAR, 0.5),
        way(AcquisitionOption.THREE_YEARS, 0.4),
        way(AcquisitionOption.SPOT, 0.3),
        way(AcquisitionOption.OWNED, 0.9, 5000.0),
    )
    found = spending_by_month(rented(*ways))
    assert found is not None
    by_way = {p.way: p for p in found.paths}
    for option, usd_per_hour in (("on_demand", 1.0), ("committed_1y", 0.5), ("spot", 0.3)):
        assert list(by_way[option].usd) == pytest.approx([m * 730 * usd_per_hour for m in range(19)])
    # After 18 months half a year of the second term is owed, and half of the three years.
    assert by_way["on_demand"].committed_usd == by_way["spot"].committed_usd == 0.0
    assert by_way["committed_1y"].committed_usd == pytest.approx(6 * 730 * 0.5)
    assert by_way["committed_3y"].committed_usd == pytest.approx(18 * 730 * 0.4)
    assert by_way["committed_1y"].net_usd == pytest.approx(24 * 730 * 0.5)
    # A purchase pays 5,000 USD at once and the running cost by month, and sells for half of it a year and a half later.
    owned = by_way["owned"]
    running = float(running_usd_per_hour(np.array(0.9), np.array(5000.0), 18 * 730.0))
    assert list(owned.usd) == pytest.approx([5000 + m * 730 * running for m in range(19)])
    assert owned.left_usd == pytest.approx(5000 * 0.5**1.5) and owned.committed_usd == 0.0
    assert owned.net_usd == pytest.approx(owned.usd[-1] - owned.left_usd)
    assert [p.net_usd for p in found.paths] == sorted(p.net_usd for p in found.paths)
    assert {p.way: p.provider for p in found.paths}["on_demand"] == "sky"
    falling = spending_by_month(rented(*ways, decline=0.5))
    assert falling is not None
    of_falling = {p.way: p for p in falling.paths}
    assert of_falling["on_demand"].usd[18] == pytest.approx(sum(730 * 0.5 ** (m / 12) for m in range(18)))
    assert of_falling["committed_1y"].usd[18] == pytest.approx(730 * 0.5 * (12 + 6 * 0.5))
    assert of_falling["owned"].usd == owned.usd
    # A purchase with an unknown price is a rent.
    unknown = spending_by_month(rented(way(AcquisitionOption.OWNED, 0.9)))
    assert unknown is not None and {p.way: p.usd[1] for p in unknown.paths}["owned"] == pytest.approx(657.0)


def test_a_resale_value_follows_recorded_sales_of_the_generation_unless_the_request_sets_a_decline() -> None:
    owned = rented(way(AcquisitionOption.OWNED, 0.9, 5000.0), months=36.0, resale=None)
    for outcome, left, basis in (
        # H100 modules: 29 to 38 % of the price as new after three years
        (owned, 5000 * 0.335, "used H100 SXM modules were sold for 29 to 38 % of their price"),
        (replace(owned, accelerator=replace(BIG, training_class=False)), 5000 * 0.65**3, ""),
        (replace(owned, accelerator=replace(BIG, family="nvidia_blackwell")), 5000 * 0.65**3, ""),
        (rented(way(AcquisitionOption.OWNED, 0.9, 5000.0), months=36.0), 5000 * 0.5**3, ""),
    ):
        found = spending_by_month(outcome)
        assert found is not None
        path = next(p for p in found.paths if p.way == "owned")
        assert path.left_usd == pytest.approx(left)
        assert path.left_basis.startswith(basis) and bool(path.left_basis) == bool(basis)


def test_paths_cross_where_a_line_between_two_months_does() -> None:
    # 5,000 USD and nothing more, against 730 USD a month: after 6.85 months.
    free = 5000 / (18 * 730.0)
    found = spending_by_month(rented(way(AcquisitionOption.OWNED, free, 5000.0)))
    assert found is not None
    (crossed,) = found.crossovers
    running = float(running_usd_per_hour(np.array(free), np.array(5000.0), 18 * 730.0))
    assert (crossed.way, crossed.overtakes) == ("owned", "on_demand")
    assert crossed.month == pytest.approx(5000 / (730 * (1 - running)))
    never = spending_by_month(rented(way(AcquisitionOption.OWNED, 10 * free, 50_000.0)))
    assert never is not None and never.crossovers == ()
    same = spending_by_month(rented(way(AcquisitionOption.SPOT, 1.0)))
    assert same is not None and same.crossovers == () and [p.way for p in same.paths] == ["on_demand", "spot"]


def test_months_are_whole_and_only_known_ways_and_prices_have_them() -> None:
    part = spending_by_month(rented(months=6.9))
    assert part is not None and [len(p.usd) for p in part.paths] == [7]
    unknown = spending_by_month(rented(way(AcquisitionOption.SPOT, 0.3), pricing_model=None))
    assert unknown is not None and [p.way for p in unknown.paths] == ["spot"]
    ended = spending_by_month(rented(pricing_model=PricingModel.RESERVED_1Y, provider=None))
    assert ended is not None and [(p.way, p.provider) for p in ended.paths] == [("committed_1y", "")]
    for without in (
        made(cost=None),
        made(cost=replace(COST, usd_per_hour=None)),
        replace(made(), estimate=None),
        run(),
        replace(made(), estimate=replace(made().estimate, fits=False)),  # type: ignore[type-var]
    ):
        assert spending_by_month(without) is None
    host = HostedCost(HostedPrice("m", "hoster", 1.0, 1.0, None, "a page", "2026-01-01"), 1.0, usd_per_month=100.0)
    o = rented()
    assert o.estimate is not None
    for usd, ways in ((100.0, {"on_demand", HOSTED}), (None, {"on_demand"})):
        api = HostedApi("", (replace(host, usd_per_month=usd),))
        found = spending_by_month(replace(o, estimate=replace(o.estimate, hosted_api=api)))
        assert found is not None and {p.way for p in found.paths} == ways
    assert SpendingPath("spot", "x", (0.0, 5.0), 2.0, 3.0).net_usd == 6.0
