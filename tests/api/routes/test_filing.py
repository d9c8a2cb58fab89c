"""Labels, lists and status of stored answers over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api.schemas.filing import RecommendationList, StatusShown
from tests.examples import answer_of, body

WORDS = {"label": "chat, Zürich", "reference": "PR-2026-0417", "cost_centre": "4711"}
LONGEST = dict.fromkeys(WORDS, 120 * "x")
NAME = "recommend-inference-chat-70b"


@pytest.fixture(scope="module")
def filed(client: TestClient) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/recommend", json={**body(NAME), **WORDS}).json()
    return answer


def change(client: TestClient, answer: dict[str, Any], tag: str | None, status: str, **more: Any) -> Any:
    headers = {} if tag is None else {"If-Match": tag}
    return client.patch(
        f"/recommendations/{answer['id']}", json={"status": status, "by": "J. Doe", **more}, headers=headers
    )


def tag_of(client: TestClient, answer: dict[str, Any]) -> str:
    return str(client.get(f"/recommendations/{answer['id']}/status").headers["etag"])


def labelled(client: TestClient, label: str) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/recommend", json={**body(NAME), "label": label}).json()
    return answer


@pytest.mark.parametrize("name", [NAME, "recommend-training-resnet50", "recommend-inference-infeasible"])
def test_words_are_part_of_no_arithmetic(client: TestClient, name: str) -> None:
    """Another label is another answer to approve and order, of the same bytes but for its id and its request."""
    plain = client.post("/recommend", json=body(name)).json()
    filed = client.post("/recommend", json={**body(name), **LONGEST}).json()
    assert filed["id"] != plain["id"]
    assert filed["request"] == {**plain["request"], **LONGEST}
    assert {**filed, "id": "", "request": {}} == {**plain, "id": "", "request": {}}


def test_the_same_words_are_the_same_answer(client: TestClient, filed: dict[str, Any]) -> None:
    again = client.post("/recommend", json={**WORDS, **body(NAME)})
    assert again.content == client.get(f"/recommendations/{filed['id']}").content
    assert client.post("/recommend", json={**body(NAME), "label": None}).json()["id"] != filed["id"]


@pytest.mark.parametrize("label", ["", " ", "x" * 121, 7, ["a"]])
def test_words_are_printable_and_short(client: TestClient, label: Any) -> None:
    refused = answer_of(client.post("/recommend", json={**body(NAME), "label": label}), 422)
    assert refused["errors"][0]["pointer"] == "#/label"


@pytest.mark.parametrize(
    "sought",
    [
        {"label": "Zürich chat"},
        {"reference": "PR-2026-0417"},
        {"cost_centre": "4711"},
        {"model": "llama 3.1 70b instruct", "cost_centre": "4711"},
        {"created_after": "2026-01-01", "reference": "PR-2026-0417"},
        {"created_before": "2999-12-31T23:59:59+02:00", "reference": "PR-2026-0417"},
    ],
)
def test_a_stored_answer_is_found(client: TestClient, filed: dict[str, Any], sought: dict[str, str]) -> None:
    (item,) = RecommendationList.model_validate(answer_of(client.get("/recommendations", params=sought))).items
    assert item.id == filed["id"]
    assert {name: getattr(item, name) for name in WORDS} == WORDS
    first = filed["recommendations"][0]["deployment"]
    assert item.accelerators == [first["accelerator"]]
    assert item.option is not None
    assert item.option.startswith(f"{first['total_accelerators']} x ")


def test_an_accelerator_is_found_by_the_name_people_type(client: TestClient, filed: dict[str, Any]) -> None:
    slug = filed["recommendations"][0]["deployment"]["accelerator"]
    typed = slug.split("-", 1)[1].replace("-", " ").upper()
    for name in (slug, typed):
        found = client.get("/recommendations", params={"accelerator": name, "cost_centre": "4711"}).json()["items"]
        assert [item["id"] for item in found] == [filed["id"]], name
    assert (
        client.get("/recommendations", params={"accelerator": "nvidia-l4", "cost_centre": "4711"}).json()["items"] == []
    )


def test_pages_follow_their_cursor(client: TestClient) -> None:
    labelled(client, "page one")
    labelled(client, "page two")
    first = client.get("/recommendations", params={"label": "page", "limit": 1}).json()
    second = client.get("/recommendations", params={"label": "page", "limit": 1, "cursor": first["next_cursor"]}).json()
    assert [p["items"][0]["label"] for p in (first, second)] == ["page two", "page one"]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    "sought",
    [
        {"status": "gone"},
        {"created_after": "yesterday"},
        {"created_after": "0001-01-01T00:00:00+14:00"},
        {"limit": "0"},
        {"who": "me"},
        {"label": "\n"},
    ],
)
def test_a_search_that_means_nothing_is_refused(client: TestClient, sought: dict[str, str]) -> None:
    assert client.get("/recommendations", params=sought).status_code == 422


@pytest.mark.parametrize("cursor", ["!", "YQ", "MjAyNi0xMS0yMA", "bm8gcmVjXzE"])
def test_a_cursor_of_another_list_is_refused_or_a_page(client: TestClient, cursor: str) -> None:
    assert client.get("/recommendations", params={"cursor": cursor}).status_code in (200, 400)


def test_an_answer_is_approved_and_ordered_and_its_bytes_stay(client: TestClient) -> None:
    answer = labelled(client, "to be ordered")
    paths = [
        f"/recommendations/{answer['id']}",
        *(
            f"/recommendations/{answer['id']}/{e}"
            for e in ("bill-of-materials?format=csv", "deployment?target=docker-compose")
        ),
    ]
    before = [client.get(path).content for path in paths]
    status = client.get(f"/recommendations/{answer['id']}/status").json()
    assert (status["status"], status["next"], status["history"]) == ("draft", ["approved", "superseded"], [])

    approved = change(client, answer, status["etag"], "approved", note="Board of 20 November.")
    assert approved.status_code == 200
    shown = StatusShown.model_validate(approved.json())
    assert (shown.status, shown.history[0].by, shown.history[0].note) == ("approved", "J. Doe", "Board of 20 November.")
    assert approved.headers["etag"] == shown.etag == tag_of(client, answer) != status["etag"]

    assert change(client, answer, f'"other", {shown.etag}', "ordered").status_code == 200
    replaced = labelled(client, "ordered again")
    superseded = change(client, answer, "*", "superseded", superseded_by=replaced["id"]).json()
    assert superseded["superseded_by"] == superseded["history"][-1]["superseded_by"] == replaced["id"]
    assert [step["status"] for step in superseded["history"]] == ["approved", "ordered", "superseded"]
    assert [client.get(path).content for path in paths] == before
    assert labelled(client, "to be ordered") == answer
    listed = client.get("/recommendations", params={"label": "to be ordered", "status": "superseded"}).json()
    assert [item["id"] for item in listed["items"]] == [answer["id"]]


def test_a_change_says_what_it_changes(client: TestClient) -> None:
    answer = labelled(client, "guarded")
    tag = tag_of(client, answer)
    missing = change(client, answer, None, "approved")
    assert (missing.status_code, missing.json()["type"]) == (428, "/problems/if-match-required")
    for other in ('"status-7"', f"W/{tag}", f'"{answer["id"]}"'):
        stale = change(client, answer, other, "approved")
        assert (stale.status_code, stale.json()["etag"]) == (412, tag)
    refused = change(client, answer, tag, "ordered")
    assert (refused.status_code, refused.json()["allowed"]) == (409, ["approved", "superseded"])
    assert "cannot change from draft to ordered" in refused.json()["detail"]
    itself = change(client, answer, tag, "superseded", superseded_by=answer["id"])
    assert itself.status_code == 409
    gone = change(client, answer, tag, "superseded", superseded_by=f"rec_{28 * '0'}")
    assert (gone.status_code, gone.json()["errors"][0]["pointer"]) == (404, "#/superseded_by")
    assert tag_of(client, answer) == tag


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"status": "paid", "by": "J. Doe"}, "#/status"),
        ({"status": "approved"}, "#/by"),
        ({"status": "approved", "by": "\u200b"}, "#/by"),
        ({"status": "approved", "by": "J. Doe", "superseded_by": f"rec_{28 * '0'}"}, "#"),
        ({"status": "approved", "by": "J. Doe", "label": "other"}, "#/label"),
    ],
)
def test_a_wrong_change_is_named(client: TestClient, filed: dict[str, Any], sent: dict[str, str], pointer: str) -> None:
    refused = client.patch(f"/recommendations/{filed['id']}", json=sent, headers={"If-Match": "*"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == pointer


def test_an_answer_that_is_not_stored_has_no_status(client: TestClient) -> None:
    unknown: dict[str, Any] = {"id": f"rec_{28 * '0'}"}
    assert change(client, unknown, "*", "approved").status_code == 404
    assert client.get(f"/recommendations/{unknown['id']}/status").status_code == 404


def test_nothing_feasible_is_filed_without_an_option(client: TestClient) -> None:
    answer = client.post("/recommend", json={**body("recommend-inference-infeasible"), "reference": "none"}).json()
    (item,) = client.get("/recommendations", params={"reference": "none"}).json()["items"]
    assert (item["id"], item["accelerators"], "option" in item) == (answer["id"], [], False)


def test_a_draft_is_deleted_with_a_precondition_and_an_approved_answer_is_not(client: TestClient) -> None:
    answer = labelled(client, "to be deleted")
    place = f"/recommendations/{answer['id']}"
    assert client.delete(place).status_code == 428
    assert client.delete(place, headers={"If-Match": '"other"'}).status_code == 412
    assert change(client, answer, "*", "approved").status_code == 200
    in_use = client.delete(place, headers={"If-Match": "*"})
    assert (in_use.status_code, in_use.json()["type"]) == (409, "/problems/not-allowed")
    assert change(client, answer, "*", "draft").status_code == 200
    deleted = client.delete(place, headers={"If-Match": tag_of(client, answer)})
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert client.get(place).status_code == client.delete(place, headers={"If-Match": "*"}).status_code == 404
    again = client.post("/recommend", json={**body(NAME), "label": "to be deleted"})
    assert again.json()["id"] == answer["id"] and client.get(place).status_code == 200
