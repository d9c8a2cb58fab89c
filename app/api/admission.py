"""Who may compute: a fixed few at once, a short line before them, and no work that nobody waits for.

Arithmetic holds the interpreter, so more threads than cores only take turns on it, each with its own memory. A line
that grows without end would answer everybody late; a full one turns newcomers away at once, with when to come back.
"""

from __future__ import annotations

import asyncio
import copy
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, ParamSpec

from fastapi import Request
from fastapi.responses import Response

from app import telemetry
from app.api.front import route_of
from app.api.problems import Malformed
from app.api.traces import traced
from app.errors import Overloaded, TooManyAtOnce
from app.work import Abandoned, Elsewhere, OutOfTime, heard_by, stage

P = ParamSpec("P")

OF_THE_LAST = 0.9  # how much of the mean seconds of an answer stays with each new one
REASONS: dict[type[Exception], telemetry.Shed] = {
    Overloaded: "overloaded",
    TooManyAtOnce: "too-many-at-once",
    OutOfTime: "out-of-time",
}
LATE_S = 1.0  # how long after its deadline a request may still find the next stage


class Clock:
    """When the work of a request must end, and how long each of its stages took; another thread sets `abandoned`."""

    def __init__(self, limit_s: float) -> None:
        self.abandoned = False
        self.stages_s: dict[str, float] = {}
        self._stage, self._since = "", time.monotonic()
        self._until = self._since + limit_s

    def enter(self, stage: str) -> str:
        """A stage begins. Raises Abandoned and OutOfTime."""
        if self.abandoned:
            raise Abandoned
        if time.monotonic() > self._until:
            raise OutOfTime
        before = self._stage
        self.leave(stage)
        return before

    def leave(self, before: str) -> None:
        """The stage has ended, and that before goes on."""
        now = time.monotonic()
        if self._stage:
            self.stages_s[self._stage] = self.stages_s.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = before, now


class Job:
    """What is computed once for everybody who asks it meanwhile."""

    def __init__(self, key: Hashable, request: Request, compute: Callable[[], Response], limit_s: float) -> None:
        self.key, self.compute = key, compute
        self.address, self.route = address_of(request), route_of(request.scope)
        self.clock, self.since = Clock(limit_s), time.monotonic()
        self.context = copy_context()  # of the request that asked first: its lines of the log, its trace
        self.listener = traced(self.clock)
        self.future: Future[Response] = Future()
        self.asking = 0


