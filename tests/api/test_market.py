"""Observed prices and capacity in answers: trend, availability, sold-out offers, and offers with capacity now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from app.catalog.observations import OfferKey
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from artefacts.service import DAY
from tests.catalog.observed import observed, publish
from tests.conftest import copied

ASKED = {
    "workload": {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"peak_requests_per_s": 1, "input_tokens": 500, "output_tokens": 200},
    },
    "include": [],
}
H100 = OfferKey("lambda", "us-test-1", "gpu_1x_h100_pcie", "nvidia-h100-pcie-80gb", 1.0, "on_demand")
L4 = OfferKey("gcp", "us-central1", "g2-standard-4", "nvidia-l4", 1.0, "on_demand")
EARLIER = (DAY - timedelta(days=30)).isoformat()
BEFORE = (DAY - timedelta(days=9)).isoformat()
TODAY = DAY.isoformat()


@pytest.fixture(scope="module")
def served(sqlite_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose feeds have seen one offer with capacity and one that is sold out for nine days."""
    url = copied(sqlite_url, Path(tmp_path_factory.mktemp("market")) / "own.sqlite3")
    engine = make_engine(url)
    with Session(engine) as session:
        publish(session, EARLIER, [observed(L4, 0.8)])
        publish(session, BEFORE, [observed(H100, 0.2, "none"), observed(L4, 0.7, "low")])
        publish(session, TODAY, [observed(H100, 0.2, "none"), observed(L4, 0.6, "available")])
    engine.dispose()
    app = create_app(Settings(database_url=url, today=DAY, access_log="off"))
    with TestClient(app) as made:
        yield made
    app.state.sessions.kw["bind"].dispose()


def ask(client: TestClient, **constraints: Any) -> dict[str, Any]:
    answered = client.post("/recommend", json={**ASKED, "constraints": constraints})
    assert answered.status_code in (200, 201), answered.text
    body: dict[str, Any] = answered.json()
    return body


def test_ranks_show_the_trend_of_the_price_and_the_capacity(served: TestClient) -> None:
    first = ask(served, accelerators=["nvidia-l4"], providers=["gcp"], regions=["us-central1"])["recommendations"][0]
    assert first["deployment"]["offer"]["instance_type"] == "g2-standard-4"
    assert first["availability"] == {"state": "available", "seen_at": f"{TODAY}T12:00:00Z"}
    price = first["cost"]["price"]
    assert (price["trend_30d"], price["observed"], price["age_days"]) == (pytest.approx(-0.25), TODAY, 0)


def test_prices_that_no_feed_has_observed_have_neither(client: TestClient) -> None:
    for rank in ask(client)["recommendations"]:
        assert "availability" not in rank
        assert "trend_30d" not in rank["cost"]["price"]


def test_what_is_sold_out_for_a_week_is_ranked_only_if_it_is_named(served: TestClient) -> None:
    offers = [rank["deployment"].get("offer") or {} for rank in ask(served)["recommendations"]]
    assert offers
    assert all(offer.get("region") != "us-test-1" for offer in offers)
    named = ask(served, providers=["lambda"], regions=["us-test-1"])["recommendations"][0]
    assert named["availability"]["state"] == "none"
    named = ask(served, accelerators=["nvidia-h100-pcie-80gb"], regions=["us-test-1"])["recommendations"][0]
    assert named["deployment"]["offer"]["region"] == "us-test-1"
    refused = ask(served, regions=["us-test-1"], environments=["cloud"])
    assert refused["recommendations"] == []
    assert "sold out for 7 days" in next(
        r["text"] for r in refused["rejected"] if r["accelerator"] == "nvidia-h100-pcie-80gb"
    )


def test_only_offers_with_capacity_within_some_hours(served: TestClient) -> None:
    recent = ask(served, available_within_hours=24)["recommendations"]
    assert [rank["deployment"]["accelerator"] for rank in recent] == ["nvidia-l4"]
    assert recent[0]["availability"]["state"] == "available"
    none = ask(served, available_within_hours=1)
    assert none["recommendations"] == []
    assert "not_available" in none["rejected_by_code"]
    assert "available_within_hours" in next(r["text"] for r in none["rejected"] if r["code"] == "not_available")


def test_capacity_of_a_past_day_is_refused(served: TestClient) -> None:
    body = {**ASKED, "constraints": {"available_within_hours": 24}, "as_of": (DAY - timedelta(days=1)).isoformat()}
    refused = served.post("/recommend", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "#/constraints/available_within_hours"


def test_a_past_day_has_the_price_in_force_without_later_facts(served: TestClient) -> None:
    at = {"accelerators": ["nvidia-l4"], "providers": ["gcp"], "regions": ["us-central1"]}
    prices = {}
    for days in (5, 20):
        body = {**ASKED, "constraints": at, "as_of": (DAY - timedelta(days=days)).isoformat()}
        first = served.post("/recommend", json=body).json()["recommendations"][0]
        assert "availability" not in first
        assert "trend_30d" not in first["cost"]["price"]
        prices[days] = first["cost"]["price"]["observed"]
    assert prices == {5: BEFORE, 20: EARLIER}
