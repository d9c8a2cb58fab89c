"""Admission control: limits how many answers are computed at once and how many requests wait.

Arithmetic holds the interpreter lock, so more threads than cores only take turns, each with its own memory. An
unbounded queue would answer every request late. A full queue rejects new requests at once with a `Retry-After`. Work
stops when no client waits for it any more.
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
from dataclasses import dataclass, replace
from typing import Any, ParamSpec

from fastapi import Request
from fastapi.responses import Response

from app import telemetry
from app.api.access import charge_computation, client_address
from app.api.middleware import route_template
from app.api.problems import MalformedRequest
from app.api.traces import with_stage_spans
from app.errors import Overloaded, TooManyAtOnce
from app.work import Abandoned, AwaitExternal, OutOfTime, current_caller, report_stages_to, stage

P = ParamSpec("P")

MEAN_DECAY = 0.9  # weight of the previous mean in moving averages
FIRST_MEAN_S = 0.1  # of an answer without an estimate, before one of its route was computed
SPENT_HALF_LIFE_S = 30.0
MOST_CALLERS = 4096  # with an account
SHED_REASONS: dict[type[Exception], telemetry.ShedReason] = {
    Overloaded: "overloaded",
    TooManyAtOnce: "too-many-at-once",
    OutOfTime: "out-of-time",
}
DEADLINE_GRACE_S = 1.0  # seconds after the deadline that a job still has to reach its next stage and stop there


class Clock:
    """Deadline of one request's work and the time spent in each stage. Another thread may set `abandoned`."""

    def __init__(self, limit_s: float) -> None:
        self.abandoned = False
        self.stages_s: dict[str, float] = {}
        self._stage, self._since = "", time.monotonic()
        self._until = self._since + limit_s

    def check(self) -> None:
        """Raises Abandoned and OutOfTime."""
        if self.abandoned:
            raise Abandoned
        if time.monotonic() > self._until:
            raise OutOfTime

    def enter(self, stage: str) -> str:
        """Starts a stage and returns the name of the previous one. Raises Abandoned and OutOfTime."""
        self.check()
        before = self._stage
        self.leave(stage)
        return before

    def leave(self, before: str) -> None:
        """Ends the current stage and resumes the previous one."""
        now = time.monotonic()
        if self._stage:
            self.stages_s[self._stage] = self.stages_s.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = before, now


class CostAccounts:
    """Computing time that each caller has used lately, in seconds; it counts half after SPENT_HALF_LIFE_S. A job is
    charged its estimated cost when it starts, and the difference to its own time when it ends. Estimates are corrected
    by what the jobs of their route took on this machine.
    """

    def __init__(self) -> None:
        self._spent: dict[str, tuple[float, float]] = {}  # seconds by caller, and when they were last counted
        self._seconds_per_cost: dict[str, float] = {}  # time taken over estimated cost, a moving mean by route

    def expected_s(self, route: str, cost_s: float = FIRST_MEAN_S) -> float:
        """Returns the expected computing time of a job of a route."""
        return cost_s * self._seconds_per_cost.get(route, 1.0)

    def spent_s(self, caller: str, now: float) -> float:
        """Returns the time that a caller has used lately. Accounts are comparable at one `now` only."""
        seconds, since = self._spent.get(caller, (0.0, now))
        return seconds * math.exp2((since - now) / SPENT_HALF_LIFE_S)

    def charge(self, caller: str, seconds: float) -> None:
        """Charges a caller. Of too many callers, those that were charged first are forgotten."""
        now = time.monotonic()
        total = max(0.0, self.spent_s(caller, now) + seconds)
        self._spent.pop(caller, None)
        self._spent[caller] = total, now
        if len(self._spent) > MOST_CALLERS:
            del self._spent[next(iter(self._spent))]

    def settle(self, caller: str, route: str, *, cost_s: float, charged_s: float, took_s: float) -> None:
        """Replaces the expected time of a finished job by the time that it took."""
        self.charge(caller, took_s - charged_s)
        ratio = self._seconds_per_cost.get(route, 1.0)
        self._seconds_per_cost[route] = ratio + (1 - MEAN_DECAY) * (took_s / cost_s - ratio)


