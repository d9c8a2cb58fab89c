"""Load curves of one replica from light load to overload: simulated, cached, and interpolated between loads.

A load is a request rate, or a number of requests in flight. Waits never decrease with load, and they are interpolated
linearly in log space; every limit is read from the same lines.

A limit on cost does not change a scheduler, and /estimate evaluates deployments that /recommend proposed: both reuse
the curves in this cache.

Request rates are shares of the replica's saturation rate; numbers in flight are powers of two and the sequence limit.
Lengths and arrivals are drawn once and only their rate changes, so that two loads differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import numpy as np

from app.recent import RecentlyUsed
from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, at
from app.sizing.formula import formula, suspend_recording, trace_label
from app.sizing.hardware.engines.record import Policy, Scheduler, SchedulerSettings
from app.sizing.hardware.tables import scheduler_at
from app.sizing.question import Deployment
from app.sizing.serving.collectives import link_use
from app.sizing.serving.load_point import MIN_RATE_PER_S, LoadPoint, RequestWindow, Waits, simulate_load
from app.sizing.serving.margins import RATE_CORRELATIONS, Margins, jointly_confident_per_s
from app.sizing.serving.memory import ServingMemory
from app.sizing.serving.plans import Plans
from app.sizing.serving.simulation import (
    MIXED,
    PREFILL_FIRST,
    Replica,
    Requests,
    Routed,
    choose_replicas,
    simulate_replica,
)
from app.sizing.serving.simulation.kernel import linear_s, prompt_attention_total_s
from app.sizing.serving.simulation.record import (
    CLASSES,
    OUTPUTS,
    PROMPTS,
    DrawnRequests,
    stratified_quantiles,
    stratified_uniforms,
    unit_arrivals,
)
from app.sizing.serving.simulation.tables import ReplicaWork, build_replica, replica_work
from app.sizing.serving.step import uses_server
from app.sizing.workload import (
    InferenceWorkload,
    Load,
    Redundancy,
    Router,
    Slo,
    Trace,
    TrafficClass,
    draw_population,
)
from app.work import add_work, stage

WAITS = ("ttft", "tpot", "e2e", "queue", "gap")
LATENCIES = WAITS[:3]
QUEUED = ("ttft", "e2e", "queue")  # waits that include the time in the queue
STATISTICS = ("mean", "p50", "p95", "p99")
AT_LIMIT = "at_limit"  # the percentile at which limits hold
STATISTIC_COLUMNS = (*STATISTICS, AT_LIMIT)
MIN_WAIT_S = 1e-9


@formula(unit="s", source="simulation at two loads, linear in log space between them")
def between_loads_s(lighter_s: Column, heavier_s: Column, fraction: Column) -> Column:
    """Wait at a load between two simulated loads, interpolated in log space.

    Parameters:
        lighter_s: wait at the lighter load, s.
        heavier_s: wait at the heavier load, s.
        fraction: position of the load between the two, 0 at the lighter one.
    Limits: loads that are close together.
    Check:
        >>> one(between_loads_s(col(0.1), col(0.4), col(0.5)))
        0.2
    """
    return lighter_s ** (1 - fraction) * heavier_s**fraction


@formula(unit="requests/s", source="simulation: minimum of the largest load within the limits and the stability limit")
def expected_capacity_per_s(load_within_limits_per_s: Column, stable_below_per_s: Column) -> Column:
    """Predicted request rate of a replica within the latency limits, from its load curve (median prediction).

    The load at a limit is interpolated between simulated loads, linearly in logarithms (`Curve.load_at_limit`).

    Parameters:
        load_within_limits_per_s: largest simulated rate within the limits, requests/s.
        stable_below_per_s: rate from which the queue never empties, requests/s.
    Check:
        >>> one(expected_capacity_per_s(col(2.0), col(2.5)))
        2.0
    """
    return np.minimum(load_within_limits_per_s, stable_below_per_s)


@formula(unit="requests/s", source="minimum of the rate within the limits and the stability limit")
def capacity_at_confidence_per_s(
    confident_load_per_s: Column, stable_below_per_s: Column, rate_margin: Column
) -> Column:
    """Request rate of a replica within the latency limits at the requested confidence.

    Parameters:
        confident_load_per_s: rate within the limits at the confidence, `jointly_confident_per_s`, requests/s.
        stable_below_per_s: rate from which the queue never empties, requests/s.
        rate_margin: factor by which the rate may be lower than predicted.
    Check:
        >>> one(capacity_at_confidence_per_s(col(1.8), col(2.0), col(1.25)))
        1.6
    """
    return np.minimum(confident_load_per_s, stable_below_per_s / rate_margin)


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Position of a load among the simulated loads: the two neighbors and the distance from the lighter one."""

    lighter: int  # index of the lighter neighbor
    heavier: int  # index of the heavier neighbor
    fraction: float  # distance from the lighter one in log space, 0 to 1


