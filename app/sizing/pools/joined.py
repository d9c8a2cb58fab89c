"""Combines the estimates of two pools: client latency, total cost, bottleneck and explanations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.streams import run_reason
from app.sizing.answer.summary import describe_replicas, each_of
from app.sizing.columns import (
    GBIT,
    HOURS_PER_DAY,
    HOURS_PER_MONTH,
    LEAST_PER_S,
    MIB,
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    one,
)
from app.sizing.day import merge_days
from app.sizing.decisions.cost import has_measurable_throughput, kwh_per_million, usd_per_million
from app.sizing.formula import Step
from app.sizing.hardware.parts import PricingModel
from app.sizing.pools.loads import add_waits, combined_load_curve, combined_simulation, duration_s
from app.sizing.pools.parts import reported_percentile
from app.sizing.question import Deployment, Pools
from app.sizing.result import (
    Assurance,
    BillFactor,
    Carbon,
    CertaintyFactor,
    CostSummary,
    DeviceMemory,
    Estimate,
    Interval,
    Level,
    Part,
    Percentiles,
    Performance,
    PoolLoad,
    PoolSplit,
    Reason,
    Transfer,
)
from app.sizing.serving.bill import bill_reasons
from app.sizing.serving.interfaces import OVERLOAD_ROUNDING
from app.sizing.snapshot import Catalog
from app.sizing.words import format_name, format_number, percent, provider_name
from app.sizing.workload import InferenceWorkload, Load

NAMES = ("prefill", "decode")
LABELS = (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "end-to-end latency"))
PER_POOL_CODES = (
    "memory",
    "bottleneck",
    "price",
    "support_expected",
    "network_assumed",
    "idle_accelerators",
    "placement",
)


def explain_pools(
    workload: InferenceWorkload,
    both: tuple[Estimate, Estimate],
    split: PoolSplit,
    performance: Performance,
    tight: str,
    catalog: Catalog,
) -> tuple[Reason, ...]:
    """Explanations of both pools, the transfer and the latency limits.

    `tight` is the pool with the least free memory.
    """
    explanations = [
        *(
            pool_reason(name, each, load, catalog)
            for name, each, load in zip(NAMES, both, (split.prefill, split.decode), strict=True)
        ),
        transfer_reason(split.transfer),
        *separate_locations_reason(both[0].deployment, both[1].deployment),
        *latency_limit_reasons(workload, performance),
    ]
    if workload.requests is not None and performance.days is not None:
        explanations.append(run_reason(workload.requests, performance.days * SECONDS_PER_DAY))
    explanations += single_pool_reasons(both, tight)
    return tuple(explanations)


def single_pool_reasons(both: tuple[Estimate, Estimate], tight: str) -> Iterator[Reason]:
    """Explanations of single pools; an explanation that is the same for both is given once."""
    reasons_by_pool = [
        [
            reason
            for reason in each.explanation
            if reason.code in PER_POOL_CODES
            and (reason.code != "memory" or name == tight)
            and (reason.code != "bottleneck" or name == "decode")  # prefill is always compute-bound
        ]
        for name, each in zip(NAMES, both, strict=True)
    ]
    shared_texts = {reason.text for reason in reasons_by_pool[0]} & {reason.text for reason in reasons_by_pool[1]}
    for reason in reasons_by_pool[0]:
        whose = "Each pool" if reason.text in shared_texts else "The prefill pool"
        yield replace(reason, text=f"{whose}: {reason.text}")
    for reason in reasons_by_pool[1]:
        if reason.text not in shared_texts:
            yield replace(reason, text=f"The decode pool: {reason.text}")


def pool_reason(name: str, found: Estimate, load: PoolLoad, catalog: Catalog) -> Reason:
    """Size and utilization of a pool."""
    d = found.deployment
    accelerator = catalog.accelerators[catalog.accelerator_index[d.accelerator]].name
    used = "" if load.utilization is None else f" ({percent(load.utilization)} utilized at this load)"
    text = (
        f"{name.capitalize()}: {describe_replicas(d)}, {d.accelerators_per_replica} × "
        f"{accelerator}{each_of(d)}, {format_name(d.weight_format or '')}: "
        f"up to {format_number(load.requests_per_s_capacity)} requests/s{used}."
    )
    return Reason(f"pool_{name}", text, "requests_per_s_capacity", load.requests_per_s_capacity, "requests/s")


def transfer_reason(transfer: Transfer) -> Reason:
    """Size, time and bandwidth of a KV cache transfer."""
    link = "the network" if transfer.link == "network" else "the scale-up link"
    used = "" if transfer.utilization is None else f" ({percent(transfer.utilization)} utilized)"
    text = (
        f"Transferring the KV cache of a prompt ({format_number(transfer.request_bytes / MIB)} MiB) takes "
        f"{format_number(transfer.seconds * 1e3)} ms over {link} at {format_number(transfer.bytes_per_s / GBIT)} "
        f"Gbit/s{used}."
    )
    return Reason("pool_transfer", text, "transfer_ms", transfer.seconds * 1e3, "ms")


def separate_locations_reason(prefill: Deployment, decode: Deployment) -> Iterator[Reason]:
    """Warning that the two pools are priced at different locations."""
    if pool_location(prefill) == pool_location(decode):
        return
    text = (
        f"The prefill pool is priced at {pool_location(prefill)}, the decode pool at {pool_location(decode)}. The "
        "transfer estimate assumes a single location. Set the same provider and region for both pools."
    )
    yield Reason("pools_apart", text, "places", 2, "1")


def pool_location(pool: Deployment) -> str:
    """Location of a pool's machines; owned machines are at the buyer's site."""
    if pool.provider is None or pool.pricing_model is PricingModel.OWNED:
        return "the buyer's own site"
    name = provider_name(pool.provider)
    return name if pool.region in (None, "unspecified") else f"{name} ({pool.region})"


def latency_limit_reasons(workload: InferenceWorkload, performance: Performance) -> Iterator[Reason]:
    """Each latency compared with its limit."""
    slo, shown = workload.slo, reported_percentile(workload.slo.percentile)
    for name, label in LABELS:
        bound, waits = getattr(slo, f"{name}_s"), getattr(performance, name)
        value = None if waits is None else getattr(waits, f"{shown}_s")
        if bound is None or value is None:
            continue
        limit = (
            f"{bound * 1e3:,.0f} ms"
            if shown == f"p{slo.percentile:g}"
            else f"{bound * 1e3:,.0f} ms at p{slo.percentile:g}"
        )
        text = f"{shown} {label} is {value * 1e3:,.0f} ms (limit {limit})."
        yield Reason(f"{name}_ms", text, f"{name}_ms", value * 1e3, "ms")


BASES = ("roofline", "calibrated", "measured")  # least reliable first
SUPPORT = ("expected", "documented")


@dataclass(frozen=True, slots=True)
class PoolEstimates:
    """Estimates of the prefill and the decode pool."""

    prefill: Estimate  # estimate of the prefill pool
    decode: Estimate  # estimate of the decode pool

    @property
    def in_order(self) -> tuple[Estimate, Estimate]:
        """Both estimates in request order."""
        return self.prefill, self.decode

    @property
    def complete_pools(self) -> Pools:
        """Complete deployments of both pools."""
        return Pools(self.prefill.deployment, self.decode.deployment)


def combined_deployment(asked: Deployment, both: PoolEstimates) -> Deployment:
    """Complete deployment of both pools, as echoed in the answer; clients can send it back."""
    decode = both.decode.deployment
    totals = [found.deployment.total_accelerators or 0 for found in both.in_order]
    return Deployment(
        accelerator=asked.accelerator,
        total_accelerators=sum(totals),
        engine=decode.engine,
        engine_version=asked.engine_version,
        speculative=decode.speculative,
        pools=both.complete_pools,
    )


def failed_estimate(asked: Deployment, both: PoolEstimates) -> Estimate:
    """Estimate of a deployment that does not fit or run: the failing pool, and the reason."""
    name, failed = ("prefill", both.prefill) if not both.prefill.fits else ("decode", both.decode)
    why = tuple(replace(reason, text=f"The {name} pool: {reason.text}") for reason in failed.explanation)
    deployment = asked if failed.memory is None else combined_deployment(asked, both)
    return replace(failed, deployment=deployment, explanation=why, alternatives=(), assurance=None)


def combine_estimates(
    workload: InferenceWorkload,
    asked: Deployment,
    both: PoolEstimates,
    transfer: Transfer,
    rate_per_s: float | None,
    catalog: Catalog,
) -> Estimate:
    """Combined estimate of both pools; `rate_per_s` is the throughput of finite or closed-loop work."""
    deployment = combined_deployment(asked, both)
    split = pool_split(workload, both, transfer, rate_per_s)
    performance = combined_performance(workload, both, split, rate_per_s)
    tight, memory = tighter_memory(both)
    slowest, assurance = binding_pool(both, split), combined_assurance(both)
    machines = sum(found.deployment.nodes or 0 for found in both.in_order)
    bill = bill_reasons(() if assurance is None else assurance.bill, machines)
    return Estimate(
        deployment=deployment,
        fits=True,
        memory=memory,
        performance=performance,
        bottleneck=combined_bottleneck(both, slowest),
        cost=combined_cost(workload, both, performance),
        explanation=(*explain_pools(workload, both.in_order, split, performance, tight, catalog), *bill),
        trace=(*label_trace("prefill pool", both.prefill), *label_trace("decode pool", both.decode)),
        nearest=(*both.decode.nearest, *both.prefill.nearest),
        assurance=assurance,
        prefixes=both.prefill.prefixes,
        day=merge_days(both.prefill.day, both.decode.day),
        support=first_in_order((found.support for found in both.in_order), SUPPORT),
    )


def label_trace(pool: str, found: Estimate) -> Iterator[Step]:
    """Trace lines of a pool, labeled with its name."""
    for step in found.trace:
        own, _, label = step.name.partition(" (")
        yield replace(step, name=f"{own} ({pool})" if not label else f"{own} ({pool}, {label}")


def first_in_order(found: Iterable[str | None], order: Sequence[str]) -> str | None:
    """The value that comes first in `order`; None if no value is known."""
    known = [each for each in found if each is not None]
    return min(known, key=order.index, default=None)


def pool_capacity_per_s(found: Estimate) -> float:
    """Requests per second that a pool carries within its limits."""
    assert found.performance is not None
    return found.performance.requests_per_s_capacity or 0.0


def pool_split(
    workload: InferenceWorkload, both: PoolEstimates, transfer: Transfer, rate_per_s: float | None
) -> PoolSplit:
    """Capacity and utilization of each pool and of the transfer at the load."""
    load_per_s = workload.peak_per_s if rate_per_s is None else rate_per_s

    def utilization_of(capacity: float) -> float | None:
        return load_per_s / capacity if capacity > LEAST_PER_S else None

    prefill, decode = (
        PoolLoad(utilization_of(pool_capacity_per_s(found)), pool_capacity_per_s(found)) for found in both.in_order
    )
    return PoolSplit(prefill, decode, replace(transfer, utilization=utilization_of(transfer.requests_per_s_capacity)))


def combined_capacity_per_s(split: PoolSplit) -> float:
    """Requests per second that both pools and the transfer carry together."""
    parts = (split.prefill, split.decode, split.transfer)
    return min(part.requests_per_s_capacity for part in parts)


def binding_pool(both: PoolEstimates, split: PoolSplit) -> Estimate | None:
    """The pool with the least capacity; None where the transfer is the bottleneck."""
    capacity = combined_capacity_per_s(split)
    if split.transfer.requests_per_s_capacity <= capacity:
        return None
    return both.prefill if split.prefill.requests_per_s_capacity <= capacity else both.decode


def combined_bottleneck(both: PoolEstimates, slowest: Estimate | None) -> str | None:
    """Bottleneck of both pools: the transfer, compute in the prefill pool, or the decode pool's bottleneck."""
    if slowest is None:
        return "interconnect"
    return "compute" if slowest is both.prefill else both.decode.bottleneck


