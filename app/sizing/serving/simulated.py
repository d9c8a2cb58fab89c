"""Simulated load curves of the finalists: one replica of each at a fixed grid of loads, with the same requests.

Request rates are shares of the replica's saturation rate; numbers in flight are powers of two and the sequence limit.
Lengths and arrivals are drawn once and only their rate changes, so that two loads differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, at
from app.sizing.formula import suspend_recording
from app.sizing.hardware.engines.scheduling import Policy
from app.sizing.question import Deployment
from app.sizing.serving.communication import link_use
from app.sizing.serving.curves import ClassCurve, Curve, Waits
from app.sizing.serving.kept import CURVE_CACHE, curve_key, workload_key
from app.sizing.serving.load import StreamSpeed
from app.sizing.serving.measured import QUANTILES
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.scheduling import deployed_scheduler
from app.sizing.serving.simulation import MIXED, PREFILL_FIRST, Replica, Requests, simulate_replica
from app.sizing.serving.simulation.draws import CLASSES, OUTPUTS, PROMPTS, DrawnRequests, draw_uniforms, unit_gaps
from app.sizing.serving.simulation.tables import build_replica, replica_work
from app.sizing.serving.streaming import uses_server
from app.sizing.workload import InferenceWorkload, Load, Slo, Trace, draw_population, group_populations
from app.work import stage

SEED = 1
# Simulated request rates as shares of the saturation rate.
RATE_SHARES = (0.12, 0.45, 0.7, 0.85, 0.95, 1.02)
SATURATING_FACTOR = 3.0  # rate offered to measure saturation, as a multiple of the closed-form saturation rate
MIN_SEQUENCES, FILLED_SHARE = 400, 0.4  # least sequences assumed, and share of the requests that fill the replica
SATURATION_ROUNDS = 8  # requests simulated to measure saturation, as a multiple of the sequences that run
WARMUP_SHARE = 0.2  # share of the requests that warm up the replica and are not measured
WARMUP_ROUNDS = 4  # unmeasured rounds of a closed loop, until requests that started together are out of step
MEASURED_ROUNDS = 2  # least measured rounds of a closed loop
MAX_TIMES_SEQUENCES, MAX_TIMES_REQUESTED = (
    2,
    4,
)  # most requests in flight: multiples of the sequence limit and of the workload's
MAX_TIMES_COUNT = 4  # most requests simulated of a run that ends, as a multiple of `count`; the rest is extrapolated
MAX_EXACT_REPLICAS = 16  # most replicas for which the exact split of a run that ends is simulated
MIN_RATE_PER_S = 1e-9
POLICY_NAMES = {MIXED: Policy.MIXED.value, PREFILL_FIRST: Policy.PREFILL_FIRST.value}


@dataclass(frozen=True, slots=True)
class RequestWindow:
    """Requests that a replica receives at a load, of which the first `warm` are not measured."""

    requests: Requests  # requests in order of arrival
    warm: int  # first requests, not measured
    wanted: int  # requests until measurement ends


def is_simulated(workload: InferenceWorkload) -> bool:
    """Whether the scheduler is simulated: for token streams in an open or closed loop."""
    return not workload.single_pass and workload.load in (Load.OPEN, Load.CLOSED)


def simulate_curves(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    speed: StreamSpeed,
    assumed: Assumptions,
    requested: Deployment | None = None,
    most_requests: int | None = None,
) -> tuple[Curve, ...]:
    """Load curve of every plan.

    Parameters:
        speed: closed-form speed; its saturation rate bounds the simulated rates.
        requested: deployment settings fixed by the request.
        most_requests: cap on the simulated requests per load.
    """
    count = min(int(assumed.simulated_requests), most_requests or int(assumed.simulated_requests))
    with suspend_recording():
        replicas = [replica_at(workload, plans, memory, row, assumed, requested) for row in range(len(plans))]
        if workload.load is Load.CLOSED:
            most = (memory.sequences * plans.data_parallel).tolist()
            in_flight = partial(simulate_in_flight, workload, count=count)
            return tuple(cached_curves(workload, in_flight, replicas, [int(m) for m in most], count))
        saturation, drawn = speed.saturation_per_s.tolist(), cache(partial(draw_requests, workload, count))

        def at_rates(replica: Replica, saturation_per_s: float) -> Curve:
            simulate = simulate_rates if workload.trace is None else simulate_trace
            return simulate(workload, replica, saturation_per_s, drawn())

        return tuple(cached_curves(workload, at_rates, replicas, saturation, count))


def cached_curves(
    workload: InferenceWorkload,
    simulate: Callable[[Replica, Any], Curve],
    replicas: Sequence[Replica],
    limits: Sequence[float],
    count: int,
) -> Iterator[Curve]:
    """Curve of every replica, from the cache where possible; replicas under a trace are always simulated."""
    key = workload_key(workload)
    for replica, limit in zip(replicas, limits, strict=True):
        run_simulation = partial(simulate, replica, limit)
        with stage("simulate"):
            if workload.trace is not None:
                curve = run_simulation()
            else:
                curve = CURVE_CACHE.get_or_simulate(curve_key(key, replica, limit, count), run_simulation)
        yield curve


def replica_at(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    row: int,
    assumed: Assumptions,
    requested: Deployment | None,
) -> Replica:
    """Replica of a plan row, built with the functions that time its steps everywhere else."""
    plan = plans.take(np.array([row]))
    if not plan.offloads_weights.any():
        plan = replace(plan, on_host=None)  # other plans of a search may offload to the host; this one does not
    work = replica_work(workload.model, plan, link_use(plan, assumed), encoder_flops=workload.encoder_flops_per_request)
    replica = build_replica(
        work,
        plan.achieved_rates,
        deployed_scheduler(plans, memory, row, None if requested is None else requested.scheduler),
        pool_bytes=at(memory.kv_pool_bytes, row),
        overlaps=bool(plans.small_engine[row]),
        speculative=None if requested is None else requested.speculative,
        served=uses_server(workload.load),
    )
    return replica._replace(ingest_s=0.0, tokenise_token_s=0.0) if workload.comes_read else replica


def draw_requests(workload: InferenceWorkload, count: int) -> DrawnRequests:
    """`count` random requests of a workload, the same for every replica and load."""
    prompts, answers = workload.draw_lengths(
        *(draw_uniforms(SEED, stream, count) for stream in (PROMPTS, OUTPUTS, CLASSES))
    )
    return DrawnRequests(
        unit_gaps(SEED, count, workload.burstiness),
        prompts,
        np.maximum(answers, 1),
        np.floor(prompts * workload.cached_prefix_fraction).astype(np.int64),
        int(workload.input_tokens.mean * workload.shared_prefix_fraction),
        workload.turn_gap_s,
    )


def simulate_rates(
    workload: InferenceWorkload, replica: Replica, saturation_per_s: float, sent: DrawnRequests
) -> Curve:
    """Curve of a replica at request rates up to slightly above saturation."""
    count, most = len(sent.input_tokens), saturation_rate_per_s(replica, saturation_per_s, sent)
    warm, rates = int(WARMUP_SHARE * count), most * np.array(RATE_SHARES)
    stretches = (RequestWindow(sent.at_rate(rate), warm, count) for rate in rates.tolist())
    return build_curve(
        workload,
        replica,
        rates,
        [simulate_load(workload, replica, s) for s in stretches],
        stable_below=most,
        closed=False,
    )


def saturation_rate_per_s(replica: Replica, saturation_per_s: float, sent: DrawnRequests) -> float:
    """Answered requests per second when far more arrive than the replica can serve."""
    sequence_bytes = replica.cache_fixed_bytes + replica.cache_token_bytes * float(
        (sent.input_tokens + sent.output_tokens).mean()
    )
    fitting = replica.cache_bytes / sequence_bytes if sequence_bytes > 0 else np.inf
    count = int(
        min(len(sent.input_tokens), SATURATION_ROUNDS * max(min(replica.max_sequences, fitting), MIN_SEQUENCES))
    )
    requests = sent.first_requests(count).at_rate(SATURATING_FACTOR * saturation_per_s)
    result = simulate_replica(replica, requests, warm=int(FILLED_SHARE * count), wanted=int((1 - WARMUP_SHARE) * count))
    return max(result.finished / max(result.lasts_s, MIN_RATE_PER_S), MIN_RATE_PER_S)


def simulate_trace(
    workload: InferenceWorkload, replica: Replica, saturation_per_s: float, sent: DrawnRequests
) -> Curve:
    """Curve of a replica that receives every n-th request of a trace.

    The trace is sped up or slowed down slightly to reach each rate; rates are those of its busiest interval.
    """
    trace, most = workload.trace, saturation_rate_per_s(replica, saturation_per_s, sent)
    assert trace is not None
    rates, nodes = most * np.array(RATE_SHARES), []
    for rate in rates.tolist():
        every = max(1, round(workload.peak_per_s / rate))
        requests = sample_trace(workload, trace.scale_rate(rate * every / workload.peak_per_s), every)
        nodes.append(simulate_load(workload, replica, RequestWindow(requests, 0, len(requests.arrival_s))))
    return build_curve(workload, replica, rates, nodes, stable_below=most, closed=False)


def sample_trace(workload: InferenceWorkload, trace: Trace, every: int) -> Requests:
    """Requests that one of `every` replicas receives from a trace."""
    outputs = np.maximum(trace.output_tokens[::every], 1)
    at_s = trace.at_s[::every] - trace.at_s[0]
    shared = int(workload.input_tokens.mean * workload.shared_prefix_fraction)
    lengths = (trace.input_tokens[::every], outputs, trace.prefix_tokens[::every])
    return Requests(at_s, 0, *lengths, shared, workload.turn_gap_s)


def numbers_in_flight(workload: InferenceWorkload, sequences: int) -> list[int]:
    """Numbers in flight to simulate: powers of two and the sequence limit.

    They end at the workload's number in flight or where most requests only wait. For a run that ends, each number that
    few replicas receive is included.
    """
    if workload.requests is not None:
        parts = np.ceil(workload.in_flight / np.arange(1, MAX_EXACT_REPLICAS + 1)).astype(int).tolist()
        return sorted({*parts, *(2**i for i in range(int(np.log2(min(parts))) + 1))})
    most = min(MAX_TIMES_REQUESTED * int(np.ceil(workload.in_flight)), MAX_TIMES_SEQUENCES * sequences)
    powers = 2 ** np.arange(int(np.ceil(np.log2(max(most, 1)))) + 1)
    return sorted({*powers.tolist(), *([sequences] if sequences < powers[-1] else [])})


def simulate_in_flight(workload: InferenceWorkload, replica: Replica, sequences: int, count: int) -> Curve:
    """Curve of a replica with a constant number of requests in flight, or with its part of a run that ends."""
    numbers = numbers_in_flight(workload, sequences)
    parts = [window_bounds(workload, held, count) for held in numbers]
    sent = draw_requests(workload, max(wanted + held for held, (_, wanted) in zip(numbers, parts, strict=True)))
    nodes = []
    for held, (warm, wanted) in zip(numbers, parts, strict=True):
        requests = sent.first_requests(wanted + (held if warm else 0)).in_flight(held)
        nodes.append(simulate_load(workload, replica, RequestWindow(requests, warm, wanted)))
    return build_curve(workload, replica, np.array(numbers, float), nodes, stable_below=np.inf, closed=True)


def window_bounds(workload: InferenceWorkload, held: int, count: int) -> tuple[int, int]:
    """Answered requests before measurement starts, and until it ends, with `held` requests in flight."""
    if workload.requests is not None:
        part = np.ceil(workload.requests * held / max(workload.in_flight, 1.0))
        return 0, int(np.clip(part, held, max(MAX_TIMES_COUNT * count, MEASURED_ROUNDS * held)))
    warm = max(int(WARMUP_SHARE * count), WARMUP_ROUNDS * held)
    return warm, warm + max(count - int(WARMUP_SHARE * count), MEASURED_ROUNDS * held)


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Simulation result of a replica at one load."""

    waits_s: Waits  # WAITS by STATISTIC_COLUMNS, s
    answered_per_s: float  # answered requests/s
    running: float  # mean sequences running
    cache_share: float  # mean share of the KV pool in use
    preempted: float  # preemptions per request
    goodput_share: float  # share of requests that meet every limit
    requests: int  # simulated requests
    by_class: tuple[Waits, ...] = ()  # waits of each traffic class, s


