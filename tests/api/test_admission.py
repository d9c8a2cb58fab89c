"""The admission queue: bounded and fair; equal requests are computed once, abandoned ones never."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from fastapi import Request
from fastapi.responses import Response
from starlette.testclient import TestClient

from app.api.admission import SPENT_HALF_LIFE_S, Admission, CostAccounts, RequestSlot
from app.api.problems import MalformedRequest
from app.catalog.snapshot import LoadedCatalog
from app.config import Settings
from app.errors import Overloaded, TooManyAtOnce, Unanswerable
from app.main import create_app
from app.work import OutOfTime, external_result, stage
from tests.examples import body

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Asker:
    """A client at an address: a request whose connection may close."""

    def __init__(self, address: str = "192.0.2.1") -> None:
        self.closed = asyncio.Event()
        self.request = Request({"type": "http", "client": (address, 1), "headers": []}, self._receive)

    async def _receive(self) -> dict[str, Any]:
        await self.closed.wait()
        return {"type": "http.disconnect"}

    def asks(
        self, admission: Admission, compute: Callable[..., Response], *args: Any, cost_s: float | None = None
    ) -> asyncio.Task[Response]:
        return asyncio.ensure_future(RequestSlot(admission, self.request, cost_s).answer_shared(compute, *args))


class Held:
    """Work that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.go = threading.Event()

    def __call__(self, name: str) -> Response:
        self.begun.append(name)
        for _ in range(1000):
            with stage("search"):
                if self.go.wait(0.005):
                    break
        self.ended.append(name)
        return Response(name)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("never came")


async def test_equal_questions_are_computed_once_and_each_has_headers_of_its_own() -> None:
    admission, held = Admission(at_once=1, most_waiting=4, limit_s=5), Held()
    asked = [Asker(f"192.0.2.{i}").asks(admission, held, "same") for i in range(30)]
    await until(lambda: held.begun == ["same"])
    held.go.set()
    answers = await asyncio.gather(*asked)
    assert [bytes(a.body) for a in answers] == [b"same"] * 30
    assert held.begun == ["same"]
    answers[0].raw_headers.append((b"x", b"y"))
    assert (b"x", b"y") not in answers[1].raw_headers
    assert (await Asker().asks(admission, held, "same")).body == b"same"
    assert held.begun == ["same", "same"]  # afterwards it is asked anew


async def test_a_full_line_turns_newcomers_away_at_once_with_when_to_come_back() -> None:
    admission, held = Admission(at_once=1, most_waiting=2, limit_s=5), Held()
    taken = [Asker(f"192.0.2.{i}").asks(admission, held, f"{i}") for i in range(3)]
    await until(lambda: admission.queue_length == 2)
    with pytest.raises(Overloaded) as refused:
        await Asker("192.0.2.9").asks(admission, held, "late")
    assert refused.value.retry_after_s >= 1
    held.go.set()
    assert [bytes((await t).body) for t in taken] == [b"0", b"1", b"2"]
    assert held.begun == ["0", "1", "2"]  # first come, first served


async def test_an_address_that_fills_the_line_makes_room_for_others() -> None:
    admission, held = Admission(at_once=1, most_waiting=3, limit_s=5), Held()
    flood = [Asker().asks(admission, held, f"flood {i}") for i in range(4)]
    await until(lambda: admission.queue_length == 3)
    other = Asker("198.51.100.7").asks(admission, held, "other")
    with pytest.raises(TooManyAtOnce):
        await flood[-1]
    with pytest.raises(Overloaded):
        await Asker().asks(admission, held, "one more")
    held.go.set()
    assert (await other).body == b"other"
    assert [bytes((await f).body) for f in flood[:3]] == [b"flood 0", b"flood 1", b"flood 2"]


async def test_the_address_that_used_the_least_time_is_next() -> None:
    admission, held = Admission(at_once=1, most_waiting=8, limit_s=5), Held()
    heavy = [Asker().asks(admission, held, name) for name in ("a", "b", "c")]
    await until(lambda: held.begun == ["a"] and admission.queue_length == 2)
    light = Asker("198.51.100.7").asks(admission, held, "d")
    await until(lambda: admission.queue_length == 3)
    held.go.set()
    await asyncio.gather(*heavy, light)
    assert held.begun == ["a", "d", "b", "c"]