@dataclass(frozen=True, slots=True)
class Curve:
    """Simulated behavior of one replica at several loads, lightest first."""

    closed: bool  # whether loads are requests in flight; else requests/s
    policy: str  # policy of the scheduler
    loads: Column  # requests in flight or requests/s
    waits_s: Waits  # per load: WAITS by STATISTIC_COLUMNS, s
    answered_per_s: Column  # answered requests/s
    running: Column  # mean sequences running
    cache_share: Column  # mean share of the KV pool in use
    preempted: Column  # preemptions per request
    goodput_share: Column  # share of requests that meet every limit
    stable_below: float  # rate from which the queue never empties, requests/s
    requests: Column  # simulated requests
    by_class: tuple[ClassCurve, ...] = ()  # curves of the traffic classes that share the service

    @property
    def is_whole(self) -> bool:
        """Whether a curve of request rates reaches overload; one of requests in flight counts as whole."""
        return self.closed or bool(self.loads[-1] >= self.stable_below)

    def interpolation_at(self, load: float) -> Interpolation:
        """Position of a load, clamped at the lightest and the heaviest."""
        last = len(self.loads) - 1
        low = max(min(int(self.loads.searchsorted(load, side="right")) - 1, last - 1), 0)
        high = min(low + 1, last)
        if high == low or load <= self.loads[low]:
            return Interpolation(low, high, 0.0)
        part = float(np.log(load / self.loads[low]) / np.log(self.loads[high] / self.loads[low]))
        return Interpolation(low, high, min(part, 1.0))

    def statistic_s(self, wait: str, statistic: str) -> Column:
        """One statistic of a wait at every load, s."""
        values: Column = self.waits_s[:, WAITS.index(wait), STATISTIC_COLUMNS.index(statistic)]
        return values

    def bracketing_waits(self, wait: str, statistic: str, load: float) -> tuple[float, float, float]:
        """Wait at the lighter load, wait at the heavier load, and the fraction between them.

        The waits are infinite where the queue never empties.
        """
        if not self.closed and load >= self.stable_below:
            return np.inf, np.inf, 0.0
        return self.simulated_bracketing_waits(wait, statistic, load)

    def simulated_bracketing_waits(self, wait: str, statistic: str, load: float) -> tuple[float, float, float]:
        """The same for the simulated requests, also where the queue never empties.

        Requests in flight beyond the heaviest simulated load all wait in the queue (Little's law).
        """
        at, values = self.interpolation_at(load), self.statistic_s(wait, statistic)
        heavier = float(values[at.heavier])
        if self.closed and load > self.loads[-1]:
            queued_s = (load - self.loads[-1]) / self.answered_per_s[-1] if wait in QUEUED else 0.0
            return heavier, float(heavier + queued_s), 1.0
        return float(values[at.lighter]), heavier, at.fraction

    def wait_s(self, wait: str, statistic: str, load: float) -> float:
        """Wait at a load, s; infinite where the queue never empties."""
        lighter, heavier, part = self.bracketing_waits(wait, statistic, load)
        return lighter if part == 0 else float(lighter ** (1 - part) * heavier**part)

    def simulated_wait_s(self, wait: str, statistic: str, load: float) -> float:
        """Wait of the simulated requests at a load, s; finite even where the queue never empties."""
        lighter, heavier, part = self.simulated_bracketing_waits(wait, statistic, load)
        return lighter if part == 0 else float(lighter ** (1 - part) * heavier**part)

    def interpolate_value(self, values: Column, load: float) -> float:
        """Value at a load of a quantity that is no wait, interpolated linearly."""
        at = self.interpolation_at(load)
        return float(values[at.lighter] + at.fraction * (values[at.heavier] - values[at.lighter]))

    def interpolate_proportional(self, values: Column, load: float) -> float:
        """Value at a load of a quantity that grows with the load from zero, as by Little's law."""
        return self.interpolate_value(values / self.loads, load) * min(load, float(self.loads[-1]))

    def answered_rate_per_s(self, load: float) -> float:
        """Answered requests per second at a load."""
        if not self.closed:
            return min(load, self.stable_below)
        return self.interpolate_value(self.answered_per_s, load)

    def waits_and_limits(self, slo: Slo, margins: Margins) -> Iterator[tuple[str, Waits, float]]:
        """Each wait with a limit: its name, its values after the margins of every row at every load, and its limit.

        Each traffic class has its own limits.
        """
        if self.by_class:
            for part in self.by_class:
                yield from part.curve.waits_and_limits(part.traffic_class.slo, margins)
            return
        first, token, whole = (self.statistic_s(name, AT_LIMIT) for name in LATENCIES)
        slower_first, slower_token = margins.ttft[:, None], margins.tpot[:, None]
        if slo.ttft_s is not None:
            yield "ttft", np.maximum(first * slower_first, MIN_WAIT_S), slo.ttft_s
        if slo.tpot_s is not None:
            yield "tpot", np.maximum(token * slower_token, MIN_WAIT_S), slo.tpot_s
        if slo.e2e_s is not None:
            wait_s = first * slower_first + (whole - first) * slower_token
            yield "e2e", np.maximum.accumulate(np.maximum(wait_s, MIN_WAIT_S), axis=1), slo.e2e_s

    def load_within_limits(self, slo: Slo, margins: Margins) -> Column:
        """Largest load that meets every limit after the margins of each row; 0 if none does."""
        loads = [load for _, load in self.loads_at_limits(slo, margins)]
        least: Column = np.min([*loads, np.full(len(margins), self.loads[-1])], axis=0)
        return least

    def loads_at_limits(self, slo: Slo, margins: Margins) -> Iterator[tuple[str, Column]]:
        """Each wait with a limit: its name, and the largest load at which it meets its limit, a row per margin."""
        waits = self.waits_and_limits(slo, margins)
        return ((name, self.load_at_limit(wait_s, limit_s)) for name, wait_s, limit_s in waits)

    def binding_limit(self, slo: Slo) -> tuple[str, float] | None:
        """The wait whose limit the load reaches first, and that limit, s; None without limits."""
        waits = self.waits_and_limits(slo, Margins.without_margin(1))
        loads = [(self.load_at_limit(wait_s, limit)[0], name, limit) for name, wait_s, limit in waits]
        return min(loads)[1:] if loads else None

    def reaches_limit(self, slo: Slo) -> bool:
        """Whether any wait exceeds its limit at the heaviest simulated load."""
        return any(
            wait_s[0, -1] > limit_s for _, wait_s, limit_s in self.waits_and_limits(slo, Margins.without_margin(1))
        )

    def worst_wait_at_lightest(self, slo: Slo, margins: Margins) -> tuple[Column, Column]:
        """At the lightest load, the wait that exceeds its limit by the largest factor, s, and that limit, s."""
        pairs = [
            (wait_s[:, 0], np.full(len(margins), limit_s)) for _, wait_s, limit_s in self.waits_and_limits(slo, margins)
        ]
        if not pairs:
            return np.ones(len(margins)), np.full(len(margins), np.inf)
        waits_s, limits_s = (np.stack(each) for each in zip(*pairs, strict=True))
        worst = (waits_s / limits_s).argmax(axis=0), np.arange(len(margins))
        return waits_s[worst], limits_s[worst]

    def load_at_limit(self, waits_s: Waits, limit_s: float) -> Column:
        """Largest load at which each row of waits meets its limit: between two simulated loads, linear in logarithms.

        Waits never fall from one load to the next. It is 0 if the lightest load exceeds the limit, and the heaviest
        load if none exceeds it.
        """
        over, rows = waits_s > limit_s, np.arange(len(waits_s))
        after = np.maximum(over.argmax(axis=1), 1 if len(self.loads) > 1 else 0)
        before = np.maximum(after - 1, 0)
        lighter_s, low, high = waits_s[rows, before], self.loads[before], self.loads[after]
        with np.errstate(all="ignore"):  # of rows that cross no limit
            part = np.log(limit_s / lighter_s) / np.log(waits_s[rows, after] / lighter_s)
            crossed = low * (high / low) ** part
        return np.where(over[:, 0], 0.0, np.where(over[:, -1], crossed, self.loads[-1]))

    def with_constant_waits_up_to(self, load: float) -> Curve:
        """The same curve with a heavier load, whose waits are those of the heaviest simulated one."""

        def longer(curve: Curve) -> Curve:
            waits_s = np.concatenate([curve.waits_s, curve.waits_s[-1:]])
            return replace(curve, loads=np.append(curve.loads, load), waits_s=waits_s)

        return replace(longer(self), by_class=tuple(replace(part, curve=longer(part.curve)) for part in self.by_class))

    def knee_load(self) -> float:
        """Load above which the p95 of TTFT grows faster than throughput."""
        slow = np.diff(np.log(np.maximum(self.statistic_s("ttft", "p95"), MIN_WAIT_S)))
        more = np.diff(np.log(np.maximum(self.answered_per_s, MIN_WAIT_S)))
        steeper = np.flatnonzero(slow > more)
        return float(self.loads[int(steeper[0]) if len(steeper) else -1])


