"""The server itself: what a connection may send and how slowly, how many there are, and how it all ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from app.api.middleware import log_unexpected_error
from app.server.connections import Limits
from app.server.listening import ListenerConfig, Server

LIMITS = Limits(
    max_connections=8,
    max_header_bytes=8192,
    max_headers=20,
    max_url_bytes=2048,
    headers_timeout_s=0.4,
    read_timeout_s=0.3,
)
PLAIN = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PLAIN_CLOSE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

PART, PARTS = b"x" * 66_000, 100
WORKERS = """
import socket, sys
from app.server.listening import ListenerConfig
from app.server.workers import Workers
if __name__ == "__main__":
    quiet = dict(log_level="critical", lifespan="off")
    config = ListenerConfig("tests.test_server:app", drain_s=0.2, port=0, workers=2, **quiet)
    listening = config.bind_socket()
    print(listening.getsockname()[1], flush=True)
    sys.exit(Workers(config, listening, frozen_s=3.0).run())
"""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Says whether it drains; /slow takes a moment, /large says a lot, /parts in parts, a body is read to its end."""
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/memory":
        log_unexpected_error(scope, MemoryError())
    if scope["path"] == "/slow":
        await asyncio.sleep(0.4)
    if scope["path"] == "/parts":
        length = (b"content-length", str(PARTS * len(PART)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        for i in range(PARTS):
            await send({"type": "http.response.body", "body": PART, "more_body": i < PARTS - 1})
        return
    body = b"x" * 2**23 if scope["path"] == "/large" else json.dumps({"draining": scope["state"]["draining"]}).encode()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def served(limits: Limits = LIMITS, **given: Any) -> Iterator[tuple[Server, Callable[[], socket.socket]]]:
    """A server, and how to connect to it."""
    server = Server(ListenerConfig(app, limits=limits, port=0, log_level="critical", lifespan="off", **given))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    address = server.address
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        opened.append(socket.create_connection(address, timeout=5))
        return opened[-1]

    try:
        yield server, connect
    finally:
        server.should_exit = True
        for one in opened:
            one.close()
        thread.join()


@pytest.fixture(scope="module")
def connect() -> Iterator[Callable[[], socket.socket]]:
    with served() as (_, connect):
        yield connect


def heard(client: socket.socket) -> bytes:
    """All that is said until the connection closes."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while got := client.recv(65536):
            said += got
    return said


def problem_of(raw: bytes) -> tuple[int, dict[str, Any]]:
    """Status and problem of an answer, which is the only one."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head and b"connection: close" in head, raw[:300]
    problem: dict[str, Any] = json.loads(body)
    assert int(head.split()[1]) == problem["status"]
    return problem["status"], problem


def answer_to(connect: Callable[[], socket.socket], sent: bytes) -> bytes:
    client = connect()
    with contextlib.suppress(ConnectionError):
        client.sendall(sent)
    return heard(client)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 40 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"b" * 9000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"b" * 2**22, 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: " + b"b" * 2**20, 431),
        (b"GET /" + b"a" * 4000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET /" + b"a" * 2**20, 414),
        (b"GET /livez\r\n\r\n", 400),
        (b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n", 400),
    ],
    ids=("many", "long", "endless", "trailer", "url", "endless-url", "http-0.9", "http-2"),
)
def test_what_comes_before_a_body_is_limited(connect: Callable[[], socket.socket], sent: bytes, status: int) -> None:
    assert problem_of(answer_to(connect, sent))[0] == status


@pytest.mark.parametrize(
    "headers",
    [
        b"Host: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Host: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
        b"Host: x\r\nContent-Length: -3\r\n",
        b"Host: x\r\nContent-Length: +3\r\n",
        b"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n",
        b"Host: x\r\na: b\r\n c\r\n",
        b"Host: x\r\na: b\rc\r\n",
        b"Host: x\r\na: b\0c\r\n",
        b"Host: x\r\na : b\r\n",
        b"Host: x\r\nHost: y\r\n",
        b"a: b\r\n",
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(connect: Callable[[], socket.socket], headers: bytes) -> None:
    status, problem = problem_of(answer_to(connect, b"POST / HTTP/1.1\r\n" + headers + b"\r\n0\r\n\r\n" + PLAIN))
    assert (status, problem["type"]) == (400, "/problems/malformed-http")


def test_a_silent_connection_is_closed_and_a_slow_one_gets_the_reason(connect: Callable[[], socket.socket]) -> None:
    silent, slow = connect(), connect()
    began = time.monotonic()
    for letter in PLAIN[:6]:
        with contextlib.suppress(ConnectionError):
            slow.send(bytes([letter]))
        time.sleep(0.1)
    assert problem_of(heard(slow))[0] == 408
    assert heard(silent) == b""
    assert time.monotonic() - began < 3


def test_a_body_that_breaks_is_one_refusal(connect: Callable[[], socket.socket]) -> None:
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a length\r\n"
    assert problem_of(answer_to(connect, sent))[0] == 400


def test_errors_after_a_request_do_not_break_into_its_answer(connect: Callable[[], socket.socket]) -> None:
    said = answer_to(connect, PLAIN.replace(b"/ ", b"/slow ", 1) + b"no HTTP at all\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200") and said.count(b"HTTP/1.1") == 1


def test_a_connection_is_used_again_and_ordinary_requests_pass(connect: Callable[[], socket.socket]) -> None:
    client = connect()
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    for sent in (PLAIN, body, PLAIN):
        client.sendall(sent)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
    client.sendall(body + PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert heard(client).count(b"HTTP/1.1 200") == 2


def test_a_client_is_asked_to_continue_and_chunks_are_read(connect: Callable[[], socket.socket]) -> None:
    client = connect()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    for _ in range(2):
        client.sendall(head)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for part in (b"5\r\nhel", b"lo\r\n", b"0\r\n\r\n"):
            client.sendall(part)
            time.sleep(0.02)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def test_requests_sent_at_once_are_answered_in_turn(connect: Callable[[], socket.socket]) -> None:
    last = PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    said = answer_to(connect, PLAIN.replace(b"/ ", b"/slow ", 1) + PLAIN * 3 + last)
    assert said.count(b"HTTP/1.1 200") == 5 and said.count(b"connection: close") == 1


def test_a_client_that_has_hung_up_is_forgotten_at_once() -> None:
    with served() as (server, connect):
        client = connect()
        client.sendall(PLAIN.replace(b"/ ", b"/slow ", 1)[:-2])
        client.shutdown(socket.SHUT_WR)
        assert heard(client) == b""
        assert (
            not server.pool.connections and not server.pool.connections_per_address and not server.pool.idle_by_address
        )


def test_who_reads_slowly_but_steadily_hears_all() -> None:
    """For a while the kernel takes none of the remaining bytes, though it has gone on sending."""
    with served() as (_, connect):
        client = connect()
        client.sendall(PLAIN.replace(b"/ ", b"/parts ", 1))
        got, until = 0, time.monotonic() + 1.0
        while got < PARTS * len(PART):
            got += len(client.recv(65536))
            time.sleep(0.05 if time.monotonic() < until else 0.0)


def test_a_client_that_does_not_read_its_answer_is_cut() -> None:
    with served() as (server, connect):
        client = connect()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(PLAIN.replace(b"/ ", b"/large ", 1))
        time.sleep(0.2)
        assert len(server.pool.connections) == 1
        until = time.monotonic() + 3
        while server.pool.connections and time.monotonic() < until:
            time.sleep(0.05)
        assert not server.pool.connections
        began = time.monotonic()
        assert len(heard(client)) < 2**23
        assert time.monotonic() - began < 1


def test_who_is_silent_or_sends_half_makes_room_and_only_work_is_never_cut() -> None:
    with served(Limits(max_connections=8, headers_timeout_s=30)) as (_, connect):
        silent = [connect() for _ in range(30)]
        assert answer_to(connect, PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")).startswith(
            b"HTTP/1.1 200"
        )
        assert heard(silent[0]) == b""
        half = [connect() for _ in range(8)]
        for one in half:
            one.sendall(PLAIN[:-2] + b"Content-Length: 9\r\n\r\n")
        busy = [connect() for _ in range(8)]
        for one in busy:
            one.sendall(PLAIN.replace(b"/ ", b"/slow ", 1))
        time.sleep(0.2)
        raw = heard(connect())
        assert problem_of(raw)[1]["type"] == "/problems/too-many-connections"
        assert b"retry-after: 1" in raw
        assert all(one.recv(65536).startswith(b"HTTP/1.1 200") for one in busy)


def test_one_address_may_be_limited_to_fewer() -> None:
    with served(Limits(max_connections_per_address=3)) as (_, connect):
        kept = [connect() for _ in range(3)]
        assert problem_of(heard(connect()))[0] == 429
        kept.pop().close()
        time.sleep(0.1)
        client = connect()
        client.sendall(PLAIN)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_burst_is_queued_and_leaves_connections_to_other_processes() -> None:
    with served(Limits(), workers=2) as (server, connect):
        connect()
        until(lambda: len(server.pool.connections) == 1)
        loop, held = next(iter(server.pool.connections)).loop, threading.Event()
        loop.call_soon_threadsafe(held.wait)
        for _ in range(30):
            connect()
        held.set()
        before = time.monotonic()
        until(lambda: len(server.pool.connections) == 31)
        assert time.monotonic() - before > 0.15  # each waits for 10 ms after the first few


def test_a_stop_drains_and_answers_all_that_was_accepted() -> None:
    with served(Limits(), drain_s=0.5) as (server, connect):
        kept, under_way = connect(), connect()
        kept.sendall(PLAIN)
        assert b'"draining": false' in kept.recv(65536)
        under_way.sendall(PLAIN.replace(b"/ ", b"/slow ", 1))
        time.sleep(0.1)
        server.should_exit = True
        time.sleep(0.2)
        late = connect()  # still taken
        for one in (kept, late):
            one.sendall(PLAIN)
            said = heard(one)
            assert b"connection: close" in said and b'"draining": true' in said
        assert heard(under_way).startswith(b"HTTP/1.1 200")
    with pytest.raises(ConnectionRefusedError):
        connect()


def test_what_the_kernel_accepted_is_answered() -> None:
    """The loop is held up while clients connect, then it is asked to stop: they stand in line at the socket."""
    with served(Limits()) as (server, connect):
        loop_held = threading.Event()
        connect()
        while not server.pool.connections:
            time.sleep(0.01)
        one = next(iter(server.pool.connections))

        def hold() -> None:
            loop_held.set()
            time.sleep(0.4)

        one.loop.call_soon_threadsafe(hold)
        loop_held.wait()
        waiting = [connect() for _ in range(40)]
        for client in waiting:
            client.sendall(PLAIN)
        server.should_exit = True
        assert [heard(client)[:12] for client in waiting] == [b"HTTP/1.1 200"] * 40


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter of a socket")
def test_no_client_connects_between_the_last_look_at_the_queue_and_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Exception | None] = []
    accept_pending = Server._accept_pending

    async def looks_twice(server: Server) -> None:
        """The queue is looked at for the last time, and before the close a client tries to connect."""
        address = server.address
        try:
            await asyncio.to_thread(socket.create_connection, address, 0.3)
            tries.append(None)
        except OSError as error:
            tries.append(error)
        await accept_pending(server)

    monkeypatch.setattr(Server, "_accept_pending", looks_twice)
    with served(Limits()) as (server, connect):
        kept = connect()
        server.should_exit = True
        while not tries:
            time.sleep(0.01)
        kept.sendall(PLAIN)
        assert heard(kept).startswith(b"HTTP/1.1 200")
    assert [type(error) for error in tries] == [TimeoutError]


def children(process: subprocess.Popen[str]) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(process.pid)], check=False, stdout=subprocess.PIPE)
    return [int(pid) for pid in listed.stdout.split()]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def gone_from(process: subprocess.Popen[str], pid: int) -> bool:
    return pid not in children(process)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def asked_until_refused(port: int, path: bytes, heard_of: list[bytes]) -> None:
    """Asks on new connections until none is taken."""
    with contextlib.suppress(ConnectionRefusedError):
        while True:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(PLAIN.replace(b"/", path, 1).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                heard_of.append(heard(client)[:12])


def test_a_process_that_runs_out_of_memory_finishes_its_requests_and_stops() -> None:
    with served() as (server, connect):
        slow = connect()
        slow.sendall(PLAIN_CLOSE.replace(b"/", b"/slow", 1))
        assert answer_to(connect, PLAIN_CLOSE.replace(b"/", b"/memory", 1)).startswith(b"HTTP/1.1 200")
        assert heard(slow).startswith(b"HTTP/1.1 200")
        until(lambda: server.should_exit)
        assert server.out_of_memory


def test_a_process_above_its_limit_of_memory_stops_and_one_below_does_not() -> None:
    for limit, stops in ((1, True), (1_000_000, False), (0, False)):
        with served(memory_mib=limit) as (server, _):
            ticked = server.last_tick

            def is_decided(server: Any = server, ticked: float = ticked) -> bool:
                return bool(server.should_exit or server.last_tick > ticked + 1.1)

            until(is_decided)
            assert server.out_of_memory is stops


@pytest.mark.slow
def test_workers_are_replaced_and_stop_with_nothing_lost() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKERS], stdout=subprocess.PIPE, text=True) as process:
        try:
            watch_workers(process)
        finally:
            process.kill()


def watch_workers(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    port = int(process.stdout.readline())
    until(lambda: len(children(process)) == 2)
    until(lambda: listens(port))
    for how in (signal.SIGKILL, signal.SIGSTOP):
        gone = children(process)[0]
        os.kill(gone, how)
        until(partial(gone_from, process, gone))
    before = children(process)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        answer_to(lambda: client, PLAIN_CLOSE.replace(b"/", b"/memory", 1))
    until(lambda: len(children(process)) == 2 and children(process) != before)
    heard_of: list[bytes] = []
    paths = [b"/", b"/slow"] * 4
    asking = [threading.Thread(target=asked_until_refused, args=(port, path, heard_of)) for path in paths]
    for thread in asking:
        thread.start()
    until(lambda: len(heard_of) > 20 and len(children(process)) == 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    for thread in asking:
        thread.join()
    assert set(heard_of) == {b"HTTP/1.1 200"}
