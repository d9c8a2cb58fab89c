"""Limits of a connection (bytes, speed, idle time) and the pool of all connections of one process.

uvicorn provides the parser and the call of the application. After a refusal the connection lingers for a moment and
discards incoming bytes: if it closed at once, a client that still sends would lose the answer.

A port that is reached without a proxy, as after `make run`, must hold these limits too, so this package reads private
attributes of uvicorn; an upper bound on its release and a contract test (tests/test_uvicorn.py) guard that.
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
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app import telemetry
from app.api.access import address_of_holder
from app.server import refusals

LINGER_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: enabled, 0 seconds
LINGER_S = 1.0  # how long a refused connection discards incoming bytes before it closes
MAX_LINGERING = 128  # refused connections that linger at once; further ones are closed without an answer
MAX_DISCARDED_BYTES = 16 * 2**20
MIN_READ_BYTES = 16384  # bytes of an answer that a client must read per check


class RefusedError(Exception):
    """Stops the parsing of a request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one connection and of the pool; times in seconds, 0 connections per address means no limit."""

    max_connections: int = 512
    max_connections_per_address: int = 0
    max_header_bytes: int = 32768
    max_headers: int = 100
    max_url_bytes: int = 16384
    headers_timeout_s: float = 5.0
    read_timeout_s: float = 10.0


class ConnectionPool(ServerState):
    """All connections of one process, and by address those without a complete request, longest idle first."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limits, self.draining, self.out_of_memory = limits, False, False
        self.connections_per_address: Counter[str] = Counter()
        self.idle_by_address: dict[str, dict[Connection, None]] = {}
        self.refused_connections: set[Connection] = set()

    def report_memory_error(self) -> None:
        """Notes that a request failed for lack of memory, after which the server stops."""
        self.out_of_memory = True

    def admit(self, new: Connection) -> bytes | None:
        """Admits a connection and returns None, or returns the refusal to send. A full pool closes an idle one."""
        limit = self.limits.max_connections_per_address
        if limit and self.connections_per_address[new.address] >= limit:
            return refusals.ADDRESS_FULL
        if len(self.connections) > self.limits.max_connections:
            if not self.idle_by_address:
                return refusals.POOL_FULL
            most_idle = max(self.idle_by_address.values(), key=lambda idle: len(idle))  # noqa: PLW0108, for mypy
            next(iter(most_idle)).close()
        self.connections_per_address[new.address] += 1
        new.is_counted = True
        return None

    def mark_idle(self, connection: Connection) -> None:
        """Marks a connection as idle: it has no complete request in progress."""
        self.unmark_idle(connection)  # moves it to the end of the list
        self.idle_by_address.setdefault(connection.address, {})[connection] = None

    def unmark_idle(self, connection: Connection) -> None:
        """Removes a connection from the idle list: it has a complete request, or was closed."""
        same = self.idle_by_address.get(connection.address, {})
        same.pop(connection, None)
        if not same:
            self.idle_by_address.pop(connection.address, None)

    def forget(self, connection: Connection) -> None:
        """Removes a connection from the pool and its counts."""
        self.connections.discard(connection)
        self.unmark_idle(connection)
        if connection.is_counted:
            connection.is_counted = False
            self.connections_per_address[connection.address] -= 1
            if not self.connections_per_address[connection.address]:
                del self.connections_per_address[connection.address]