@dataclass(frozen=True, slots=True)
class ClassCurve:
    """Load curve of one traffic class; the loads are those of all classes together."""

    traffic_class: TrafficClass
    curve: Curve


def waits_at(curves: Sequence[Curve], loads: Column) -> dict[str, Column]:
    """Latencies of replicas at their loads, by field name of the operating point, s."""
    latencies: dict[str, Column] = {}
    for wait in LATENCIES:
        for statistic in STATISTICS:
            ends = [c.bracketing_waits(wait, statistic, load) for c, load in zip(curves, loads.tolist(), strict=True)]
            lighter, heavier, part = np.array(ends).T
            with trace_label(f"{wait} {statistic}"):
                latencies[f"{wait}_{statistic}_s"] = between_loads_s(lighter, heavier, part)
    return latencies


def rows_by_curve(curves: Sequence[Curve]) -> list[tuple[Curve, Codes]]:
    """Every curve once, with the rows that have it."""
    rows: dict[int, list[int]] = {}
    for row, curve in enumerate(curves):
        rows.setdefault(id(curve), []).append(row)
    return [(curves[same[0]], np.array(same)) for same in rows.values()]


def loads_within_limits(curves: Sequence[Curve], slo: Slo, margins: Margins) -> Column:
    """Largest load of every curve within the limits after margins."""
    loads = np.empty(len(curves))
    for curve, rows in rows_by_curve(curves):
        loads[rows] = curve.load_within_limits(slo, margins.take(rows))
    return loads


def worst_waits_at_lightest(curves: Sequence[Curve], slo: Slo, margins: Margins) -> tuple[Column, Column]:
    """At the lightest load of every curve, the wait that exceeds its limit by the largest factor, and that limit, s."""
    waits_s, limits_s = np.empty((2, len(curves)))
    for curve, rows in rows_by_curve(curves):
        waits_s[rows], limits_s[rows] = curve.worst_wait_at_lightest(slo, margins.take(rows))
    return waits_s, limits_s


