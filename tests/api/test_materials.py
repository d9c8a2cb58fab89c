"""Bills of materials over the wire: every rank, every format, and the same bytes after prices have moved."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from app.catalog.tables import CatalogVersionRow, OfferRow, RecommendationRow, SystemRow
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from artefacts.service import DAY

BODIES = Path(__file__).parent / "bodies"
FORMATS = ("json", "csv", "xlsx", "cxml", "oci", "ubl", "html", "rfq")
NEAR = 1e-5  # of sums shown with six digits


NAMES = sorted(path.stem.removeprefix("recommend-") for path in BODIES.glob("recommend-*.json"))
# A service that is ranked first as two pools of different machines.
SPLIT = {
    "workload": {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 100, "input_tokens": 6000, "output_tokens": 300},
        "slo": {"ttft_ms": 1500, "tpot_ms": 8},
    },
    "constraints": {"environments": ["on_prem"]},
}
BOUGHT = "inference-deepseek-v3"


def body(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((BODIES / f"recommend-{name}.json").read_text())
    return found


@pytest.fixture(scope="module")
def bought(client: TestClient) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/recommend", json=body(BOUGHT)).json()
    return answer


def url(answer: dict[str, Any]) -> str:
    return f"/recommendations/{answer['id']}/bill-of-materials"


def check(ranked: dict[str, Any], bill: dict[str, Any]) -> None:
    """A bill comes to what its option costs: at once, and over the time that it is paid for."""
    cost, lines = ranked["cost"], bill["lines"]
    assert bill["totals"]["once"] == pytest.approx(cost["purchase_usd"] or 0, rel=NEAR)
    months = [line["term_months"] for line in lines if "term_months" in line]
    cents = sum(0.005 * (1 + line["quantity"] * (line["unit"] == "MON")) for line in lines)  # half of one per price
    if cost["usd_total"] is not None and not cost["purchase_usd"]:
        assert bill["totals"]["total"] == pytest.approx(cost["usd_total"], rel=NEAR, abs=cents)
    elif cost["usd_per_hour"] is not None:
        assert bill["totals"]["total"] == pytest.approx(cost["usd_per_hour"] * 730 * months[0], rel=NEAR, abs=cents)
    shown = sum(round(line["line_total"] * 100) for line in lines if "line_total" in line)
    assert shown == round(bill["totals"]["subtotal"] * 100)
    assert all(line["price"]["source"] for line in lines if "unit_price" in line)
    assert all("unspsc" in line["codes"] for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_every_rank_of_every_answer_adds_up_to_its_cost(client: TestClient, name: str) -> None:
    answer = client.post("/recommend", json=body(name)).json()
    for ranked in answer["recommendations"]:
        sent = client.get(f"{url(answer)}?rank={ranked['rank']}")
        assert sent.status_code == 200
        check(ranked, sent.json())


def test_a_figure_of_the_request_is_said_to_be(client: TestClient) -> None:
    asked = {**body(BOUGHT), "economics": {"electricity_usd_per_kwh": 0.3}, "assumptions": {"rack_usd_per_kw": 250}}
    bill = client.get(url(client.post("/recommend", json=asked).json())).json()
    kinds = {line["goods"]: line["price"]["kind"] for line in bill["lines"] if "price" in line}
    assert (kinds["power"], kinds["rack"], kinds["hosting"]) == ("asked", "asked", "estimate")


def test_pools_are_bought_side_by_side(client: TestClient) -> None:
    answer = client.post("/recommend", json=SPLIT).json()
    first = answer["recommendations"][0]
    bill = client.get(url(answer)).json()
    check(first, bill)
    machines = {line["description"][-13:]: line["quantity"] for line in bill["lines"] if line["goods"] == "machine"}
    pools = first["deployment"]["pools"]
    assert sorted(machines.values()) == sorted(pool["nodes"] for pool in pools.values())
    assert all(line["price"]["kind"] == "survey" for line in bill["lines"] if line["goods"] == "machine")


def test_formats_say_what_they_are(client: TestClient, bought: dict[str, Any]) -> None:
    answer = bought
    for name in FORMATS:
        sent = client.get(f"{url(answer)}?format={name}")
        assert sent.status_code == 200
        assert f"bill-of-materials-{answer['id']}-1." in sent.headers["content-disposition"]
        assert ("json" in sent.headers["content-type"]) == (name == "json")


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ("rank=9", 404, "It has ranks 1 to"),
        ("rank=0", 404, "no rank 0"),
        ("rank=-1", 422, ""),
        ("currency=EUR", 422, "rate_date"),
        ("currency=EUR&usd_rate=0.9", 422, "rate_date"),
        ("usd_rate=0.9&rate_date=2026-11-20", 422, "For USD, omit usd_rate"),
        ("currency=EUR&usd_rate=nan&rate_date=2026-11-20", 422, ""),
        ("tax_name=VAT", 422, "tax_percent"),
        ("tax_name=%00&tax_percent=1", 422, ""),
        ("format=pdf", 422, ""),
        ("option=1", 422, ""),
        ("due_date=2026-12-18&valid_until=2026-12-01", 422, "Set valid_until to that day or later."),
        ("incoterm=XYZ", 422, ""),
        ("buyer=%00", 422, ""),
        ("lead_time_days=0", 422, ""),
        ("term_months=241", 422, ""),
    ],
)
def test_what_cannot_be_written_is_said(
    client: TestClient, bought: dict[str, Any], asked: str, status: int, says: str
) -> None:
    refused = client.get(f"{url(bought)}?{asked}")
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"
    assert says in refused.json()["detail"]
    if status == 422:
        assert all(error["pointer"].startswith("query/") for error in refused.json()["errors"])


def test_a_bill_shows_the_details_of_its_order_and_what_no_total_includes(
    client: TestClient, bought: dict[str, Any]
) -> None:
    plain = client.get(url(bought)).json()
    assert "order" not in plain
    left_out = [line for line in plain["lines"] if line["line_no"] in plain["to_be_quoted"]]
    assert [text.partition(": ")[2] for text in plain["totals"]["excludes"]] == [
        line["description"] for line in left_out
    ]
    asked = "buyer=Example%20Ltd&incoterm=DAP&due_date=2026-12-18&lead_time_days=60&supplier=Dealer&term_months=24"
    order = client.get(f"{url(bought)}?{asked}").json()
    assert order["order"] == {
        "buyer": "Example Ltd",
        "supplier": "Dealer",
        "incoterm": "DAP",
        "lead_time_days": 60,
        "due_date": "2026-12-18",
        "term_months": 24,
    }
    assert {line["term_months"] for line in order["lines"] if "term_months" in line} == {24}
    assert order["totals"]["once"] == plain["totals"]["once"]
    assert order["totals"]["over_term"] == pytest.approx(plain["totals"]["over_term"] * 24 / 36)


def test_an_answer_that_is_not_stored_is_not_found(client: TestClient) -> None:
    assert client.get(f"/recommendations/rec_{28 * '0'}/bill-of-materials").status_code == 404


def test_an_export_is_the_same_bytes_after_prices_have_moved(
    client: TestClient, bought: dict[str, Any], sqlite_url: str, tmp_path: Path
) -> None:
    exported = [client.get(f"{url(bought)}?format={name}&rank=2").content for name in FORMATS]
    path = tmp_path / "moved.sqlite3"
    with (
        closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as held,
        closing(sqlite3.connect(path)) as copy,
    ):
        held.backup(copy)
    settings = Settings(database_url=f"sqlite:///{path}", today=DAY)
    engine = make_engine(settings.database_url)
    with Session(engine) as session:
        session.execute(update(OfferRow).values(usd_per_hour=OfferRow.usd_per_hour * 1.3))
        session.execute(update(SystemRow).values(list_price_usd=SystemRow.list_price_usd * 1.3, name="renamed"))
        session.execute(update(CatalogVersionRow).values(digest=64 * "f"))
        session.commit()
    with TestClient(create_app(settings)) as later:
        assert [later.get(f"{url(bought)}?format={name}&rank=2").content for name in FORMATS] == exported
        moved = later.post("/recommend", json=body(BOUGHT)).json()
        assert (
            moved["recommendations"][0]["cost"]["usd_per_hour"] > bought["recommendations"][0]["cost"]["usd_per_hour"]
        )
        with Session(engine) as session:
            session.execute(update(RecommendationRow).values(supply=None))
            session.commit()
        refused = later.get(url(bought))
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/no-bill-kept")
    engine.dispose()
