"""One connection: how much it may send, how slowly, and how long it may be silent; and all of a process together.

The parser and the way to the application are uvicorn's. A refusal is written, then what still arrives is thrown away
for a moment: closed at once, the client would lose the answer with what it had yet to send.
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

AT_ONCE = struct.pack("ii", 1, 0)
LINGER_S = 1.0
MOST_REFUSED = 128  # that linger at once; more are closed without a word
MOST_THROWN_AWAY_BYTES = 16 * 2**20
LEAST_READ_BYTES = 16384  # of an answer, each time a client is looked at


class RefusedError(Exception):
    """Ends the parsing of a request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection may do; times in seconds."""

    connections: int = 512
    connections_per_address: int = 0
    header_bytes: int = 32768
    headers: int = 100
    url_bytes: int = 16384
    head_s: float = 5.0
    read_s: float = 10.0


class Door(ServerState):
    """The connections of a process; those without a whole request under way by address, the longest silent first."""

    def __init__(self) -> None:
        super().__init__()
        self.draining = False
        self.of_address: Counter[str] = Counter()
        self.resting: dict[str, dict[Connection, None]] = {}
        self.refused: set[Connection] = set()

    def let_in(self, new: Connection) -> bytes | None:
        """None where there is room for a connection, else what it is told. Who is silent makes room."""
        most = new.limits.connections_per_address
        if most and self.of_address[new.address] >= most:
            return refusals.CROWDED
        if len(self.connections) > new.limits.connections:
            if not self.resting:
                return refusals.FULL
            most_silent = max(self.resting.values(), key=lambda those: len(those))  # noqa: PLW0108, for mypy
            next(iter(most_silent)).cut()
        self.of_address[new.address] += 1
        new.inside = True
        return None

    def rests(self, connection: Connection) -> None:
        """It has no request under way that is here as a whole."""
        self.works(connection)  # the last in line
        self.resting.setdefault(connection.address, {})[connection] = None

    def works(self, connection: Connection) -> None:
        """It has one, or has gone."""
        same = self.resting.get(connection.address, {})
        same.pop(connection, None)
        if not same:
            self.resting.pop(connection.address, None)

    def goes(self, connection: Connection) -> None:
        """It is counted no longer."""
        self.connections.discard(connection)
        self.works(connection)
        if connection.inside:
            connection.inside = False
            self.of_address[connection.address] -= 1
            if not self.of_address[connection.address]:
                del self.of_address[connection.address]


class Connection(HttpToolsProtocol):
    """One client."""

    def __init__(
        self,
        config: Listening,
        server_state: Door,
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
        """Whether a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def begins(self, within_s: float) -> bool:
        """Whether a request is on its way: half of it is here, or the connection is so new that one must come."""
        new = self.cycle is None and self.loop.time() - self.opened < within_s
        return not self.busy and (self._in_head or new)

    # What the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        why_not = self.door.let_in(self)
        if why_not is not None:
            telemetry.shed("connections")
            self._refuse(why_not)
            return
        self.door.rests(self)
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
            # Nothing else can stand in these bytes: they wait in the parser for the end of a header.
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
        self.door.goes(self)
        self.door.refused.discard(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_read_clock()  # it has read enough for more to be written, however much that was by now
        self._await_reading()

    # What the parser says

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
        self.door.rests(self)
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
        self.door.rests(self)
        if self._in_body:
            self._await_head()  # nobody reads the rest of that body

    # What comes of it

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """What was sent cannot be read on: told where no other answer is in the way, and then closed."""
        if self._in_body and not self.busy:
            self.cut()  # answered already
            return
        if self.busy:
            if not self._in_body or self.pipeline or self.cycle.response_started:
                self._deaf, self.cycle.keep_alive = True, False
                return
            self.cycle.disconnected = True  # nobody hears what comes of it
            self.cycle.message_event.set()
        self._refuse(self._because)

    def answers_last(self) -> None:
        """What is under way is the last."""
        if self.busy:
            self.cycle.keep_alive = False

    def cut(self) -> None:
        """Close; what the client has not read by now is lost."""
        self.door.goes(self)
        self._stop_clocks()
        if self.transport.get_write_buffer_size():
            self._drop()
        else:
            self.transport.close()

    def _drop(self) -> None:
        """Close, and have the kernel forget what it still holds for the client."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.transport.get_extra_info("socket").fileno())) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def _refuse(self, answer: bytes) -> None:
        self._deaf = True
        self._stop_clocks()
        self.door.goes(self)
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
            self._await_head()  # what comes next may be held up by us
        elif self._in_head:
            self._refuse(refusals.SLOW)
        else:
            self.cut()

    def _await_reading(self) -> None:
        if self.transport.get_write_buffer_size() and self._read_clock is None:
            self._read_clock = self.loop.call_later(self.limits.read_s, self._look_at_reading, self._unread_bytes())

    def _unread_bytes(self) -> int:
        """Ours, and the kernel's: it asks for more only when a third of what it holds, megabytes, has gone."""
        held = array("i", [0])
        with suppress(OSError):
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + held[0]

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


def all_of(door: Door) -> list[Connection]:
    """Every connection that is counted."""
    return cast(list[Connection], list(door.connections))