def confident_loads_per_s(curves: Sequence[Curve], slo: Slo, margins: Margins) -> Column:
    """Largest request rate of every curve within the limits at the confidence of the margins, requests/s."""
    limits = dict[tuple[int, str], tuple[Column, Column]]()  # loads by limit: as expected, and if only latency is late
    for curve, rows in rows_by_curve(curves):
        expected = curve.loads_at_limits(slo, Margins.without_margin(1))
        late = curve.loads_at_limits(slo, margins.take(rows))
        for place, ((name, expected_per_s), (_, late_per_s)) in enumerate(zip(expected, late, strict=True)):
            of_all = limits.setdefault((place, name), (np.empty(len(curves)), np.empty(len(curves))))
            of_all[0][rows], of_all[1][rows] = expected_per_s, late_per_s
    if not limits:
        return np.array([c.loads[-1] for c in curves]) / margins.rate
    rates = []
    for (_, name), loads in limits.items():
        with trace_label(name):
            rates.append(jointly_confident_per_s(*loads, margins.rate, RATE_CORRELATIONS[name]))
    least: Column = np.min(rates, axis=0)
    return least


def stability_limits(curves: Sequence[Curve]) -> Column:
    """Rate of every curve from which the queue never empties, requests/s."""
    return np.array([c.stable_below for c in curves])


def in_flight_within(curves: Sequence[Curve], slo: Slo, margins: Margins, sequences: Column) -> Column:
    """Requests in flight that every replica serves within the limits, at most the sequences that can run."""
    in_flight: Column = np.floor(np.minimum(loads_within_limits(curves, slo, margins), sequences) + MIN_WAIT_S)
    return in_flight


MAX_CACHED_CURVES = 1000  # most cached curves, a few KB each
MAX_CACHED_POINTS = 8000  # most cached points of curves, less than 1 KB each
MAX_CACHED_DRAWS = 16  # most cached sets of random requests, at most 1.3 MB each at the default number of requests
# Workload fields left out of the key: the replica covers the model except its context limit; traces are not cached.
EXCLUDED_FIELDS = ("model", "trace")
# Values in place of the fields that no simulation of one replica reads: they size the fleet.
FLEET_FIELDS: Mapping[str, Any] = MappingProxyType(
    {
        "average_per_s": 0.0,
        "max_context_tokens": 0.0,
        "redundancy": Redundancy(),
        "router": Router.LEAST_LOADED,
        "uncounted_prefix_fraction": 0.0,
        "target_utilization": 1.0,
        "encoder_flops_per_request": 0.0,
        "images": None,
        "most_personal_in_flight": 0.0,
        "volume_requests": None,
        "deadline_s": None,
        "hourly_shares": (),
        "derived": (),
    }
)


CURVE_CACHE: RecentlyUsed[bytes, Curve] = RecentlyUsed(MAX_CACHED_CURVES)
SATURATION_CACHE: RecentlyUsed[bytes, float] = RecentlyUsed(MAX_CACHED_CURVES)
POINT_CACHE: RecentlyUsed[bytes, LoadPoint] = RecentlyUsed(MAX_CACHED_POINTS)
DRAWN_CACHE: RecentlyUsed[bytes, DrawnRequests] = RecentlyUsed(MAX_CACHED_DRAWS)


def as_simulated(workload: InferenceWorkload) -> InferenceWorkload:
    """The workload of one replica: its requests and their limits, without what only sizes the fleet.

    Workloads that differ in nothing else share their curves. A trace and traffic classes keep their rates.
    """
    kept_rate = workload.trace is not None or bool(workload.classes)
    return replace(
        workload,
        **FLEET_FIELDS,
        peak_per_s=workload.peak_per_s if kept_rate else 1.0,
        in_flight=workload.in_flight if workload.load is Load.CLOSED else 0.0,
    )


def workload_key(workload: InferenceWorkload) -> bytes:
    """Key part of a workload without a trace: everything that determines its requests and their limits."""
    values = [getattr(workload, f.name) for f in fields(workload) if f.name not in EXCLUDED_FIELDS]
    return repr((workload.model.max_context_tokens, *values)).encode()


def curve_key(workload: bytes, replica: Replica, *bounds: Any) -> bytes:
    """Cache key of a curve.

    Parameters:
        workload: key part of the workload.
        replica: the simulated replica.
        bounds: what bounds the loads, and the number of simulated requests.
    """
    digest = sha256(workload)
    for value in (*replica, *bounds):
        column = np.asarray(value)
        digest.update(f"{column.dtype.str}{column.shape}".encode())
        digest.update(column.tobytes())
    return digest.digest()


def deployed_scheduler(
    plans: Plans, memory: ServingMemory, row: int, overrides: SchedulerSettings | None = None
) -> Scheduler:
    """Scheduler of the plan in row `row`.

    Parameters:
        memory: holds the token budget and sequence limit, also where the request sets them.
        overrides: settings of the request; omitted settings keep the engine's own.
    """
    own = scheduler_at(
        plans.scheduling_rules, row, tokens=at(memory.max_batched_tokens, row), sequences=at(memory.max_sequences, row)
    )
    return own.with_settings(overrides)


