"""The client of the feeds: retries with pauses, limits of size and time, and no private address."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from app.feeds import client as clients
from app.feeds.client import FeedClient, FeedError
from tests.feeds.formats import FeedServer, Reply, Route, local_client, serve

OK = Reply(b"fine", headers={"etag": '"1"'})


@pytest.fixture
def server() -> Iterator[FeedServer]:
    routes: dict[str, Route] = {
        "/ok": OK,
        "/busy": [Reply(status=429, headers={"retry-after": "0"}), Reply(status=500), Reply(b"cut", cut=1), OK],
        "/down": Reply(status=503),
        "/forbidden": Reply(status=403),
        "/large": Reply(b"x" * 100_000),
        "/slow": Reply(b"y" * 10_000, drip_s=0.05),
        "/moved": Reply(status=302, headers={"location": "/ok"}),
        "/loop": Reply(status=302, headers={"location": "/loop"}),
        "/inside": Reply(status=302, headers={"location": "http://169.254.169.254/latest"}),
        "/nowhere": Reply(status=302),
        "/packed": Reply(b"not gzip", headers={"content-encoding": "gzip"}),
    }
    with serve(routes) as made:
        yield made


@pytest.fixture
def client() -> Iterator[FeedClient]:
    made = local_client(deadline_s=0.3)
    yield made
    made.close()


def test_too_many_requests_errors_and_cut_answers_are_tried_again(server: FeedServer, client: FeedClient) -> None:
    fetched = client.fetch_whole(f"{server.url}/busy")
    assert (fetched.read(), fetched.etag) == (b"fine", '"1"')
    assert server.requests["/busy"] == 4


def test_after_five_tries_the_reason_is_given(server: FeedServer, client: FeedClient) -> None:
    with pytest.raises(FeedError, match=r"answered 503\. \(5 tries\)"):
        client.fetch(f"{server.url}/down")
    assert server.requests["/down"] == 5


def test_a_refusal_is_not_tried_again(server: FeedServer, client: FeedClient) -> None:
    with pytest.raises(FeedError, match="answered 403"):
        client.fetch(f"{server.url}/forbidden")
    assert server.requests["/forbidden"] == 1


def test_an_unchanged_answer_is_not_sent_again(server: FeedServer, client: FeedClient) -> None:
    assert client.fetch(f"{server.url}/ok", etag='"1"') is None
    assert client.fetch(f"{server.url}/ok", etag='"0"') is not None


def test_large_and_slow_answers_are_cut_off(server: FeedServer, client: FeedClient) -> None:
    with pytest.raises(FeedError, match="larger than"):
        client.fetch(f"{server.url}/large", max_bytes=10_000)
    started = time.monotonic()
    with pytest.raises(FeedError, match="took longer than"):
        client.fetch(f"{server.url}/slow")
    assert time.monotonic() - started < 5


def test_only_the_wanted_lines_of_an_answer_are_stored(server: FeedServer, client: FeedClient) -> None:
    body = b"".join(b"%d:%s\n" % (n, b"x" * (n % 70)) for n in range(300)) + b"300: the last, without an end"
    server.routes["/lines"] = Reply(body, drip_s=0.0001)
    wanted = [line for line in body.split(b"\n") if line.partition(b":")[0].endswith(b"0")]
    fetched = client.fetch_whole(f"{server.url}/lines", keep_line=lambda line: line.partition(b":")[0].endswith(b"0"))
    assert fetched.read() == b"\n".join(wanted)
    assert (fetched.size, fetched.sha256) == (len(body), hashlib.sha256(body).hexdigest())
    server.routes["/line"] = Reply(b"x" * 70_000)
    with pytest.raises(FeedError, match="line is longer"):
        client.fetch(f"{server.url}/line", keep_line=bool)


def test_redirects_are_followed_a_few_times_to_checked_addresses(server: FeedServer, client: FeedClient) -> None:
    assert client.fetch_whole(f"{server.url}/moved").read() == b"fine"
    for path, reason in (("loop", "more than 3 times"), ("inside", "not public"), ("nowhere", "no address")):
        with pytest.raises(FeedError, match=reason):
            client.fetch(f"{server.url}/{path}")


def test_a_private_address_is_not_contacted_unless_allowed(server: FeedServer) -> None:
    strict = FeedClient()
    with pytest.raises(FeedError, match="HEADROOM_PRICE_FEED_NETWORKS"):
        strict.fetch(f"{server.url}/ok")
    strict.close()
    assert not server.requests


@pytest.mark.parametrize(
    "url", ["ftp://a.example/x", "http://", "http://a:b@c.example", "http://a.example:99999", "//"]
)
def test_other_addresses_are_refused(url: str, client: FeedClient) -> None:
    with pytest.raises(FeedError):
        client.fetch(url)


def test_a_damaged_compression_is_a_failure(server: FeedServer, client: FeedClient) -> None:
    with pytest.raises(FeedError, match="completely"):
        client.fetch(f"{server.url}/packed")


def test_retry_after_is_seconds_or_a_date() -> None:
    assert clients._retry_after_s("7") == 7.0
    assert clients._retry_after_s(formatdate(time.time() + 30, usegmt=True)) == pytest.approx(30, abs=2)
    assert clients._retry_after_s("soon") is None
    assert clients._retry_after_s(None) is None


def test_pauses_follow_retry_after_up_to_a_limit(server: FeedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    patient, waits = local_client(first_wait_s=1.0), list[float]()
    monkeypatch.setattr(patient._stopped, "wait", waits.append)
    server.routes["/wait"] = [Reply(status=429, headers={"retry-after": after}) for after in ("20", "900")] + [OK]
    assert patient.fetch_whole(f"{server.url}/wait").read() == b"fine"
    assert waits == [20.0, 60.0]
    patient.close()


def test_a_stopped_service_does_not_wait(server: FeedServer) -> None:
    stopped = local_client(first_wait_s=60.0)
    stopped._stopped.set()
    with pytest.raises(FeedError, match="shutting down"):
        stopped.fetch(f"{server.url}/down")
    stopped.close()