def subtract_wait(whole: Percentiles, part: Percentiles) -> Percentiles:
    """Remaining wait after its first part, never negative."""
    pairs = [(getattr(whole, n), getattr(part, n)) for n in ("mean_s", "p50_s", "p95_s", "p99_s")]
    return Percentiles(*(None if a is None or b is None else max(a - b, 0.0) for a, b in pairs))


def combined_performance(
    workload: InferenceWorkload, both: PoolEstimates, split: PoolSplit, rate_per_s: float | None
) -> Performance:
    """Performance of both pools together."""
    reads, writes = both.prefill.performance, both.decode.performance
    assert reads is not None and writes is not None
    capacity = combined_capacity_per_s(split) if rate_per_s is None else rate_per_s
    output = capacity * workload.output_tokens.mean
    ttft, e2e = combined_waits(reads, writes, split.transfer)
    used = workload.peak_per_s / capacity if rate_per_s is None and capacity > LEAST_PER_S else None
    slowest = binding_pool(both, split)
    unstable = combined_unstable_above(workload, reads, writes, split)
    answered = capacity if unstable is None else min(workload.peak_per_s, unstable)
    known = [count for count in (reads.sources, writes.sources) if count is not None]
    return Performance(
        interval=scale_interval((slowest or both.decode).performance, output),
        intervals=combined_intervals(reads, writes, ttft, e2e),
        basis=first_in_order((reads.basis, writes.basis), BASES) or BASES[0],
        sources=min(known, default=None),
        output_tokens_per_s=output,
        total_tokens_per_s=capacity * workload.tokens_per_request,
        prefill_tokens_per_s=reads.prefill_tokens_per_s,
        requests_per_s_capacity=capacity,
        utilization_at_peak=used,
        overloaded=bool(reads.overloaded or writes.overloaded or (used or 0.0) > 1 + OVERLOAD_ROUNDING),
        batch_at_peak=writes.batch_at_peak,
        ttft=ttft,
        tpot=writes.tpot,
        e2e=e2e,
        simulation=combined_simulation(workload, reads.simulation, writes.simulation, answered),
        load_curve=combined_load_curve(workload, reads, writes, split.transfer),
        unstable_above_requests_per_s=unstable,
        cold_start_s=max(p.cold_start_s or 0.0 for p in (reads, writes)),
        days=duration_days(workload, reads, writes, capacity),
        pools=split,
    )


