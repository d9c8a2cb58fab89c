"""Explanations of two pools in an answer: each pool, the transfer between them, and the client's latency."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.sizing.answer.simulated import run_reason
from app.sizing.hardware.parts import PricingModel
from app.sizing.pools.parts import reported_percentile
from app.sizing.product_names import format_name, provider_name
from app.sizing.question import Deployment
from app.sizing.result import Estimate, Performance, Reason
from app.sizing.snapshot import Catalog
from app.sizing.units import GBIT, MIB, SECONDS_PER_DAY
from app.sizing.values.pools import PoolLoad, PoolSplit, Transfer
from app.sizing.words import format_count, format_number, percent
from app.sizing.workload import InferenceWorkload

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
    spare = f" and {format_count(d.spare_replicas, 'spare')}" if d.spare_replicas else ""
    used = "" if load.utilization is None else f" ({percent(load.utilization)} utilized at this load)"
    text = (
        f"{name.capitalize()}: {format_count(d.replicas or 0, 'replica')}{spare}, {d.accelerators_per_replica} × "
        f"{accelerator} each, {format_name(d.weight_format or '')}: "
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
