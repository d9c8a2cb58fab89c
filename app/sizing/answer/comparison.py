"""Where each recommendation stands beside the best one."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.answer.money import mean_usd_per_hour, price_words, surely_usd
from app.sizing.answer.summary import OBJECTIVE_WORDS, hardware_words
from app.sizing.hardware.parts import SOCKET, Accelerator
from app.sizing.question import Objective, Question
from app.sizing.result import Estimate, Ranked, Reason, Rival
from app.sizing.units import GIB, GIGA, SECONDS_PER_DAY, TERA
from app.sizing.words import counted, figure

# A difference that the words would round away: whole percents, two digits.
ROUNDS_TO_0_PERCENT = 0.005
ROUNDS_TO_ONE = 0.05
# What a near tie does, by the objective.
AS_MUCH = {
    Objective.COST: "cost about as much",
    Objective.LATENCY: "take about as long",
    Objective.THROUGHPUT: "do about as much",
    Objective.ENERGY: "use about as much energy",
    Objective.BALANCED: "do about as well",
}


def limiting_resource(bottleneck: str | None, a: Accelerator) -> str:
    """What an accelerator has of the resource that limits a plan, in words."""
    if bottleneck == "compute":
        rate = max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))
        return f"{figure(rate / TERA)} TFLOP/s in 16 bit"
    if bottleneck == "memory_capacity":
        return f"{figure((a.memory_bytes or 0) / GIB)} GiB"
    if bottleneck == "interconnect":
        return f"{figure(a.scaleup_bytes_per_s / GIGA)} GB/s of link"
    if bottleneck == "host":
        return ""  # of which no data sheet speaks
    return f"{figure((a.memory_bytes_per_s or 0) / TERA)} TB/s of memory bandwidth"


def compared(ranked: tuple[Ranked, ...], question: Question, feasible: int) -> tuple[Ranked, ...]:
    """Each with a sentence on where it stands: the best first says why it leads, the others what they lack."""
    if not ranked:
        return ranked
    best = ranked[0]
    why = "It is the only accelerator type that meets the limits."
    if feasible > 1:
        why = (
            f"Of the {feasible} accelerator types that meet the limits it has {OBJECTIVE_WORDS[question.objective]}: "
            f"{hardware_words(best)}, {price_words(best.estimate)}."
        )
    reasons = [Reason("choice", why, "feasible_accelerators", float(feasible), "types")]
    if len(ranked) > 1:
        reasons.append(against(ranked[1], best, lead="The runner-up is {name}: it"))
    share = question.assumptions.near_tie_share
    others = ((r, against(r, best, lead="Beside the best, {name}")) for r in ranked[1:])
    return (
        explained(best, (*reasons, *near_ties(ranked, question.objective, share), *best.estimate.explanation)),
        *(
            explained(r, (*r.estimate.explanation, lacks, *near_ties((r,), question.objective, share)))
            for r, lacks in others
        ),
    )


def near_ties(ranked: tuple[Ranked, ...], objective: Objective, share: float) -> tuple[Reason, ...]:
    """Where another engine, or the next accelerator type for about the money, comes as near to the first as the share:
    which, and how near.
    """
    first, near = ranked[0], []
    if first.rival is not None:
        near.append(as_tied(first.rival))
    if len(ranked) > 1 and (objective is Objective.COST or times_the_money(ranked[1], first) <= 1 + share):
        near.append((ranked[1].accelerator.name, first.score / ranked[1].score - 1))
    return tied([(name, worse) for name, worse in near if worse <= share], objective)


def times_the_money(other: Ranked, first: Ranked) -> float:
    """What another costs over the first; 1 where that is not known."""
    return ratio(spent(other.estimate), spent(first.estimate)) or 1.0


def as_tied(rival: Rival) -> tuple[str, float]:
    """Another engine in words, and how much worse it does."""
    stored = f" in {rival.weight_format}" if rival.weight_format else ""
    return f"{rival.engine}{stored}", rival.worse


def tied(near: list[tuple[str, float]], objective: Objective) -> tuple[Reason, ...]:
    """What comes near, and how near."""
    if not near:
        return ()
    named = " and ".join(f"{n} ({worse:.0%} worse)" if worse >= ROUNDS_TO_0_PERCENT else n for n, worse in near)
    text = f"{named} would {AS_MUCH[objective]}: choose the one you know."
    return (Reason("near_tie", text, "difference", min(worse for _, worse in near), "1"),)


def explained(ranked: Ranked, explanation: tuple[Reason, ...]) -> Ranked:
    return replace(ranked, estimate=replace(ranked.estimate, explanation=explanation))


def against(mine: Ranked, best: Ranked, *, lead: str) -> Reason:
    """What a plan lacks beside the best: money, time, and the resource that limits it."""
    parts: list[str] = []
    money = ratio(surely_usd(mine.estimate), surely_usd(best.estimate))
    if money is None:
        money = ratio(spent(mine.estimate), spent(best.estimate))
    if money is not None:
        same = abs(money - 1) < ROUNDS_TO_0_PERCENT
        parts.append("costs as much" if same else f"costs {abs(money - 1):.0%} {'more' if money > 1 else 'less'}")
    time = ratio(duration_s(mine.estimate), duration_s(best.estimate))
    if time is not None:
        same = abs(time - 1) < ROUNDS_TO_ONE
        slower = f"takes {figure(time)} times as long" if time > 1 else f"takes {1 - time:.0%} less time"
        parts.append("is as fast" if same else slower)
    limit = mine.estimate.bottleneck
    has, other = limiting_resource(limit, mine.accelerator), limiting_resource(limit, best.accelerator)
    count = mine.estimate.deployment.total_accelerators or 0
    others = best.estimate.deployment.total_accelerators or 0
    resource = f"{count:,} with {has} each against {others:,} with {other}"
    if SOCKET in (mine.accelerator.kind, best.accelerator.kind):
        resource = f"{machines_of(mine)} against {machines_of(best)}"  # a part of a socket has a part of its figures
    elif not has:
        resource = f"{counted(count, 'accelerator')} against {others:,}"
    elif has == other:
        numbers = "as many" if count == others else f"{count:,} against {others:,}"
        resource = f"{numbers} with {has} each"
    name = mine.accelerator.name
    text = f"{lead.format(name=name)} {' and '.join(parts) or 'has no known price'}; {resource}."
    return Reason("comparison", text, "cost_ratio", money or 0.0, "1")


def machines_of(ranked: Ranked) -> str:
    """How many machines, and of what, in words."""
    d = ranked.estimate.deployment
    return f"{d.nodes or 1:,} x {d.instance_type or d.system or ranked.accelerator.name}"


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b is not None and b > 0 else None


def spent(e: Estimate) -> float | None:
    """USD of the run, or per hour in the mean of a day."""
    if e.cost is None:
        return None
    return e.cost.usd_total if e.cost.usd_total is not None else mean_usd_per_hour(e.cost)


def duration_s(e: Estimate) -> float | None:
    """Seconds of the run, or of a typical request."""
    p = e.performance
    if p is None:
        return None
    return p.days * SECONDS_PER_DAY if p.days is not None else p.e2e.p50_s if p.e2e is not None else None
