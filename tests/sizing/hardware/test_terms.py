"""Published commercial terms."""

from __future__ import annotations

import re

import pytest

from app.catalog.files import read_rows
from app.sizing.hardware.terms import CommercialTerm, commercial_terms


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
