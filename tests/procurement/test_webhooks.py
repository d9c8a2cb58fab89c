"""Notices from the receiver's side: signed, tried again, given up, never twice at once, never lost."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx2
import orjson
import pytest
from alembic import command
from pydantic import ValidationError
from sqlalchemy import Engine, text, update
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.api.schemas.results import Notice
from app.catalog.outbox import EVENTS, RETRY_WAITS, STANDING, STATUS, STORED, DeliveryRow, DeliveryStore, Outbox
from app.catalog.snapshot import LoadedCatalog
from app.cli import cli
from app.config import Settings
from app.db import make_engine
from app.main import create_app
from app.procurement.partners import Webhook
from app.procurement.webhooks import WebhookSender
from app.telemetry import prometheus_text
from artefacts.service import DAY
from tests.conftest import migrations_for, new_postgres_database
from tests.examples import body

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMgbG9uZyE="
ERP = Webhook(name="erp", url="https://erp.example/hook", secret=SECRET)
BI = Webhook(name="bi", url="https://bi.example/hook", secret=SECRET, events=(STATUS,))
GUIDE = (Path(__file__).parents[2] / "docs" / "integrating.md").read_text()


def verifier() -> Any:
    """The function that the guide tells receivers to use."""
    names: dict[str, Any] = {}
    (code,) = re.findall(r"```python\n(import base64.*?)```", GUIDE, flags=re.DOTALL)
    exec(code, names)
    return names["verified"]


class Receiver:
    """Endpoints that answer with given statuses and keep the notices posted to them."""

    def __init__(self, *statuses: int | Exception, by_host: dict[str, int] | None = None) -> None:
        self.statuses, self.by_host, self.got = list(statuses), by_host or {}, list[httpx2.Request]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.got.append(request)
        status = self.by_host.get(request.url.host) or (self.statuses.pop(0) if self.statuses else 204)
        if isinstance(status, Exception):
            raise status
        return httpx2.Response(status, headers={"location": "https://elsewhere.example/"})


def database(kind: str, folder: Path, request: pytest.FixtureRequest) -> Engine:
    url = f"sqlite:///{folder}/outbox.sqlite3"
    if kind == "postgres":
        url = new_postgres_database(request.getfixturevalue("postgres_server"), "headroom_outbox")
    command.upgrade(migrations_for(url), "head")
    return make_engine(url)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Engine]:
    engine = database("sqlite", tmp_path_factory.mktemp("outbox"), request)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(migrated: Engine) -> Engine:
    with migrated.begin() as connection:
        connection.execute(text("DELETE FROM deliveries"))
    return migrated


def note(engine: Engine, *webhooks: Webhook, kind: str = STORED, many: int = 1) -> None:
    outbox = Outbox({webhook.name: webhook.events for webhook in webhooks})
    with engine.begin() as connection:
        for number in range(many):
            outbox.record_event(connection, kind, {"id": f"rec_{number}"}, now=datetime.now(UTC) - timedelta(seconds=1))


def courier(engine: Engine, receiver: Receiver, *webhooks: Webhook) -> WebhookSender:
    return WebhookSender(webhooks or (ERP,), DeliveryStore(engine), transport=httpx2.MockTransport(receiver))


def due_again(engine: Engine) -> None:
    """Time passes."""
    with engine.begin() as connection:
        connection.execute(update(DeliveryRow).values(due_at=datetime.now(UTC) - timedelta(seconds=1)))


def test_a_notice_is_signed_and_gone_once_it_arrived(engine: Engine) -> None:
    note(engine, ERP)
    receiver = Receiver()
    assert courier(engine, receiver).deliver_due() == (1, 0)
    (sent,) = receiver.got
    notice = orjson.loads(sent.content)
    assert (notice["type"], notice["data"]) == (STORED, {"id": "rec_0"})
    verified, headers = verifier(), dict(sent.headers)
    assert verified(SECRET, headers, sent.content)
    assert not verified(SECRET, headers, sent.content + b" ")
    assert not verified("whsec_" + "b3RoZXI=" * 4, headers, sent.content)
    assert not verified(SECRET, {**headers, "webhook-id": "evt_other"}, sent.content)
    assert not verified(SECRET, {**headers, "webhook-timestamp": "1600000000"}, sent.content)
    assert DeliveryStore(engine).count_pending() == (0, 0)


def test_endpoints_get_the_events_they_asked_for(engine: Engine) -> None:
    note(engine, ERP, BI, kind=STORED)
    note(engine, ERP, BI, kind=STATUS)
    receiver = Receiver()
    courier(engine, receiver, ERP, BI).deliver_due()
    assert sorted(request.url.host for request in receiver.got) == ["bi.example", "erp.example", "erp.example"]


@pytest.mark.parametrize("trouble", [500, 302, 404, 429, httpx2.ConnectTimeout("slow"), httpx2.ReadError("reset")])
def test_what_did_not_arrive_is_tried_again_under_its_id(engine: Engine, trouble: Any) -> None:
    note(engine, ERP)
    receiver = Receiver(trouble)
    sends = courier(engine, receiver)
    assert sends.deliver_due() == (0, 1)
    assert sends.deliver_due() == (0, 0)  # not yet due
    due_again(engine)
    assert sends.deliver_due() == (1, 0)
    first, second = receiver.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert {request.url.host for request in receiver.got} == {"erp.example"}


def test_waits_grow_and_end_in_a_dead_letter_that_can_be_revived(engine: Engine) -> None:
    note(engine, ERP)
    sends, store = courier(engine, Receiver(*[503] * (len(RETRY_WAITS) + 1))), DeliveryStore(engine)
    assert list(RETRY_WAITS) == sorted(RETRY_WAITS)
    for wait in RETRY_WAITS:
        sends.deliver_due()
        with engine.connect() as connection:
            due = connection.execute(text("SELECT due_at FROM deliveries")).scalar_one()
        left = datetime.fromisoformat(due).replace(tzinfo=UTC) - datetime.now(UTC)
        assert wait - timedelta(seconds=10) < left <= wait
        due_again(engine)
    assert store.count_pending() == (1, 0)
    sends.deliver_due()
    assert store.count_pending() == (0, 1)
    due_again(engine)
    assert sends.deliver_due() == (0, 0)
    assert store.revive_dead(now=datetime.now(UTC) - timedelta(seconds=1)) == 1
    assert sends.deliver_due() == (1, 0)


def test_an_endpoint_keeps_a_limited_number_of_notices_and_loses_the_dead_ones_first(engine: Engine) -> None:
    store = DeliveryStore(engine)
    note(engine, ERP, BI.model_copy(update={"events": ERP.events}), many=5)
    for permanently in (False, True):
        delivery = store.claim_due(["erp"], now=datetime.now(UTC))
        assert delivery is not None
        store.mark_failed(delivery, "HTTP 500", now=datetime.now(UTC), permanently=permanently)
    assert store.count_pending() == (9, 1)
    assert (store.delete_surplus(4), store.count_pending()) == (2, (8, 0))
    assert (store.delete_surplus(), store.delete_surplus(3), store.count_pending()) == (0, 2, (6, 0))


def test_who_is_gone_is_not_asked_again(engine: Engine) -> None:
    note(engine, ERP)
    courier(engine, Receiver(410)).deliver_due()
    assert DeliveryStore(engine).count_pending() == (0, 1)


def test_an_endpoint_that_is_down_holds_up_no_other(engine: Engine) -> None:
    note(engine, ERP, many=5)
    note(engine, ERP, BI, kind=STATUS)
    receiver = Receiver(by_host={"erp.example": 500})
    assert courier(engine, receiver, ERP, BI).deliver_due() == (1, 1)
    assert sorted(request.url.host for request in receiver.got) == ["bi.example", "erp.example"]


def test_what_a_process_held_when_it_died_is_taken_up(engine: Engine) -> None:
    note(engine, ERP)
    store, now = DeliveryStore(engine), datetime.now(UTC)
    assert store.claim_due(["erp"], now=now) is not None  # and no more is heard of it
    assert store.claim_due(["erp"], now=now + timedelta(seconds=119)) is None
    again = store.claim_due(["erp"], now=now + timedelta(seconds=121))
    assert again is not None


def test_who_comes_back_late_takes_nothing_away(engine: Engine) -> None:
    """A number is given out again once it is free: what has it now is another notice."""
    note(engine, ERP)
    store, now = DeliveryStore(engine), datetime.now(UTC)
    late = store.claim_due(["erp"], now=now)
    other = store.claim_due(["erp"], now=now + timedelta(minutes=3))
    assert late is not None
    assert other is not None
    store.mark_delivered(other)
    note(engine, ERP)
    store.mark_delivered(late)
    store.mark_failed(late, "late", now=now)
    (following,) = [store.claim_due(["erp"], now=now)]
    assert following is not None
    assert (following.id, following.tries) == (late.id, 0)


def test_an_event_stands_or_falls_with_what_happened(engine: Engine) -> None:
    outbox = Outbox({"erp": EVENTS})
    with pytest.raises(ZeroDivisionError), engine.begin() as connection:
        outbox.record_event(connection, STORED, {"id": "rec_0"}, now=datetime.now(UTC))
        raise ZeroDivisionError
    assert DeliveryStore(engine).count_pending() == (0, 0)


def test_a_repeated_event_has_one_id_and_waits_once(engine: Engine) -> None:
    outbox, store, now = Outbox({"erp": EVENTS}), DeliveryStore(engine), datetime.now(UTC)

    def record(what: str) -> None:
        with engine.begin() as connection:
            outbox.record_event(connection, STANDING, {"id": "rec_0"}, now=now, same=what)

    record("gone")
    record("gone")
    assert store.count_pending() == (1, 0)
    first = store.claim_due(["erp"], now=now)
    assert first is not None
    store.mark_delivered(first)
    record("gone")  # found again after it was delivered: the receiver knows the id
    record("cheaper")
    again, other = store.claim_due(["erp"], now=now), store.claim_due(["erp"], now=now)
    assert again is not None and other is not None
    assert again.event == first.event != other.event


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_several_workers_deliver_each_notice_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made = database(kind, tmp_path, request)
    note(made, ERP, many=40)
    receiver, counts = Receiver(), list[tuple[int, int]]()
    workers = [courier(made, receiver) for _ in range(4)]
    threads = [threading.Thread(target=lambda w=w: counts.append(w.deliver_due())) for w in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(arrived for arrived, _ in counts) == 40
    assert len({request.headers["webhook-id"] for request in receiver.got}) == len(receiver.got) == 40
    made.dispose()


class Slow(BaseHTTPRequestHandler):
    """A receiver over the wire that answers once it may."""

    got: list[tuple[dict[str, str], bytes]] = []
    may = threading.Event()

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.may.wait(timeout=10)
        self.got.append(({name.lower(): value for name, value in self.headers.items()}, content))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def slow() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_running_service_tells_of_answers_and_their_status(
    sqlite_url: str, loaded: LoadedCatalog, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.procurement.webhooks.POLL_S", 0.1)
    settings = Settings(
        database_url=sqlite_url, today=DAY, plain_http=True, webhooks=(Webhook(name="wire", url=slow, secret=SECRET),)
    )
    Slow.got.clear()
    with TestClient(create_app(settings, loaded)) as service:
        asked = {**body("recommend-inference-chat-70b"), "label": "to be noticed"}
        answer = service.post("/recommend", json=asked).json()
        again = service.post("/recommend", json=asked)  # known: nothing happened
        changed = service.patch(
            f"/recommendations/{answer['id']}", json={"status": "approved", "by": "J. Doe"}, headers={"if-match": "*"}
        )
        assert (again.status_code, changed.status_code) == (200, 200)
        refused = service.patch(
            f"/recommendations/{answer['id']}", json={"status": "approved", "by": "J. Doe"}, headers={"if-match": "*"}
        )
        assert refused.status_code == 409
        assert Slow.got == []  # no request waited for the receiver
        Slow.may.set()
        deadline = monotonic() + 15
        while len(Slow.got) < 2 and monotonic() < deadline:
            sleep(0.05)
    notices = [orjson.loads(content) for _, content in Slow.got]
    assert all(Notice.model_validate(each) for each in notices)
    assert [each["type"] for each in notices] == [STORED, STATUS]
    assert notices[0]["data"] | {"label": "to be noticed", "status": "draft"} == notices[0]["data"]
    assert notices[1]["data"] | {"status": "approved", "changed_by": "J. Doe", "id": answer["id"]} == notices[1]["data"]
    assert all(verifier()(SECRET, headers, content) for headers, content in Slow.got)


def drip(connection: socket.socket, stopped: threading.Event) -> None:
    """Answers with a status line and then one header after another, without end."""
    with connection, suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not stopped.wait(0.2):
            connection.sendall(b"x-more: 1\r\n")


@pytest.fixture
def dripping() -> Iterator[str]:
    stopped, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                threading.Thread(target=drip, args=(connection, stopped), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
    stopped.set()
    listener.close()


def test_endpoints_that_drip_delay_no_other_and_their_attempts_end(
    engine: Engine, slow: str, dripping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.procurement.webhooks.TIMEOUT_S", 2.0)
    monkeypatch.setattr("app.procurement.webhooks.POLL_S", 0.1)
    Slow.got.clear()
    Slow.may.set()
    urls = {"drip1": dripping, "drip2": dripping, "drip3": dripping, "good1": slow, "good2": slow}
    webhooks = [Webhook(name=name, url=url, secret=SECRET) for name, url in urls.items()]
    note(engine, *webhooks, many=6)
    sends, store = WebhookSender(webhooks, DeliveryStore(engine)), DeliveryStore(engine)
    sends.start()
    deadline = monotonic() + 10
    while store.count_pending()[0] > 18 and monotonic() < deadline:
        sleep(0.05)
    assert len(Slow.got) == 12 and store.count_pending() == (18, 0)
    failed = text("SELECT DISTINCT endpoint, failure FROM deliveries WHERE tries > 0 ORDER BY endpoint")
    while monotonic() < deadline:
        with engine.connect() as connection:
            rows = [tuple(row) for row in connection.execute(failed)]
        if len(rows) == 3:
            break
        sleep(0.05)
    sends.stop()
    assert rows == [(f"drip{n}", "TimeoutError") for n in (1, 2, 3)]
    counted = prometheus_text().decode()
    assert 'headroom_notices_total{endpoint="good1",result="delivered"} 6.0' in counted
    assert 'headroom_notices_total{endpoint="drip1",result="delivered"} 0.0' in counted


def test_the_command_delivers_due_notices(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_DATABASE_URL", str(engine.url))
    assert CliRunner().invoke(cli, ["deliver"]).output == "0 delivered, 0 waiting, 0 given up. 0 endpoints failed.\n"
    note(engine, ERP)
    monkeypatch.setenv("HEADROOM_PLAIN_HTTP", "true")
    nowhere = [{"name": "erp", "url": "http://127.0.0.1:9/", "secret": SECRET}]
    monkeypatch.setenv("HEADROOM_WEBHOOKS", orjson.dumps(nowhere).decode())
    done = CliRunner().invoke(cli, ["deliver", "--dead"])
    assert done.exit_code == 1
    assert done.output.endswith("0 delivered, 1 waiting, 0 given up. 1 endpoints failed.\n")


def test_the_document_tells_receivers_what_comes(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert set(document["webhooks"]) == set(EVENTS)
    assert {header["name"] for header in document["webhooks"][STORED]["post"]["parameters"]} == {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"secret": "secret"},
        {"secret": "whsec_c2hvcnQ="},
        {"secret": "whsec_%%%"},
        {"url": "ftp://erp.example/"},
        {"url": "http://erp.example/"},
        {"url": "https://user@erp.example/"},
        {"events": ["recommendation.deleted"]},
        {"events": []},
        {"colour": "red"},
    ],
)
def test_a_webhook_that_could_not_work_is_refused(changed: dict[str, Any]) -> None:
    known = {"name": "erp", "url": "https://erp.example/", "secret": SECRET}
    Settings(webhooks=[known])
    with pytest.raises(ValidationError):
        Settings(webhooks=[{**known, **changed}])
    with pytest.raises(ValidationError):
        Settings(webhooks=[known, known])