def combined_waits(
    reads: Performance, writes: Performance, transfer: Transfer
) -> tuple[Percentiles | None, Percentiles | None]:
    """TTFT and end-to-end latency as the client sees them; None for offline work."""
    if reads.ttft is None or writes.ttft is None or writes.e2e is None:
        return None, None
    waits = [reads.ttft, Percentiles(*(4 * (transfer.seconds,)))]
    if writes.simulation is not None:
        waits.append(writes.simulation.queue)
    ttft = add_waits(*waits)
    return ttft, add_waits(ttft, subtract_wait(writes.e2e, writes.ttft))


def duration_days(
    workload: InferenceWorkload, reads: Performance, writes: Performance, capacity_per_s: float
) -> float | None:
    """Days that finite work takes in both pools; None for other work."""
    if workload.requests is not None:
        return workload.requests / capacity_per_s / SECONDS_PER_DAY
    if workload.volume_requests is None:
        return None
    start_s = max(p.cold_start_s or 0.0 for p in (reads, writes))
    return duration_s(workload, capacity_per_s, writes.batch_at_peak or 1.0, start_s) / SECONDS_PER_DAY


def combined_unstable_above(
    workload: InferenceWorkload, reads: Performance, writes: Performance, split: PoolSplit
) -> float | None:
    """Request rate above which a queue grows without bound, in either pool or in the transfer."""
    if workload.load is not Load.OPEN:
        return None
    limits = (p.unstable_above_requests_per_s for p in (reads, writes))
    return min((*(limit for limit in limits if limit is not None), split.transfer.requests_per_s_capacity))


