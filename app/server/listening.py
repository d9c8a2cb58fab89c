"""One process that listens, and how it stops: nothing that was accepted is lost.

At a signal it drains: requests are answered, with Connection: close, and `draining` in the state of their scope. Then
what stands in line at the socket is taken in, the socket is closed, and what is under way is finished.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import parent_process
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from app.server.connections import Connection, Door, Limits, all_of

LOOK_S = 0.02
COMES_S = 1.0  # how long a connection just made has for its first request, at the end


class Listening(uvicorn.Config):
    """uvicorn's configuration with limits of our own."""

    def __init__(
        self,
        app: ASGIApp | Callable[..., Any] | str,
        *,
        limits: Limits | None = None,
        drain_s: float = 0.0,
        **given: Any,
    ) -> None:
        super().__init__(app, http=Connection, ws="none", access_log=False, server_header=False, **given)
        self.limits, self.drain_s = limits or Limits(), drain_s

    def bind_socket(self) -> socket.socket:
        """The socket that every process takes connections from; raises OSError that names what cannot be had."""
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
    """A server that stops cleanly; a second signal stops it at once, where no parent looks after it."""

    config: Listening

    def __init__(self, config: Listening) -> None:
        super().__init__(config)
        self.server_state = self.door = Door()
        self.last_tick = time.monotonic()
        self._hurried = False
        self._listening: list[socket.socket] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Kept open past the server's own: what the kernel has accepted is ours as long as one of them is.
        self._listening = [
            socket.socket(fileno=os.dup(s.fileno())) for server in self.servers for s in server.sockets or ()
        ]

    async def on_tick(self, counter: int) -> bool:
        self.last_tick = time.monotonic()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.should_exit and parent_process() is None:
            signal.signal(sig, signal.SIG_DFL)
            signal.raise_signal(sig)
        self.should_exit = True
        self._hurried = self._hurried or sig == signal.SIGINT

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._drain()
        for server in self.servers:
            server.close()
        for given in sockets or ():
            given.close()
        await asyncio.sleep(LOOK_S)
        await self._take_who_waits()
        await self._until(COMES_S, lambda: not any(c.begins(COMES_S) for c in all_of(self.door)))
        await super().shutdown(sockets)

    async def _drain(self) -> None:
        self.door.draining = True
        for connection in all_of(self.door):
            connection.answers_last()
        await self._until(0.0 if self._hurried else self.config.drain_s, lambda: self._hurried)

    async def _until(self, longest_s: float, done: Callable[[], bool]) -> None:
        end = time.monotonic() + longest_s
        while time.monotonic() < end and not done():
            await asyncio.sleep(LOOK_S)

    async def _take_who_waits(self) -> None:
        """What the kernel accepted on our behalf; the sockets are closed right after the last."""
        waiting: list[socket.socket] = []
        for listening in self._listening:
            listening.setblocking(False)
            with suppress(OSError):  # nobody is left, or there is no room for one more
                while len(waiting) <= self.config.backlog:
                    waiting.append(listening.accept()[0])
            listening.close()
        loop = asyncio.get_running_loop()
        for one in waiting:
            one.setblocking(False)
            with suppress(OSError):  # it has gone again
                await loop.connect_accepted_socket(lambda: self._connection(loop), one)

    def _connection(self, loop: asyncio.AbstractEventLoop) -> Connection:
        return Connection(self.config, self.door, self.lifespan.state, loop)