def test_an_account_is_charged_the_estimated_cost_and_then_its_own_time() -> None:
    accounts = CostAccounts()
    accounts.charge("a", accounts.expected_s("/compare", 0.4))
    now = time.monotonic()
    assert accounts.spent_s("a", now) == pytest.approx(0.4, rel=0.01)
    accounts.settle("a", "/compare", cost_s=0.4, charged_s=0.4, took_s=2.4)
    assert accounts.spent_s("a", now) == pytest.approx(2.4, rel=0.01)
    assert accounts.spent_s("a", now + SPENT_HALF_LIFE_S) == pytest.approx(1.2, rel=0.01)
    assert accounts.expected_s("/compare", 0.4) == pytest.approx(0.6)  # a tenth of the way from 0.4 to 2.4
    assert accounts.expected_s("/compare", 0.2) == pytest.approx(0.3)  # half the cost takes half the time
    assert accounts.expected_s("/recommend", 0.4) == 0.4
    assert accounts.spent_s("b", now) == 0


async def test_expensive_requests_fill_the_queue_sooner() -> None:
    admission, held = Admission(at_once=1, most_waiting=9, limit_s=2), Held()
    cheap = [Asker(f"192.0.2.{i}").asks(admission, held, f"{i}") for i in range(4)]
    await until(lambda: admission.queue_length == 3)
    with pytest.raises(Overloaded):
        await Asker("192.0.2.9").asks(admission, held, "dear", cost_s=0.8)  # with 3 x 0.1 s more than half of 2 s
    held.go.set()
    assert len(await asyncio.gather(*cheap)) == 4


async def test_work_without_a_waiting_client_is_given_up() -> None:
    admission, held = Admission(at_once=1, most_waiting=4, limit_s=30), Held()
    first, second, third = Asker(), Asker(), Asker()
    running, queued = first.asks(admission, held, "running"), second.asks(admission, held, "queued")
    shared = third.asks(admission, held, "queued")
    await until(lambda: held.begun == ["running"])
    second.closed.set()
    with pytest.raises(MalformedRequest, match="closed"):
        await queued
    first.closed.set()
    with pytest.raises(MalformedRequest, match="closed"):
        await running
    await until(lambda: held.begun == ["running", "queued"])  # the first stopped at its next stage
    held.go.set()
    assert (await shared).body == b"queued"
    assert held.ended == ["queued"]


async def test_requests_without_a_waiting_client_leave_the_queue() -> None:
    admission, held = Admission(at_once=1, most_waiting=1, limit_s=30), Held()
    running, gone = Asker().asks(admission, held, "running"), Asker()
    waiting = gone.asks(admission, held, "gone")
    await until(lambda: admission.queue_length == 1)
    gone.closed.set()
    with pytest.raises(MalformedRequest):
        await waiting
    assert admission.queue_length == 0
    held.go.set()
    await running
    assert held.begun == ["running"]


async def test_work_ends_at_its_deadline_and_a_slow_stage_does_not_hold_its_answer() -> None:
    admission, held = Admission(at_once=1, most_waiting=4, limit_s=0.05), Held()
    began = time.monotonic()
    with pytest.raises(OutOfTime):
        await Asker().asks(admission, held, "long")
    assert not held.ended
    assert time.monotonic() - began < 1


