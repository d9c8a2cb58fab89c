"""Other ways to the same end, over HTTP: the same machines had otherwise, cheaper ones, and the traffic from an API."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api.schemas.answers import EstimateShown, RecommendResponse
from app.sizing.whatif.prices import ACCEPTING
from tests.examples import body

CHAT = "recommend-inference-chat-70b"
WAYS = {"on_demand", "committed_1y", "committed_3y", "spot", "owned"}


def answered(client: TestClient, **changes: Any) -> dict[str, Any]:
    response = client.post("/recommend", json={**body(CHAT), **changes})
    assert response.status_code == 200
    RecommendResponse.model_validate(response.json())
    found: dict[str, Any] = response.json()
    return found


def test_the_first_recommendation_shows_its_other_purchase_options(client: TestClient) -> None:
    ways = [a for r in answered(client)["recommendations"] for a in r.get("alternatives", [])]
    assert ways
    assert {a["way"] for a in ways} <= WAYS
    for a in ways:
        assert a["usd_per_hour"] > 0 and a["observed"] and a["kind"]
        assert ("purchase_usd" in a) == (a["way"] == "owned")
        assert a.get("break_even_month") is None or a["break_even_month"] > 0


def test_cheaper_options_are_shown_with_their_risk(client: TestClient) -> None:
    cheaper = answered(client)["cheaper_if"]
    assert cheaper
    assert {c["if"] for c in cheaper} <= {*ACCEPTING}
    for c in cheaper:
        assert 0 < c["saves_share"] < 1 and c["risk"]


def test_the_same_traffic_is_priced_at_hosts_unless_it_must_stand_somewhere(client: TestClient) -> None:
    hosted = answered(client)["hosted_api"]
    assert hosted["text"].split(":")[0] in ("Cheaper self-hosted", "Cheaper as an API")
    months = [h["usd_per_month"] for h in hosted["hosts"]]
    assert months == sorted(months)
    assert "hosted_api" not in answered(client, constraints={"regions": ["eu-*"]})


@pytest.mark.parametrize("ask", ["alternatives", "hosted_api"])
def test_an_estimate_tells_them_as_the_recommendation_does(client: TestClient, ask: str) -> None:
    recommended = answered(client)
    first = recommended["recommendations"][0]
    asked = {"workload": body(CHAT)["workload"], "deployment": first["deployment"]}
    estimated = client.post("/estimate", json=asked).json()
    EstimateShown.model_validate(estimated)
    assert estimated.get(ask) == (first.get(ask) if ask == "alternatives" else recommended[ask])
