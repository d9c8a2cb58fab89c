"""Worker processes that share one socket. Workers that die or hang are replaced; all stop together.

Workers are forked from a parent that has loaded the code and the catalog, so they start at once and share its memory.
The parent runs no other thread and keeps no connection open.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Sequence
from types import FrameType

from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Process

from app.server.listening import ListenerConfig, Server, drop_new_connections

FORK = multiprocessing.get_context("fork")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
FROZEN_S = 60.0  # without an answer; generous, because imports take long on a busy machine
PING_S = 1.0
EVENT_LOOP_STALL_S = 10.0  # without a tick of the event loop, after which the worker does not answer pings
POLL_S = 0.1
EXIT_GRACE_S = 10.0  # for the exit of a process after its last answer

server_log = logging.getLogger("uvicorn.error")  # the logger of uvicorn's start and stop messages


class Worker(Process):
    """One worker process. It answers pings of its parent and exits when the parent is gone."""

    config: ListenerConfig

    def __init__(self, config: ListenerConfig, sockets: list[socket.socket], others: Sequence[Worker] = ()) -> None:
        self.config, self._server, self._others = config, None, others
        self.parent_conn, self.child_conn = FORK.Pipe()
        self.process = FORK.Process(target=self.target, args=(sockets,))  # type: ignore[assignment]
        self.pinged_at: float | None = None
        self.last_ping = 0.0

    @property
    def server(self) -> Server:
        if not isinstance(self._server, Server):
            self._server = Server(self.config)
        return self._server

    # Called in the worker process

    def start(self) -> None:
        """Start the process. A signal that arrives meanwhile reaches it with its own handlers in place."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def target(self, sockets: list[socket.socket] | None = None) -> None:
        for sig in SIGNALS:
            signal.signal(sig, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        for connection in (self.parent_conn, *(end for w in self._others for end in (w.parent_conn, w.child_conn))):
            connection.close()  # else the other workers would not notice that the parent has exited
        super().target(sockets)

    def pong(self) -> None:
        self.child_conn.recv()
        if not self.server.started or time.monotonic() - self.server.last_tick < EVENT_LOOP_STALL_S:
            self.child_conn.send(True)

    def always_pong(self) -> None:
        try:
            super().always_pong()
        except (EOFError, OSError):
            self.server.should_exit = True  # the parent has exited

    # Called in the parent process

    def is_frozen(self, longest_s: float) -> bool:
        """Whether the worker has not answered a ping for `longest_s` seconds. Returns at once."""
        now = time.monotonic()
        try:
            while self.parent_conn.poll():
                self.parent_conn.recv()
                self.pinged_at = None
            if now - self.last_ping >= PING_S:
                self.parent_conn.send(b"ping")
                self.last_ping = now
                self.pinged_at = self.pinged_at or now
        except (OSError, EOFError):
            return False  # the worker has ended
        return self.pinged_at is not None and now - self.pinged_at > longest_s


class Workers:
    """The parent process: it starts and replaces workers and handles signals."""

    def __init__(self, config: ListenerConfig, listening: socket.socket, frozen_s: float = FROZEN_S) -> None:
        self._config, self._socket, self._frozen_s = config, listening, frozen_s
        self._signals: list[int] = []
        self._workers: list[Worker] = []

    def run(self) -> int:
        """Runs until a signal arrives. Returns 0 after a clean stop."""
        for sig in SIGNALS:
            signal.signal(sig, self._on_signal)
        gc.collect()
        gc.freeze()  # workers then leave the objects that they share untouched
        for _ in range(self._config.workers):
            self._workers.append(self._start_worker())
        while not self._signals:
            if not self._replace_dead_workers():
                self._stop_workers(signal.SIGTERM)
                return STARTUP_FAILURE
            time.sleep(POLL_S)
        return self._stop_workers(self._signals[0])

    def _on_signal(self, sig: int, _: FrameType | None) -> None:
        self._signals.append(sig)

    def _start_worker(self) -> Worker:
        worker = Worker(self._config, [self._socket], self._workers)
        worker.start()
        return worker

    def _replace_dead_workers(self) -> bool:
        """Replaces workers that have ended or hang. Returns False if a worker fails to start."""
        for i, worker in enumerate(self._workers):
            alive = worker.process.is_alive()
            if alive and not worker.is_frozen(self._frozen_s):
                continue
            if alive:
                server_log.error("Worker [%s] does not answer and is killed", worker.pid)
            worker.kill()
            worker.process.join()
            if worker.exitcode == STARTUP_FAILURE:
                return False
            server_log.error("Worker [%s] ended with status %s; a new worker replaces it", worker.pid, worker.exitcode)
            self._workers[i] = self._start_worker()
        return True

    def _stop_workers(self, sig: int) -> int:
        """Stops all workers together. Kills them on a second signal, or if the stop takes too long.

        Only the parent drops new connections: a worker that is stopped alone leaves the socket to the others.
        """
        running = [w for w in self._workers if w.process.is_alive() and w.pid is not None]
        for worker in running:
            os.kill(worker.pid or 0, sig)
        graceful_s = self._config.timeout_graceful_shutdown or 0
        drained = time.monotonic() + (0.0 if sig == signal.SIGINT else self._config.drain_s)
        deadline = drained + graceful_s + EXIT_GRACE_S
        received = len(self._signals)
        while any(w.process.is_alive() for w in running):
            if time.monotonic() > deadline or len(self._signals) > max(received, 1):
                for worker in running:
                    worker.kill()
                    worker.process.join()
                return 1
            if time.monotonic() > drained and self._socket.fileno() >= 0:
                drop_new_connections(self._socket)
                self._socket.close()
            time.sleep(POLL_S / 2)
        return 0
