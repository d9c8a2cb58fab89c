"""An answer shows each number that was chosen on the way to it, and none that was not."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.sizing.assumptions import Assumptions
from tests.examples import body


def answered(client: TestClient, name: str, **changes: Any) -> dict[str, Any]:
    response = client.post("/" + name.split("-", maxsplit=1)[0], json={**body(name), **changes})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def substance(answer: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in answer.items() if k not in ("id", "assumptions")}


@pytest.mark.parametrize(
    "name",
    [
        "recommend-inference-chat-70b",
        "recommend-inference-image-classification",
        "recommend-training-7b-1t-tokens",
        "estimate-7b-64xa100",
    ],
)
def test_what_is_not_shown_does_not_matter(client: TestClient, name: str) -> None:
    limits = {} if name.startswith("estimate") else {"rejected_limit": 20}
    answer = answered(client, name, **limits)
    shown = {a["name"] for a in answer["assumptions"]}
    for field in fields(Assumptions):
        if field.name in shown:
            continue
        low, high = field.metadata["low"], field.metadata["high"]
        other = low if field.default != low else high
        changed = answered(client, name, assumptions={field.name: other}, **limits)
        assert substance(changed) == substance(answer), field.name


def test_what_the_caller_gave_is_no_assumption(client: TestClient) -> None:
    request = body("recommend-inference-chat-70b")
    request["workload"]["target_utilization"] = 0.6
    request["economics"] = {"pue": 1.2}
    shown = {a["name"]: a for a in client.post("/recommend", json=request).json()["assumptions"]}
    assert (
        not {"target_utilization", "pue", "default_ttft_ms", "default_input_tokens", "peak_requests_per_s"}
        & shown.keys()
    )
    assert not any(a.get("asked") for a in shown.values())


def test_an_override_is_shown_as_asked_for(client: TestClient) -> None:
    answer = answered(client, "recommend-inference-chat-70b", assumptions={"pue": 1.15})
    told = next(a for a in answer["assumptions"] if a["name"] == "pue")
    assert (told["value"], told["asked"]) == (1.15, True)