def scale_interval(performance: Performance | None, output_tokens_per_s: float) -> Interval:
    """Interval of output tokens per second, with the relative width of the binding pool."""
    assert performance is not None
    own, point = performance.interval, performance.output_tokens_per_s or 1.0
    times = output_tokens_per_s / max(point, LEAST_PER_S)
    return Interval("output_tokens_per_s", own.low * times, own.high * times)


def combined_intervals(
    reads: Performance, writes: Performance, ttft: Percentiles | None, e2e: Percentiles | None
) -> tuple[Interval, ...]:
    """Latency intervals: TTFT from the prefill pool, TPOT and end-to-end latency from the decode pool."""
    found: list[Interval] = []
    tokens = [i for i in writes.intervals if i.quantity == "tpot_s"]
    if ttft is None:
        return tuple(tokens)
    for token in tokens:
        name = f"{token.statistic}_s"
        first = next((i for i in reads.intervals if i.quantity == "ttft_s" and i.statistic == token.statistic), None)
        whole_s, first_s, read_s = (None if p is None else getattr(p, name) for p in (e2e, ttft, reads.ttft))
        token_s = None if writes.tpot is None else getattr(writes.tpot, name)
        if first is None or whole_s is None or first_s is None or read_s is None or not token_s:
            continue
        added_s, later = first_s - read_s, (whole_s - first_s) / token_s
        first = replace(first, low=first.low + added_s, high=first.high + added_s)
        whole = (first.low + later * token.low, first.high + later * token.high)
        found += [token, first, Interval("e2e_s", *whole, token.statistic)]
    return tuple(found)