SEED = 1
MIN_LOADS_FOR_KNEE = 4  # simulated loads needed to report a knee
# Simulated request rates as shares of the saturation rate, and the requests simulated there as shares of the most:
# waits without queues vary little.
RATE_SHARES = {0.12: 0.5, 0.45: 0.5, 0.7: 1.0, 0.85: 1.0, 0.95: 1.0, 1.02: 1.0}
# The same for replicas that share a queue, whose waits grow later and more steeply.
POOLED_RATE_SHARES = {0.12: 0.5, 0.45: 0.5, 0.65: 0.5, 0.8: 1.0, 0.9: 1.0, 0.96: 1.0, 1.02: 1.0}
LIGHT_SHARE, MIN_RATE_SHARE = 0.5, 0.01  # share of the requests at a lighter load, and the lightest load
MAX_EXCESS = 1.5  # largest ratio of a wait at the usual lightest load to a limit that a lighter load may meet
MIN_SEQUENCES, FILLED_SHARE = 400, 0.4  # least sequences assumed, and share of the requests that fill the replica
SATURATION_ROUNDS = 8  # requests simulated to measure saturation, as a multiple of the sequences that run
IN_FLIGHT_SHARES = (0.125, 0.25, 0.5, 2.0)  # requests in flight at saturation, as shares of those that fill the cache
LIGHT_LOAD = 0.45  # share of saturation up to which replicas hardly queue
# The same at heavy loads of data-parallel ranks, which together run more sequences than other replicas have requests.
RANK_ROUNDS = 4
MAX_RANK_REQUESTS = 500_000  # most requests drawn for them, over all replicas behind one router
WARMUP_SHARE = 0.2  # share of the requests that warm up the replica and are not measured
CHECKED_SHARE = 0.5  # requests simulated to check one rate, as a share of those of a load of a curve
WARMUP_ROUNDS = 4  # unmeasured rounds of a closed loop, until requests that started together are out of step
DRAWN_STEP = 1000  # requests of a closed loop are drawn in multiples of this, so that loads share them
MEASURED_ROUNDS = 2  # least measured rounds of a closed loop
MAX_TIMES_SEQUENCES, MAX_TIMES_REQUESTED = (
    2,
    4,
)  # most requests in flight: multiples of the sequence limit and of the workload's
MAX_TIMES_COUNT = 4  # most requests simulated of a run that ends, as a multiple of `count`; the rest is extrapolated
MAX_EXACT_REPLICAS = 16  # most replicas for which the exact split of a run that ends is simulated
MAX_POOLED = 8  # most replicas simulated behind one router; more share their load still better
# Pools simulated as one with another replica. At 0.65 of saturation its p95 of TTFT differs by 1 %, at 0.8 by 4 and 1 %
# (medians of 27 replicas of four services); other random requests change it by 4 to 5 % and by 6 to 9 %.
ALIKE_POOLS = {5: 6, 7: 8}
CHECKED_UTILIZATION = 0.85  # utilization at which a router sees replicas whose saturation was not simulated
WORK_PER_CURVE, WORK_PER_LOAD, WORK_PER_REQUEST = 1.8, 0.6, 1 / 12000  # milliseconds of CPU time, about
POLICY_NAMES = {MIXED: Policy.MIXED.value, PREFILL_FIRST: Policy.PREFILL_FIRST.value}


def is_simulated(workload: InferenceWorkload) -> bool:
    """Whether the scheduler is simulated: for token streams in an open or closed loop."""
    return not workload.single_pass and workload.load in (Load.OPEN, Load.CLOSED)


def pools_replicas(workload: InferenceWorkload) -> bool:
    """Whether replicas are simulated behind one router.

    A trace is split among the replicas as it is; a router that does not know the load is one replica with its share.
    """
    return workload.load is Load.OPEN and workload.balances_load and workload.trace is None


def pooled_replicas(workload: InferenceWorkload, replicas: Column) -> Codes:
    """Replicas of every plan that are simulated behind one router: all of them, as far as more make a difference."""
    if not pools_replicas(workload):
        return np.ones(len(replicas), np.int64)
    pooled: Codes = np.clip(np.floor(replicas), 1, MAX_POOLED).astype(np.int64)
    return pooled


def curves_of_replicas(
    workload: InferenceWorkload,
    replicas: Sequence[Replica],
    sequences: Codes,
    pooled: Codes,
    count: int,
    margins: Margins | None = None,
    ends: Sequence[CurveEnd | None] | None = None,
) -> tuple[Curve, ...]:
    """Load curve of every replica.

    Parameters:
        sequences: sequences that each replica runs at the same time.
        pooled: replicas behind one router, of which each is one.
        count: simulated requests per load.
        margins: margins of every replica; its curve then begins at its share of the peak where the usual lightest load
            exceeds a limit. Omitted: at the usual lightest load.
        ends: where each curve may end; None, or omitted: whole curves.
    """
    ends, peak_per_s = [None] * len(replicas) if ends is None else ends, workload.peak_per_s
    workload = as_simulated(workload)
    draw, key, closed = cached_draw(workload), workload_key(workload), workload.load is Load.CLOSED
    curves = []
    each = zip(replicas, sequences.tolist(), pooled.tolist(), ends, np.arange(len(replicas))[:, None], strict=True)
    for replica, running, together, end, row in each:
        with stage("simulate"):
            if workload.trace is not None:
                curves.append(simulate_trace(workload, replica, draw(count)))
                add_simulation_work(curves[-1], object())
                continue
            own = curve_key(key, replica, count)
            pool = ALIKE_POOLS.get(together, together)
            simulate = (
                partial(simulate_in_flight, workload, replica, draw, count, running, own)
                if closed
                else partial(simulate_rates, workload, replica, draw, count, pool, own)
            )
            whole = own + np.array([running if closed else pool]).tobytes()
            curve = CURVE_CACHE.get_or_make(whole, simulate) if end is None else simulate(end)
            if margins is not None and not closed and may_be_met_below(curve, workload.slo, margins.take(row)):
                share = max(peak_per_s / together / curve.stable_below, MIN_RATE_SHARE)
                if share * curve.stable_below < curve.loads[0]:
                    curve = simulate_rates(workload, replica, draw, count, pool, own, end, share)
            curves.append(curve)
            add_simulation_work(curve, whole, pool)
    return tuple(curves)


