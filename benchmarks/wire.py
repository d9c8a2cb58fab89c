"""Requests on open connections, and answers that are whole or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer that came as a whole."""

    status: int
    headers: dict[str, str]
    body: bytes


def request(line: str, body: bytes = b"", *, close: bool = False) -> bytes:
    """The bytes of a request; `line` as in `GET /livez`."""
    head = [f"{line} HTTP/1.1", "host: x"]
    if body:
        head += ["content-type: application/json", f"content-length: {len(body)}"]
    if close:
        head.append("connection: close")
    return "\r\n".join((*head, "", "")).encode() + body


async def heard(reader: asyncio.StreamReader) -> Heard:
    """The next answer; asyncio.IncompleteReadError where it breaks off."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    return Heard(int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"])))


async def exchange(port: int, sent: bytes, within_s: float) -> Heard:
    """One request on a connection of its own."""
    async with asyncio.timeout(within_s):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            return await heard(reader)
        finally:
            writer.close()
