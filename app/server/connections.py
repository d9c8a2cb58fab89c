"""Limits of a connection (bytes, speed, idle time) and the pool of all connections of one process.

uvicorn provides the parser and the call of the application. After a refusal the connection lingers for a moment and
discards incoming bytes: if it closed at once, a client that still sends would lose the answer.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import termios
from array import array
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app import telemetry
from app.server import refusals

if TYPE_CHECKING:
    from app.server.listening import Listening

AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: enabled, 0 seconds
LINGER_S = 1.0  # how long a refused connection discards incoming bytes before it closes
MOST_REFUSED = 128  # refused connections that linger at once; further ones are closed without an answer
MOST_THROWN_AWAY_BYTES = 16 * 2**20
LEAST_READ_BYTES = 16384  # bytes of an answer that a client must read per check


class RefusedError(Exception):
    """Stops the parsing of a request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection and of the pool; times in seconds, 0 connections per address means no limit."""

    connections: int = 512
    connections_per_address: int = 0
    header_bytes: int = 32768
    headers: int = 100
    url_bytes: int = 16384
    head_s: float = 5.0
    read_s: float = 10.0


class ConnectionPool(ServerState):
    """All connections of one process. Idle connections, which have no complete request in progress, are listed per
    address, longest idle first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.draining = False
        self.of_address: Counter[str] = Counter()
        self.resting: dict[str, dict[Connection, None]] = {}
        self.refused: set[Connection] = set()

    def admit(self, new: Connection) -> bytes | None:
        """Admits a connection and returns None, or returns the refusal to send. If the pool is full, closes an idle
        connection to make room.
        """
        limit = new.limits.connections_per_address
        if limit and self.of_address[new.address] >= limit:
            return refusals.CROWDED
        if len(self.connections) > new.limits.connections:
            if not self.resting:
                return refusals.FULL
            most_idle = max(self.resting.values(), key=lambda idle: len(idle))  # noqa: PLW0108, for mypy
            next(iter(most_idle)).close()
        self.of_address[new.address] += 1
        new.inside = True
        return None

    def mark_idle(self, connection: Connection) -> None:
        """Marks a connection as idle: it has no complete request in progress."""
        self.works(connection)  # moves it to the end of the list
        self.resting.setdefault(connection.address, {})[connection] = None

    def works(self, connection: Connection) -> None:
        """Removes a connection from the idle list: it has a complete request, or was closed."""
        same = self.resting.get(connection.address, {})
        same.pop(connection, None)
        if not same:
            self.resting.pop(connection.address, None)

    def forget(self, connection: Connection) -> None:
        """Removes a connection from the pool and its counts."""
        self.connections.discard(connection)
        self.works(connection)
        if connection.inside:
            connection.inside = False
            self.of_address[connection.address] -= 1
            if not self.of_address[connection.address]:
                del self.of_address[connection.address]