@dataclass(frozen=True, slots=True)
class RequestWaits(Columns):
    """Waits of every measured request."""

    first_s: Column  # TTFT, s
    streamed_s: Column  # time from the first token to the last, s
    later_tokens: Codes  # tokens after the first

    @property
    def e2e_s(self) -> Column:
        """End-to-end latency, s."""
        return self.first_s + self.streamed_s

    @property
    def mean_token_s(self) -> Column:
        """Mean time per later token of each request, s; 0 for requests of one token."""
        later = self.later_tokens
        return np.divide(self.streamed_s, later, out=np.zeros(len(later)), where=later > 0)

    def meets_limits(self, slo: Slo) -> Mask:
        """Which requests meet every limit."""
        limits = ((self.first_s, slo.ttft_s), (self.mean_token_s, slo.tpot_s), (self.e2e_s, slo.e2e_s))
        checks = [wait <= limit for wait, limit in limits if limit is not None]
        meets_all: Mask = np.logical_and.reduce(checks or [self.first_s >= 0])
        return meets_all

    def summarize_waits(self, percentiles: Sequence[float]) -> Waits:
        """Means and percentiles of TTFT, TPOT and end-to-end latency, s."""
        token, several = self.mean_token_s, self.later_tokens > 0
        waits = (self.first_s, token if several.all() else token[several], self.e2e_s)
        return np.stack([summarize_wait(wait_s, percentiles) for wait_s in waits])


