"""The gate: which prices count, and which wait for an operator. Names: which offer a price is of."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from app.catalog.observations import Observation, OfferKey
from app.catalog.snapshot import CatalogStore
from app.feeds import azure, gpuhunt, lambda_cloud
from app.feeds.gate import KnownPrices, check_prices, lost_too_many
from app.feeds.naming import FeedNames
from app.feeds.prices import FetchedPart, StatedPrice
from tests.catalog.observed import observed

TODAY = date(2026, 11, 20)
HERE = OfferKey("aws", "us-east-1", "g6.xlarge", "nvidia-l4", 1.0, "on_demand")
SPOT, EIGHT = HERE._replace(pricing_model="spot"), HERE._replace(accelerator_count=8.0)
KNOWN = KnownPrices(
    {HERE: (0.8, "2026-11-19"), SPOT: (0.3, "2026-11-19")},
    {("nvidia-l4", "on_demand"): 0.8, ("nvidia-l4", "spot"): 0.3},
)


@pytest.mark.parametrize(
    ("key", "usd", "rule"),
    [
        (HERE, 0.0, "not_positive"),
        (HERE, -1.0, "not_positive"),
        (SPOT, 0.81, "above_on_demand"),
        (SPOT, 0.79, None),
        (HERE, 0.8 * 1.61, "day_change"),
        (HERE, 0.8 * 0.39, "day_change"),
        (HERE, 0.8 * 1.59, None),
        (HERE, 0.8 * 0.41, None),
        (EIGHT, 8 * 0.8 * 5.1, "far_from_median"),
        (EIGHT, 8 * 0.8 / 5.1, "far_from_median"),
        (EIGHT, 8 * 0.8 * 4.9, None),
        (SPOT, 0.3 / 5.1, "far_from_median"),
        (HERE._replace(accelerator="nvidia-l40s"), 99.0, None),  # no median is known
    ],
)
def test_each_rule_at_its_limit(key: OfferKey, usd: float, rule: str | None) -> None:
    accepted, suspicions = check_prices([observed(key, usd)], KNOWN, TODAY)
    assert [s.rule for s in suspicions] == ([] if rule is None else [rule])
    assert len(accepted) == (rule is None)
    assert all(s.detail for s in suspicions)


def test_an_old_price_does_not_limit_the_change_and_a_price_in_force_passes() -> None:
    old = replace(KNOWN, in_force={HERE: (0.8, "2026-08-22")})
    assert not check_prices([observed(HERE, 1.6)], old, TODAY)[1]
    odd = replace(KNOWN, in_force={HERE: (99.0, "2026-11-19")})
    assert not check_prices([observed(HERE, 99.0)], odd, TODAY)[1]


def test_spot_is_compared_with_the_on_demand_price_of_the_same_read() -> None:
    accepted, suspicions = check_prices([observed(HERE, 0.5), observed(SPOT, 0.6)], KNOWN, TODAY)
    assert [each.key for each in accepted] == [HERE]
    assert suspicions[0].rule == "above_on_demand"


def rules(known: KnownPrices, *observations: Observation) -> list[str]:
    return [each.rule for each in check_prices(observations, known, TODAY)[1]]


def test_many_small_changes_within_a_day_are_one_large_change() -> None:
    now, yesterday = {HERE: (0.4, "2026-11-20")}, {HERE: (0.8, "2026-11-19")}
    assert rules(KnownPrices(now, {}), observed(HERE, 0.25)) == []
    assert rules(KnownPrices(now, {}, {}, yesterday), observed(HERE, 0.25)) == ["day_change"]


def test_spot_is_not_compared_with_an_implausible_price() -> None:
    known = KnownPrices({HERE: (0.8, "2026-11-19")}, {}, {"nvidia-l4": 0.8})
    assert rules(known, observed(SPOT, 0.9), observed(HERE, 80.0)) == ["day_change", "above_on_demand"]


@pytest.mark.parametrize(("usd", "rule"), [(1e300, True), (501.0, True), (0.004, True), (499.0, False), (0.006, False)])
def test_a_type_without_any_price_has_bounds_too(usd: float, rule: bool) -> None:
    assert rules(KnownPrices({}, {}), observed(HERE, usd)) == (["far_from_median"] if rule else [])


def test_a_type_with_few_prices_is_compared_with_its_other_pricing_models() -> None:
    known = KnownPrices({}, {}, {"nvidia-l4": 0.8})
    assert rules(known, observed(SPOT, 0.09)) == []
    assert rules(known, observed(SPOT, 0.07)) == ["far_from_median"]


def test_a_part_may_lose_three_of_ten_prices() -> None:
    assert not lost_too_many(70, 100)
    assert lost_too_many(69, 100)
    assert not lost_too_many(0, 0)


@pytest.fixture(scope="module")
def names(catalog_store: CatalogStore) -> FeedNames:
    return FeedNames(catalog_store.directory())


def price(provider: str, machine: str, name: str, count: float) -> StatedPrice:
    return StatedPrice(provider, "some-region", machine, "on_demand", 1.0, accelerator=name, count=count)


def test_the_instance_type_decides_before_the_name(names: FeedNames) -> None:
    (observation,), unmapped = names.to_observations(
        gpuhunt.FEED, FetchedPart([price("aws", "P5.48xlarge", "H100 80GB", 8)], "1", "0")
    )
    assert observation.key == ("aws", "some-region", "p5.48xlarge", "nvidia-h100-sxm5-80gb", 8.0, "on_demand")
    assert unmapped == []


def test_a_price_without_a_name_takes_all_from_its_instance_type(names: FeedNames) -> None:
    key = names.find_key(azure.FEED, price("azure", "Standard_NC24ads_A100_v4", "", 0))
    assert key is not None
    assert (key.accelerator, key.accelerator_count) == ("nvidia-a100-pcie-80gb", 1.0)


def test_names_that_mean_several_accelerators_or_none_are_reported(names: FeedNames) -> None:
    prices = [
        price("vast", "1x A100", "A100 80GB", 1),
        price("vast", "1x X900", "X900", 1),
        price("nosuchcloud", "x1", "L4 24GB", 1),
        price("azure", "Standard_X1", "", 0),
        price("vast", "1x A100 SXM4", "A100 SXM4 80GB", 1),
    ]
    found, unmapped = names.to_observations(lambda_cloud.FEED, FetchedPart(prices, "1", "0"))
    assert unmapped == ["A100 80GB", "L4 24GB", "X900", "azure Standard_X1"]
    assert [each.key.accelerator for each in found] == ["nvidia-a100-sxm4-80gb"]  # by alias


def test_aliases_name_accelerators_of_the_catalog(names: FeedNames, catalog_store: CatalogStore) -> None:
    known = catalog_store.catalog().accelerator_index
    assert names._aliases
    assert {*names._aliases.values()} <= {*known}


@pytest.mark.parametrize(
    ("model", "usd", "counts"), [("on_demand", (0.7, 0.9, 0.0), 0.9), ("spot", (0.3, 0.2, 0.0, -1.0, 0.4), 0.2)]
)
def test_of_several_prices_of_one_offer_the_order_does_not_matter(
    model: str, usd: tuple[float, ...], counts: float, names: FeedNames
) -> None:
    listed = price("aws", "g6.xlarge", "L4 24GB", 1)
    for order in (usd, usd[::-1]):
        part = FetchedPart([replace(listed, pricing_model=model, usd_per_hour=each) for each in order], "1", "0")
        (found,) = names.to_observations(gpuhunt.FEED, part)[0]
        assert found.usd_per_hour == counts