class Connection(HttpToolsProtocol):
    """One client connection."""

    def __init__(
        self,
        config: Config,
        server_state: ConnectionPool,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits, self.pool = server_state.limits, server_state
        self.address, self.is_counted, self.opened_at = "", False, self.loop.time()
        self._in_headers = self._in_body = self._discarding = False
        self._refusal = refusals.MALFORMED
        self._parser_events = self._unparsed_bytes = self._discarded_bytes = self._header_bytes = 0
        self._headers_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a request is in progress."""
        return self.cycle is not None and not self.cycle.response_complete

    def expects_request(self, within_s: float) -> bool:
        """True if a request is partly received or the connection is younger than `within_s`."""
        new = self.cycle is None and self.loop.time() - self.opened_at < within_s
        return not self.is_busy and (self._in_headers or new)

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = address_of_holder(self.client[0]) if self.client else ""
        refusal = self.pool.admit(self)
        if refusal is not None:
            telemetry.record_shed("connections")
            self._send_refusal(refusal)
            return
        self.pool.mark_idle(self)
        self._start_headers_timer()

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > MAX_DISCARDED_BYTES:
                self.transport.abort()
            return
        self._parser_events = 1 if self._in_body else 0
        super().data_received(data)
        if self._discarding or self.transport.is_closing():
            return
        if (self._in_headers or self._in_body) and self._parser_events <= 1:
            # At most one parser event: these bytes wait in the parser for the end of a header.
            self._unparsed_bytes += len(data)
            if self._unparsed_bytes > self.limits.max_header_bytes + self.limits.max_url_bytes:
                self._refusal = refusals.HEADERS_TOO_LARGE
                self.send_400_response("")
        elif not self.is_busy and self._headers_timer is None and self.timeout_keep_alive_task is None:
            self._start_headers_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timers()
        self._unset_keepalive_if_required()
        self.pool.forget(self)
        self.pool.refused_connections.discard(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_read_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_read_timer()  # the client has read enough for further writes
        self._start_read_timer()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parser_events += 1
        self._in_headers, self._in_body = True, False
        self._unparsed_bytes = self._header_bytes = 0
        self._start_headers_timer()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.max_url_bytes:
            self._refusal = refusals.URL_TOO_LONG
            raise RefusedError

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if len(self.headers) > self.limits.max_headers or self._header_bytes > self.limits.max_header_bytes:
            self._refusal = refusals.HEADERS_TOO_LARGE
            raise RefusedError

    def on_headers_complete(self) -> None:
        version, hosts = self.parser.get_http_version(), sum(name == b"host" for name, _ in self.headers)
        codings = {value.lower() for name, value in self.headers if name == b"transfer-encoding"}
        if version not in ("1.0", "1.1") or hosts > 1 or (hosts == 0 and version == "1.1") or codings - {b"chunked"}:
            raise RefusedError
        self.scope["state"]["draining"] = self.pool.draining
        self.scope["state"]["peer"] = self.client[0] if self.client else ""  # X-Forwarded-For replaces the client
        self.scope["state"]["report_memory_error"] = self.pool.report_memory_error
        super().on_headers_complete()
        self._in_headers, self._in_body, self._unparsed_bytes = False, True, 0
        self._stop_headers_timer()
        self.pool.mark_idle(self)
        if self.pool.draining:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._parser_events, self._unparsed_bytes = 2, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._stop_headers_timer()
        super().on_message_complete()
        if self.is_busy:
            self.pool.unmark_idle(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._start_read_timer()
        if self.transport.is_closing() or self.is_busy:
            return
        self.pool.mark_idle(self)
        if self._in_body:
            self._start_headers_timer()  # the application does not read the rest of that body

    # Closing and timers

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Handles bytes that cannot be parsed: sends a refusal unless another answer is in progress, then closes."""
        if self._in_body and not self.is_busy:
            self.close()  # the request has already been answered
            return
        if self.is_busy:
            if not self._in_body or self.pipeline or self.cycle.response_started:
                self._discarding, self.cycle.keep_alive = True, False
                return
            self.cycle.disconnected = True  # makes the application stop
            self.cycle.message_event.set()
        self._send_refusal(self._refusal)

    def close_after_response(self) -> None:
        """Closes the connection after the response in progress."""
        if self.is_busy:
            self.cycle.keep_alive = False

    def close(self) -> None:
        """Closes the connection. Bytes that the client has not read yet are discarded."""
        self.pool.forget(self)
        self._stop_timers()
        if self.transport.get_write_buffer_size():
            self._abort_unread()
        else:
            self.transport.close()

    def _abort_unread(self) -> None:
        """Closes the connection and makes the kernel discard its send buffer."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno())) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_AT_ONCE)
        self.transport.abort()

    def _send_refusal(self, answer: bytes) -> None:
        self._discarding = True
        self._stop_timers()
        self.pool.forget(self)
        if len(self.pool.refused_connections) >= MAX_LINGERING:
            self.transport.abort()
            return
        self.pool.refused_connections.add(self)
        self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._headers_timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def _start_headers_timer(self) -> None:
        self._stop_headers_timer()
        self._headers_timer = self.loop.call_later(self.limits.headers_timeout_s, self._on_headers_timeout)

    def _on_headers_timeout(self) -> None:
        self._headers_timer = None
        if self.transport.is_closing():
            return
        if self.is_busy:
            self._start_headers_timer()  # the server itself may delay the next request
        elif self._in_headers:
            self._send_refusal(refusals.HEADERS_TOO_SLOW)
        else:
            self.close()

    def _start_read_timer(self) -> None:
        if self.transport.get_write_buffer_size() and self._read_timer is None:
            self._read_timer = self.loop.call_later(
                self.limits.read_timeout_s, self._check_read_progress, self._unread_bytes()
            )

    def _unread_bytes(self) -> int:
        """Returns the bytes that the client has not read: the transport's buffer plus the kernel's. The kernel accepts
        more only after a third of its megabytes has been sent, so the transport's buffer alone would not show progress.
        """
        kernel_bytes = array("i", [0])
        with suppress(OSError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, kernel_bytes)
        return self.transport.get_write_buffer_size() + kernel_bytes[0]

    def _check_read_progress(self, before: int) -> None:
        self._read_timer = None
        if self.transport.get_write_buffer_size() and self._unread_bytes() > before - MIN_READ_BYTES:
            self._abort_unread()
        else:
            self._start_read_timer()

    def _stop_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _stop_timers(self) -> None:
        self._stop_headers_timer()
        self._stop_read_timer()


def list_connections(pool: ConnectionPool) -> list[Connection]:
    return cast(list[Connection], list(pool.connections))