def add_simulation_work(curve: Curve, key: Hashable, pooled: int = 1) -> None:
    """Count the work of a curve of `pooled` replicas: its simulations once for each key, the rest on every use."""
    requests = pooled * float(curve.requests.sum())
    add_work(WORK_PER_CURVE, len(curve.loads) * WORK_PER_LOAD + requests * WORK_PER_REQUEST, key)


def may_be_met_below(curve: Curve, slo: Slo, margins: Margins) -> bool:
    """Whether the lightest load of a curve exceeds a limit by so little that a lighter one may meet it.

    Parameters:
        margins: margins of the replica, one row.
    """
    wait_s, limit_s = curve.worst_wait_at_lightest(slo, margins)
    return bool(limit_s[0] < wait_s[0] <= MAX_EXCESS * limit_s[0])


@dataclass(frozen=True, slots=True)
class CurveEnd:
    """Test whether a curve is known up to a load beyond which nothing matters."""

    least_loads: int  # loads of the curve before which it is not tested

    def is_reached(self, curve: Curve) -> bool:
        """Whether heavier loads than those of the curve cannot matter."""
        raise NotImplementedError


def simulate_one_load(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    loads: Column,
    assumed: Assumptions,
    requested: Deployment | None = None,
    pooled: Codes | None = None,
) -> tuple[Curve, ...]:
    """Curve of every plan at one load only; no rate is known from which its queue grows without bound.

    Parameters:
        loads: request rate, or number of requests in flight, of every plan.
        pooled: replicas of every plan behind one router; omitted: one.
    """
    count = int(assumed.simulated_requests * CHECKED_SHARE)
    with suspend_recording():
        replicas = build_replicas(workload, plans, memory, assumed, requested)
        workload = as_simulated(workload)
        draw, key, closed = cached_draw(workload), workload_key(workload), workload.load is Load.CLOSED

        def rate_window(replica: Replica, rate_per_s: float, together: int) -> RequestWindow:
            drawn = together * requests_of_ranks(replica, draw, count, RANK_ROUNDS, together)
            return pooled_window(replica, draw(drawn), rate_per_s, together, CHECKED_UTILIZATION)

        def at_load(replica: Replica, load: float, together: int) -> Curve:
            sent = (
                in_flight_window(workload, draw, int(load), count) if closed else rate_window(replica, load, together)
            )
            node = simulate_load(workload, replica, sent)
            return build_curve(workload, replica, np.array([load]), [node], stable_below=np.inf, closed=closed)

        together = [1] * len(replicas) if pooled is None else [ALIKE_POOLS.get(p, p) for p in pooled.tolist()]
        curves = []
        for one in zip(replicas, loads.tolist(), together, strict=True):
            with stage("simulate"):
                own = curve_key(key, *one, count)
                curves.append(CURVE_CACHE.get_or_make(own, partial(at_load, *one)))
                add_simulation_work(curves[-1], own, one[2])
        return tuple(curves)


def build_replicas(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    assumed: Assumptions,
    requested: Deployment | None,
) -> list[Replica]:
    """Replica of every plan, built with the functions that time its steps everywhere else."""
    away, encoder = plans.offloads_weights, workload.encoder_flops_per_request
    works: dict[int, ReplicaWork] = {}
    for rows in (np.flatnonzero(~away), *np.flatnonzero(away)[:, None]):
        if len(rows):
            part = plans.take(rows)
            # Other plans of a search may keep weights on the host; these do not.
            part = part if away[rows].all() else replace(part, on_host=None)
            found = replica_work(workload.model, part, link_use(part, assumed), encoder_flops=encoder)
            works.update(zip(rows.tolist(), found, strict=True))
    return [replica_at(workload, plans, memory, row, works[row], requested) for row in range(len(plans))]


def replica_at(
    workload: InferenceWorkload,
    plans: Plans,
    memory: ServingMemory,
    row: int,
    work: ReplicaWork,
    requested: Deployment | None,
) -> Replica:
    """Replica of a plan row."""
    scheduler = deployed_scheduler(plans, memory, row, None if requested is None else requested.scheduler)
    if workload.max_context_tokens > scheduler.max_batched_tokens:  # without chunks, engines refuse such prompts
        scheduler = replace(scheduler, chunked=True)
    copies = None if memory.prefixes is None else memory.prefixes.host
    replica = build_replica(
        work,
        plans.take(np.array([row])).achieved_rates,
        scheduler,
        pool_bytes=at(memory.kv_pool_bytes, row),
        host_cache_bytes=0.0 if copies is None else at(copies.room_bytes, row),
        overlaps=bool(plans.pipelines_chunks[row]),
        speculative=plans.speculative,
        served=uses_server(workload.load),
    )
    if workload.comes_read:
        return replica._replace(ingest_s=0.0, tokenise_token_s=0.0, dispatch_s=0.0, graph_dispatch_s=0.0)
    return replica if copies is None else replica._replace(ingest_s=replica.ingest_s + at(copies.load_s, row))


def cached_draw(workload: InferenceWorkload) -> Callable[[int], DrawnRequests]:
    """A function that returns random requests of a simulated workload, drawn once for each number of them."""
    key = workload_key(workload)

    def draw(count: int) -> DrawnRequests:
        return DRAWN_CACHE.get_or_make(key + count.to_bytes(8, "big"), lambda: draw_requests(workload, count))

    return draw


