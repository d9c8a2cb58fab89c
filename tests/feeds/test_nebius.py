"""Nebius over gRPC: a local server that speaks HTTP/2 and Protocol Buffers with values of our own, and its faults."""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from app.catalog.observations import OfferKey
from app.catalog.snapshot import CatalogStore
from app.feeds import nebius
from app.feeds.client import FeedClient, FeedError
from app.feeds.grpc import Message, encode, read_message
from app.feeds.naming import FeedNames
from app.feeds.prices import FetchedPart, Source
from app.sizing.columns import GIB
from tests.feeds.formats import LOOPBACK, local_client

h2_connection = pytest.importorskip("h2.connection")
h2_config, h2_events = pytest.importorskip("h2.config"), pytest.importorskip("h2.events")
jwt = pytest.importorskip("jwt")

Answer = bytes | int | None  # a message, a gRPC status, or a closed connection
Method = Callable[[Message], Answer]
TENANT, FRESH = "tenant-e00x", 1


class Service:
    """Methods by path, and the calls that were received: path, headers, message."""

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self.methods, self.calls, self.url = dict(methods), list[tuple[str, dict[str, str], Message]](), ""

    def answer(self, stream: socket.socket) -> None:
        """Answers the calls of one connection until it ends."""
        connection = h2_connection.H2Connection(h2_config.H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        stream.sendall(connection.data_to_send())
        headers, bodies = dict[int, dict[str, str]](), dict[int, bytes]()
        with stream:
            while data := stream.recv(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2_events.RequestReceived):
                        headers[event.stream_id], bodies[event.stream_id] = dict(event.headers), b""
                    elif isinstance(event, h2_events.DataReceived):
                        bodies[event.stream_id] += event.data
                    elif isinstance(event, h2_events.StreamEnded):
                        reply = self._reply(headers[event.stream_id], bodies[event.stream_id])
                        if reply is None:
                            return
                        send(connection, event.stream_id, reply)
                stream.sendall(connection.data_to_send())

    def _reply(self, headers: dict[str, str], body: bytes) -> Answer:
        assert (headers["content-type"], headers["te"], headers[":method"]) == ("application/grpc", "trailers", "POST")
        assert body[0] == 0 and int.from_bytes(body[1:5], "big") == len(body) - 5
        path, message = headers[":path"].removeprefix("/"), Message(body[5:])
        self.calls.append((path, headers, message))
        return self.methods[path](message)


def send(connection: Any, stream_id: int, reply: bytes | int) -> None:
    """Sends a message with the trailers of success, or a status without a message."""
    head = [(":status", "200"), ("content-type", "application/grpc")]
    if isinstance(reply, int):
        connection.send_headers(stream_id, [*head, ("grpc-status", str(reply))], end_stream=True)
        return
    connection.send_headers(stream_id, head)
    connection.send_data(stream_id, b"\0" + len(reply).to_bytes(4, "big") + reply)
    connection.send_headers(stream_id, [("grpc-status", "0")], end_stream=True)


@contextmanager
def serve_grpc(methods: Mapping[str, Method]) -> Iterator[Service]:
    service = Service(methods)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        service.url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def accept() -> None:
            while True:
                try:
                    stream, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=service.answer, args=(stream,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield service
        listening.shutdown(socket.SHUT_RDWR)


@cache
def service_account() -> tuple[str, Any]:
    """The key of a feed, and the public key that verifies its signature."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    names = {"tenant": TENANT, "service_account": "serviceaccount-e00x", "public_key": "publickey-e00x"}
    return json.dumps({**names, "private_key": pem.decode()}), private.public_key()


def advice(region: str, preset: str, gpus: int, on_demand: bytes, spot: bytes = b"", fabric: str = "a") -> bytes:
    resources = encode((1, 16 * gpus or 4), (2, 200 * gpus or 16), (3, gpus))
    instance = encode((1, "gpu-h200-sxm" if gpus else "cpu-d3"), (2, encode((1, preset), (2, resources))), (3, 141))
    spec = encode((1, region), (2, fabric), (10, instance))
    return encode((2, spec), (3, encode((2, on_demand), (3, spot))))


def availability(level: int, available: int = 0, state: int = FRESH) -> bytes:
    return encode((1, state), (2, available), (4, 32), (5, level))


ADVICES = (
    advice("eu-north1", "8gpu-128vcpu-1600gb", 8, availability(1, 4), availability(3, 0)),
    advice("eu-north1", "8gpu-128vcpu-1600gb", 8, availability(3, 2), availability(3, 0), fabric="b"),
    advice("eu-north1", "1gpu-16vcpu-200gb", 1, availability(4), availability(1, 9, state=2)),
    advice("eu-north1", "4vcpu-16gb", 0, availability(1, 9)),
    advice("mars-1", "1gpu-16vcpu-200gb", 1, availability(1, 9)),
)


def list_advices(request: Message) -> bytes:
    assert request.text(1) == TENANT
    if not request.text(3):
        return encode(*((1, each) for each in ADVICES[:2]), (2, "next"))
    return encode(*((1, each) for each in ADVICES[2:]))


def list_projects(_: Message) -> bytes:
    return encode((1, encode((1, encode((1, "project-e00x"))), (3, encode((4, "eu-north1"))))))


def estimate(request: Message) -> bytes:
    spec = request.message(1, 1)
    assert spec.text(1) == nebius.INSTANCE
    instance = spec.message(2, 2)
    assert spec.message(2, 1).text(2) == "project-e00x" and request.message(20).number(1) == nebius.HOURLY
    usd = float(instance.message(2).text(2).partition("gpu")[0]) * (1.45 if instance.message(19).number(1) else 3.5)
    total = encode((2, f"{usd:.4f}"))
    return encode((1, encode((4, encode((1, "hour"))), (20, encode((1, total))))), (20, "usd"))


METHODS: Mapping[str, Method] = {
    nebius.EXCHANGE[1]: lambda _: encode((1, "iam-token"), (3, "Bearer"), (4, 43_200)),
    nebius.PROJECTS[1]: list_projects,
    nebius.ADVICE[1]: list_advices,
    nebius.ESTIMATE[1]: estimate,
}


@pytest.fixture
def client() -> Iterator[FeedClient]:
    with closing(local_client()) as made:
        yield made


def read(client: FeedClient, service: Service, key: str | None = None) -> FetchedPart:
    part = nebius.FEED.read(Source(client, service.url, "capacity", key=service_account()[0] if key is None else key))
    assert part is not None
    return part


def test_prices_and_capacity_of_every_region_of_the_tenant(client: FeedClient) -> None:
    with serve_grpc(METHODS) as service:
        part = read(client, service)
    machines = [(p.region, p.instance_type, p.accelerator, p.count, p.pricing_model) for p in part.prices]
    eight, one = (
        ("gpu-h200-sxm_8gpu-128vcpu-1600gb", "h200-sxm", 8.0),
        ("gpu-h200-sxm_1gpu-16vcpu-200gb", "h200-sxm", 1.0),
    )
    assert machines == [("eu-north1", *each, model) for each in (eight, one) for model in ("on_demand", "spot")]
    assert [p.usd_per_hour for p in part.prices] == pytest.approx([28.0, 11.6, 3.5, 1.45])
    # Two data centers of a region are one offer; a reached quota and old data say nothing of the capacity.
    assert [(p.state, p.quantity) for p in part.prices] == [("available", 6), ("none", None)] + [("unknown", None)] * 2
    assert (part.prices[0].vcpus, part.prices[0].ram_bytes) == (128, 1600 * GIB)
    path, headers, exchange = service.calls[0]
    claims = jwt.decode(exchange.text(3), service_account()[1], algorithms=["RS256"])
    assert (path, claims["iss"], claims["sub"]) == (nebius.EXCHANGE[1], "serviceaccount-e00x", "serviceaccount-e00x")
    assert "authorization" not in headers
    assert {headers["authorization"] for _, headers, _ in service.calls[1:]} == {"Bearer iam-token"}


def test_prices_are_of_the_offers_of_the_catalog(client: FeedClient, catalog_store: CatalogStore) -> None:
    with serve_grpc(METHODS) as service:
        part = read(client, service)
    observations, unmapped = FeedNames(catalog_store.directory()).to_observations(nebius.FEED, part)
    assert not unmapped
    eight = OfferKey("nebius", "eu-north1", "gpu-h200-sxm_8gpu-128vcpu-1600gb", "nvidia-h200-sxm-141gb", 8.0, "spot")
    assert eight in {each.key for each in observations}


def test_one_machine_without_a_price_does_not_hold_back_the_others(client: FeedClient) -> None:
    def refuse_spot(request: Message) -> Answer:
        return 3 if request.message(1, 1).message(2, 2, 19).number(1) else estimate(request)

    with serve_grpc({**METHODS, nebius.ESTIMATE[1]: refuse_spot}) as service:
        assert [p.pricing_model for p in read(client, service).prices] == ["on_demand"] * 2


def test_a_service_that_is_busy_is_asked_again(client: FeedClient) -> None:
    answers = iter([14, 8, None])

    def busy(request: Message) -> Answer:
        return next(answers, list_projects(request))

    with serve_grpc({**METHODS, nebius.PROJECTS[1]: busy}) as service:
        assert len(read(client, service).prices) == 4


@pytest.mark.parametrize(
    ("method", "answer", "reason"),
    [
        (nebius.EXCHANGE, 16, "gRPC status 16"),
        (nebius.ADVICE, 7, "gRPC status 7"),
        (nebius.ADVICE, b"", "no rows"),
        (nebius.ADVICE, encode((1, ADVICES[3])), "no machine with accelerators"),
        (nebius.ADVICE, encode(*((1, advice("", "p", 1, b"")) for _ in range(9))), "format has changed"),
        (nebius.ADVICE, encode((2, "again")), "do not end"),
        (nebius.ADVICE, encode((1, 7)), "another type"),
        (nebius.ADVICE, b"\x0a\xff", "no Protocol Buffers"),
        (nebius.ESTIMATE, b"", "states no price"),
        (nebius.ESTIMATE, 13, "states no price"),
        (nebius.ESTIMATE, encode((1, encode((4, encode((1, "month")))))), "states no price"),
    ],
)
def test_a_refusal_or_another_format_ends_with_a_reason(
    method: tuple[str, str], answer: Answer, reason: str, client: FeedClient
) -> None:
    with serve_grpc({**METHODS, method[1]: lambda _: answer}) as service, pytest.raises(FeedError, match=reason):
        read(client, service)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "JSON"),
        ("[]", "JSON"),
        ('{"tenant": "x"}', "JSON"),
        (json.dumps(dict.fromkeys(("tenant", "service_account", "public_key", "private_key"), "x")), "cannot be read"),
    ],
)
def test_a_key_of_another_form_is_refused_before_a_request(key: str, reason: str, client: FeedClient) -> None:
    with serve_grpc({}) as service, pytest.raises(FeedError, match=reason):
        read(client, service, key)
    assert not service.calls


def test_an_answer_over_http_1_is_refused(client: FeedClient) -> None:
    def answer_as_text(listening: socket.socket) -> None:
        for _ in range(5):
            stream, _ = listening.accept()
            with stream:
                stream.recv(65_536)
                stream.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer_as_text, args=(listening,), daemon=True).start()
        service = Service({})
        service.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(FeedError, match="completely"):
            read(client, service)


def test_mutated_messages_are_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    draw, read_count = random.Random(1), 0
    page = encode(*((1, each) for each in ADVICES))

    class Canned(nebius.Nebius):
        def __init__(self) -> None:
            self._digest, self._tenant = hashlib.sha256(), TENANT

        def _call(self, method: tuple[str, str], request: bytes) -> Message:
            if method == nebius.PROJECTS:
                return Message(list_projects(Message(b"")))
            if method == nebius.ESTIMATE:
                return read_message(mutated(estimate(Message(request))))
            return read_message(mutated(page))

    def mutated(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(draw.choice((0, 0, 1, 3))):
            at = draw.randrange(len(changed))
            changed[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
        return bytes(changed)

    monkeypatch.setattr(nebius, "MAX_PAGES", 3)
    for _ in range(1_000):
        try:
            prices = list(nebius.read_prices(Canned()))
        except (FeedError, ValueError, OverflowError):
            continue
        read_count += 1
        for each in prices:
            assert each.state in nebius.BEST_FIRST and 0 < each.count <= 1024 and each.instance_type.isprintable()
    assert 20 < read_count < 1_000


def test_without_http_2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    with closing(FeedClient(networks=LOOPBACK)) as client, pytest.raises(FeedError, match="extra `nebius`"):
        nebius.FEED.read(Source(client, "http://127.0.0.1:1", "capacity", key=service_account()[0]))
