"""Regions and jurisdictions in the API: refusals state unknowns as such, catalogs show places."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.catalog.files import read_rows
from app.catalog.names import NAME_TABLES, countries_named

# Mistral Large in the European Union: hid Scaleway, OVHcloud and Verda, and cost 167.52 USD/h at Azure.
IN_EU: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "mistral-large-2411",
        "traffic": {"peak_requests_per_s": 4, "input_tokens": 2000, "output_tokens": 400},
        "slo": {"ttft_ms": 2000, "tpot_ms": 60},
        "availability": {"redundancy": "n+1"},
    },
    "constraints": {"environments": ["cloud"], "regions": ["EU"]},
}
UNION = countries_named("eu")


def recommend(client: TestClient, **constraints: Any) -> Any:
    return client.post("/recommend", json={**IN_EU, "constraints": {**IN_EU["constraints"], **constraints}})


def test_a_provider_inside_the_union_is_not_hidden_by_a_missing_region(client: TestClient) -> None:
    answer = recommend(client).json()
    first = answer["recommendations"][0]
    offer, cost = first["deployment"]["offer"], first["cost"]
    assert (offer["provider"], offer["region"]) == ("scaleway", "unspecified")
    assert cost["usd_per_hour"] < 100
    assert {*cost["price"]["countries"]} <= UNION
    assert "from Scaleway (on demand, in one of FR, NL, PL)" in answer["summary"]
    for ranked in answer["recommendations"]:
        shown = ranked["cost"]["price"].get("countries")
        assert (shown is not None) == (ranked["deployment"]["offer"]["region"] == "unspecified")


def test_a_possible_place_is_named_with_its_price(client: TestClient) -> None:
    answer = recommend(client, exclude_accelerators=["nvidia-h100-*", "nvidia-h200-*"]).json()
    place = "machines that may stand outside the requested regions"
    (possible,) = [c for c in answer["cheaper_if"] if c["if"].startswith(place)]
    assert possible["usd_per_hour"] < answer["recommendations"][0]["cost"]["usd_per_hour"]
    assert "ask the provider where" in possible["risk"]


@pytest.mark.parametrize(
    ("constraints", "detail"),
    [
        (
            {"providers": ["ovh"]},
            "Where OVHcloud would place its offers without a region is not known: in one of CA, DE",
        ),
        ({"providers": ["verda"]}, "is not known: in one of FI, IS. Add IS to accept them."),
        ({"providers": ["vast"]}, "Where Vast.ai would place its offers without a region is not known."),
        ({"providers": ["hyperstack"]}, "Hyperstack is not known to have data centers in EU, only in CA, NO, US."),
        ({"providers": ["lambda"]}, "Lambda has no offers in EU with a named region."),
    ],
)
def test_a_refusal_states_unknown_places_as_unknown(
    client: TestClient, constraints: dict[str, Any], detail: str
) -> None:
    refused = recommend(client, **constraints)
    assert refused.status_code == 422
    assert detail in refused.json()["detail"]
    assert refused.json()["errors"][0]["pointer"] == "#/constraints/regions"
    assert recommend(client, **constraints, regions=[]).status_code == 200


def test_the_jurisdiction_is_that_of_the_seat(client: TestClient) -> None:
    seats = {r["provider"]: r["countries"] for r in read_rows("provider_places.csv") if r["fact"] == "seat"}
    answer = recommend(client, provider_jurisdiction=["EU"], regions=[]).json()
    providers = {r["deployment"]["offer"]["provider"] for r in answer["recommendations"]}
    assert providers
    assert {seats[p] for p in providers} <= UNION
    refused = recommend(client, providers=["aws", "gpuhub"], provider_jurisdiction=["fr"], regions=[])
    assert "Amazon Web Services has it in US. The seat of GPUhub is not known." in refused.json()["detail"]
    for name in ("Atlantis", "asia", "eu-*"):
        unknown = recommend(client, provider_jurisdiction=[name]).json()
        assert unknown["errors"][0]["pointer"] == "#/constraints/provider_jurisdiction/0"


def test_a_country_without_a_named_region_is_accepted(client: TestClient) -> None:
    assert recommend(client, regions=["FI", "Iceland"], providers=["verda"]).status_code == 200
    nowhere = recommend(client, regions=["LU"])
    assert nowhere.json()["detail"] == "No provider in the catalog is known to have machines in LU."
    assert nowhere.status_code == 422


def test_the_catalogue_shows_places_with_their_sources(client: TestClient) -> None:
    providers = {p["provider"]: p for p in client.get("/catalog/providers?limit=500").json()["items"]}
    assert providers["verda"]["data_centers"]["countries"] == ["FI", "IS"]
    assert providers["verda"]["seat"]["countries"] == ["FI"]
    assert providers["vast"]["data_centers"] is None
    assert all(p[k] is None or p[k]["source"] for p in providers.values() for k in ("data_centers", "seat"))
    regions = {r["region"]: r for r in client.get("/catalog/regions?limit=500").json()["items"]}
    assert regions["northeurope"]["countries"] == ["IE"]
    assert {"FI", "IS", "US"} < {*regions["unspecified"]["countries"]}


def test_every_place_is_a_country_of_a_provider_with_a_source_and_a_day() -> None:
    rows = [*read_rows("provider_places.csv")]
    providers = {r["provider"] for r in read_rows("providers.csv")}
    assert len({(r["provider"], r["fact"]) for r in rows}) == len(rows)
    for row in rows:
        countries = row["countries"].split()
        assert row["provider"] in providers
        assert countries == sorted({*countries})
        assert {*countries} <= {*NAME_TABLES.countries}
        assert row["fact"] == "data_centers" or (row["fact"] == "seat" and len(countries) == 1)
        assert row["source_ref"]
        assert len(row["as_of"]) == len("2026-11-26")


def test_data_centers_include_the_countries_of_the_provider_own_regions() -> None:
    places = {r["provider"]: {*r["countries"].split()} for r in read_rows("provider_places.csv") if r["fact"] != "seat"}
    for row in read_rows("offers.csv"):
        if row["provider"] in places and len(row["country_or_geo"]) == 2:
            assert row["country_or_geo"] in places[row["provider"]], row
