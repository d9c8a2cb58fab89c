"""The client against the service, and against a service that fails."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from app.catalog import recommendations
from app.command.asking import open_client
from headroom_client import Headroom, HeadroomError, NotReached
from headroom_client.transport import LONGEST_WAIT_S, Transport, wait_s

CHAT: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "llama-3.1-8b-instruct",
        "traffic": {"peak_requests_per_s": 5, "input_tokens": 1000, "output_tokens": 200},
    },
    "constraints": {"accelerators": ["l4"]},
    "assumptions": {"simulated_requests": 1000},
    "label": "a client's",
}


def test_an_answer_is_asked_kept_moved_on_and_exported(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendations, "MOMENT_S", 10.0)  # a busy machine may take longer than a request waits
    with Headroom(http=client) as headroom:
        answer = headroom.recommend(CHAT)
        assert headroom.recommendation(answer["id"]) == answer == headroom.recommend(CHAT)
        deployment = answer["recommendations"][0]["deployment"]
        asked = {"workload": CHAT["workload"], "deployment": deployment, "assumptions": CHAT["assumptions"]}
        assert headroom.estimate(asked)["fits"]
        assert answer["id"] in {each["id"] for each in headroom.recommendations(label="client's")}
        moved = headroom.set_status(answer["id"], "approved", by="J. Doe")
        assert moved["status"] == "approved" == headroom.status(answer["id"])["status"]
        with pytest.raises(HeadroomError) as refused:
            headroom.set_status(answer["id"], "draft", by="J. Doe", etag='"of-another-time"')
        assert refused.value.status == 412
        assert headroom.bill_of_materials(answer["id"])["lines"]
        assert headroom.export(answer["id"], "xlsx").startswith(b"PK")
        assert headroom.deployment(answer["id"], "docker-compose")["files"]
        assert headroom.reprice(answer["id"])["today"]["id"]
        assert headroom.inspect("llama-3.1-8b")["parameters"] > 8e9
        assert headroom.runnable([{"accelerator": "l4", "count": 1}], q="llama-3.1-8b", limit=1)["items"]


def test_a_key_is_sent_with_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx2.Request] = []

    class Answering(httpx2.Client):
        def __init__(self, **given: Any) -> None:
            def answer(request: httpx2.Request) -> httpx2.Response:
                asked.append(request)
                return httpx2.Response(200, json={"status": "ready"})

            super().__init__(transport=httpx2.MockTransport(answer), **given)

    monkeypatch.setattr(httpx2, "Client", Answering)
    monkeypatch.setenv("HEADROOM_KEY", "hr_of_the_shell")
    Headroom(key="hr_mine").ready()
    Headroom().ready()
    with open_client("http://localhost:8000") as client:
        client.ready()
    assert [r.headers.get("authorization") for r in asked] == ["Bearer hr_mine", None, "Bearer hr_of_the_shell"]


def test_lists_go_over_pages(client: TestClient) -> None:
    headroom = Headroom(http=client)
    models = [each["id"] for each in islice(headroom.catalog("models", limit=7), 20)]
    assert len(set(models)) == 20 and models == sorted(models)
    assert headroom.support(engine="vllm", accelerator="mi300x")["engine"] == "vllm"


def test_a_refusal_says_what_would_be_accepted(client: TestClient) -> None:
    with pytest.raises(HeadroomError, match="Unknown field") as refused:
        Headroom(http=client).recommend({**CHAT, "objectve": "cost"})
    assert refused.value.status == 422
    assert refused.value.errors[0]["pointer"] == "#/objectve"
    assert refused.value.request_id and len(refused.value.request_id) == 32


def failing(answer: Callable[[int], httpx2.Response]) -> tuple[Transport, list[float]]:
    """A transport to a service that answers its nth request so, and the waits in between."""
    count, slept = iter(range(100)), list[float]()

    def handle(_: httpx2.Request) -> httpx2.Response:
        return answer(next(count))

    http = httpx2.Client(base_url="http://headroom.test", transport=httpx2.MockTransport(handle))
    return Transport(http, retries=3, sleep=slept.append), slept


def test_a_busy_service_is_asked_again_after_as_long_as_it_says() -> None:
    busy = httpx2.Response(503, headers={"Retry-After": "2"}, json={"title": "Busy"})
    transport, slept = failing(lambda n: busy if n < 2 else httpx2.Response(200, json={}))
    assert transport.send_request("GET", "/readyz").json() == {}
    assert slept == [2.0, 2.0]
    transport, slept = failing(lambda _: busy)
    with pytest.raises(HeadroomError, match="Busy"):
        transport.send_request("GET", "/readyz")
    assert len(slept) == 3


def test_a_refused_request_is_not_repeated_and_a_missing_service_is_reported() -> None:
    transport, slept = failing(lambda _: httpx2.Response(404, text="nothing here"))
    with pytest.raises(HeadroomError, match="nothing here"):
        transport.send_request("GET", "/nowhere")
    assert slept == []

    def gone(_: int) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    transport, slept = failing(gone)
    with pytest.raises(NotReached, match=r"headroom\.test"):
        transport.send_request("GET", "/readyz")
    assert len(slept) == 3 and slept == sorted(slept)


def test_waits_double_and_end() -> None:
    for attempt in range(12):
        assert 0 < wait_s(attempt, None) <= min(0.25 * 2**attempt, LONGEST_WAIT_S)
    assert wait_s(0, "3600") == LONGEST_WAIT_S
    assert wait_s(0, "soon") <= 0.25
