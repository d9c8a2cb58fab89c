"""`python -m benchmarks.sockets`: connections that occupy resources, while other clients send requests as usual.

Attackers run in separate processes from their own IP address and reconnect when they are disconnected. They run at low
CPU priority, because real attackers run on other machines. Every ordinary client opens a connection per request: /livez
twenty times per second, a known question and a new one in turn. CPU time is what the workers compute while a client
waits: unlike latency, it does not depend on other programs of the machine. Memory is that of all workers after the
attack. With a port as argument, the program is one attack.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Any

from benchmarks.databases import prepare_database
from benchmarks.load import ROOT, varied_chat_request
from benchmarks.overload import latencies_ms
from benchmarks.proxy import run_nginx
from benchmarks.served import ServiceProcess
from benchmarks.varied import vary_request
from benchmarks.wire import HttpAnswer, exchange_once, read_answer, request_bytes

GIVE_UP_S = 20.0
ATTACKER = "127.0.0.2"
FLOOD_BYTES = 100_000_000
PIECE = b"x: " + b"y" * 1000 + b"\r\n"
MOST_HEARD_BYTES = 65536
DEAREST = ROOT / "tests" / "api" / "bodies" / "recommend-inference-deepseek-v3.json"
DEARLY: Counter[str] = Counter()  # answers to expensive requests


async def stay_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(MOST_HEARD_BYTES)


async def drip_bytes(writer: asyncio.StreamWriter, what: bytes) -> None:
    """Sends one byte per second."""
    for i in range(len(what)):
        writer.write(what[i : i + 1])
        await writer.drain()
        await asyncio.sleep(1.0)


async def slow_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await drip_bytes(writer, request_bytes("GET /livez"))


async def slow_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head, body = request_bytes("POST /recommend", varied_chat_request(1)).split(b"\r\n\r\n", 1)
    writer.write(head + b"\r\n\r\n")
    await drip_bytes(writer, body)


async def never_read(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Requests large answers and reads none of them."""
    writer.write(request_bytes("GET /openapi.json") * 100)
    await writer.drain()
    await asyncio.sleep(3600)


async def flood_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends headers of 100 MB."""
    writer.write(b"GET /livez HTTP/1.1\r\n")
    for _ in range(FLOOD_BYTES // len(PIECE)):
        writer.write(PIECE)
        await writer.drain()
    await reader.read(MOST_HEARD_BYTES)


async def ask_dearly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends the most expensive requests, each about another load: comparisons, searches, and their sensitivities."""

    async def ask(line: str, body: dict[str, Any] | None = None) -> HttpAnswer:
        writer.write(request_bytes(line, b"" if body is None else json.dumps(body).encode()))
        answer = await read_answer(reader)
        DEARLY[f"answers {answer.status}"] += 1
        await asyncio.sleep(0.0 if answer.status == 200 else 0.5)
        return answer

    asked = json.loads(DEAREST.read_text())
    options = [{"name": f"{n}", "constraints": {"max_accelerators": n}} for n in range(8, 16)]
    while True:
        varied = {**vary_request(asked, random.getrandbits(30)), "reference": f"{random.getrandbits(60)}"}
        await ask("POST /compare", {"workload": varied["workload"], "options": options})
        await ask("POST /recommend", {**varied, "constraints": options[0]["constraints"]})
        answer = await ask("POST /recommend", varied)
        if answer.status == 200:
            await ask(f"GET /recommendations/{json.loads(answer.body)['id']}/sensitivity")


Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ATTACKS: dict[str, tuple[int, Attack | None]] = {
    "no attack": (0, None),
    "512 silent": (512, stay_silent),
    "1000 silent": (1000, stay_silent),
    "600 slow headers": (600, slow_head),
    "600 slow bodies": (600, slow_body),
    "100 never read": (100, never_read),
    "8 floods of headers": (8, flood_headers),
    "8 of the most expensive": (8, ask_dearly),
}


