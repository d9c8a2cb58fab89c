"""HTTP requests over open connections, with complete answers only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def request_bytes(line: str, body: bytes = b"", *, close: bool = False) -> bytes:
    """The bytes of a request; `line` is such as `GET /livez`."""
    head = [f"{line} HTTP/1.1", "host: x"]
    if body:
        head += ["content-type: application/json", f"content-length: {len(body)}"]
    if close:
        head.append("connection: close")
    return "\r\n".join((*head, "", "")).encode() + body


async def read_answer(reader: asyncio.StreamReader) -> HttpAnswer:
    """The next answer; raises asyncio.IncompleteReadError if it is incomplete."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    return HttpAnswer(int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"])))


async def exchange_once(port: int, sent: bytes, within_s: float) -> HttpAnswer:
    """One request on a new connection."""
    async with asyncio.timeout(within_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            return await read_answer(reader)
        finally:
            writer.close()