class Job:
    """One computation, shared by every request that asks the same question while it runs."""

    def __init__(
        self, key: Hashable, request: Request, compute: Callable[[], Response], *, cost_s: float, limit_s: float
    ) -> None:
        self.key, self.compute, self.cost_s = key, compute, cost_s
        self.caller, self.route = caller_of(request), route_template(request.scope)
        self.clock, self.since = Clock(limit_s), time.monotonic()
        self.context = copy_context()  # log context and trace of the request that asked first
        self.listener = with_stage_spans(self.clock)
        self.future: Future[Response] = Future()
        self.waiters, self.charged_s = 0, 0.0


class Admission:
    """Thread pool for answers, the queue before it, and the time limit of one request. Of the waiting requests, the one
    of the caller that has used the least computing time is next.
    """

    def __init__(self, *, at_once: int, most_waiting: int, limit_s: float, name: telemetry.QueueName = "short") -> None:
        self._name = name
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="search")
        self._at_once, self._most_waiting, self._limit_s = at_once, most_waiting, limit_s
        self._lock = threading.Lock()  # held for a few operations only
        self._line: deque[Job] = deque()
        self._jobs: dict[Hashable, Job] = {}
        self._running = 0
        self._accounts = CostAccounts()

    @property
    def queue_length(self) -> int:
        """Number of requests in the queue."""
        return len(self._line)

    async def await_answer(
        self, request: Request, key: Hashable, compute: Callable[[], Response], cost_s: float | None = None
    ) -> Response:
        """Returns what `compute` returns, once a thread is free. Requests with the same key share one computation.
        `cost_s` is its estimated CPU time.

        A request that waits for another host waits outside the queue. Raises Overloaded, TooManyAtOnce, OutOfTime,
        whatever `compute` raises, and MalformedRequest if the client has disconnected.
        """
        until = time.monotonic() + self._limit_s
        try:
            while True:
                try:
                    return await self._answer_once(request, key, compute, cost_s or FIRST_MEAN_S)
                except AwaitExternal as wanted:
                    await _await_external(wanted, until)
        except (Overloaded, TooManyAtOnce, OutOfTime) as error:
            telemetry.record_shed(SHED_REASONS[type(error)])
            raise

    async def _answer_once(
        self, request: Request, key: Hashable, compute: Callable[[], Response], cost_s: float
    ) -> Response:
        job = self._join_or_add_job(key, request, compute, cost_s)
        ending = asyncio.wrap_future(job.future)
        ending.add_done_callback(lambda done: done.cancelled() or done.exception())  # may end after everyone has gone
        answer = asyncio.shield(ending)
        gone = asyncio.ensure_future(_await_disconnect(request))
        either: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(either, timeout=self._limit_s + DEADLINE_GRACE_S, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return _copy_response(answer.result())
            if gone.done():
                telemetry.record_shed("client-gone")
                raise MalformedRequest(400, "client-disconnected", "The connection closed before the answer was ready.")
            raise OutOfTime
        finally:
            gone.cancel()
            self._remove_waiter(job)
            answer.cancel()

    def _join_or_add_job(self, key: Hashable, request: Request, compute: Callable[[], Response], cost_s: float) -> Job:
        """Returns the running or queued job with this key, or adds a new one and starts it if a thread is free."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = Job(key, request, compute, cost_s=cost_s, limit_s=self._limit_s)
                if self._is_full(job):
                    self._evict_or_reject(job.caller)
                self._jobs[key] = job
                self._line.append(job)
                self._start_jobs()
            else:
                telemetry.record_joined_request()
            job.waiters += 1
            return job

    def _is_full(self, new: Job) -> bool:
        """True if the queue is full, or if it would take longer than half of the time limit with a new job."""
        if self._running < self._at_once:
            return False
        return len(self._line) >= self._most_waiting or self._drain_time_s(new) > self._limit_s / 2

    def _evict_or_reject(self, caller: str) -> None:
        """Rejects the newest job of the caller with the most places in the queue, or the new one if all have fewer."""
        places = Counter(job.caller for job in self._line)
        greediest, most = max(places.items(), key=lambda each: each[1], default=("", 0))
        if most <= places[caller] + 1:
            raise Overloaded(
                "The service is at capacity. Retry after the time in Retry-After.",
                retry_after_s=self._retry_after_s(),
            )
        last = next(job for job in reversed(self._line) if job.caller == greediest)
        self._line.remove(last)
        self._jobs.pop(last.key, None)
        last.future.set_exception(
            TooManyAtOnce(
                "You have the most waiting requests. Send fewer requests at a time.",
                retry_after_s=self._retry_after_s(),
            )
        )

    def _drain_time_s(self, *more: Job) -> float:
        """Seconds until the queue, with further jobs, has been answered."""
        return sum(self._accounts.expected_s(job.route, job.cost_s) for job in (*self._line, *more)) / self._at_once

    def _retry_after_s(self) -> int:
        """Seconds after which the client may retry: the `Retry-After` value, at least 1."""
        return max(1, math.ceil(self._drain_time_s()))

    def _start_jobs(self) -> None:
        while self._line and self._running < self._at_once:
            self._running += 1
            now = time.monotonic()
            job = min(self._line, key=lambda job: self._accounts.spent_s(job.caller, now))  # the first of equals
            self._line.remove(job)
            job.charged_s = self._accounts.expected_s(job.route, job.cost_s)
            self._accounts.charge(job.caller, job.charged_s)
            self._threads.submit(job.context.run, self._run_job, job)
        telemetry.set_queue_length(self._name, waiting=len(self._line), computing=self._running)

    def _run_job(self, job: Job) -> None:
        """Runs one job in a thread, then starts the next."""
        began, response, failed = time.monotonic(), None, None
        telemetry.record_queue_wait(self._name, began - job.since)
        try:
            with report_stages_to(job.listener), stage("answer"):
                response = job.compute()
        except BaseException as error:
            failed = error
        telemetry.record_stages(job.route, job.clock.stages_s)
        with self._lock:
            self._running -= 1
            self._jobs.pop(job.key, None)
            took_s = time.monotonic() - began
            self._accounts.settle(job.caller, job.route, cost_s=job.cost_s, charged_s=job.charged_s, took_s=took_s)
            self._start_jobs()
        if failed is not None:
            job.future.set_exception(failed)
        elif response is not None:
            job.future.set_result(response)

    def _remove_waiter(self, job: Job) -> None:
        """Counts out one waiting request. Abandons the job if it was the last one and no answer exists yet."""
        with self._lock:
            job.waiters -= 1
            if job.waiters or job.future.done():
                return
            job.clock.abandoned = True
            self._jobs.pop(job.key, None)
            if job in self._line:
                self._line.remove(job)
                job.future.cancel()
                self._start_jobs()


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """Access of one request to the thread pool, with its estimated CPU time where that is known."""

    admission: Admission
    request: Request
    cost_s: float | None = None

    def costing(self, cost_s: float | None) -> RequestSlot:
        """Returns the slot of a request whose answer is estimated to take `cost_s` CPU seconds."""
        return replace(self, cost_s=cost_s)

    async def answer_shared(self, compute: Callable[P, Response], *args: P.args, **kwargs: P.kwargs) -> Response:
        """Computes an answer that depends on the arguments alone: equal questions are computed once."""
        charge_computation(self.request, self.cost_s)
        key = (compute, args, tuple(kwargs.items()))
        return await self.admission.await_answer(self.request, key, lambda: compute(*args, **kwargs), self.cost_s)

    async def answer_exclusively(self, compute: Callable[P, Response], *args: P.args, **kwargs: P.kwargs) -> Response:
        """Computes an answer for this request only, because the computation changes stored data."""
        charge_computation(self.request, self.cost_s)
        return await self.admission.await_answer(self.request, object(), lambda: compute(*args, **kwargs), self.cost_s)


async def _await_external(wanted: AwaitExternal, until: float) -> None:
    """Waits for an answer from another host. Raises OutOfTime."""
    coming = asyncio.wrap_future(wanted.awaited)
    await asyncio.wait({coming}, timeout=max(0.0, until - time.monotonic()))
    if not coming.done():
        raise OutOfTime from None


async def _await_disconnect(request: Request) -> None:
    """Returns when the client has closed its connection. The body must have been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def caller_of(request: Request) -> str:
    """Returns who is charged for a request: its key or the subject of its token, otherwise its address."""
    return current_caller() or client_address(request)


def _copy_response(answer: Response) -> Response:
    """Copies a response with its own headers, because each sender may add some."""
    own = copy.copy(answer)
    own.raw_headers = list(answer.raw_headers)
    return own
