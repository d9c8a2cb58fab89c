"""What an answer says of two pools: each, the way between them, and what a client waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.sizing.pools.parts import shown_at
from app.sizing.result import Estimate, Performance, Reason
from app.sizing.split import PoolLoad, Split, Transfer
from app.sizing.units import GBIT, MIB
from app.sizing.words import counted, figure
from app.sizing.workload import InferenceWorkload

NAMES = ("prefill", "decode")
LABELS = (("ttft", "Time to first token"), ("tpot", "Time per output token"), ("e2e", "A whole request"))
OF_A_POOL = ("memory", "bottleneck", "price", "support_expected", "network_assumed", "idle_accelerators", "placement")


def reasons(
    workload: InferenceWorkload, both: tuple[Estimate, Estimate], split: Split, performance: Performance, tight: str
) -> tuple[Reason, ...]:
    """Both pools, the way between them, the limits, and what is to be said of either alone; `tight` is the pool with
    the least memory to spare.
    """
    found = [
        *(
            pool_reason(name, each, load)
            for name, each, load in zip(NAMES, both, (split.prefill, split.decode), strict=True)
        ),
        transfer_reason(split.transfer),
        *limit_reasons(workload, performance),
    ]
    for name, each in zip(NAMES, both, strict=True):
        told = [r for r in each.explanation if r.code in OF_A_POOL and (r.code != "memory" or name == tight)]
        told = [r for r in told if r.code != "bottleneck" or name == "decode"]  # prompts are arithmetic
        found += [replace(r, text=f"The {name} pool: {r.text}") for r in told]
    return tuple(found)


def pool_reason(name: str, found: Estimate, load: PoolLoad) -> Reason:
    """What a pool is and how full it is."""
    d = found.deployment
    spare = f" and {d.spare_replicas} spare" if d.spare_replicas else ""
    used = "" if load.utilization is None else f", {load.utilization:.0%} of it at the load"
    text = (
        f"{name.capitalize()}: {counted(d.replicas or 0, 'replica')}{spare} of {d.accelerators_per_replica} x "
        f"{d.accelerator} in {d.weight_format}: up to {figure(load.requests_per_s_capacity)} requests/s{used}."
    )
    return Reason(f"pool_{name}", text, "requests_per_s_capacity", load.requests_per_s_capacity, "requests/s")


def transfer_reason(transfer: Transfer) -> Reason:
    """What sending a prompt's cache takes."""
    link = "the network" if transfer.link == "network" else "the scale-up link"
    used = "" if transfer.utilization is None else f", which it fills to {transfer.utilization:.0%}"
    text = (
        f"A prompt's cache of {figure(transfer.request_bytes / MIB)} MiB takes {figure(transfer.seconds * 1e3)} ms "
        f"over {link} at {figure(transfer.bytes_per_s / GBIT)} Gbit/s{used}."
    )
    return Reason("pool_transfer", text, "transfer_ms", transfer.seconds * 1e3, "ms")


def limit_reasons(workload: InferenceWorkload, performance: Performance) -> Iterator[Reason]:
    """How close each latency is to its limit."""
    slo, shown = workload.slo, shown_at(workload.slo.percentile)
    for name, label in LABELS:
        bound, waits = getattr(slo, f"{name}_s"), getattr(performance, name)
        value = None if waits is None else getattr(waits, f"{shown}_s")
        if bound is None or value is None:
            continue
        text = (
            f"{label} at {shown} is {value * 1e3:,.0f} ms of {bound * 1e3:,.0f} allowed at p{slo.percentile:g}: "
            f"{value / bound:.0%} of the limit."
        )
        yield Reason(f"{name}_ms", text, f"{name}_ms", value * 1e3, "ms")
