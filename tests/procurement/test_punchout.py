"""A cXML punch-out from the buyer's side: there, through the pages, home with a basket; and refusals."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from starlette.testclient import TestClient

from app.api.routes import procurement
from app.catalog.purchasing import PunchoutStore
from app.db import DatabaseError
from app.procurement.desk import PunchoutService
from tests.examples import body
from tests.procurement.buyer import FORM, HERE, SECRET, BuyerSide, HtmlForm, item_out, setup_request

LEAVE = [("leave", "1")]


@pytest.fixture
def buyer(service: TestClient, cxml_dtd: etree.DTD) -> BuyerSide:
    return BuyerSide(service, cxml_dtd)


def test_there_and_home_with_a_basket(buyer: BuyerSide, stored: dict[str, Any]) -> None:
    assert buyer.open().startswith(f"{HERE}/procurement/sessions/")
    assert "deepseek" in buyer.page.lower()
    buyer.submit(HtmlForm("get", buyer.url, [("label", "no such label"), ("all", "1")]))
    assert "No stored answer matches" in buyer.page
    buyer.submit(HtmlForm("get", buyer.url, [("label", "punch-out")]))
    first = next(form for form in buyer.forms() if ("recommendation", stored["id"]) in form.fields)
    buyer.submit(first)
    buyer.submit(buyer.choose(stored["id"], 1))
    root = buyer.basket()
    bill = buyer.get(f"/recommendations/{stored['id']}/bill-of-materials?rank=1").json()
    assert Decimal(root.findtext(".//Total/Money")) == Decimal(str(bill["totals"]["subtotal"]))
    assert len(root.findall(".//ItemIn")) == len([line for line in bill["lines"] if "unit_price" in line])
    assert root.find(".//PunchOutOrderMessageHeader").get("operationAllowed") == "edit"
    parties = {role: root.find(f"Header/{role}/Credential") for role in ("From", "To")}
    assert {r: (c.get("domain"), c.findtext("Identity")) for r, c in parties.items()} == {
        "From": ("DUNS", "123456789"),
        "To": ("NetworkId", "AN01000000001"),
    }


def test_a_session_orders_once_and_sends_the_same_again(buyer: BuyerSide, stored: dict[str, Any]) -> None:
    buyer.open()
    first, second = buyer.choose(stored["id"], 1), buyer.choose(stored["id"], 2)
    once = buyer.submit(first).content
    assert buyer.submit(first).content == once  # the buyer's system answered 500: the user goes back and sends again
    refused = buyer.submit(second, status=409)
    assert "another basket" in refused.text
    assert buyer.submit(HtmlForm("post", buyer.url, LEAVE), status=409)


def test_a_basket_comes_back_to_be_changed_or_looked_at(buyer: BuyerSide, stored: dict[str, Any]) -> None:
    buyer.open()
    buyer.submit(buyer.choose(stored["id"], 2))
    item = buyer.basket().find(".//ItemIn/ItemID")
    kept = item_out(item.findtext("SupplierPartID"), item.findtext("SupplierPartAuxiliaryID"))

    buyer.open(operation="edit", items=kept)
    assert "in your basket" in buyer.page
    buyer.submit(buyer.choose(stored["id"], 1))
    assert buyer.basket().find(".//ItemIn") is not None

    buyer.open(operation="inspect", items=kept)
    assert "<h2>2. " in buyer.page
    assert "<h2>1. " not in buyer.page
    (leaving,) = buyer.forms()
    hand_over = HtmlForm("post", buyer.url, [("recommendation", stored["id"]), ("rank", "1")])
    assert "is read-only" in buyer.submit(hand_over, status=409).text
    buyer.submit(leaving)
    assert buyer.basket().find("Message/Status").get("code") == "204"


def test_a_buyer_looks_without_an_address_to_go_back_to(buyer: BuyerSide) -> None:
    buyer.open(operation="inspect", hook=None)
    assert "Close this window" in buyer.page
    assert buyer.submit(HtmlForm("post", buyer.url, LEAVE), status=409)


def test_the_three_questions_are_answered_in_the_session(buyer: BuyerSide) -> None:
    buyer.open()
    asked = next(form for form in buyer.forms() if "model" in dict(form.fields))
    wrong = HtmlForm("post", asked.action, [*asked.fields, ("users", "many")])
    assert "valid number" in buyer.submit(wrong, status=422).text
    unknown = HtmlForm("post", asked.action, [*asked.fields, ("model", "<b>gpt-9</b>")])
    assert "<b>gpt-9" not in buyer.submit(unknown, status=422).text
    buyer.submit(asked)
    assert "Options, best first" in buyer.page
    buyer.submit(next(form for form in buyer.forms() if ("rank", "1") in form.fields))
    assert buyer.basket().findall(".//ItemIn")


ENTITY = '<!DOCTYPE cXML [<!ENTITY x "y">]>'
DOCTYPE = '<!DOCTYPE cXML SYSTEM "http://xml.cxml.org/schemas/cXML/1.2.063/cXML.dtd">'
LAUGHS = "<!DOCTYPE cXML [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]>"
FILE = '<!DOCTYPE cXML [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "wrong secret": ("401", {"secret": "wrong"}),
    "secret in part": ("401", {"secret": SECRET[:-1]}),
    "no secret": ("401", {"secret": ""}),
    "another's identity": ("401", {"identity": "987654321", "domain": "DUNS"}),
    "another domain": ("401", {"domain": "DUNS"}),
    "unknown identity": ("401", {"identity": "AN09"}),
    "nowhere to go back to": ("400", {"hook": None}),
    "plain http": ("403", {"hook": "http://srm.acme.example/hook"}),
    "another host": ("403", {"hook": "https://evil.example/hook"}),
    "a host that looks alike": ("403", {"hook": "https://srm.acme.example.evil.example/"}),
    "a host below none": ("403", {"hook": "https://evilhub.example/"}),
    "a user in the address": ("403", {"hook": "https://srm.acme.example@evil.example/"}),
    "a script": ("403", {"hook": "javascript:alert(1)"}),
    "an operation of another kind": ("450", {"operation": "source"}),
    "no cookie": ("400", {"cookie": " "}),
    "a vast cookie": ("400", {"cookie": "c" * 1001}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_opens_no_session(buyer: BuyerSide, name: str) -> None:
    status, asked = REFUSED[name]
    assert buyer.status(setup_request(**asked)) == status


BROKEN = {
    "not XML": ("406", b"PunchOutSetupRequest"),
    "empty": ("406", b""),
    "cut": ("406", setup_request()[:400].encode()),
    "another root": ("400", b"<order/>"),
    "another request": ("450", b"<cXML payloadID='1'><Request><ProfileRequest/></Request></cXML>"),
    "an entity": ("406", setup_request().replace(DOCTYPE, ENTITY).replace("cookie-1", "&x;").encode()),
    "an entity in an attribute": ("406", setup_request(payload="&x;").replace(DOCTYPE, ENTITY).encode()),
    "a billion laughs": ("406", setup_request().replace(DOCTYPE, LAUGHS).replace("cookie-1", "&b;").encode()),
    "a file": ("406", setup_request().replace(DOCTYPE, FILE).replace("cookie-1", "&x;").encode()),
    "an entity of the DTD": ("406", setup_request().replace("cookie-1", "&cxml.version;").encode()),
    "UTF-16": ("406", setup_request().replace("UTF-8", "UTF-16").encode("utf-16")),
    "UTF-7": ("406", setup_request().replace("UTF-8", "UTF-7").encode()),
    "not what it says": ("406", setup_request(cookie="\u00e9").encode("latin-1")),
    "too deep": ("406", setup_request(items="<a>" * 40 + "</a>" * 40).encode()),
    "too deep for the parser": ("406", b"<a>" * 5000),
    "markup in a secret": ("400", setup_request().replace(SECRET, "<b/>").encode()),
    "too large": ("400", setup_request(items=" " * 70000).encode()),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_documents_are_reported_as_such(buyer: BuyerSide, name: str) -> None:
    status, document = BROKEN[name]
    assert buyer.status(document) == status


def test_a_body_that_is_not_declared_as_xml_is_refused(buyer: BuyerSide) -> None:
    assert buyer.status(setup_request(), "application/json") == "400"


@given(st.data())
def test_no_document_breaks_the_desk(service: TestClient, data: st.DataObject) -> None:
    """Bytes changed, cut out and put in: every answer is a status of cXML, never 500."""
    document = bytearray(setup_request(payload="fuzzed").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(document) - 1))
        document[at : at + data.draw(st.integers(0, 30))] = data.draw(st.binary(max_size=6))
    sent = service.post("/procurement/punchout", content=bytes(document), headers={"content-type": "text/xml"})
    assert sent.status_code == 200
    assert b'code="500"' not in sent.content


def test_an_older_secret_and_another_buyer_are_taken(buyer: BuyerSide) -> None:
    assert buyer.status(setup_request(secret="the secret before it")) == "200"
    own = {"identity": "987654321", "domain": "DUNS", "secret": "others' secret!", "hook": "https://buy.other.example/"}
    assert buyer.status(setup_request(**own)) == "200"
    assert buyer.status(setup_request(hook="https://a.hub.example:8443/x")) == "200"


def test_a_request_sent_again_is_one_session(buyer: BuyerSide, stored: dict[str, Any]) -> None:
    first = buyer.open(payload="again@acme")
    second = buyer.open(payload="again@acme")
    assert first != second
    buyer.get(first, status=404)
    buyer.submit(buyer.choose(stored["id"], 1))
    assert buyer.status(setup_request(payload="again@acme")) == "409"


def test_superseded_answers_are_not_offered(buyer: BuyerSide) -> None:
    asked = {**body("recommend-inference-chat-70b"), "label": "punch-out, an old one"}
    answer = buyer.service.post("/recommend", json=asked).json()
    buyer.open()
    found = HtmlForm("get", buyer.url, [("label", "punch-out, an old one"), ("all", "1")])
    assert answer["id"] in buyer.submit(found).text
    gone = {"status": "superseded", "by": "J. Doe"}
    buyer.service.patch(f"/recommendations/{answer['id']}", json=gone, headers={"if-match": "*"})
    assert answer["id"] not in buyer.submit(found).text


def test_a_buyer_sees_what_its_own_sessions_made_and_what_its_settings_name(
    service: TestClient, cxml_dtd: etree.DTD, stored: dict[str, Any]
) -> None:
    """The settings of the other buyer name no labels, so it sees neither the list, the options nor a basket of them."""
    other = BuyerSide(service, cxml_dtd)
    own = {"identity": "987654321", "domain": "DUNS", "secret": "others' secret!", "hook": "https://buy.other.example/"}
    basket = f"<SelectedItem/>{item_out('x', stored['id'] + '-1-1')}"
    for asked in (own, {**own, "operation": "edit", "items": basket}):
        other.ask(setup_request(**asked))
    other.open(**own)
    assert stored["id"] not in other.page and stored["id"] not in other.get(f"{other.url}?all=1&label=punch-out").text
    assert "is stored under this id" in other.get(f"{other.url}?recommendation={stored['id']}", status=404).text
    order = HtmlForm("post", other.url, [("recommendation", stored["id"]), ("rank", "1")])
    assert "is stored under this id" in other.submit(order, status=404).text

    questions = [("model", "meta-llama/Llama-3.1-8B-Instruct"), ("users", "43"), ("requests", "7")]
    sent = service.post(other.url, data=dict(questions))
    made = sent.headers["location"].rpartition("=")[2]
    assert made.startswith("rec_") and made in other.get(f"{other.url}?all=1").text
    other.open(**own)
    assert made in other.get(f"{other.url}?all=1").text
    first = BuyerSide(service, cxml_dtd)
    first.open()
    assert made not in first.get(f"{first.url}?all=1").text and stored["id"] in first.get(f"{first.url}?all=1").text
    first.get(f"{first.url}?recommendation={made}", status=404)


@pytest.mark.parametrize("token", ["x" * 43, "..", "%00", "é"])
def test_a_token_is_not_guessed(buyer: BuyerSide, token: str) -> None:
    sent = buyer.service.get(f"/procurement/sessions/{token}")
    assert sent.status_code == 404


class Later(datetime):
    """The clock after a session's time."""

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.now(tz) + timedelta(minutes=61)