def tighter_memory(both: PoolEstimates) -> tuple[str, DeviceMemory]:
    """Name and memory of the pool whose memory is used most."""

    def used_share(memory: DeviceMemory) -> float:
        return (memory.total_bytes - memory.kv_cache_bytes) / max(memory.usable_bytes, 1.0)

    held = [(name, found.memory) for name, found in zip(("prefill", "decode"), both.in_order, strict=True)]
    return max(((name, memory) for name, memory in held if memory is not None), key=lambda pair: used_share(pair[1]))


def sum_known(*values: float | None) -> float | None:
    """Sum of the values; None if any is unknown."""
    return None if None in values else float(sum(value or 0.0 for value in values))


def total_purchase_usd(*purchase_usd: float | None) -> float | None:
    """Total purchase price in USD; None where both pools are rented. One pool may be rented and the other bought."""
    paid = [usd for usd in purchase_usd if usd is not None]
    return sum(paid) if paid else None


def combined_cost(workload: InferenceWorkload, both: PoolEstimates, performance: Performance) -> CostSummary | None:
    """Total cost of both pools; the price shown is that of the more expensive pool."""
    first, second = (found.cost for found in both.in_order)
    if first is None or second is None:
        return None
    requests = performance.requests_per_s_capacity or 0.0
    served = min(workload.average_per_s, requests) if workload.load is Load.OPEN else requests
    if workload.volume_requests is not None and performance.days:
        served = workload.volume_requests / (performance.days * SECONDS_PER_DAY)
    units = np.array([served * max(1.0, workload.tokens_per_request)])
    hourly, power = sum_known(first.usd_per_hour, second.usd_per_hour), first.mean_power_w + second.mean_power_w
    dearer = max((first, second), key=lambda cost: cost.usd_per_hour or 0.0)
    return CostSummary(
        usd_per_hour=hourly,
        usd_per_month=sum_known(first.usd_per_month, second.usd_per_month),
        usd_per_million=one(usd_per_million(np.array([hourly]), units))
        if hourly is not None and has_measurable_throughput(one(units))
        else None,
        usd_total=None,
        purchase_usd=None if hourly is None else total_purchase_usd(first.purchase_usd, second.purchase_usd),
        power_w=first.power_w + second.power_w,
        kwh_per_million=one(kwh_per_million(np.array([power]), units))
        if has_measurable_throughput(one(units))
        else None,
        tco_usd=sum_known(first.tco_usd, second.tco_usd),
        price=dearer.price,
        per_million=second.per_million,
        million_of="input and output tokens",
        parts=(*first.parts[:-1], *second.parts[:-1], Part("tokens_per_s", one(units))),
        usd_per_day=sum_known(first.usd_per_day, second.usd_per_day),
        peak_usd_per_hour=sum_known(first.peak_usd_per_hour, second.peak_usd_per_hour),
        average_power_w=sum_known(first.average_power_w, second.average_power_w),
        carbon=combined_carbon(first.carbon, second.carbon, performance, one(units)),
    )


