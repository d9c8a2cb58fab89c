"""Kinds of prices in the API: which ones count, what an answer shows of them, and their dates."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.catalog.files import read_rows
from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.main import create_app
from app.sizing.hardware.parts import COUNTED, FIRM, KINDS
from app.sizing.words import source_name
from artefacts.service import DAY
from tests.examples import answer_of

CHAT: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"peak_requests_per_s": 5, "input_tokens": 1024, "output_tokens": 256},
}


def recommend(client: TestClient, **body: Any) -> dict[str, Any]:
    return answer_of(client.post("/recommend", json={"workload": CHAT, **body}))


def price(answer: dict[str, Any], rank: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = answer["recommendations"][rank]["cost"]["price"]
    return found


def test_every_ranked_price_is_firm_or_of_a_survey_and_says_so(client: TestClient) -> None:
    answer = recommend(client, limit=30)
    assert len(answer["recommendations"]) > 20
    for rank in range(len(answer["recommendations"])):
        shown = price(answer, rank)
        assert shown["kind"] in COUNTED
        assert shown["commitment"] == "none"
        assert shown["source"]
        assert shown["observed"] == shown["as_of"]
        assert shown["confidence"] in {"high", "medium", "low"}
        assert shown["age_days"] >= 0
        assert shown["pricing_model"] in {"on_demand", "owned"}
    kinds = {price(answer, rank)["kind"] for rank in range(len(answer["recommendations"]))}
    assert ("price_not_firm" in {w["code"] for w in answer["warnings"]}) == bool(kinds - {*FIRM})
    assert answer["rejected_by_code"]["no_firm_price"] > 20
    assert answer["as_of"] == DAY.isoformat()


def test_an_accelerator_without_a_firm_price_is_answered_where_it_is_named_outright(client: TestClient) -> None:
    for named, found in ((["nvidia-rtx-5070"], True), (["nvidia-rtx-507?"], False)):
        answer = recommend(client, constraints={"accelerators": named})
        assert bool(answer["recommendations"]) == found
        codes = {w["code"] for w in answer["warnings"]}
        assert ("price_not_firm" in codes) == found


@pytest.mark.parametrize(
    ("constraints", "kinds"),
    [
        ({"price_kinds": ["broker"]}, {"broker"}),
        ({"providers": ["vast", "runpod"]}, {"broker", "reseller"}),
        ({"price_kinds": ["survey"], "segments": ["datacenter"]}, {"survey"}),
        ({"segments": ["edge"]}, {"list"}),
    ],
)
def test_what_a_caller_says_of_prices_is_kept_to(
    client: TestClient, constraints: dict[str, Any], kinds: set[str]
) -> None:
    answer = recommend(client, constraints=constraints)
    assert answer["recommendations"]
    assert {r["cost"]["price"]["kind"] for r in answer["recommendations"]} <= kinds


@pytest.mark.parametrize("kind", ["guess", "reckoned"])
def test_an_unknown_price_kind_is_refused_with_the_accepted_ones(client: TestClient, kind: str) -> None:
    response = client.post("/recommend", json={"workload": CHAT, "constraints": {"price_kinds": [kind]}})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/constraints/price_kinds/0"
    assert f"Accepted values: {', '.join(KINDS)}" in response.json()["detail"]


def test_commitments_are_taken_no_longer_than_asked(client: TestClient) -> None:
    for commitment, bound in (("none", {"none"}), ("1y", {"none", "1y"}), ("3y", {"none", "1y", "3y"})):
        answer = recommend(client, constraints={"providers": ["gcp"], "commitment": commitment})
        assert {r["cost"]["price"]["commitment"] for r in answer["recommendations"]} <= bound
        assert price(answer)["commitment"] == max(bound, key=len) if commitment == "none" else commitment


def test_a_recommendation_estimated_has_the_same_price(client: TestClient) -> None:
    for constraints in ({}, {"providers": ["vast"]}, {"price_kinds": ["estimate", "launch", "press"]}):
        for r in recommend(client, constraints=constraints)["recommendations"]:
            body = {"workload": CHAT, "deployment": r["deployment"]}
            again = client.post("/estimate", json=body).json()
            assert {**again["cost"], "parts": r["cost"]["parts"]} == r["cost"]  # which the last in rank leave out


def test_a_price_paid_at_the_start_says_how_much(client: TestClient) -> None:
    """Of the offers that are paid for whole years at once, one that can be judged."""
    row = next(r for r in read_rows("offers.csv") if r["upfront_usd"] and r["accelerator"] == "nvidia-a10g")
    offer = {name: row[name] for name in ("provider", "region", "pricing_model", "instance_type")}
    deployment = {"accelerator": row["accelerator"], "offer": offer, "replicas": 1}
    estimate = client.post("/estimate", json={"workload": CHAT, "deployment": deployment}).json()
    paid = estimate["cost"]["price"]
    assert (paid["upfront_usd"], paid["observed"]) == (pytest.approx(float(row["upfront_usd"]), rel=1e-5), "2023-08-30")
    assert any("includes an upfront payment of" in reason["text"] for reason in estimate["explanation"])
    assert "stale_price" in {w["code"] for w in estimate["warnings"]}


def test_the_day_is_part_of_the_answer(client: TestClient) -> None:
    usual, same = recommend(client), recommend(client, as_of=DAY.isoformat())
    assert price(usual) == price(same)
    later = recommend(client, as_of="2027-11-20")
    assert later["id"] != usual["id"]
    assert later["as_of"] == "2027-11-20"
    assert price(later)["age_days"] == price(usual)["age_days"] + 365
    assert "stale_price" in {w["code"] for w in later["warnings"]}
    assert recommend(client, as_of="2027-11-20") == later
    old = recommend(client, constraints={"max_price_age_days": 1})
    assert old["rejected_by_code"]["price_too_old"] > 20
    for day in ("tomorrow", "1999-12-31", "2100-01-02", "9999-12-31", "2026-02-30"):
        refused = answer_of(client.post("/recommend", json={"workload": CHAT, "as_of": day}), 422)
        assert refused["errors"][0]["pointer"] == "#/as_of"


AT_GOOGLE: dict[str, Any] = {"environments": ["cloud"], "providers": ["gcp"]}
TPU = "google-tpu-v6e"


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        (AT_GOOGLE, "nvidia"),
        ({**AT_GOOGLE, "accelerators": [TPU, "nvidia-h100-sxm5-80gb"]}, "nvidia"),
        ({**AT_GOOGLE, "vendors": ["google", "nvidia"]}, "nvidia"),
        ({**AT_GOOGLE, "vendors": ["google"]}, "google"),
        ({**AT_GOOGLE, "accelerators": [TPU]}, "google"),
        ({**AT_GOOGLE, "accelerators": ["google-tpu-v6*"]}, "google"),
    ],
)
def test_an_outdated_price_ranks_only_where_no_current_one_does(
    client: TestClient, limits: dict[str, Any], first: str
) -> None:
    answer = recommend(client, constraints=limits, assumptions={"stale_price_days": 300}, limit=30)
    ranked = [r["deployment"]["accelerator"] for r in answer["recommendations"]]
    assert ranked[0].startswith(first)
    assert {slug.startswith("google") for slug in ranked} == {first == "google"}
    assert ("stale_price" in {w["code"] for w in answer["warnings"]}) == (first == "google")
    if first == "nvidia":
        assert answer["rejected_by_code"]["price_too_old"] >= 1


def test_a_past_day_has_its_own_prices(client: TestClient) -> None:
    body = {"workload": CHAT, "as_of": "2025-06-01", "limit": 30, "rejected_limit": 200}
    answer = client.post("/recommend", json=body).json()
    assert answer["catalog"]["prices_as_of"] == "2025-06-01"
    history = [r for r in read_rows("price_history.csv") if r["observed_on"] <= "2025-06-01"]
    rented = [r for r in answer["recommendations"] if r["deployment"].get("offer", {}).get("provider") == "aws"]
    assert len(rented) > 2
    for r in rented:
        offer, shown = r["deployment"]["offer"], r["cost"]["price"]
        series = [p for p in history if all(p[k] == offer[k] for k in ("provider", "region", "instance_type"))]
        newest = max((p for p in series if p["pricing_model"] == "on_demand"), key=lambda p: p["observed_on"])
        assert (shown["observed"], shown["source"]) == (newest["observed_on"], source_name(newest["source_ref"]))
        assert shown["age_days"] == (date(2025, 6, 1) - date.fromisoformat(newest["observed_on"])).days
    estimate = {name: body[name] for name in ("workload", "as_of")} | {"deployment": rented[0]["deployment"]}
    assert client.post("/estimate", json=estimate).json()["cost"]["price"] == rented[0]["cost"]["price"]
    text = " ".join(r["text"] for r in answer["rejected"])
    assert "that was observed by 2025-06-01" in text


@pytest.mark.parametrize("path", ["recommend", "estimate", "compare"])
def test_a_day_before_all_prices_is_refused(client: TestClient, path: str) -> None:
    body: dict[str, Any] = {"workload": CHAT, "as_of": "2020-06-01"}
    if path == "estimate":
        body["deployment"] = {"accelerator": "nvidia-l4"}
    if path == "compare":
        body["options"] = [{"name": "one", "constraints": {}}, {"name": "two", "constraints": {"vendors": ["amd"]}}]
    refused = answer_of(client.post(f"/{path}", json=body), 422)
    assert refused["errors"][0]["pointer"] == "#/as_of"
    assert "oldest rent is of 2022-02-09" in refused["detail"]


def test_without_a_fixed_day_it_is_the_utc_day(sqlite_url: str, loaded: LoadedCatalog) -> None:
    with TestClient(create_app(Settings(database_url=sqlite_url), loaded)) as made:
        before = datetime.now(UTC).date().isoformat()
        answer = recommend(made)
        assert before <= answer["as_of"] <= datetime.now(UTC).date().isoformat()
    made.app.state.sessions.kw["bind"].dispose()  # type: ignore[attr-defined]


def test_the_catalog_shows_the_source_of_its_prices(client: TestClient) -> None:
    offers = client.get("/catalog/offers", params={"provider": "runpod", "limit": 100}).json()["items"]
    assert {(o["price_kind"], o["tier"]) for o in offers} == {("reseller", "standard"), ("broker", "marketplace")}
    reserved = client.get("/catalog/offers", params={"provider": "aws", "pricing_model": "reserved_3y"}).json()["items"]
    assert {o["commitment"] for o in reserved} == {"3y"}
    systems = client.get("/catalog/systems", params={"provider": "nvidia"}).json()["items"]
    (spark,) = [s for s in systems if s["slug"] == "dgx-spark"]
    assert (spark["price_kind"], spark["price_observed"]) == ("list", "2026")
    priced = [row for row in read_rows("systems.csv") if row["list_price_usd"]]
    assert all(row["price_kind"] and row["price_source"] and row["price_observed"] for row in priced)
