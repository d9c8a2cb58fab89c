"""Calls to other hosts: each ends at its deadline, whatever part of the answer the other host sends slowly."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from app.catalog import hub, tokens
from app.catalog.hub import HubUnavailable, ModelHub
from app.catalog.outbox import Delivery, DeliveryStore
from app.db import make_engine
from app.errors import Unavailable
from app.feeds.client import FeedError
from app.procurement import webhooks
from app.procurement.partners import Webhook
from app.procurement.webhooks import WebhookSender
from tests.feeds.formats import local_client

APP = Path(webhooks.__file__).parents[1]
DEADLINE_S = 0.3
STATUS = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "status": (b"", b"H"),
    "headers": (STATUS + b"X: ", b"x"),
    "body": (STATUS + b"\r\n", b" "),
    "compressed": (STATUS + b"content-encoding: gzip\r\n\r\n\x1f\x8b\x08\x08" + b"\0" * 6, b"a"),  # a name without end
}


@contextmanager
def drips(first: bytes, byte: bytes) -> Iterator[str]:
    """A host that sends some bytes, and then one now and then, for ever."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        taken, _ = listening.accept()
        with taken, suppress(OSError):
            taken.sendall(first)
            while True:
                time.sleep(0.02)
                taken.sendall(byte)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()
    thread.join()


def ask_hub(url: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hub, "DEADLINE_S", DEADLINE_S)
    with suppress(HubUnavailable):
        ModelHub(url, networks=[ip_network("127.0.0.0/8")]).fetch_model("acme/m")


def ask_issuer(url: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tokens, "TIMEOUT_S", DEADLINE_S)
    with pytest.raises(Unavailable):
        tokens.IssuerKeys(url, None).find_key("k1")


def ask_feed(url: str, _: pytest.MonkeyPatch) -> None:
    client = local_client(deadline_s=DEADLINE_S, read_s=60.0)
    with closing(client), pytest.raises(FeedError, match="took longer"):
        client.fetch(url)


def notify(url: str, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(webhooks, "TIMEOUT_S", DEADLINE_S)
    webhook = Webhook(name="wire", url=url, secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    sender = WebhookSender([webhook], DeliveryStore(make_engine("sqlite://")))
    with suppress(TimeoutError):
        asyncio.run(sender._post_notice(Delivery(1, "evt_1", "wire", "stored", b"{}", 0)))


CALLS: dict[str, Callable[[str, pytest.MonkeyPatch], None]] = {
    "catalog/hub.py": ask_hub,
    "catalog/tokens.py": ask_issuer,
    "feeds/client.py": ask_feed,
    "procurement/webhooks.py": notify,
}
OWN_SERVICE = {"agents/mount.py", "command/lists.py"}  # call this service: in this process, or at the user's URL


@pytest.mark.parametrize("drip", DRIPS)
@pytest.mark.parametrize("caller", CALLS)
def test_a_host_that_drips_is_given_up_at_the_deadline(caller: str, drip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with drips(*DRIPS[drip]) as url:
        began = time.monotonic()
        CALLS[caller](url, monkeypatch)
        assert time.monotonic() - began < DEADLINE_S + 2


def test_every_module_that_calls_another_host_is_among_them() -> None:
    client = re.compile(r"httpx2\.(?:Async)?Client\(|urlopen|create_connection|HTTPS?Connection")
    using = {str(p.relative_to(APP)) for p in APP.rglob("*.py") if client.search(p.read_text())}
    assert using == CALLS.keys() | OWN_SERVICE


def test_the_end_of_the_service_ends_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    monkeypatch.setattr("app.feeds.client.STOP_CHECK_S", 0.05)
    with drips(*DRIPS["headers"]) as url, closing(local_client(read_s=60.0, stopped=stopped)) as client:
        threading.Timer(0.1, stopped.set).start()
        with pytest.raises(FeedError, match="shutting down"):
            client.fetch(url)