def class_parts(workload: InferenceWorkload, window: RequestWindow) -> list[tuple[float, Slo, Codes]]:
    """Share, limits and measured requests of every traffic class; one entry if the workload has no classes."""
    every = np.arange(window.wanted - window.warm)
    if not workload.classes:
        return [(1.0, workload.slo, every)]
    which = draw_population(workload.classes, draw_uniforms(SEED, CLASSES, window.wanted))[window.warm :]
    kinds = group_populations(workload.classes)
    parts = []
    for each in workload.classes:
        (index,) = (i for i, kind in enumerate(kinds) if kind.contains_class(each))
        parts.append((each.peak_per_s / workload.peak_per_s, each.slo, every[which == index]))
    return parts


def simulate_load(workload: InferenceWorkload, replica: Replica, window: RequestWindow) -> LoadPoint:
    """Simulate a replica with the requests it receives at one load."""
    result = simulate_replica(replica, window.requests, warm=window.warm, wanted=window.wanted)
    later = window.requests.output_tokens[window.warm : window.wanted] - 1
    first = result.first_token_s - result.arrival_s
    # Pipeline stages emit the first token late, so a short answer may finish before it.
    waited = RequestWaits(first, np.maximum(result.finish_s - result.first_token_s, 0.0), later)
    parts = class_parts(workload, window)
    shares = (*QUANTILES, workload.slo.percentile)
    return LoadPoint(
        waits_s=np.stack(
            [
                *waited.summarize_waits(shares),
                summarize_wait(np.maximum(result.began_s - result.arrival_s, 0.0), shares),
                np.array([waited.streamed_s.sum() / max(later.sum(), 1), *map(result.gaps.quantile_s, shares)]),
            ]
        ),
        answered_per_s=result.finished / max(result.lasts_s, MIN_RATE_PER_S),
        running=result.running,
        cache_share=result.cache_share,
        preempted=result.preempted,
        goodput_share=sum(share * float(waited.take(rows).meets_limits(slo).mean()) for share, slo, rows in parts),
        requests=window.wanted,
        by_class=tuple(waited.take(rows).summarize_waits((*QUANTILES, slo.percentile)) for _, slo, rows in parts)
        if workload.classes
        else (),
    )