class Connection(HttpToolsProtocol):
    """One client connection."""

    def __init__(
        self,
        config: Listening,
        server_state: ConnectionPool,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits, self.door = config.limits, server_state
        self.address, self.inside, self.opened = "", False, self.loop.time()
        self._in_head = self._in_body = self._deaf = False
        self._because = refusals.MALFORMED
        self._steps = self._unparsed_bytes = self._thrown_away_bytes = self._header_bytes = 0
        self._head_clock: asyncio.TimerHandle | None = None
        self._read_clock: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is in progress."""
        return self.cycle is not None and not self.cycle.response_complete

    def begins(self, within_s: float) -> bool:
        """True if a request is partly received or the connection is younger than `within_s`."""
        new = self.cycle is None and self.loop.time() - self.opened < within_s
        return not self.busy and (self._in_head or new)

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        refusal = self.door.admit(self)
        if refusal is not None:
            telemetry.shed("connections")
            self._refuse(refusal)
            return
        self.door.mark_idle(self)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._thrown_away_bytes += len(data)
            if self._thrown_away_bytes > MOST_THROWN_AWAY_BYTES:
                self.transport.abort()
            return
        self._steps = 1 if self._in_body else 0
        super().data_received(data)
        if self._deaf or self.transport.is_closing():
            return
        if (self._in_head or self._in_body) and self._steps <= 1:
            # At most one parser event: these bytes wait in the parser for the end of a header.
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > self.limits.header_bytes + self.limits.url_bytes:
                self._because = refusals.HEADERS
                self.send_400_response("")
        elif not self.busy and self._head_clock is None and self.timeout_keep_alive_task is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_clocks()
        self._unset_keepalive_if_required()
        self.door.forget(self)
        self.door.refused.discard(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_read_clock()  # the client has read enough for further writes
        self._await_reading()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._steps += 1
        self._in_head, self._in_body = True, False
        self._unparsed_bytes = self._header_bytes = 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.url_bytes:
            self._because = refusals.URL
            raise RefusedError

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if len(self.headers) > self.limits.headers or self._header_bytes > self.limits.header_bytes:
            self._because = refusals.HEADERS
            raise RefusedError

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise RefusedError
        self.scope["state"]["draining"] = self.door.draining
        super().on_headers_complete()
        self._in_head, self._in_body, self._unparsed_bytes = False, True, 0
        self._stop_head_clock()
        self.door.mark_idle(self)
        if self.door.draining:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._steps, self._unparsed_bytes = 2, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._stop_head_clock()
        super().on_message_complete()
        if self.busy:
            self.door.works(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_reading()
        if self.transport.is_closing() or self.busy:
            return
        self.door.mark_idle(self)
        if self._in_body:
            self._await_head()  # the application does not read the rest of that body

    # Closing and timers

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Handles bytes that cannot be parsed: sends a refusal unless another answer is in progress, then closes."""
        if self._in_body and not self.busy:
            self.close()  # the request has already been answered
            return
        if self.busy:
            if not self._in_body or self.pipeline or self.cycle.response_started:
                self._deaf, self.cycle.keep_alive = True, False
                return
            self.cycle.disconnected = True  # makes the application stop
            self.cycle.message_event.set()
        self._refuse(self._because)

    def answers_last(self) -> None:
        """Closes the connection after the response in progress."""
        if self.busy:
            self.cycle.keep_alive = False

    def close(self) -> None:
        """Closes the connection. Bytes that the client has not read yet are discarded."""
        self.door.forget(self)
        self._stop_clocks()
        if self.transport.get_write_buffer_size():
            self._drop()
        else:
            self.transport.close()

    def _drop(self) -> None:
        """Closes the connection and makes the kernel discard its send buffer."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno())) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _refuse(self, answer: bytes) -> None:
        self._deaf = True
        self._stop_clocks()
        self.door.forget(self)
        if len(self.door.refused) >= MOST_REFUSED:
            self.transport.abort()
            return
        self.door.refused.add(self)
        self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._head_clock = self.loop.call_later(LINGER_S, self.transport.abort)

    def _await_head(self) -> None:
        self._stop_head_clock()
        self._head_clock = self.loop.call_later(self.limits.head_s, self._too_late)

    def _too_late(self) -> None:
        self._head_clock = None
        if self.transport.is_closing():
            return
        if self.busy:
            self._await_head()  # the server itself may delay the next request
        elif self._in_head:
            self._refuse(refusals.SLOW)
        else:
            self.close()

    def _await_reading(self) -> None:
        if self.transport.get_write_buffer_size() and self._read_clock is None:
            self._read_clock = self.loop.call_later(self.limits.read_s, self._look_at_reading, self._unread_bytes())

    def _unread_bytes(self) -> int:
        """Returns the bytes that the client has not read: the transport's buffer plus the kernel's. The kernel accepts
        more only after a third of its megabytes has been sent, so the transport's buffer alone would not show progress.
        """
        kernel_bytes = array("i", [0])
        with suppress(OSError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, kernel_bytes)
        return self.transport.get_write_buffer_size() + kernel_bytes[0]

    def _look_at_reading(self, before: int) -> None:
        self._read_clock = None
        if self.transport.get_write_buffer_size() and self._unread_bytes() > before - LEAST_READ_BYTES:
            self._drop()
        else:
            self._await_reading()

    def _stop_head_clock(self) -> None:
        if self._head_clock is not None:
            self._head_clock.cancel()
            self._head_clock = None

    def _stop_read_clock(self) -> None:
        if self._read_clock is not None:
            self._read_clock.cancel()
            self._read_clock = None

    def _stop_clocks(self) -> None:
        self._stop_head_clock()
        self._stop_read_clock()


def all_of(door: ConnectionPool) -> list[Connection]:
    """Returns every connection in the pool."""
    return cast(list[Connection], list(door.connections))