class Admission:
    """Answers computed at once, the line before them, and what one request may take."""

    def __init__(self, *, at_once: int, most_waiting: int, limit_s: float, name: telemetry.Line = "short") -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="search")
        self._at_once, self._most_waiting, self._limit_s = at_once, most_waiting, limit_s
        self._lock = threading.Lock()  # held for a few steps alone
        self._line: deque[Job] = deque()
        self._jobs: dict[Hashable, Job] = {}
        self._running = 0
        self._mean_s = 0.1

    @property
    def waiting(self) -> int:
        """Requests in the line."""
        return len(self._line)

    async def answer(self, request: Request, key: Hashable, compute: Callable[[], Response]) -> Response:
        """What `compute` returns or raises, once its turn has come; who asks by the same key meanwhile gets the same.
        What it wants from another host is waited for outside of the line.

        Raises Overloaded, TooManyAtOnce, OutOfTime, and Malformed where the client has gone.
        """
        until = time.monotonic() + self._limit_s
        try:
            while True:
                try:
                    return await self._answer(request, key, compute)
                except Elsewhere as wanted:
                    await _there(wanted, until)
        except (Overloaded, TooManyAtOnce, OutOfTime) as error:
            telemetry.shed(REASONS[type(error)])
            raise

    async def _answer(self, request: Request, key: Hashable, compute: Callable[[], Response]) -> Response:
        job = self._joined(key, request, compute)
        answer = asyncio.shield(asyncio.wrap_future(job.future))
        gone = asyncio.ensure_future(_gone(request))
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(either, timeout=self._limit_s + LATE_S, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return _own(answer.result())
            if gone.done():
                telemetry.shed("client-gone")
                raise Malformed(400, "client-disconnected", "The connection closed before the answer was there.")
            raise OutOfTime
        finally:
            gone.cancel()
            self._left(job)
            answer.cancel()

    def _joined(self, key: Hashable, request: Request, compute: Callable[[], Response]) -> Job:
        """The job of a question: one that is under way, or a new one, in the line or at once."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                if self._is_full():
                    self._make_room(address_of(request))
                job = self._jobs[key] = Job(key, request, compute, self._limit_s)
                self._line.append(job)
                self._start()
            else:
                telemetry.joined()
            job.asking += 1
            return job

    def _is_full(self) -> bool:
        """Whether a newcomer would wait in too long a line, or for longer than leaves time for its work."""
        if self._running < self._at_once:
            return False
        return len(self._line) >= self._most_waiting or self._clear_s(1) > self._limit_s / 2

    def _make_room(self, address: str) -> None:
        """Turn away the newest of the address that has the most places, or the newcomer where none has more."""
        places = Counter(job.address for job in self._line)
        greediest, most = max(places.items(), key=lambda each: each[1], default=("", 0))
        if most <= places[address] + 1:
            raise Overloaded(
                "More is asked of this service than it can compute just now; ask again shortly.",
                retry_after_s=self._again_s(),
            )
        last = next(job for job in reversed(self._line) if job.address == greediest)
        self._line.remove(last)
        self._jobs.pop(last.key, None)
        last.future.set_exception(
            TooManyAtOnce(
                "This address has most of the questions that wait here; ask fewer at a time.",
                retry_after_s=self._again_s(),
            )
        )

    def _clear_s(self, more: int = 0) -> float:
        """Seconds until those who wait now, and so many more, have been answered."""
        return (len(self._line) + more) * self._mean_s / self._at_once

    def _again_s(self) -> int:
        """Seconds after which to ask again."""
        return max(1, math.ceil(self._clear_s()))

    def _start(self) -> None:
        while self._line and self._running < self._at_once:
            self._running += 1
            job = self._line.popleft()
            self._threads.submit(job.context.run, self._compute, job)
        telemetry.line(self._name, waiting=len(self._line), computing=self._running)

    def _compute(self, job: Job) -> None:
        """One job, in a thread; then the next."""
        began, found, failed = time.monotonic(), None, None
        telemetry.waited(self._name, began - job.since)
        try:
            with heard_by(job.listener), stage("answer"):
                found = job.compute()
        except BaseException as error:
            failed = error
        telemetry.worked(job.route, job.clock.stages_s)
        with self._lock:
            self._running -= 1
            self._jobs.pop(job.key, None)
            self._mean_s += (1 - OF_THE_LAST) * (time.monotonic() - began - self._mean_s)
            self._start()
        if failed is not None:
            job.future.set_exception(failed)
        elif found is not None:
            job.future.set_result(found)

    def _left(self, job: Job) -> None:
        """One of those who asked has its answer, or waits no longer; the work of nobody is given up."""
        with self._lock:
            job.asking -= 1
            if job.asking or job.future.done():
                return
            job.clock.abandoned = True
            self._jobs.pop(job.key, None)
            if job in self._line:
                self._line.remove(job)
                job.future.cancel()
                self._start()


@dataclass(frozen=True, slots=True)
class Turn:
    """One request's way to be computed."""

    admission: Admission
    request: Request

    async def shared(self, compute: Callable[P, Response], *args: P.args, **kwargs: P.kwargs) -> Response:
        """An answer that follows from the arguments alone: equal questions are computed once."""
        key = (compute, args, tuple(kwargs.items()))
        return await self.admission.answer(self.request, key, lambda: compute(*args, **kwargs))

    async def alone(self, compute: Callable[P, Response], *args: P.args, **kwargs: P.kwargs) -> Response:
        """An answer of this request's own, as it changes something."""
        return await self.admission.answer(self.request, object(), lambda: compute(*args, **kwargs))


async def _there(wanted: Elsewhere, until: float) -> None:
    """Returns once something has come from another host. Raises OutOfTime."""
    coming = asyncio.wrap_future(wanted.awaited)
    await asyncio.wait({coming}, timeout=max(0.0, until - time.monotonic()))
    if not coming.done():
        raise OutOfTime from None


async def _gone(request: Request) -> None:
    """Returns when the client has closed its connection; its body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def address_of(request: Request) -> str:
    """Who asks."""
    return request.client.host if request.client else ""


def _own(answer: Response) -> Response:
    """An answer with headers of its own: whoever sends it may add some."""
    own = copy.copy(answer)
    own.raw_headers = list(answer.raw_headers)
    return own
