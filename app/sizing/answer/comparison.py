"""Comparison of each recommendation with the best one: cost, time and the limiting resource."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.answer.money import confident_usd, describe_price, mean_usd_per_hour
from app.sizing.answer.summary import OBJECTIVE_WORDS, describe_hardware
from app.sizing.hardware.parts import SOCKET, Accelerator
from app.sizing.product_names import format_name, product_name
from app.sizing.question import Objective, Question
from app.sizing.result import Estimate, Ranked, Reason, RunnerUp
from app.sizing.units import GIB, GIGA, SECONDS_PER_DAY, TERA
from app.sizing.words import format_count, format_number, percent

# Differences that rounding hides: whole percents for money, two digits for time.
ROUNDS_TO_0_PERCENT = 0.005
ROUNDS_TO_ONE = 0.05
KNOWN_SOFTWARE = "use whichever you know"  # how to choose between near ties of software
# How much worse an option of a near tie is; other objectives say "worse".
WORSE_WORDS = {Objective.COST: "more expensive", Objective.LATENCY: "slower"}
# What options of a near tie have in common, by objective: for one option and for several.
NEAR_TIE_WORDS = {
    Objective.COST: ("costs about the same", "cost about the same"),
    Objective.LATENCY: ("is about as fast", "are about as fast"),
    Objective.THROUGHPUT: ("has about the same throughput", "have about the same throughput"),
    Objective.ENERGY: ("uses about as much energy", "use about as much energy"),
    Objective.BALANCED: ("performs about as well", "perform about as well"),
}


def limiting_resource(bottleneck: str | None, a: Accelerator) -> str:
    """Amount of the limiting resource that one accelerator has: "80 GiB of memory"; empty for the host.

    The amount comes before " of ".
    """
    if bottleneck == "compute":
        rate = max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))
        return f"{format_number(rate / TERA)} TFLOP/s of 16-bit compute"
    if bottleneck == "memory_capacity":
        return f"{format_number((a.memory_bytes or 0) / GIB)} GiB of memory"
    if bottleneck == "interconnect":
        return f"{format_number(a.scaleup_bytes_per_s / GIGA)} GB/s of link bandwidth"
    if bottleneck == "host":
        return ""  # data sheets of accelerators say nothing about the host
    return f"{format_number((a.memory_bytes_per_s or 0) / TERA)} TB/s of memory bandwidth"


def add_comparisons(ranked: tuple[Ranked, ...], question: Question, feasible: int) -> tuple[Ranked, ...]:
    """Recommendations with their comparison: why the best one leads, and how the others differ from it."""
    if not ranked:
        return ranked
    best = ranked[0]
    why = "This is the only accelerator type that meets the limits."
    if feasible > 1:
        why = (
            f"Of the {feasible} accelerator types that meet the limits, this one has "
            f"{OBJECTIVE_WORDS[question.objective]}: {describe_hardware(best)}, {describe_price(best.estimate)}."
        )
    reasons = [Reason("choice", why, "feasible_accelerators", float(feasible), "types")]
    if len(ranked) > 1:
        reasons.append(compare_with_best(ranked[1], best, lead="Next best: {name}. It"))
    share = question.assumptions.near_tie_share
    others = ((r, compare_with_best(r, best, lead="Compared with the best option, {name}")) for r in ranked[1:])
    return (
        with_explanation(
            best, (*reasons, *find_near_ties(ranked, question.objective, share), *best.estimate.explanation)
        ),
        *(
            with_explanation(r, (*r.estimate.explanation, lacks, *find_near_ties((r,), question.objective, share)))
            for r, lacks in others
        ),
    )


def find_near_ties(ranked: tuple[Ranked, ...], objective: Objective, share: float) -> tuple[Reason, ...]:
    """Near ties of the first of these options: another engine, or the next accelerator type at a similar price.

    Parameters:
        share: largest difference that counts as a near tie, from 0 to 1.
    """
    first, near, choice = ranked[0], [], KNOWN_SOFTWARE
    if first.runner_up is not None:
        near.append(describe_runner_up(first.runner_up))
    if len(ranked) > 1 and (objective is Objective.COST or relative_cost(ranked[1], first) <= 1 + share):
        worse = first.score / ranked[1].score - 1
        near.append((ranked[1].accelerator.name, worse))
        choice = "choose by availability" if worse <= share else choice
    return near_tie_reason([(name, worse) for name, worse in near if worse <= share], objective, choice)


def relative_cost(other: Ranked, first: Ranked) -> float:
    """Cost of another option over that of the first; 1 where it is unknown."""
    return ratio_or_none(spent_usd(other.estimate), spent_usd(first.estimate)) or 1.0


def describe_runner_up(runner_up: RunnerUp) -> tuple[str, float]:
    """The runner-up engine as text ("SGLang in FP8"), and how much worse it is as a share."""
    stored = f" in {format_name(runner_up.weight_format)}" if runner_up.weight_format else ""
    return f"{product_name(runner_up.engine)}{stored}", runner_up.worse


def near_tie_reason(
    near: list[tuple[str, float]], objective: Objective, choice: str = KNOWN_SOFTWARE
) -> tuple[Reason, ...]:
    """The near tie as a reason: each option of `near` with how much worse it is, and how to choose."""
    if not near:
        return ()
    less = WORSE_WORDS.get(objective, "worse")
    named = " and ".join(f"{n} ({percent(worse)} {less})" if worse >= ROUNDS_TO_0_PERCENT else n for n, worse in near)
    one, several = NEAR_TIE_WORDS[objective]
    text = f"{named} {one if len(near) == 1 else several}; {choice}."
    return (Reason("near_tie", text, "difference", min(worse for _, worse in near), "1"),)


def with_explanation(ranked: Ranked, explanation: tuple[Reason, ...]) -> Ranked:
    return replace(ranked, estimate=replace(ranked.estimate, explanation=explanation))


def compare_with_best(mine: Ranked, best: Ranked, *, lead: str) -> Reason:
    """How an option differs from the best one: cost, time, and the resource that limits it.

    Parameters:
        lead: start of the sentence, with a placeholder for the accelerator's name.
    """
    parts: list[str] = []
    money = ratio_or_none(confident_usd(mine.estimate), confident_usd(best.estimate))
    if money is None:
        money = ratio_or_none(spent_usd(mine.estimate), spent_usd(best.estimate))
    if money is not None:
        same = abs(money - 1) < ROUNDS_TO_0_PERCENT
        parts.append("costs the same" if same else f"costs {percent(abs(money - 1))} {'more' if money > 1 else 'less'}")
    time = ratio_or_none(duration_s(mine.estimate), duration_s(best.estimate))
    if time is not None:
        same = abs(time - 1) < ROUNDS_TO_ONE
        done = mine.estimate.performance
        per = "" if done is None or done.days is not None else " per request"
        slower = (
            f"takes {format_number(time)} times as long{per}"
            if time > 1
            else f"takes {percent(1 - time)} less time{per}"
        )
        parts.append("is equally fast" if same else slower)
    limit = mine.estimate.bottleneck
    has, other = limiting_resource(limit, mine.accelerator), limiting_resource(limit, best.accelerator)
    count = mine.estimate.deployment.total_accelerators or 0
    others = best.estimate.deployment.total_accelerators or 0
    numbers = format_count(count, "accelerator")
    each, other_each = (" each" if n > 1 else "" for n in (count, others))
    amount = other.partition(" of ")[0]  # the resource is named once
    resource = f"It uses {numbers} with {has}{each}; the best option uses {others:,} with {amount}{other_each}"
    if SOCKET in (mine.accelerator.kind, best.accelerator.kind):  # an instance may be part of a socket
        resource = f"It uses {describe_machines(mine)}; the best option uses {describe_machines(best)}"
    elif has == other:
        shared, per = (f", each with {has}", f" with {has}{each}") if has else ("", "")
        resource = f"It uses {numbers}; the best option uses {others:,}{shared}"
        if count == others:
            resource = f"Both use {numbers}{per}"
    name = mine.accelerator.name
    text = f"{lead.format(name=name)} {' and '.join(parts) or 'has no known price'}. {resource}."
    return Reason("comparison", text, "cost_ratio", money or 0.0, "1")


def describe_machines(ranked: Ranked) -> str:
    """Number and name of the machines: "7 × c8i.xlarge"."""
    d = ranked.estimate.deployment
    return (
        f"{d.nodes or 1:,} × {d.instance_type or ranked.names.get(d.system or '', d.system) or ranked.accelerator.name}"
    )


def ratio_or_none(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b is not None and b > 0 else None


def spent_usd(e: Estimate) -> float | None:
    """USD of the run, or USD per hour as the mean of a day."""
    if e.cost is None:
        return None
    return e.cost.usd_total if e.cost.usd_total is not None else mean_usd_per_hour(e.cost)


def duration_s(e: Estimate) -> float | None:
    """Seconds of the run, or of a median request."""
    p = e.performance
    if p is None:
        return None
    return p.days * SECONDS_PER_DAY if p.days is not None else p.e2e.p50_s if p.e2e is not None else None
