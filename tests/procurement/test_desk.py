"""What settings may say of buyers, and which addresses are theirs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.config import Settings
from app.procurement.desk import Buyers
from app.procurement.setup import PunchoutRefused
from tests.procurement.buyer import ACME

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