async def run_attack(port: int, name: str, seconds: float) -> Counter[str]:
    """How often connections were opened, and how often the service closed them."""
    found: Counter[str] = Counter()
    many, attack = ATTACKS[name]
    end = time.monotonic() + seconds

    async def again_and_again() -> None:
        while attack and time.monotonic() < end:
            with socket.socket() as one, suppress(OSError, TimeoutError):
                if attack is never_read:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.bind((ATTACKER, 0))
                one.setblocking(False)
                await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
                reader, writer = await asyncio.open_connection(sock=one)
                found["made"] += 1
                try:
                    async with asyncio.timeout(end - time.monotonic()):
                        await attack(reader, writer)
                        found["cut"] += 1
                except ConnectionError:
                    found["cut"] += 1
                finally:
                    writer.close()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(again_and_again() for _ in range(many)))
    return found + DEARLY


async def run_ordinary_clients(
    port: int, seconds: float, first: int, cpu_clocks: Sequence[int] = ()
) -> tuple[dict[str, list[float]], Counter[str]]:
    """(seconds per kind of request, and CPU seconds of the service meanwhile; failures) of ordinary clients."""
    took = defaultdict[str, list[float]](list)
    wrong: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def run_client(kind: str, made: Callable[[int], bytes], pause_s: float) -> None:
        number = first
        while time.monotonic() < end:
            sent, cpu_s, number = time.monotonic(), sum(map(time.clock_gettime, cpu_clocks)), number + 1
            try:
                answer = await exchange_once(port, made(number), GIVE_UP_S)
                what = str(answer.status)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                what = type(error).__name__
            took[kind].append(time.monotonic() - sent)
            took[f"{kind}_cpu"].append(sum(map(time.clock_gettime, cpu_clocks)) - cpu_s)
            if what != "200":
                wrong[f"{kind}: {what}"] += 1
            await asyncio.sleep(pause_s)

    await asyncio.gather(
        run_client("livez", lambda _: request_bytes("GET /livez", close=True), 0.05),
        run_client("known", lambda _: request_bytes("POST /recommend", varied_chat_request(1), close=True), 0.1),
        run_client(
            "new", lambda number: request_bytes("POST /recommend", varied_chat_request(number), close=True), 0.1
        ),
    )
    return took, wrong


def measure_attack(server: ServiceProcess, port: int, name: str, seconds: float, first: int) -> dict[str, Any]:
    """Latencies of ordinary clients during one attack, their failures, and the memory of the workers after it."""
    command = ["nice", "-n", "19", sys.executable, "-m", "benchmarks.sockets", str(port), name, str(seconds + 2)]
    attacking = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    time.sleep(2.0)
    took, wrong = asyncio.run(run_ordinary_clients(port, seconds, first, server.cpu_clocks()))
    seen = json.loads(attacking.communicate()[0])
    latencies = {f"{kind}_ms": latencies_ms(each) for kind, each in took.items()}
    return {
        **latencies,
        "requests": sum(map(len, took.values())) // 2,
        "failed": dict(wrong),
        "mib": round(server.rss_mib()),
        "connections": seen,
    }


def measure_attacks(server: ServiceProcess, port: int, seconds: float) -> dict[str, Any]:
    """The same for every attack."""
    asyncio.run(run_ordinary_clients(port, 3.0, 7_000_000))  # warm-up
    first = 7_100_000
    return {name: measure_attack(server, port, name, seconds, first + 100_000 * i) for i, name in enumerate(ATTACKS)}


def main() -> None:
    if len(sys.argv) == 4 and sys.argv[2] in ATTACKS:
        print(json.dumps(asyncio.run(run_attack(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sockets", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds per attack")
    parser.add_argument("--proxy", action="store_true", help="through nginx, configured as in deploy/proxy")
    options = parser.parse_args()
    with prepare_database("sqlite") as (environment, _):
        server = ServiceProcess("here", ROOT, environment, workers=options.workers)
        try:
            with run_nginx(server.port) if options.proxy else nullcontext(server.port) as port:
                print(json.dumps(measure_attacks(server, port, options.seconds), indent=1))
        finally:
            server.close()


if __name__ == "__main__":
    main()