async def test_a_line_that_would_take_too_long_takes_no_more() -> None:
    def slow(name: str) -> Response:
        time.sleep(0.1)
        return Response(name)

    admission = Admission(at_once=1, most_waiting=100, limit_s=1.0)
    asked = [Asker().asks(admission, slow, f"{i}") for i in range(40)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    answered = [f for f in found if isinstance(f, Response)]
    assert all(isinstance(f, Response | Overloaded | TooManyAtOnce) for f in found)  # every request got an answer
    assert 2 <= len(answered) <= 6  # half a second's at 0.1 s each, and the one that began


async def test_an_error_is_everybodys_and_the_next_question_is_computed() -> None:
    def fails(_: str) -> Response:
        raise Unanswerable("no")

    admission = Admission(at_once=1, most_waiting=4, limit_s=5)
    asked = [Asker().asks(admission, fails, "x") for _ in range(3)]
    assert all(isinstance(e, Unanswerable) for e in await asyncio.gather(*asked, return_exceptions=True))
    assert (await Asker().asks(admission, Response, "fine")).body == b"fine"


async def test_no_turn_passes_while_another_host_is_waited_for() -> None:
    admission, coming = Admission(at_once=1, most_waiting=4, limit_s=5), Future[str]()
    begun: list[str] = []

    def wanting(name: str) -> Response:
        begun.append(name)
        return Response(external_result(coming) if name == "far" else name)

    far = Asker().asks(admission, wanting, "far")
    await until(lambda: begun == ["far"])
    near = await asyncio.wait_for(Asker().asks(admission, wanting, "near"), timeout=1)
    coming.set_result("there")
    assert (bytes(near.body), bytes((await far).body)) == (b"near", b"there")
    assert begun == ["far", "near", "far"]


async def test_another_host_is_waited_for_within_the_deadline() -> None:
    with pytest.raises(OutOfTime):
        await Asker().asks(Admission(at_once=1, most_waiting=4, limit_s=0.1), lambda: external_result(Future()))


def test_refusals_are_problems_with_retry_after(
    sqlite_url: str, loaded: LoadedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(database_url=sqlite_url, request_deadline_s=0.001), loaded)
    question = body("recommend-inference-chat-70b")
    with TestClient(app, raise_server_exceptions=False) as client:
        late = client.post("/recommend", json={**question, "reference": "not known yet"})
        assert (late.status_code, late.json()["type"]) == (503, "/problems/out-of-time")
        assert late.headers["retry-after"]
        for error, status in ((Overloaded("full", retry_after_s=7), 503), (TooManyAtOnce("yours"), 429)):
            monkeypatch.setattr(app.state.admission, "await_answer", raising(error))
            full = client.post("/estimate", json=body("estimate-7b-64xa100"))
            assert (full.status_code, full.json()["type"]) == (status, f"/problems/{error.code}")
            assert full.headers["retry-after"] == str(error.retry_after_s)


def test_a_known_answer_does_not_wait_in_the_queue(
    sqlite_url: str, loaded: LoadedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(database_url=sqlite_url), loaded)
    question = body("recommend-inference-chat-70b")
    with TestClient(app, raise_server_exceptions=False) as client:
        first = client.post("/recommend", json=question)
        monkeypatch.setattr(app.state.admission, "await_answer", raising(Overloaded("full")))
        again = client.post("/recommend", json=question)
        assert (again.status_code, again.content) == (200, first.content)
        assert "headroom-stored" not in again.headers
        assert client.post("/recommend", json={**question, "reference": "new here"}).status_code == 503
        wrong = client.post("/recommend", json={**question, "objective": "fame"})
        assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "#/objective")


def test_who_has_filed_its_share_is_refused_before_anything_is_computed(sqlite_url: str, loaded: LoadedCatalog) -> None:
    app = create_app(Settings(database_url=sqlite_url, filed_bytes_per_day=1), loaded)
    question = body("recommend-inference-embeddings")
    with TestClient(app, raise_server_exceptions=False, client=("203.0.113.9", 443)) as client:
        first = client.post("/recommend", json={**question, "label": "first"})
        assert (first.status_code, first.headers.get("headroom-stored")) == (200, None)
        limited = client.post("/recommend", json={**question, "label": "second"})
        assert (limited.status_code, limited.json()["type"]) == (429, "/problems/filing-limited")
        assert int(limited.headers["retry-after"]) > 86_400
        assert client.post("/recommend", json={**question, "label": "first"}).content == first.content
        assert client.post("/recommend", json=question).status_code == 200


def raising(error: Exception) -> Callable[..., Any]:
    async def refuse(*_: object) -> Response:
        raise error

    return refuse