def combined_carbon(
    first: Carbon | None, second: Carbon | None, performance: Performance, units_per_s: float
) -> Carbon | None:
    """Greenhouse gases of both pools; None if the grid of one is unknown."""
    if first is None or second is None:
        return None
    kg, hours = first.kg + second.kg, HOURS_PER_MONTH
    if first.period == "run":
        hours = (performance.days or 0.0) * HOURS_PER_DAY
    million = hours * SECONDS_PER_HOUR * units_per_s / 1e6
    each = kg / million if has_measurable_throughput(units_per_s) and million > 0 else None
    return Carbon(kg, each, first.period, tuple(dict.fromkeys((*first.grids, *second.grids))))


def combined_assurance(both: PoolEstimates) -> Assurance | None:
    """Assurance of both pools together: the lower probability of the two.

    Prediction errors of the pools are fully correlated, because they run on one engine.
    """
    first, second = (found.assurance for found in both.in_order)
    if first is None or second is None:
        return None
    met = [sure.meets_slo for sure in (first, second) if sure.meets_slo is not None]
    in_time = [sure.meets_deadline for sure in (first, second) if sure.meets_deadline is not None]
    pairs = zip(first.by_level, second.by_level, strict=True)
    return Assurance(
        asked=first.asked,
        fits=min(first.fits, second.fits),
        meets_slo=min(met, default=None),
        meets_deadline=min(in_time, default=None),
        by_level=tuple(combined_level(one_level, other) for one_level, other in pairs),
        after=tuple(map(combined_level, first.after, second.after)),
        bill=combined_bill(first.bill, second.bill),
    )


def combined_bill(first: Sequence[CertaintyFactor], second: Sequence[CertaintyFactor]) -> tuple[CertaintyFactor, ...]:
    """Bill of both pools together: the accelerators of both up to each factor; empty where one pool has no bill."""
    lines, order = list[CertaintyFactor](), tuple(BillFactor)
    for place, factor in enumerate(order if first and second else ()):
        own = [line for line in (*first, *second) if line.factor is factor]
        if own:
            upto = [[line for line in bill if order.index(line.factor) <= place][-1] for bill in (first, second)]
            count, usd = sum(line.total_accelerators for line in upto), sum_known(*(line.usd_per_hour for line in upto))
            multiplier = count / lines[-1].total_accelerators if lines else 1.0
            removed = "; ".join(dict.fromkeys(line.removed_by for line in own))
            lines.append(CertaintyFactor(factor, multiplier, count, usd, removed))
    return tuple(lines)


def combined_level(first: Level, second: Level) -> Level:
    """Resources of both pools together at a confidence level."""
    count = sum_known(first.total_accelerators, second.total_accelerators)
    if count is None:
        return Level(first.confidence, None)
    hourly = sum_known(first.usd_per_hour, second.usd_per_hour)
    beyond = first.unreachable or second.unreachable  # more than the caller owns
    return Level(first.confidence, int(count), usd_per_hour=hourly, unreachable=beyond)
