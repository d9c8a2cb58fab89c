"""Companions on the wire: packed onto the first rank, the same from an estimate, refused where they contradict."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

EMBEDDINGS = {"model": "BAAI/bge-m3", "traffic": {"peak_requests_per_s": 5, "input_tokens": 300}, "name": "passages"}
WORKLOAD: dict[str, Any] = {
    "phase": "inference",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "traffic": {"peak_requests_per_s": 2, "input_tokens": 800, "output_tokens": 200},
    "companions": [EMBEDDINGS],
}


def with_companion(**changed: Any) -> dict[str, Any]:
    return {**WORKLOAD, "companions": [EMBEDDINGS, {**EMBEDDINGS, "name": None, **changed}]}


def test_the_first_rank_is_packed_and_its_deployment_gives_the_same(client: TestClient) -> None:
    body = client.post("/recommend", json={"workload": WORKLOAD}).json()
    first, second = body["recommendations"][:2]
    assert second["packing"]["on"] or second["packing"]["why"]
    assert {p["name"] for p in first["packing"]["on"]} == {WORKLOAD["model"], "passages"}
    again = client.post("/estimate", json={"workload": WORKLOAD, "deployment": first["deployment"]}).json()
    assert again["packing"] == first["packing"]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"name": "passages"}, "#/workload/companions/1/name"),
        ({"traffic": {"offline": True}}, "#/workload/companions/1"),
        ({"traffic": {"peak_requests_per_s": 1, "output_tokens": 9}}, "#/workload/companions/1/traffic/output_tokens"),
        ({"model": "no-such-org/nothing"}, "#/workload/companions/1/model"),
    ],
)
def test_errors_of_a_companion_point_at_it(client: TestClient, changed: dict[str, Any], pointer: str) -> None:
    answer = client.post("/recommend", json={"workload": with_companion(**changed)})
    assert answer.status_code in (404, 422)
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


def test_adapters_are_shown_and_refused_where_they_contradict(client: TestClient) -> None:
    alone = {name: value for name, value in WORKLOAD.items() if name != "companions"}
    asked = {**alone, "adapters": {"count": 40, "rank": 16, "active": 12}}
    answer, assumed = (
        client.post("/recommend", json={"workload": {**asked, "adapters": adapters}, "limit": 1}).json()
        for adapters in (asked["adapters"], {"count": 40, "rank": 16})
    )
    assert "adapters" in [reason["code"] for reason in answer["recommendations"][0]["explanation"]]
    (warning,) = (w["text"] for w in assumed["warnings"] if w["code"] == "adapters_wait")
    assert warning.startswith("8 of 40 adapters are assumed to stay loaded on every replica")
    assert "adapters_wait" not in [w["code"] for w in answer["warnings"]]
    more = client.post("/recommend", json={"workload": {**asked, "adapters": {"count": 4, "rank": 16, "active": 12}}})
    assert more.status_code == 422
    pieces = {**asked, "model": "BAAI/bge-m3", "traffic": {"peak_requests_per_s": 1}}
    answer = client.post("/recommend", json={"workload": pieces})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/workload/adapters")


def test_pools_and_classes_share_no_cards_with_companions(client: TestClient) -> None:
    pools = {"prefill": {"accelerators_per_replica": 1}, "decode": {"accelerators_per_replica": 1}}
    deployment = {"accelerator": "nvidia-h100-sxm5-80gb", "pools": pools}
    split = client.post("/estimate", json={"workload": WORKLOAD, "deployment": deployment}).json()
    assert split["packing"]["on"] == []
    assert split["packing"]["cheaper"] == "apart"
    classes = {"classes": [{"name": name, "peak_requests_per_s": 1} for name in ("chat", "bulk")]}
    assert client.post("/recommend", json={"workload": {**WORKLOAD, "traffic": classes}}).status_code == 422


def test_an_engine_that_divides_memory_by_its_own_rule_is_packed_too(client: TestClient) -> None:
    deployment = {"accelerator": "nvidia-h100-sxm5-80gb", "engine": "sglang"}
    answer = client.post("/estimate", json={"workload": WORKLOAD, "deployment": deployment})
    assert answer.status_code == 200
    assert answer.json()["packing"]["cards"] >= 1
