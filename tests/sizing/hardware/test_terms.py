"""Commercial terms: published prices, reported lead times and recorded resale values."""

from __future__ import annotations

import re

import pytest

from app.catalog.files import read_rows
from app.sizing.hardware.terms import (
    CommercialTerm,
    commercial_terms,
    find_lead_time,
    lead_times,
    mean_decline_per_year,
    resale_values,
)


@pytest.mark.parametrize("term", commercial_terms().values(), ids=lambda term: f"{term.goods}-{term.seller}")
def test_a_term_is_dated_and_of_a_known_seller(term: CommercialTerm) -> None:
    sellers = {row["provider"] for row in read_rows("offers.csv")}
    assert term.seller in sellers or (term.goods, term.seller) == ("licence", "NVIDIA AI Enterprise")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", term.as_of) and term.source


def test_traffic_out_of_a_cloud_costs_at_most_fifteen_cents_and_storage_ten() -> None:
    for (goods, _), term in commercial_terms().items():
        most = {"egress": 0.15, "storage": 0.1, "licence": 5000}[goods]
        assert 0 <= term.usd <= most


def test_a_free_allowance_and_a_kind_of_storage_are_said() -> None:
    terms = commercial_terms()
    traffic = terms["egress", "aws"].describe()
    assert "0.09 USD per GB for the first 10 TB a month, after 100 GB a month free of charge (2026-05-06" in traffic
    assert (
        terms["egress", "coreweave"].describe() == "published price: free of charge (2026-09-20, coreweave.com/pricing)"
    )
    assert (
        terms["storage", "nebius"]
        .describe()
        .startswith("published price: 0.08 USD per GiB and month, shared filesystem")
    )


def test_lead_times_are_of_products_of_the_catalog() -> None:
    slugs = {row["slug"] for name in ("systems.csv", "accelerators.csv") for row in read_rows(name)}
    for row in lead_times():
        assert row.product in slugs
        assert 0 < row.weeks_low <= (row.weeks_high or row.weeks_low) <= 104


def test_the_newest_lead_time_that_was_reported_by_then_counts() -> None:
    dell = "dell-xe9680-h100", "nvidia-h100-sxm5-80gb"
    newest, of_2024, of_2023 = (find_lead_time(*dell, until=day) for day in ("2026-11-20", "2025-01-01", "2024-01-01"))
    assert newest is not None and newest.describe() == (
        "reported lead time: 36 to 52 weeks (resellers, 2026-06-30, spheron.network)"
    )
    assert of_2024 is not None and (of_2024.weeks_low, of_2024.weeks_high) == (8.0, 12.0)
    assert of_2023 is not None and "39 weeks (Dell" in of_2023.describe()
    assert find_lead_time(*dell, until="2023-01-01") is None
    open_ended = find_lead_time("nvidia-h200-sxm-141gb", until="2026-11-20")
    assert open_ended is not None and "40 weeks or more" in open_ended.describe()


def test_recorded_generations_lose_about_a_third_a_year() -> None:
    families = {row["family"] for row in read_rows("accelerators.csv") if row["training_class"] == "true"}
    assert resale_values().keys() <= families
    for row in resale_values().values():
        assert 0 < row.share_low <= row.share_high < 1
        assert 0.28 < row.decline_per_year < 0.35
        assert (1 - row.decline_per_year) ** row.age_years == pytest.approx((row.share_low + row.share_high) / 2)
    assert mean_decline_per_year(0.25, 2.0) == 0.5