def summarize_wait(wait_s: Column, percentiles: Sequence[float]) -> Column:
    """Mean and percentiles of a wait, s; a percentile is the smallest wait that at least that share does not exceed."""
    if not len(wait_s):
        return np.zeros(1 + len(percentiles))
    ranks = [max(int(np.ceil(q / 100 * len(wait_s))) - 1, 0) for q in percentiles]
    return np.append(wait_s.mean(), np.partition(wait_s, sorted({*ranks}))[ranks])


def build_curve(
    workload: InferenceWorkload,
    replica: Replica,
    loads: Column,
    nodes: Sequence[LoadPoint],
    *,
    stable_below: float,
    closed: bool,
) -> Curve:
    """Curve of the simulated loads; waits are made monotonic, so that chance does not improve them at a higher load."""

    def per_load(name: str) -> Column:
        return np.array([getattr(node, name) for node in nodes], float)

    whole = Curve(
        closed=closed,
        policy=POLICY_NAMES[replica.policy],
        loads=loads,
        waits_s=np.maximum.accumulate(np.stack([node.waits_s for node in nodes])),
        answered_per_s=np.maximum.accumulate(per_load("answered_per_s")),
        running=per_load("running"),
        cache_share=per_load("cache_share"),
        preempted=per_load("preempted"),
        goodput_share=np.minimum.accumulate(per_load("goodput_share")),
        stable_below=stable_below,
        requests=per_load("requests"),
    )
    waits = [np.maximum.accumulate(np.stack(rows)) for rows in zip(*(node.by_class for node in nodes), strict=True)]
    class_curves = (replace(whole, waits_s=waits_s) for waits_s in waits)
    return replace(whole, by_class=tuple(map(ClassCurve, workload.classes, class_curves)))