def draw_requests(workload: InferenceWorkload, count: int) -> DrawnRequests:
    """`count` random requests of a workload, the same for every replica and load."""
    chances = stratified_uniforms(SEED, CLASSES, count) if workload.classes else None
    prompts, answers = workload.draw_lengths(
        stratified_quantiles(SEED, PROMPTS, count), stratified_quantiles(SEED, OUTPUTS, count), chances
    )
    return DrawnRequests(
        unit_arrivals(SEED, count, workload.burstiness),
        prompts,
        np.maximum(answers, 1),
        np.floor(prompts * workload.cached_prefix_fraction).astype(np.int64),
        int(workload.input_tokens.mean * workload.shared_prefix_fraction),
        workload.turn_gap_s,
        None if chances is None else draw_population(workload.classes, chances),
    )


def simulate_rates(
    workload: InferenceWorkload,
    replica: Replica,
    draw: Callable[[int], DrawnRequests],
    count: int,
    pooled: int,
    key: bytes,
    ends: CurveEnd | None = None,
    lightest: float | None = None,
) -> Curve:
    """Curve of one of `pooled` replicas at request rates up to slightly above saturation.

    Parameters:
        draw: returns random requests.
        count: simulated requests per load.
        key: cache key of the workload, the replica and the number of requests.
        ends: where the curve may end; omitted: at the heaviest load.
        lightest: a load below the usual ones at which the curve begins, as a share of saturation.
    """
    most = cached_saturation_per_s(replica, draw, count, key)
    busy = requests_of_ranks(replica, draw, count, RANK_ROUNDS, pooled)

    def simulate(used: float, share: float) -> LoadPoint:
        requests = int(share * (count if used <= LIGHT_LOAD else busy))
        sent = pooled_window(replica, draw(pooled * requests), used * most, pooled, used)
        return simulate_load(workload, replica, sent)

    points = list[LoadPoint]()
    shares = RATE_SHARES if pooled == 1 else POOLED_RATE_SHARES
    shares = shares if lightest is None else {lightest: LIGHT_SHARE, **shares}
    for used, share in shares.items():
        own = key + np.array([pooled, used]).tobytes()
        points.append(POINT_CACHE.get_or_make(own, partial(simulate, used, share)))
        if len(points) < (len(shares) if ends is None else ends.least_loads):
            continue
        rates = most * np.array(list(shares)[: len(points)])
        curve = build_curve(workload, replica, rates, points, stable_below=most, closed=False)
        if ends is not None and ends.is_reached(curve):
            break
    return curve


def pooled_window(
    replica: Replica, sent: DrawnRequests, rate_per_s: float, pooled: int, utilization: float
) -> RequestWindow:
    """Requests that one of `pooled` replicas gets from a router that knows the prompts of each, at its share of a rate.

    The router knows the prompts, not how long the answers will be. If it knew, a long answer would keep all requests
    from its replica for a while, although a batch serves them at the same time; then they would come in bursts.

    Parameters:
        sent: requests to all replicas.
        rate_per_s: rate of one replica, requests/s.
        utilization: the same rate as a share of the replica's saturation.
    """
    if pooled == 1:
        return open_window(sent, rate_per_s)
    arrival_s = sent.arrival_s(pooled * rate_per_s)
    routed = choose_replicas(routed_requests(replica, sent, arrival_s, utilization / rate_per_s), pooled)
    # One replica is watched: the one whose requests are most alike the mean of all.
    watched = int(np.argmin(np.abs(routed.carried_s - routed.carried_s.sum() / pooled)))
    rows = np.flatnonzero(routed.replica == watched)
    count, own = len(rows), sent.take(rows)
    return RequestWindow(own.arriving(arrival_s[rows]), int(WARMUP_SHARE * count), count, own.populations)


def routed_requests(replica: Replica, sent: DrawnRequests, arrival_s: Column, mean_s: float) -> Routed:
    """Requests as a router sees them; `mean_s` is the mean time that a request takes of a replica, s.

    A router knows the work that it sent only roughly, so token counts stand for it.
    """
    count, answers = len(arrival_s), sent.output_tokens
    tokens = max(int(sent.input_tokens.sum() - sent.prefix_tokens.sum()) / count, 1.0)
    each = min(float(replica.max_batched_tokens), tokens)
    linear = linear_s(replica, each * replica.prompt_equivalent + replica.prompt_fixed_tokens) * tokens / each
    prompt_s = min(linear + prompt_attention_total_s(replica, tokens), mean_s)
    answer_s = mean_s - prompt_s
    per_token = prompt_s / tokens, answer_s * count / int(answers.sum())
    return Routed(arrival_s, sent.input_tokens, sent.prefix_tokens, answers, *per_token, answer_s)


def open_window(sent: DrawnRequests, rate_per_s: float) -> RequestWindow:
    """Requests that arrive at a rate, of which the first are not measured."""
    count = len(sent.input_tokens)
    return RequestWindow(sent.at_rate(rate_per_s), int(WARMUP_SHARE * count), count, sent.populations)


def running_limit(replica: Replica, sent: DrawnRequests) -> float:
    """Sequences that a replica can run at the same time."""
    sequence_bytes = replica.cache_fixed_bytes + replica.cache_token_bytes * float(
        (sent.input_tokens + sent.output_tokens).mean()
    )
    return min(replica.max_sequences, replica.cache_bytes / sequence_bytes if sequence_bytes > 0 else np.inf)


