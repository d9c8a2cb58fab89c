"""An OCI visit as SAP's systems make it: by GET or by a form, home with the fields of a basket."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from lxml import etree
from starlette.testclient import TestClient

from tests.procurement.buyer import FORM, HOOK, PASSWORD, BuyerSide

CALL = {"USERNAME": "acme-buyer", "PASSWORD": PASSWORD, "HOOK_URL": HOOK, "~OkCode": "ADDI", "~TARGET": "_parent"}
LEAVE = "leave"


@pytest.fixture
def buyer(service: TestClient, cxml_dtd: etree.DTD) -> BuyerSide:
    return BuyerSide(service, cxml_dtd)


def call(service: TestClient, fields: dict[str, str], method: str = "POST") -> Any:
    if method == "GET":
        return service.get(f"/procurement/oci?{urlencode(fields)}")
    return service.post("/procurement/oci", content=urlencode(fields), headers={"content-type": FORM})


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_there_and_home_with_a_basket(buyer: BuyerSide, stored: dict[str, Any], method: str) -> None:
    sent = call(buyer.service, CALL, method)
    assert sent.status_code == 303
    buyer.url = sent.headers["location"]
    buyer.submit(buyer.choose(stored["id"], 1))
    form = buyer.home()
    assert form.action == HOOK
    assert 'target="_parent"' in buyer.page
    data = dict(form.fields)
    assert (data["~OkCode"], data["~TARGET"]) == ("ADDI", "_parent")
    places = [name[len("NEW_ITEM-PRICE[") : -1] for name in data if name.startswith("NEW_ITEM-PRICE[")]
    figures = [
        {name: Decimal(data[f"NEW_ITEM-{name}[{at}]"]) for name in ("QUANTITY", "PRICE", "PRICEUNIT")} for at in places
    ]
    bill = buyer.get(f"/recommendations/{stored['id']}/bill-of-materials?rank=1").json()
    total = sum(round(each["QUANTITY"] * each["PRICE"] / each["PRICEUNIT"], 2) for each in figures)
    assert total == Decimal(str(bill["totals"]["subtotal"]))


def test_home_with_nothing(buyer: BuyerSide) -> None:
    buyer.url = call(buyer.service, {name.lower(): value for name, value in CALL.items()}).headers["location"]
    buyer.page = buyer.get(buyer.url).text
    buyer.submit(next(form for form in buyer.forms() if form.fields == [(LEAVE, "1")]))
    assert [name for name, _ in buyer.home().fields if "NEW_ITEM" in name] == []


REFUSED = {
    "wrong password": (401, {"PASSWORD": "wrong"}),
    "no password": (401, {"PASSWORD": ""}),
    "unknown user": (401, {"USERNAME": "stranger"}),
    "another host": (403, {"HOOK_URL": "https://evil.example/"}),
    "plain http": (403, {"HOOK_URL": "http://srm.acme.example/"}),
    "a quote in the address": (403, {"HOOK_URL": 'https://srm.acme.example/"><script>'}),
    "a frame with a quote": (400, {"~TARGET": '"><script>'}),
    "a search in the background": (404, {"FUNCTION": "BACKGROUND_SEARCH"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_opens_no_session(service: TestClient, name: str) -> None:
    status, changed = REFUSED[name]
    sent = call(service, {**CALL, **changed})
    assert sent.status_code == status
    assert sent.headers["content-type"].startswith("text/html")
    assert "<script" not in sent.text


def test_a_call_without_its_hook_or_its_form(service: TestClient) -> None:
    assert call(service, {name: value for name, value in CALL.items() if name != "HOOK_URL"}).status_code == 400
    assert service.post("/procurement/oci", json=CALL).status_code == 400
