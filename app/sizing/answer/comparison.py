"""Where each recommendation stands beside the best one."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.answer.money import price_words
from app.sizing.answer.summary import OBJECTIVE_WORDS, hardware_words
from app.sizing.hardware.parts import Accelerator
from app.sizing.question import Question
from app.sizing.result import Estimate, Reason
from app.sizing.snapshot import Market


def limiting_resource(bottleneck: str | None, a: Accelerator) -> str:
    """What an accelerator has of the resource that limits a plan, in words."""
    if bottleneck == "compute":
        rate = max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))
        return f"{rate / 1e12:,.4g} TFLOP/s in 16 bit"
    if bottleneck == "memory_capacity":
        return f"{(a.memory_bytes or 0) / 2**30:,.3g} GiB"
    if bottleneck == "interconnect":
        return f"{a.scaleup_bytes_per_s / 1e9:,.3g} GB/s of link"
    return f"{(a.memory_bytes_per_s or 0) / 1e12:,.3g} TB/s of memory bandwidth"


def compared(
    estimates: tuple[Estimate, ...], question: Question, feasible: int, market: Market
) -> tuple[Estimate, ...]:
    """Each estimate with a sentence on where it stands: the best first says why it leads, the others what they lack."""
    if not estimates:
        return estimates
    best = estimates[0]
    types = f"the {feasible} accelerator types" if feasible > 1 else "the accelerator types"
    why = (
        f"Of {types} that meet the limits it has {OBJECTIVE_WORDS[question.objective]}: {hardware_words(best, market)}, {price_words(best)}."
        if feasible > 1
        else "It is the only accelerator type that meets the limits."
    )
    reasons = [Reason("choice", why, "feasible_accelerators", float(feasible), "types")]
    if len(estimates) > 1:
        reasons.append(against(estimates[1], best, market, lead="The runner-up is {name}: it"))
    told = [replace(best, explanation=(*reasons, *best.explanation))]
    told += [
        replace(e, explanation=(*e.explanation, against(e, best, market, lead="Beside the best, {name}")))
        for e in estimates[1:]
    ]
    return tuple(told)


def against(mine: Estimate, best: Estimate, market: Market, *, lead: str) -> Reason:
    """What a plan lacks beside the best: money, time, and the resource that limits it."""

    def accelerator(e: Estimate) -> Accelerator:
        return market.accelerators[market.accelerator_index[e.deployment.accelerator]]

    parts: list[str] = []
    money = ratio(spent(mine), spent(best))
    if money is not None:
        same = abs(money - 1) < 0.005
        parts.append("costs as much" if same else f"costs {abs(money - 1):.0%} {'more' if money > 1 else 'less'}")
    time = ratio(duration_s(mine), duration_s(best))
    if time is not None:
        parts.append("is as fast" if abs(time - 1) < 0.05 else f"takes {time:.2g} times as long")
    has = limiting_resource(mine.bottleneck, accelerator(mine))
    other = limiting_resource(mine.bottleneck, accelerator(best))
    count, others = mine.deployment.total_accelerators or 0, best.deployment.total_accelerators or 0
    resource = f"{count:,} with {has} each against {others:,} with {other}"
    text = f"{lead.format(name=accelerator(mine).name)} {' and '.join(parts) or 'has no known price'}; {resource}."
    return Reason("comparison", text, "cost_ratio", money or 0.0, "1")


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b is not None and b > 0 else None


def spent(e: Estimate) -> float | None:
    """USD of the run, or per hour."""
    if e.cost is None:
        return None
    return e.cost.usd_total if e.cost.usd_total is not None else e.cost.usd_per_hour


def duration_s(e: Estimate) -> float | None:
    """Seconds of the run, or of a typical request."""
    p = e.performance
    if p is None:
        return None
    return p.days * 86400 if p.days is not None else p.e2e.p50_s if p.e2e is not None else None
