"""Observed prices and capacity in answers: trend, availability, sold-out offers, and offers with capacity now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from sqlalchemy.orm import Session
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.catalog.observations import OfferKey
from app.cli import cli
from app.db import make_engine
from artefacts.service import DAY
from tests.catalog.observed import observed, publish
from tests.conftest import copied, serving, wait_until_ready
from tests.examples import answer_of

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
    with serving(url) as made:
        wait_until_ready(made)
        yield made


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


@pytest.mark.usefixtures("live")  # the catalog is loaded
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


def test_capacity_that_no_feed_has_reported_is_refused_with_the_way_out(client: TestClient) -> None:
    refused = answer_of(client.post("/recommend", json={**ASKED, "constraints": {"available_within_hours": 24}}), 422)
    assert refused["errors"][0]["pointer"] == "#/constraints/available_within_hours"
    assert "No price feed has reported capacity" in refused["detail"]


def test_capacity_of_a_past_day_is_refused(served: TestClient) -> None:
    body = {**ASKED, "constraints": {"available_within_hours": 24}, "as_of": (DAY - timedelta(days=1)).isoformat()}
    refused = answer_of(served.post("/recommend", json=body), 422)
    assert refused["errors"][0]["pointer"] == "#/constraints/available_within_hours"


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


def market(client: TestClient, **query: str) -> dict[str, Any]:
    return answer_of(client.get("/catalog/market", params=query))


def test_the_market_by_accelerator_recomputes_from_the_offers(client: TestClient) -> None:
    (l4,) = market(client, accelerator="nvidia-l4")["items"]
    query = {"accelerator": "nvidia-l4", "pricing_model": "on_demand", "limit": "1000"}
    offers = client.get("/catalog/offers", params=query).json()["items"]
    prices = [
        o["usd_per_hour"] / o["accelerator_count"]
        for o in offers
        if o["tier"] != "quarantined" and o["accelerator_count"] >= 1
    ]
    (about,) = [a for a in client.get("/catalog/accelerators?limit=1000").json()["items"] if a["slug"] == "nvidia-l4"]
    assert l4["offers"] == len(prices)
    assert l4["min_usd_per_hour"] == pytest.approx(min(prices), rel=1e-5)
    assert l4["median_usd_per_hour"] == pytest.approx(median(prices), rel=1e-5)
    assert l4["max_usd_per_hour"] == pytest.approx(max(prices), rel=1e-5)
    gb = about["memory_gib"] * 2**30 / 1e9
    assert l4["usd_per_gb_hour"] == pytest.approx(median(prices) / gb, rel=1e-3)
    assert l4["usd_per_gb_per_s_hour"] == pytest.approx(median(prices) / about["memory_gb_per_s"], rel=1e-3)
    assert l4["usd_per_tflops_hour"] == pytest.approx(median(prices) / about["tflops"]["bf16"], rel=1e-3)


@pytest.mark.parametrize("by", ["accelerator", "class", "provider", "region", "pricing_model"])
def test_groups_share_the_offers_between_them(by: str, client: TestClient) -> None:
    whole = market(client, by=by)
    assert whole["by"] == by
    names = [item["name"] for item in whole["items"]]
    assert names == sorted(names)
    assert all(i["min_usd_per_hour"] <= i["median_usd_per_hour"] <= i["max_usd_per_hour"] for i in whole["items"])
    if by != "pricing_model":
        everything = market(client, by="class", pricing_model="on_demand")
        assert sum(i["offers"] for i in whole["items"]) == sum(i["offers"] for i in everything["items"])
        assert whole["training_to_inference"] == everything["training_to_inference"]


def test_training_hours_cost_several_times_inference_hours_on_demand(client: TestClient) -> None:
    by_class = {item["name"]: item for item in market(client, by="class")["items"]}
    ratio = market(client, by="class")["training_to_inference"]
    medians = by_class["training"]["median_usd_per_hour"] / by_class["inference"]["median_usd_per_hour"]
    assert ratio["of_medians"] == pytest.approx(medians, rel=1e-4)
    assert 2 < ratio["of_means"] < 10


def test_a_class_is_that_group_alone(client: TestClient) -> None:
    whole = {g["name"]: g for g in client.get("/catalog/market?by=class").json()["items"]}
    for name, group in whole.items():
        only = client.get(f"/catalog/market?class={name}&by=class").json()
        assert only["items"] == [group]
        assert "training_to_inference" not in only


def test_the_trend_is_that_of_the_observed_prices(served: TestClient, client: TestClient) -> None:
    (l4,) = market(served, accelerator="nvidia-l4", provider="gcp", region="us-central1")["items"]
    assert l4["trend_30d"] == pytest.approx(-0.25)
    (shipped,) = market(client, accelerator="nvidia-l4", provider="aws", region="us-east-1")["items"]
    assert "trend_30d" not in shipped


def test_a_market_filter_that_matches_nothing_names_the_nearest(client: TestClient) -> None:
    assert "gcp" in answer_of(client.get("/catalog/market", params={"provider": "gcpp"}), 422)["detail"]
    assert client.get("/catalog/market", params={"by": "colour"}).status_code == 422


def test_the_market_command(live: str) -> None:
    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["market", *arguments], env={"HEADROOM_URL": live})
        assert result.exit_code == 0, result.output
        return result.stdout

    table = invoke("--by", "class")
    assert "training" in table
    assert "times an inference-class hour" in table and "the newest was observed on 2026-" in table
    assert "+0.0 %" in table
    assert invoke("--by", "class", "--csv").splitlines()[0].startswith("name,offers,")
