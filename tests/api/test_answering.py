"""An answer above the default size shortens its last parts and keeps the decisive ones. Old answers at prices of
today, over the wire: what moved, by what cause, and what would be recommended instead.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session
from starlette.testclient import TestClient
from typer.testing import CliRunner

import app.api
from app.api.answering import ASSUMPTION_ORDER, MAX_BYTES, PAGE_KNOBS, fit_to_size, json_bytes
from app.api.schemas.repricing import RepriceResponse
from app.catalog.outbox import STANDING, DeliveryRow
from app.catalog.recommendations import unpack_part
from app.catalog.tables import CatalogVersionRow, OfferRow, RecommendationRow, SystemRow
from app.cli import cli
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from artefacts.service import DAY
from tests.api.test_materials import SPLIT
from tests.examples import answer_of, body


def document(*, ranks: int = 5, words: int = 100, misses: int = 20, request: int = 10) -> dict[str, Any]:
    text = "x" * words
    reasons = [{"code": code, "text": text} for code in ("memory", "price", "speed", "comparison")]
    rank = {
        "explanation": reasons,
        "nearest_measurements": [text],
        "cost": {"usd_per_hour": 1.0, "parts": []},
        "confidence": {"asked": 0.8, "by_level": [{"confidence": c} for c in (0.5, 0.8, 0.9)]},
    }
    inner = {"name": "memory_nearly_full", "source": "assumed: why", "asked": False}
    return {
        "request": {"name": "y" * request},
        "assumptions": [{"name": "pue", "source": "assumed: why", "asked": True}, inner],
        "recommendations": [dict(rank) for _ in range(ranks)],
        "rejected": [{"text": f"{text} {i}"} for i in range(misses)],
        "metrics": {"ttft_ms": text},
    }


def test_what_fits_is_left_as_it_is() -> None:
    assert fit_to_size(document()) == json_bytes(document())


def test_more_options_have_more_room() -> None:
    whole = document(words=1050)
    wide = {**whole, "request": {"limit": 10}}
    assert fit_to_size(wide) == json_bytes(wide)
    few = {**whole, "request": {"limit": 3}}
    assert len(fit_to_size(few)) <= MAX_BYTES < len(json_bytes(few))


def test_the_first_three_say_everything_while_the_last_say_less() -> None:
    whole = document(words=1050)
    assert len(json_bytes(whole)) > MAX_BYTES
    body = fit_to_size(whole)
    assert len(body) <= MAX_BYTES
    shown = orjson.loads(body)
    kept = [len(r["explanation"]) for r in shown["recommendations"]]
    assert kept == [4, 4, 4, 2, 2]
    assert len(shown["rejected"]) >= 8
    assert "pue" in [a["name"] for a in shown["assumptions"]]


def test_where_the_others_stand_goes_before_what_was_assumed() -> None:
    """The promise is the same for every rank."""
    whole = document(words=900)
    for rank in whole["recommendations"]:
        rank["explanation"] = [*rank["explanation"], {"code": "placement", "text": "z" * 900}]
    assert len(json_bytes(whole)) > MAX_BYTES
    shown = orjson.loads(fit_to_size(whole))
    kept = [[e["code"] for e in r["explanation"]].count("placement") for r in shown["recommendations"]]
    assert kept == [1, 0, 0, 0, 0]
    assert len(shown["assumptions"]) == 2


def test_a_long_request_takes_nothing_from_the_answer() -> None:
    long = document(words=10, request=50_000)
    assert fit_to_size(long) == json_bytes(long)


def test_the_misses_go_last_and_farthest_first() -> None:
    shown = orjson.loads(fit_to_size(document(words=1500)))
    assert [len(r["explanation"]) for r in shown["recommendations"]][1:] == [2, 2, 2, 2]
    assert shown["rejected"] == document(words=1500)["rejected"][: len(shown["rejected"])]


def test_what_was_assumed_and_finds_no_room_is_counted() -> None:
    whole = document(words=1050)
    whole["assumptions"] += [{"name": name, "source": "x" * 900, "asked": False} for name in ASSUMPTION_ORDER[:8]]
    shown = orjson.loads(fit_to_size(whole))
    assert shown["assumptions_omitted"] == len(whole["assumptions"]) - len(shown["assumptions"]) > 0
    assert "assumptions_omitted" not in orjson.loads(fit_to_size(document()))


def test_the_minutes_of_a_loss_grow_fewer_between_the_first_and_the_last() -> None:
    whole = document(words=1050)
    minutes = [{"minute": minute} for minute in range(61)]
    whole["recommendations"][0]["day"] = {"failures": [{"what": "machine", "minutes": minutes}]}
    (loss,) = orjson.loads(fit_to_size(whole))["recommendations"][0]["day"]["failures"]
    kept = [entry["minute"] for entry in loss["minutes"]]
    assert (kept[0], kept[-1]) == (0, 60)
    assert 2 <= len(kept) <= 7


RENTED, BOUGHT, RUN = "inference-chat-70b", "inference-deepseek-v3", "training-7b-1t-tokens"
NOTHING, POOLS = "inference-infeasible", "two pools"
WORDS = {"label": "priced again", "reference": "PR-7"}


@pytest.fixture(scope="module")
def then(client: TestClient) -> dict[str, dict[str, Any]]:
    """Answers of before prices moved, by the name of their request."""
    names = (RENTED, BOUGHT, RUN, NOTHING)
    asked = {name: body(f"recommend-{name}") for name in names} | {POOLS: SPLIT}
    return {name: client.post("/recommend", json={**request, **WORDS}).json() for name, request in asked.items()}


@pytest.fixture(scope="module")
def later(
    then: dict[str, dict[str, Any]], sqlite_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TestClient]:
    """The service over the same answers, after what was first is dearer, servers are, and one offer is gone."""
    path = tmp_path_factory.mktemp("later") / "moved.sqlite3"
    with (
        closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as held,
        closing(sqlite3.connect(path)) as copy,
    ):
        held.backup(copy)
    settings = Settings(database_url=f"sqlite:///{path}", today=DAY)
    engine = make_engine(settings.database_url)
    rented, run = (then[name]["recommendations"][0]["deployment"] for name in (RENTED, RUN))
    assert rented["accelerator"] != run["accelerator"]
    with Session(engine) as session:
        dearer = update(OfferRow).where(OfferRow.accelerator == rented["accelerator"])
        session.execute(dearer.values(usd_per_hour=OfferRow.usd_per_hour * 2))
        session.execute(update(SystemRow).values(list_price_usd=SystemRow.list_price_usd * 1.25))
        offer = run["offer"]
        gone = (OfferRow.accelerator == run["accelerator"], OfferRow.provider == offer["provider"])
        session.execute(delete(OfferRow).where(*gone))
        session.execute(update(CatalogVersionRow).values(digest=64 * "e"))
        session.commit()
    with TestClient(create_app(settings), raise_server_exceptions=False) as made:
        yield made
    engine.dispose()


def repriced(client: TestClient, answer: dict[str, Any], rank: int = 1) -> RepriceResponse:
    sent = answer_of(client.post(f"/recommendations/{answer['id']}/reprice?rank={rank}"))
    return RepriceResponse.model_validate(sent)


def check_sums(shown: RepriceResponse) -> None:
    """Causes make differences, lines make totals, to the cent."""
    machines = shown.machines
    assert machines is not None
    assert machines.now is not None
    for line in machines.lines:
        if line.difference is not None:
            assert sum(c.usd or 0 for c in line.causes) == pytest.approx(line.difference, abs=1e-6)
    for totals, side in ((machines.then, "then"), (machines.now, "now")):
        found = [line.line_total or 0 for pair in machines.lines if (line := getattr(pair, side)) is not None]
        assert sum(found) == pytest.approx(totals.total, abs=1e-2)


def test_where_nothing_moved_it_is_the_same_answer(client: TestClient, then: dict[str, dict[str, Any]]) -> None:
    for name, answer in then.items():
        shown = repriced(client, answer)
        assert shown.today.id == answer["id"], name
        assert not shown.today.changed
        assert (shown.machines is None) == (name == NOTHING)
        if shown.machines is not None:
            assert shown.machines.difference == 0
            assert all(line.causes == [] and line.then == line.now for line in shown.machines.lines)


def test_rented_machines_are_dearer_and_others_are_first(later: TestClient, then: dict[str, dict[str, Any]]) -> None:
    answer = then[RENTED]
    shown = repriced(later, answer)
    check_sums(shown)
    assert shown.machines is not None
    line, traffic = shown.machines.lines
    assert [cause.cause for cause in line.causes] == ["price"]
    assert (traffic.goods, traffic.causes) == ("egress", [])
    assert shown.machines.now is not None
    assert shown.machines.now.total == pytest.approx(2 * shown.machines.then.total, rel=1e-6)
    assert "+100.0 %" in shown.machines.text
    assert shown.today.changed
    new = later.get(f"/recommendations/{shown.today.id}").json()
    assert (
        new["recommendations"][0]["deployment"]["accelerator"]
        != answer["recommendations"][0]["deployment"]["accelerator"]
    )
    assert new["request"] == answer["request"]
    assert "originally ranked first" in shown.today.why[0]
    listed = later.get("/recommendations", params={"reference": "PR-7"}).json()["items"]
    assert {shown.today.id, answer["id"]} <= {item["id"] for item in listed}


def test_servers_are_dearer_and_what_follows_is_said_to(later: TestClient, then: dict[str, dict[str, Any]]) -> None:
    shown = repriced(later, then[BOUGHT])
    check_sums(shown)
    assert shown.machines is not None
    causes = {line.goods: [cause.cause for cause in line.causes] for line in shown.machines.lines}
    assert causes["machine"] == ["price"]
    assert causes["support"] == ["estimate"]
    assert causes["power"] == []
    assert causes["installation"] == []


def test_an_offer_that_is_gone_is_said_and_the_least_of_the_same_taken(
    later: TestClient, then: dict[str, dict[str, Any]]
) -> None:
    shown = repriced(later, then[RUN])
    check_sums(shown)
    assert shown.machines is not None
    assert "The original offer has ended" in shown.machines.text
    assert [cause.cause for line in shown.machines.lines for cause in line.causes] == ["seller"]
    assert any("The seller is now" in text or "ranks first today" in text for text in shown.today.why)


def test_it_is_the_same_posted_twice_and_leaves_the_old_answer_alone(
    later: TestClient, then: dict[str, dict[str, Any]]
) -> None:
    answer = then[RENTED]
    paths = [f"/recommendations/{answer['id']}", f"/recommendations/{answer['id']}/bill-of-materials?format=xlsx"]
    before = [later.get(path).content for path in paths]
    first, second = (later.post(f"/recommendations/{answer['id']}/reprice") for _ in range(2))
    assert first.content == second.content
    new = first.json()["today"]["id"]
    url = f"/recommendations/{answer['id']}"
    moved = later.patch(
        url, json={"status": "superseded", "by": "J. Doe", "superseded_by": new}, headers={"If-Match": '"status-0"'}
    )
    assert moved.json()["superseded_by"] == new
    assert [later.get(path).content for path in paths] == before
    assert later.post(f"/recommendations/{answer['id']}/reprice").content == first.content


def test_what_cannot_be_priced_again_is_said(later: TestClient, then: dict[str, dict[str, Any]]) -> None:
    assert later.post(f"/recommendations/rec_{28 * '0'}/reprice").status_code == 404
    assert later.post(f"/recommendations/{then[RENTED]['id']}/reprice?rank=99").status_code == 404
    assert later.post(f"/recommendations/{then[NOTHING]['id']}/reprice?rank=2").status_code == 404
    assert later.post(f"/recommendations/{then[RENTED]['id']}/reprice?rank=0").status_code == 404
    unread = later.post(f"/recommendations/{then[RENTED]['id']}/reprice", json={"rank": 2})
    assert (unread.status_code, unread.json()["type"]) == (400, "/problems/no-body-taken")
    engine = later.app.state.sessions.kw["bind"]  # type: ignore[attr-defined]
    stored = RecommendationRow.id == then[BOUGHT]["id"]
    with Session(engine) as session:
        kept = session.get_one(RecommendationRow, then[BOUGHT]["id"]).body
        older = unpack_part(kept).replace(b'"request":{', b'"request":{"gone":1,')
        session.execute(update(RecommendationRow).where(stored).values(body=older))
        session.commit()
        refused = later.post(f"/recommendations/{then[BOUGHT]['id']}/reprice")
        session.execute(update(RecommendationRow).where(stored).values(body=kept))
        session.commit()
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/request-no-longer-taken")


def standing(client: TestClient, answer: dict[str, Any], rank: int = 1) -> Any:
    return answer_of(client.get(f"/recommendations/{answer['id']}/standing", params={"rank": rank}))


def codes(found: Any) -> list[str]:
    return [finding["code"] for finding in found["findings"]]


@pytest.mark.parametrize("name", [RENTED, BOUGHT, RUN, POOLS])
def test_a_plan_holds_while_nothing_has_changed(client: TestClient, then: dict[str, dict[str, Any]], name: str) -> None:
    found = standing(client, then[name])
    assert found["holds"] and codes(found) == ["unchanged"]
    assert found["today"] == found["plan"] and "cheaper" not in found
    cost = then[name]["recommendations"][0]["cost"]
    paid = cost["usd_total"] if name == RUN else cost["usd_per_hour"]
    assert found["plan"]["usd_total" if name == RUN else "usd_per_hour"] == pytest.approx(paid, abs=0.006)


def test_a_later_rank_is_compared_with_the_first_of_today(client: TestClient, then: dict[str, dict[str, Any]]) -> None:
    found = standing(client, then[RENTED], rank=3)
    first, third = (then[RENTED]["recommendations"][i]["cost"]["usd_per_hour"] for i in (0, 2))
    assert (found["plan"]["rank"], found["holds"]) == (3, True)
    assert ("cheaper_plan" in codes(found)) == (first < 0.95 * third)


def test_a_doubled_price_is_stated_with_both_numbers_and_a_cheaper_plan(
    later: TestClient, then: dict[str, dict[str, Any]]
) -> None:
    found = standing(later, then[RENTED])
    assert not found["holds"]
    price = next(finding for finding in found["findings"] if finding["code"] == "price_changed")
    assert price["now"] == pytest.approx(2 * price["then"]) and "+100.0 %" in price["text"]
    assert found["today"]["usd_per_hour"] == pytest.approx(2 * found["plan"]["usd_per_hour"], abs=0.01)
    cheaper = next(finding for finding in found["findings"] if finding["code"] == "cheaper_plan")
    assert cheaper["now"] == pytest.approx(found["cheaper"]["usd_per_hour"], abs=0.01)
    assert cheaper["now"] < 0.95 * price["now"] == pytest.approx(0.95 * cheaper["then"])


def test_an_ended_offer_is_gone_and_another_seller_does_not_replace_it(
    later: TestClient, then: dict[str, dict[str, Any]]
) -> None:
    found = standing(later, then[RUN])
    assert not found["holds"] and "today" not in found
    gone = next(finding for finding in found["findings"] if finding["code"] == "offer_gone")
    assert gone["text"].startswith("The offer of ") and " has ended." in gone["text"]


def test_checking_stores_nothing_and_leaves_the_answer_alone(
    later: TestClient, then: dict[str, dict[str, Any]]
) -> None:
    def ids() -> set[str]:
        return {item["id"] for item in later.get("/recommendations", params={"limit": 100}).json()["items"]}

    before, stored = later.get(f"/recommendations/{then[RENTED]['id']}").content, ids()
    first, second = (standing(later, then[RENTED]) for _ in range(2))
    assert first == second and ids() == stored
    assert later.get(f"/recommendations/{then[RENTED]['id']}").content == before


def test_an_answer_without_a_plan_or_without_the_rank_has_no_standing(
    client: TestClient, then: dict[str, dict[str, Any]]
) -> None:
    for answer, rank in ((then[NOTHING], 1), (then[RENTED], 99), (then[RENTED], 0)):
        refused = client.get(f"/recommendations/{answer['id']}/standing", params={"rank": rank})
        assert (refused.status_code, refused.json()["type"]) == (404, "/problems/unknown-rank")
    assert client.get(f"/recommendations/rec_{28 * '0'}/standing").status_code == 404
    assert client.get(f"/recommendations/{then[RENTED]['id']}/standing?rank=-1").status_code == 422


def test_the_command_notifies_of_what_changed(
    later: TestClient, then: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = later.app.state.sessions.kw["bind"]  # type: ignore[attr-defined]
    hook = {"name": "erp", "url": "https://erp.invalid/hook", "secret": "whsec_" + "QUJD" * 8, "events": [STANDING]}
    monkeypatch.setenv("HEADROOM_DATABASE_URL", str(engine.url))
    monkeypatch.setenv("HEADROOM_TODAY", DAY.isoformat())
    monkeypatch.setenv("HEADROOM_WEBHOOKS", orjson.dumps([hook]).decode())
    for method in ("start", "stop"):
        monkeypatch.setattr(f"app.procurement.webhooks.WebhookSender.{method}", lambda _: None)
    result = CliRunner().invoke(cli, ["standing", "--label", "priced again"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert f"{then[RUN]['id']} changed: The offer of " in result.stdout
    superseded = later.get("/recommendations", params={"status": "superseded"}).json()["items"]
    assert not [item["id"] for item in superseded if item["id"] in result.stdout]
    assert then[NOTHING]["id"] not in result.stdout
    assert lines[-1].endswith(" 0 not checked.")
    with Session(engine) as session:
        rows = [orjson.loads(row) for row in session.scalars(select(DeliveryRow.body))]
    events = {row["data"]["id"]: row for row in rows}
    gone = events[then[RUN]["id"]]
    assert gone["type"] == STANDING and "offer_gone" in gone["data"]["changes"]
    assert " has ended." in gone["data"]["note"] and gone["data"]["label"] == "priced again"


def test_no_size_costs_the_page_a_knob() -> None:
    page = (Path(app.api.__path__[0]) / "static" / "page" / "knobs.js").read_text()
    (listed,) = re.findall(r"^const ASSUMED = (\[.*\]);$", page, flags=re.MULTILINE)
    assert [path.split(".")[-1] for path in json.loads(listed)] == [*PAGE_KNOBS]
    whole = document(words=1500)
    usual = [{"name": name, "source": "x" * 100, "asked": False, "range": [0, 1]} for name in ASSUMPTION_ORDER]
    knobs = [{"name": name, "source": "assumed: why", "asked": False, "range": [0, 1]} for name in PAGE_KNOBS]
    shown = orjson.loads(fit_to_size({**whole, "assumptions": [*usual, *knobs]}))
    assert {a["name"] for a in shown["assumptions"]} >= {*PAGE_KNOBS}
    assert all("range" in a for a in shown["assumptions"] if a["name"] in PAGE_KNOBS)