def test_a_session_ends(buyer: BuyerSide, stored: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    buyer.open()
    choice = buyer.choose(stored["id"], 1)
    monkeypatch.setattr(procurement, "datetime", Later)
    assert "session has expired" in buyer.get(buyer.url, status=404).text
    buyer.submit(choice, status=404)


def test_a_missing_answer_is_reported_on_a_page(buyer: BuyerSide, stored: dict[str, Any]) -> None:
    buyer.open()
    missing = f"{buyer.url}?recommendation=rec_{'0' * 28}"
    assert "is stored under this id" in buyer.get(missing, status=404).text
    for rank in ("0", "99", "x", "²", "9" * 5000):
        form = HtmlForm("post", buyer.url, [("recommendation", stored["id"]), ("rank", rank)])
        assert "no rank" in buyer.submit(form, status=404).text
    for text in (b"a=%ff", b"recommendation=rec_%00"):  # PostgreSQL stores no zero byte
        assert buyer.service.post(buyer.url, content=text, headers={"content-type": FORM}).status_code == 400
    buyer.get(f"{buyer.url}?recommendation=rec_%00", status=400)


def test_pages_keep_to_themselves(buyer: BuyerSide, stored: dict[str, Any]) -> None:
    buyer.open()
    sent = buyer.get(buyer.url)
    rules = sent.headers["content-security-policy"]
    assert "default-src 'none'" in rules
    assert "form-action 'self' https://srm.acme.example:* https://*.hub.example:*;" in rules
    assert "frame-ancestors 'self' https://srm.acme.example:*" in rules
    assert (sent.headers["referrer-policy"], sent.headers["cache-control"]) == ("no-referrer", "no-store")
    assert "set-cookie" not in sent.headers
    page = buyer.submit(buyer.choose(stored["id"], 1)).text
    assert 'src="../../static/handover.js"' in page
    assert buyer.get("/static/handover.js")


def test_a_database_that_does_not_answer_is_no_500(buyer: BuyerSide, monkeypatch: Any) -> None:
    def down(*_: Any, **__: Any) -> None:
        raise DatabaseError("", None, OSError())

    monkeypatch.setattr(PunchoutStore, "open", down)
    monkeypatch.setattr(PunchoutStore, "find", down)
    assert buyer.status(setup_request()) == "560"
    assert buyer.service.get("/procurement/sessions/x").status_code == 503
    monkeypatch.setattr(PunchoutService, "open_session", lambda *_, **__: 1 / 0)
    assert buyer.status(setup_request()) == "500"


def test_without_settings_there_is_no_desk(client: TestClient, cxml_dtd: etree.DTD) -> None:
    assert BuyerSide(client, cxml_dtd).status(setup_request()) == "450"
    assert client.get("/procurement/sessions/x").status_code == 404
    assert client.get("/procurement/oci").status_code == 404
