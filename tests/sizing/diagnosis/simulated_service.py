"""A service as a system of its own: arrivals, a router, hosts, links, a batch, a cache. It knows nothing of findings.

What a healthy machine needs for a step is taken from the core, so that a healthy system is what the core expects of
its hardware. Causes change what the machine, its host, its links, its settings or its users do; what an operator would
see is read off at the end, each figure with a few percent of noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import Quantiles
from app.sizing.diagnosis.case import DevicesObservation, LoadObservation, Observations, ServiceObservation
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.result import Estimate
from app.sizing.serving import load_curves
from app.sizing.serving.simulation import Replica
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload

Floats = NDArray[np.float64]
REQUESTS, WARM = 700, 0.2
KNEE = 4.0  # of reading weights against multiplying by them


@dataclass(frozen=True)
class System:
    """The simulated service and its faults; every default is a healthy one."""

    clock: float = 1.0  # of multiplying
    kernels: float = 1.0  # times as long as good ones
    host_step_s: float = 0.0  # of a host that cannot keep up, in every step
    request_s: float = 0.0  # of one request before the scheduler sees it, parallel to others
    link_width: float = 1.0  # of the slot over which accelerators of a replica reach one another
    slot_bytes_per_s: float = 2e10  # of the whole slot
    link_token_bytes: float = 0.0  # of a token, over that slot
    cache: float = 1.0  # of the cache that the engine should have had
    chunked: bool = True
    hits: float = 0.0  # of a prompt, found in the cache
    accepted: float = 1.0  # tokens of a step, of those planned
    bursts: float = 0.0  # seconds of silence and of four times the rate in turn; 0: as they come
    busiest: float = 1.0  # load of the busiest replica over the mean
    prompts: float = 1.0  # times as long as planned
    answers: float = 1.0
    load: float = 1.0  # times as many requests as planned
    fails: float = 0.0  # of the requests
    seen: dict[str, Any] = field(default_factory=dict)  # reported by other tools, unchanged


@dataclass
class Books:
    """The records of a replica while it runs."""

    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    queue: list[float] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    running_s: float = 0.0
    waiting_s: float = 0.0
    cache_s: float = 0.0
    device_s: float = 0.0
    from_s: float = 0.0
    to_s: float = 0.0
    preempted: int = 0
    answered: int = 0
    tokens: float = 0.0

    @property
    def lasts_s(self) -> float:
        return self.to_s - self.from_s


def machine_of(question: Question, deployment: Deployment, catalog: Catalog) -> tuple[Estimate, Replica]:
    """What the core expects of a deployment, and the steps of one of its replicas."""
    seen: list[Replica] = []
    usual = load_curves.replica_at

    def noted(*args: Any) -> Replica:
        seen.append(usual(*args))
        return seen[-1]

    with patch.object(load_curves, "replica_at", noted):
        found = estimate_deployment(question, estimate_deployment(question, deployment, catalog).deployment, catalog)
    assert seen[-1].stages == 1 and seen[-1].ranks == 1 and not len(seen[-1].window_tokens)
    return found, seen[-1]


class Machine:
    """One replica of a system."""

    def __init__(self, replica: Replica, system: System) -> None:
        self.r, self.system = replica, system
        grid = np.append(
            np.arange(replica.linear_exact + 1.0),
            replica.linear_exact + replica.linear_stride * np.arange(1.0, len(replica.linear_s) - replica.linear_exact),
        )
        self.tokens, self.linear = grid, replica.linear_s
        self.read_s = float(replica.linear_s[1])
        self.slope_s = float((self.linear[-1] - self.linear[-2]) / (grid[-1] - grid[-2]))

    def linear_s(self, tokens: float) -> float:
        """Time of the linear layers for a number of tokens at the actual clock."""
        healthy = float(np.interp(tokens, self.tokens, self.linear))
        multiply = self.slope_s * tokens

        def knee(clock: float) -> float:
            return float((self.read_s**KNEE + (multiply / clock) ** KNEE) ** (1 / KNEE))

        return healthy * knee(self.system.clock) / knee(1.0) * self.system.kernels

    def attention_s(self, tokens: float) -> float:
        """Attention time among the first tokens of a prompt."""
        grid = np.append(np.outer(2.0 ** np.arange(21), 1 + np.arange(8) / 8).ravel(), 2.0**21)[
            : len(self.r.prompt_attention_s)
        ]
        each = float(np.interp(tokens, grid, self.r.prompt_attention_s))
        return tokens * each * self.system.kernels / self.system.clock

    def step_s(self, running: int, contexts: float, chunk: float, done: float, whole: int) -> tuple[float, float]:
        """Seconds of a step, and those of them in which the accelerators work."""
        r, s = self.r, self.system
        tokens = running + r.prompt_equivalent * chunk + r.prompt_fixed_tokens * whole
        fixed_s = float(r.decode_s[running] - np.interp(running, self.tokens, self.linear)) if running else 0.0
        device_s = fixed_s + self.linear_s(tokens) + r.attention_token_s * contexts * s.kernels
        if chunk:
            device_s += r.prompt_token_s * chunk + self.attention_s(done + chunk) - self.attention_s(done)
            device_s += 0.0 if running else r.prompt_step_s
        sent = s.link_token_bytes * (running + chunk) / s.slot_bytes_per_s
        device_s += sent * (1 / s.link_width - 1)
        wall_s = max(device_s, r.dispatch_s if chunk else 0.0, running * r.stream_token_s)
        return wall_s + s.host_step_s, device_s


class Serving:
    """One replica at work."""

    def __init__(self, machine: Machine, arrival_s: Floats, prompts: Floats, answers: Floats, batch: int) -> None:
        self.m, self.arrival_s, self.prompts, self.answers = machine, arrival_s, prompts, answers
        r, s = machine.r, machine.system
        self.room = r.cache_bytes * s.cache / max(r.cache_token_bytes, 1.0)
        self.batch, self.books = batch, Books()
        self.ready_s = arrival_s + r.ingest_s + r.tokenise_token_s * prompts + s.request_s
        self.now, self.next = 0.0, 0
        self.waiting: list[int] = []
        self.running: dict[int, float] = {}  # contexts
        self.left, self.first_s = answers.copy(), np.full(len(answers), np.nan)
        self.begun_s, self.held = np.full(len(answers), np.nan), 0.0
        self.prefill: list[list[float]] = []  # request, tokens done, tokens to do
        self.finished, self.warm = 0, int(WARM * len(answers))

    def run(self) -> Books:
        """Until all requests but the last are answered."""
        wanted = int(0.95 * len(self.answers))
        while self.finished < wanted:
            self.let_in()
            if not self.running and not self.prefill:
                self.now = float(self.ready_s[self.next])
                continue
            self.step()
        self.books.to_s = self.now
        return self.books

    def let_in(self) -> None:
        """Requests that came join the queue, and leave it as there is room."""
        while self.next < len(self.ready_s) and self.ready_s[self.next] <= self.now:
            self.waiting.append(self.next)
            self.next += 1
        while self.waiting and len(self.running) + len(self.prefill) < self.batch:
            i = self.waiting[0]
            made = self.answers[i] - self.left[i]
            if self.held + self.prompts[i] + made > self.room and (self.running or self.prefill):
                break
            self.waiting.pop(0)
            if np.isnan(self.begun_s[i]):
                self.begun_s[i] = self.now
                self.note(self.books.queue, i, self.now - self.arrival_s[i])
            self.held += self.prompts[i] + made
            found = self.m.system.hits * self.prompts[i] if not made else 0.0
            self.prefill.append([float(i), found, self.prompts[i] + made])
            if sum(p[2] - p[1] for p in self.prefill) > self.m.r.max_batched_tokens:
                break

    def note(self, book: list[float], i: int, value: float) -> None:
        if i >= self.warm:
            book.append(value)

    def step(self) -> None:
        """One step, or as many alike as go by until something happens."""
        running, contexts = len(self.running), sum(self.running.values())
        budget = self.m.r.max_batched_tokens - running if self.m.system.chunked else np.inf
        chunk, done, whole, ended = 0.0, 0.0, 0, []
        for part in self.prefill:
            take = min(part[2] - part[1], budget - chunk)
            if take <= 0:
                break
            done = part[1]
            part[1] += take
            chunk += take
            if part[1] >= part[2]:
                whole += 1
                ended.append(part)
        mixed = running if self.m.system.chunked or not chunk else 0
        lasts_s, device_s = self.m.step_s(mixed, contexts if mixed else 0.0, chunk, done, whole)
        times = 1 if chunk else self.alike(lasts_s)
        self.passes(lasts_s, device_s, times, running)
        if mixed or not chunk:
            self.decoded(times)
        for part in ended:
            self.prefill.remove(part)
            self.first_token(int(part[0]))
        self.make_room()

    def alike(self, step_s: float) -> int:
        """Steps that only decode until a request ends, comes, or the cache is full."""
        steps = min(int(self.left[i] / self.m.system.accepted) + 1 for i in self.running)
        steps = min(steps, max(1, int((self.room - self.held) / len(self.running))))
        if not self.waiting and self.next < len(self.ready_s):
            steps = min(steps, int((self.ready_s[self.next] - self.now) / step_s) + 1)
        return max(1, min(steps, 16))

    def passes(self, step_s: float, device_s: float, times: int, running: int) -> None:
        """Time goes by."""
        if self.finished >= self.warm:
            b, lasts_s = self.books, step_s * times
            b.from_s = b.from_s or self.now
            b.running_s += lasts_s * (running + len(self.prefill))
            b.waiting_s += lasts_s * len(self.waiting)
            b.cache_s += lasts_s * min(1.0, self.held / self.room)
            b.device_s += min(device_s, step_s) * times
            if running:
                b.gaps.append((step_s, float(running * times)))
        self.now += step_s * times

    def decoded(self, times: int) -> None:
        """Every running sequence gains the tokens of a number of steps."""
        gained = times * self.m.system.accepted
        for i in list(self.running):
            self.left[i] -= gained
            self.running[i] += gained
            self.held += gained
            if self.left[i] < 1:
                self.answered(i)

    def answered(self, i: int) -> None:
        self.held -= self.running.pop(i)
        self.finished += 1
        self.note(self.books.tpot, i, (self.now - self.first_s[i]) / max(1.0, self.answers[i] - 1))
        if self.finished > self.warm:
            self.books.tokens += self.answers[i]
            self.books.answered += 1

    def first_token(self, i: int) -> None:
        """A prompt is read."""
        self.running[i] = self.prompts[i] + self.answers[i] - self.left[i]
        self.left[i] -= 1
        if np.isnan(self.first_s[i]):
            self.first_s[i] = self.now
            self.note(self.books.ttft, i, self.now - self.arrival_s[i])
        if self.left[i] < 1:
            self.answered(i)

    def make_room(self) -> None:
        """Where the cache is full the newest sequence gives way, and is read again later."""
        while self.held + len(self.running) > self.room and len(self.running) > 1:
            i = max(self.running, key=lambda j: self.first_s[j])
            self.held -= self.running.pop(i)
            self.waiting.insert(0, i)
            self.books.preempted += 1


def arrivals(rng: np.random.Generator, count: int, rate: float, bursts_s: float) -> Floats:
    """Moments of requests: by chance, or in turns of silence and of twice the rate."""
    at_s = np.cumsum(rng.exponential(1 / rate, count))
    if not bursts_s:
        return np.asarray(at_s)
    turn = np.floor(at_s / bursts_s)
    return np.asarray(turn * bursts_s + (at_s - turn * bursts_s) / 4)


def observe(
    workload: InferenceWorkload, found: Estimate, replica: Replica, system: System, seed: int, noise: float = 0.03
) -> Observations:
    """What an operator sees of such a system."""
    rng, d = np.random.default_rng(seed), found.deployment
    count = d.replicas or 1
    rates = workload.peak_per_s * system.load / count
    uneven = count > 1 and system.busiest > 1
    shares = [system.busiest, (count - system.busiest) / (count - 1)] if uneven else [1.0]
    books = []
    for share in shares:
        prompts, answers = workload.draw_lengths(Quantiles(rng.random(REQUESTS)), Quantiles(rng.random(REQUESTS)))
        at_s = arrivals(rng, REQUESTS, rates * share, system.bursts)
        batch = min(replica.max_sequences, d.max_batch or replica.max_sequences)
        lengths = (np.maximum(2.0, prompts * system.prompts), np.maximum(2.0, answers * system.answers))
        books.append(Serving(Machine(replica, system), at_s, *lengths, batch).run())
    every = arrivals(rng, REQUESTS * count, rates * count, system.bursts)
    peak = float(max(np.bincount((every / 10).astype(int))[:-1], default=0)) / 10
    return operator_report(workload, system, Seen(books, count, rng, noise), max(shares), peak)


def observe_by_load(
    workload: InferenceWorkload, found: Estimate, replica: Replica, system: System, seed: int, batch: int | None
) -> Observations:
    """What a load test sees that goes up step by step."""
    seen = []
    carried = (found.performance and found.performance.requests_per_s_capacity) or workload.peak_per_s
    for i, share in enumerate((0.2, 0.45, 0.7, 0.9)):
        then = replace(found, deployment=replace(found.deployment, max_batch=batch))
        at = replace(system, load=share * carried / workload.peak_per_s)
        s = observe(workload, then, replica, at, seed + i).service
        seen.append(
            LoadObservation(
                share * carried,
                *(s.ttft_p50_s, s.ttft_p95_s, s.ttft_p99_s),
                *(s.tpot_p50_s, s.tpot_p95_s, s.tpot_p99_s),
            )
        )
    return Observations(ServiceObservation(by_load=tuple(seen)))


@dataclass(frozen=True)
class Seen:
    """The books of some replicas as figures of all of them, each with noise."""

    books: list[Books]
    count: int
    rng: np.random.Generator
    noise: float

    def noisy(self, value: float) -> float:
        return float(value * np.exp(self.noise * self.rng.standard_normal()))

    def mean(self, name: str) -> float:
        """Of a replica in the mean; the first of two is the busiest one alone."""
        each = [getattr(b, name) / b.lasts_s for b in self.books]
        return float(each[0] if len(each) == 1 else (each[0] + (self.count - 1) * each[1]) / self.count)

    def at(self, name: str, percentile: float) -> float:
        return self.noisy(float(np.percentile(np.concatenate([getattr(b, name) for b in self.books]), percentile)))

    def gap(self, share: float) -> float:
        """The gap between two tokens that a given share of the gaps does not exceed."""
        gaps = np.array(sorted(gap for b in self.books for gap in b.gaps))
        upto = np.cumsum(gaps[:, 1]) / gaps[:, 1].sum()
        return self.noisy(float(gaps[min(int(np.searchsorted(upto, share)), len(gaps) - 1), 0]))

    @property
    def requests(self) -> int:
        return sum(len(b.tpot) for b in self.books)


def operator_report(
    workload: InferenceWorkload, system: System, seen: Seen, busiest: float, peak: float
) -> Observations:
    """What an operator writes down."""
    waits: dict[str, Any] = {f"{what}_p{of}_s": seen.at(what, of) for what in ("ttft", "tpot") for of in (50, 95, 99)}
    service = ServiceObservation(
        requests_per_s=seen.noisy(seen.mean("answered") * seen.count),
        peak_requests_per_s=seen.noisy(peak),
        output_tokens_per_s=seen.noisy(seen.mean("tokens") * seen.count),
        input_tokens_mean=seen.noisy(workload.input_tokens.mean * system.prompts),
        output_tokens_mean=seen.noisy(workload.output_tokens.mean * system.answers),
        **waits,
        inter_token_p50_s=seen.gap(0.5),
        inter_token_p99_s=seen.gap(0.99),
        queue_p50_s=seen.at("queue", 50),
        running=seen.noisy(seen.mean("running_s")),
        waiting=seen.noisy(seen.mean("waiting_s")),
        cache_usage=min(1.0, seen.noisy(seen.mean("cache_s"))),
        preemptions_per_request=sum(b.preempted for b in seen.books) / seen.requests,
        prefix_hit_share=min(1.0, seen.noisy(system.hits)) if workload.cached_prefix_fraction or system.hits else None,
        busiest_replica_share=seen.noisy(busiest) if seen.count > 1 else None,
        error_share=system.fails,
    )
    more: dict[str, Any] = {k: seen.noisy(v) for k, v in system.seen.items() if hasattr(service, k)}
    devices = DevicesObservation(
        utilization=min(1.0, seen.noisy(seen.mean("device_s"))),
        clock_share=min(1.0, seen.noisy(system.clock)),
        link_width_share=system.link_width,
    )
    of_devices: dict[str, Any] = {k: v for k, v in system.seen.items() if hasattr(devices, k)}
    return Observations(replace(service, **more), devices=replace(devices, **of_devices))
