"""What settings may say of buyers, and which addresses are theirs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.testclient import TestClient

from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.main import create_app
from app.procurement.desk import FREE_GUESSES, Buyers, GuessLimit
from app.procurement.setup import PunchoutRefused
from tests.procurement.buyer import ACME, HERE, setup_request

KNOWN: dict[str, Any] = {"name": "a", "hosts": ["a.example"], "identity": "A", "secrets": ["a long secret"]}


def test_buyers_come_from_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = '[{"name": "a", "hosts": ["a.example"], "username": "A", "passwords": ["a long secret"]}]'
    monkeypatch.setenv("HEADROOM_PUNCHOUT_BUYERS", setting)
    (buyer,) = Settings().punchout_buyers
    assert buyer.username == "A"
    assert "a long secret" not in repr(buyer)


@pytest.mark.parametrize(
    "changed",
    [
        {"secrets": []},
        {"secrets": ["short"]},
        {"identity": None},
        {"identity": None, "secrets": []},
        {"username": "A"},
        {"hosts": []},
        {"hosts": ["https://a.example"]},
        {"hosts": ["*"]},
        {"hosts": ["a.*.example"]},
        {"name": "A b"},
        {"colour": "red"},
    ],
)
def test_a_buyer_that_could_not_work_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(punchout_buyers=[{**KNOWN, **changed}])


@pytest.mark.parametrize("url", ["http://srm.acme.example/", "https://SRM.acme.example:444/a?b='c'#d"])
def test_plain_http_only_where_settings_say(url: str) -> None:
    assert Buyers((ACME,), plain_http=True).check_return_url(ACME, url) == url


@given(st.text(max_size=40), st.text(max_size=10))
def test_no_spelling_leads_elsewhere(host: str, path: str) -> None:
    """Whatever the spelling, an accepted address has a host of the buyer."""
    for url in (f"https://{host}/{path}", f"https://{host}.hub.example{path}", f"https://srm.acme.example{host}"):
        try:
            Buyers((ACME,), plain_http=False).check_return_url(ACME, url)
        except PunchoutRefused:
            continue
        authority = url.removeprefix("https://").split("/")[0].split("?")[0].split("#")[0].rsplit(":", 1)[0].lower()
        assert authority == "srm.acme.example" or authority.endswith(".hub.example")
        assert not set(authority) & set("@\\ \t\n\"'")


def test_wrong_secrets_are_limited_by_address_with_growing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("app.procurement.desk.time.monotonic", lambda: now)
    limit = GuessLimit()
    for _ in range(FREE_GUESSES):
        limit.check("192.0.2.1")
        limit.record_wrong("192.0.2.1")
    for wait_s in (60, 120, 240):
        with pytest.raises(PunchoutRefused, match=f"in {wait_s} seconds") as refused:
            limit.check("192.0.2.1")
        assert refused.value.status == 429
        limit.check("192.0.2.2")
        limit.record_wrong("192.0.2.1")  # of a request that was already in progress
    now += 480
    limit.check("192.0.2.1")


def test_a_patient_guesser_waits_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("app.procurement.desk.time.monotonic", lambda: now)
    limit = GuessLimit()
    for _ in range(FREE_GUESSES):
        limit.check("192.0.2.1")
        limit.record_wrong("192.0.2.1")
    for wait_s in (60, 120, 240):
        with pytest.raises(PunchoutRefused, match=f"in {wait_s} seconds"):
            limit.check("192.0.2.1")
        now += wait_s
        limit.check("192.0.2.1")  # one guess after each wait
        limit.record_wrong("192.0.2.1")
    now += 480 + 3600
    limit.check("192.0.2.1")
    for _ in range(FREE_GUESSES - 1):
        limit.record_wrong("192.0.2.1")
    limit.check("192.0.2.1")  # the count has ended


@pytest.mark.parametrize("way", ["cxml", "oci"])
def test_a_guesser_gets_429_also_with_many_credentials_and_many_addresses_of_one_network(
    sqlite_url: str, loaded: LoadedCatalog, way: str
) -> None:
    settings = Settings(database_url=sqlite_url, public_url=HERE, punchout_buyers=(ACME,))
    credential = (
        "<Credential domain='NetworkId'><Identity>AN01000000001</Identity><SharedSecret>x</SharedSecret></Credential>"
    )
    app = create_app(settings, loaded)
    with TestClient(app):

        def guess(number: int) -> int:
            address = f"2001:db8:1:2::{number:x}"
            service = TestClient(app, base_url=HERE, follow_redirects=False, client=(address, 443))
            if way == "oci":
                return service.post("/procurement/oci", data={"USERNAME": "acme-buyer", "PASSWORD": "x"}).status_code
            document = setup_request().replace("<Sender>", "<Sender>" + credential * 400).encode()
            sent = service.post("/procurement/punchout", content=document, headers={"content-type": "text/xml"})
            assert ("429" if sent.status_code == 429 else "401") in sent.text
            return sent.status_code

        answers = [guess(number) for number in range(FREE_GUESSES + 2)]
    wrong = FREE_GUESSES if way == "oci" else 3  # four credentials each
    assert answers == [401 if way == "oci" else 200] * wrong + [429] * (FREE_GUESSES + 2 - wrong)
