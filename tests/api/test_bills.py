"""Bills of ordinary answers: every format comes to the same cents, and every line can be ordered or quoted."""

from __future__ import annotations

import csv
import io
import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import parse_qsl

import pytest
from lxml import etree, html
from python_calamine import CalamineWorkbook
from starlette.testclient import TestClient

CENT = Decimal("0.01")
TRAFFIC = {"input_tokens": 1000, "output_tokens": 300}
DAY = [0.2] * 6 + [0.5, 0.8, 1, 1, 1, 1, 1, 1, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25]


def service(model: str, traffic: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"workload": {"phase": "inference", "model": model, "traffic": TRAFFIC | traffic}, **rest}


def chat(name: str, rate: float, ttft_ms: float) -> dict[str, Any]:
    return {"name": name, "peak_requests_per_s": rate, **TRAFFIC, "slo": {"ttft_ms": ttft_ms, "tpot_ms": 50}}


OWN, RENT = {"environments": ["on_prem"]}, {"environments": ["cloud"]}
EIGHT, SEVENTY = "llama-3.1-8b", "llama-3.1-70b"
ANSWERS: dict[str, dict[str, Any]] = {
    "rented on demand": service(SEVENTY, {"peak_requests_per_s": 10}, constraints=RENT, reference="PR-1"),
    "rented for six months": service(
        SEVENTY, {"peak_requests_per_s": 10}, constraints=RENT, economics={"horizon_months": 6}
    ),
    "reserved": service(
        EIGHT, {"peak_requests_per_s": 40}, constraints={"pricing_models": ["reserved_1y", "committed_1y"]}
    ),
    "owned": service(SEVENTY, {"peak_requests_per_s": 20}, constraints=OWN),
    "owned servers with discount": service(
        SEVENTY,
        {"peak_requests_per_s": 20},
        constraints=OWN | {"segments": ["datacenter"]},
        economics={"discounts": {"nvidia-h100-sxm5-80gb": 0.1}},
    ),
    "several classes": {
        "workload": {
            "phase": "inference",
            "model": EIGHT,
            "traffic": {"classes": [chat("chat", 5, 1000), chat("summaries", 2, 5000)]},
        }
    },
    "day with autoscaling": service(EIGHT, {"peak_requests_per_s": 40, "hourly_factors": DAY}, constraints=RENT),
    "desktop": service(EIGHT, {"concurrent_requests": 1}, constraints=OWN),
    "training run": {
        "workload": {"phase": "training", "model": EIGHT, "training_tokens": 1e11, "deadline_days": 30},
    },
    "own training cluster": {
        "workload": {"phase": "training", "model": SEVENTY, "training_tokens": 1e12, "deadline_days": 60},
        "constraints": OWN | {"accelerators": ["b200 sxm"]},
    },
}
SETTLED = "&currency=EUR&usd_rate=0.92&rate_date=2026-11-20&tax_name=VAT&tax_percent=19"
UBL = {"b": "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2"}


def cents(amount: Any) -> Decimal:
    return Decimal(str(amount)).quantize(CENT, ROUND_HALF_UP)


def subtotals(client: TestClient, at: str) -> dict[str, Decimal]:
    """Subtotal of a bill in every format, added up from its lines where the format has them."""
    sent = {name: client.get(f"{at}&format={name}") for name in ("csv", "xlsx", "cxml", "ubl", "oci")}
    rows = csv.DictReader(io.StringIO(sent["csv"].text))
    book = CalamineWorkbook.from_filelike(io.BytesIO(sent["xlsx"].content))
    totals = {row[0]: row[1] for row in book.get_sheet_by_name("Totals").to_python()}
    basket, request = (etree.fromstring(sent[name].content) for name in ("cxml", "ubl"))
    items: dict[str, dict[str, Decimal]] = {}
    for field, text in parse_qsl(sent["oci"].text):
        name, _, place = field.removeprefix("NEW_ITEM-").partition("[")
        if name in ("QUANTITY", "PRICE", "PRICEUNIT"):
            items.setdefault(place, {})[name] = Decimal(text)
    return {
        "csv": sum((cents(row["line_total"]) for row in rows if row["line_total"]), Decimal(0)),
        "xlsx": cents(totals["Subtotal"]),
        "cxml": cents(basket.findtext(".//Total/Money")),
        "ubl": sum((cents(amount.text) for amount in request.findall(".//b:LineExtensionAmount", UBL)), Decimal(0)),
        "oci": sum((cents(i["QUANTITY"] * i["PRICE"] / i["PRICEUNIT"]) for i in items.values()), Decimal(0)),
    }


@pytest.mark.parametrize("name", ANSWERS)
def test_a_bill_can_be_ordered_and_comes_to_the_same_cents_in_every_format(client: TestClient, name: str) -> None:
    answer = client.post("/recommend", json=ANSWERS[name]).json()
    at = f"/recommendations/{answer['id']}/bill-of-materials?rank=1"
    for settled in ("", SETTLED):
        bill = client.get(at + settled).json()
        assert set(subtotals(client, at + settled).values()) == {cents(bill["totals"]["subtotal"])}
        assert cents(bill["totals"]["total"]) == cents(bill["totals"]["subtotal"]) + cents(bill["totals"]["tax"])
    cost = answer["recommendations"][0]["cost"]
    for line in bill["lines"]:
        assert "unit_price" in line or re.match("to be quoted(; published price: |$)", line["notes"])
        assert not re.search(
            r"@[0-9a-f]{6}|\.(go|csv|json|yml)\b|github|recall", str(line.get("price", {}).get("source"))
        )
        if line["supplier_kind"] == "cloud provider":
            assert line["supplier"]
            assert line.get("manufacturer") != line["supplier"]
    goods = [line["goods"] for line in bill["lines"]]
    if cost["purchase_usd"]:
        assert "installation" in goods
        assert ("power_distribution" in goods) == ("rack" in goods)
    else:
        rent = bill["lines"][0]
        per_hour = {"on_demand": 1}.get(cost["price"]["pricing_model"])
        stated = ANSWERS[name].get("economics", {}).get("horizon_months")
        if per_hour and cost["usd_total"] is None:
            assert rent["term_months"] == (stated or 1)
        assert "egress" in goods


@pytest.mark.parametrize("name", ["rented on demand", "owned servers with discount", "desktop"])
def test_a_quote_form_asks_a_supplier_only_for_what_it_sells(client: TestClient, name: str) -> None:
    answer = client.post("/recommend", json=ANSWERS[name]).json()
    at = f"/recommendations/{answer['id']}/bill-of-materials?rank=1"
    bill = client.get(at).json()
    forms = html.fromstring(client.get(f"{at}&format=rfq&buyer=Example%20Ltd").content).findall(
        ".//div[@class='quote']"
    )
    kinds = {line["supplier_kind"] for line in bill["lines"]}
    assert len(forms) == len(kinds - {"electricity supplier"})
    for form in forms:
        text = form.text_content()
        assert "Buyer: Example Ltd" in text and "Signature" in text
        assert ("Electricity" in text) == ("Data center space" in text)