def requests_of_ranks(
    replica: Replica, draw: Callable[[int], DrawnRequests], count: int, rounds: int, pooled: int = 1
) -> int:
    """Requests to simulate on a replica: `count`, or `rounds` times what its data-parallel ranks run at once.

    With fewer requests the ranks would never be full, and the replica would seem faster than it is.
    """
    if replica.ranks == 1:
        return count
    wanted = rounds * running_limit(replica, draw(count))
    doublings = int(np.ceil(np.log2(max(wanted / count, 1.0))))  # few sizes, so that replicas share draws
    return max(count, min(count << doublings, MAX_RANK_REQUESTS // pooled))


def saturation_rates_per_s(workload: InferenceWorkload, replicas: Sequence[Replica], count: int) -> Column:
    """Rate of every replica from which its queue never empties, requests/s.

    Parameters:
        count: simulated requests per load of their curves.
    """
    workload = as_simulated(workload)
    draw, key = cached_draw(workload), workload_key(workload)
    with stage("simulate"):
        return np.array([cached_saturation_per_s(r, draw, count, curve_key(key, r, count)) for r in replicas])


def cached_saturation_per_s(replica: Replica, draw: Callable[[int], DrawnRequests], count: int, key: bytes) -> float:
    """Rate of a replica from which its queue never empties, requests/s; `key` is that of its curves."""
    return SATURATION_CACHE.get_or_make(
        key, lambda: saturation_rate_per_s(replica, draw(requests_of_ranks(replica, draw, count, SATURATION_ROUNDS)))
    )


def saturation_rate_per_s(replica: Replica, sent: DrawnRequests) -> float:
    """Answered requests per second while requests always wait.

    Where sessions find their prefixes in the cache, it is the largest rate of several numbers in flight. If all wait
    from the start, or running sequences fill the cache, prefixes are lost that a load below saturation would find.
    """
    fitting = running_limit(replica, sent)
    count = int(min(len(sent.input_tokens), SATURATION_ROUNDS * max(fitting, MIN_SEQUENCES)))
    first = sent.first_requests(count)
    tried = [first.at_rate(np.inf)]
    if sent.reuse_gap_s > 0:
        tried = [first.in_flight(max(1, int(share * fitting))) for share in IN_FLIGHT_SHARES]
    warm, wanted = int(FILLED_SHARE * count), int((1 - WARMUP_SHARE) * count)
    results = [simulate_replica(replica, requests, warm=warm, wanted=wanted) for requests in tried]
    return max(MIN_RATE_PER_S, *(r.finished / max(r.lasts_s, MIN_RATE_PER_S) for r in results))


def simulate_trace(workload: InferenceWorkload, replica: Replica, sent: DrawnRequests) -> Curve:
    """Curve of a replica that receives every n-th request of a trace.

    The trace is sped up or slowed down slightly to reach each rate; rates are those of its busiest interval.
    """
    trace, most = workload.trace, saturation_rate_per_s(replica, sent)
    assert trace is not None
    rates, nodes = most * np.array(list(RATE_SHARES)), []
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


def simulate_in_flight(
    workload: InferenceWorkload,
    replica: Replica,
    draw: Callable[[int], DrawnRequests],
    count: int,
    sequences: int,
    key: bytes,
    ends: CurveEnd | None = None,
) -> Curve:
    """Curve of a replica with a constant number of requests in flight, or with its part of a run that ends.

    Parameters:
        draw: returns random requests.
        count: simulated requests per load.
        sequences: sequences that the replica runs at the same time.
        key: cache key of the workload, the replica and the number of requests.
        ends: where the curve may end; omitted: at the heaviest load.
    """

    def simulate(held: int) -> LoadPoint:
        return simulate_load(workload, replica, in_flight_window(workload, draw, held, count))

    points, numbers = list[LoadPoint](), numbers_in_flight(workload, sequences)
    for held in numbers:
        points.append(POINT_CACHE.get_or_make(key + np.array([held]).tobytes(), partial(simulate, held)))
        if len(points) < (len(numbers) if ends is None else ends.least_loads):
            continue
        loads = np.array(numbers[: len(points)], float)
        curve = build_curve(workload, replica, loads, points, stable_below=np.inf, closed=True)
        if ends is not None and ends.is_reached(curve):
            break
    return curve


def in_flight_window(
    workload: InferenceWorkload, draw: Callable[[int], DrawnRequests], held: int, count: int
) -> RequestWindow:
    """Requests of which `held` are in flight until the measurement ends."""
    warm, wanted = window_bounds(workload, held, count)
    needed = wanted + (held if warm else 0)
    sent = draw(-(-needed // DRAWN_STEP) * DRAWN_STEP).first_requests(needed)
    return RequestWindow(sent.in_flight(held), warm, wanted, sent.populations)


def window_bounds(workload: InferenceWorkload, held: int, count: int) -> tuple[int, int]:
    """Answered requests before measurement starts, and until it ends, with `held` requests in flight."""
    if workload.requests is not None:
        part = np.ceil(workload.requests * held / max(workload.in_flight, 1.0))
        return 0, int(np.clip(part, held, max(MAX_TIMES_COUNT * count, MEASURED_ROUNDS * held)))
    warm = max(int(WARMUP_SHARE * count), WARMUP_ROUNDS * held)
    return warm, warm + max(count - int(WARMUP_SHARE * count), MEASURED_ROUNDS * held)


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
