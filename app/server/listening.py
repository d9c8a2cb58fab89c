"""Server of one process, with a graceful shutdown that loses no accepted connection.

It accepts one connection at a time. One of several processes then waits, the longer the more requests it has, so that
the others take the next connections of a burst.

After a signal the server drains: it answers requests with `Connection: close` and sets `draining` in the state of
their scope. Then the kernel drops attempts to connect, and the server accepts the connections that are queued at the
socket, closes the socket and finishes the requests in progress.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.server.connections import Connection, ConnectionPool, Limits, list_connections

POLL_S = 0.02
MEMORY_TICKS = 10  # ticks of 0.1 s between two looks at the memory
QUEUED_CONNECTIONS = 2048  # most connections that the kernel keeps until a process accepts them
PAUSE_S, MAX_PAUSE_S = 0.001, 0.01  # wait of one of several processes after it accepts: for each request, and at most
RETRY_S = 1.0  # wait after a failure to accept, for example without a free file descriptor
HANDSHAKE_S = 0.2  # between the drop of new attempts to connect and the close of the socket
SO_ATTACH_FILTER = 26  # Linux: asm-generic/socket.h
# Classic BPF: drop a TCP segment with SYN and without ACK (byte 13 of the header), keep all others.
DROP_SYN = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
FIRST_REQUEST_S = 1.0  # seconds that a new connection has for its first request during shutdown

server_log = logging.getLogger("uvicorn.error")  # the logger of uvicorn's start and stop messages


def resident_mib() -> float:
    """Returns the resident memory of this process in MiB; 0 where the system does not tell it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def drop_new_connections(listening: socket.socket) -> None:
    """Makes the kernel ignore attempts to connect to a socket, in every process that shares it. Without this, it could
    accept a connection between the last look at its queue and the close, and that connection would be lost. The
    client tries again a second later, when the socket is closed. Has no effect where the kernel has no such filter.
    """
    if sys.platform != "linux":
        return
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
    program = struct.pack("HP", len(DROP_SYN), ctypes.addressof(code))
    with suppress(OSError):  # refused in some sandboxes; the stop goes on
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


class ListenerConfig(uvicorn.Config):
    """uvicorn's configuration, connection limits, drain time, and the memory from which a process stops (0: none)."""

    def __init__(
        self,
        app: ASGIApp | Callable[..., Any] | str,
        *,
        limits: Limits | None = None,
        drain_s: float = 0.0,
        memory_mib: int = 0,
        **given: Any,
    ) -> None:
        super().__init__(app, http=Connection, ws="none", access_log=False, server_header=False, **given)
        self.limits, self.drain_s, self.memory_mib = limits or Limits(), drain_s, memory_mib

    def bind_socket(self) -> socket.socket:
        """Returns the listening socket of all processes. Raises OSError with the address if it is not available."""
        address = f"Port {self.port} of {self.host}"
        try:
            bound = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((self.host, self.port))
        except OSError as error:
            raise OSError(error.errno, error.strerror, address) from error
        bound.set_inheritable(True)
        return bound


class Server(uvicorn.Server):
    """A server that shuts down gracefully. In a process without a parent, a second signal ends it at once."""

    config: ListenerConfig

    def __init__(self, config: ListenerConfig) -> None:
        super().__init__(config)
        self.server_state = self.pool = ConnectionPool(config.limits)
        self.last_tick = time.monotonic()
        self.out_of_memory = False
        self._skip_drain = False
        self._listen_sockets: list[socket.socket] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._has_closed = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._listen_sockets = sockets or [self.config.bind_socket()]
        await super().startup([])  # without sockets of uvicorn's: its event loop would accept every connection at once
        for listening in self._listen_sockets:
            listening.setblocking(False)
            listening.listen(QUEUED_CONNECTIONS)
            self._resume_accepting(listening)

    @property
    def address(self) -> tuple[Any, ...]:
        """Host and port of a server that has started."""
        found: tuple[Any, ...] = self._listen_sockets[0].getsockname()
        return found

    def _resume_accepting(self, listening: socket.socket) -> None:
        if not self._has_closed:
            asyncio.get_running_loop().add_reader(listening, self._accept_one, listening)

    def _accept_one(self, listening: socket.socket) -> None:
        loop, pause_s = asyncio.get_running_loop(), 0.0
        try:
            accepted = listening.accept()[0]
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another process has taken it, or the client has closed it
        except OSError as error:
            server_log.error("Cannot accept connections: %s", error)
            pause_s = RETRY_S
        else:
            connecting = loop.create_task(self._connect_accepted(accepted))
            self._connecting.add(connecting)
            connecting.add_done_callback(self._connecting.discard)
            if self.config.workers > 1:
                requests = sum(c.is_busy or c.expects_request(FIRST_REQUEST_S) for c in list_connections(self.pool))
                pause_s = min(PAUSE_S * (1 + requests), MAX_PAUSE_S)
        if pause_s:
            loop.remove_reader(listening)
            loop.call_later(pause_s, self._resume_accepting, listening)

    async def _connect_accepted(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        with suppress(OSError):  # the client has already closed it
            await loop.connect_accepted_socket(
                partial(Connection, self.config, self.pool, self.lifespan.state), accepted
            )

    async def on_tick(self, counter: int) -> bool:
        self.last_tick = time.monotonic()
        if counter % MEMORY_TICKS == 0 and not self.should_exit:
            self._stop_without_memory()
        return await super().on_tick(counter)

    def _stop_without_memory(self) -> None:
        """Stops the process gracefully if a request ran out of memory or the process exceeds its limit, because it
        would go on to fail. Its parent, or the supervisor of a process without one, starts another.
        """
        limit, used = self.config.memory_mib, resident_mib()
        if self.pool.out_of_memory or 0 < limit < used:
            server_log.error("Stopping for lack of memory: %.0f MiB are in use", used)
            self.out_of_memory = self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.should_exit and parent_process() is None:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True
        self._skip_drain = self._skip_drain or sig == signal.SIGINT

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._drain_connections()
        if parent_process() is None:
            for listening in self._listen_sockets:
                drop_new_connections(listening)
        await asyncio.sleep(HANDSHAKE_S)
        self._has_closed = True
        for listening in self._listen_sockets:
            asyncio.get_running_loop().remove_reader(listening)
        await self._accept_pending()
        await self._wait_until(
            FIRST_REQUEST_S, lambda: not any(c.expects_request(FIRST_REQUEST_S) for c in list_connections(self.pool))
        )
        await super().shutdown(sockets)

    async def _drain_connections(self) -> None:
        self.pool.draining = True
        for connection in list_connections(self.pool):
            connection.close_after_response()
        await self._wait_until(0.0 if self._skip_drain else self.config.drain_s, lambda: self._skip_drain)

    async def _wait_until(self, longest_s: float, done: Callable[[], bool]) -> None:
        end = time.monotonic() + longest_s
        while time.monotonic() < end and not done():
            await asyncio.sleep(POLL_S)

    async def _accept_pending(self) -> None:
        """Accepts the connections that the kernel has queued, then closes the listening sockets."""
        waiting: list[socket.socket] = []
        for listening in self._listen_sockets:
            with suppress(OSError):  # the queue is empty, or no file descriptor is left
                while len(waiting) <= QUEUED_CONNECTIONS:
                    waiting.append(listening.accept()[0])
            listening.close()
        await asyncio.gather(*map(self._connect_accepted, waiting), *self._connecting)
