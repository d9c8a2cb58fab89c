"""Value of a benchmark before a purchase: the decision that its result may change, and what that saves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.sizing.answer.money import format_usd
from app.sizing.answer.verification import (
    ONE_HOST,
    Hosts,
    RunSection,
    plan_benchmark,
    plan_pools_benchmark,
    pool_pair_share,
)
from app.sizing.columns import HOURS_PER_MONTH
from app.sizing.question import Deployment, Objective, Question
from app.sizing.result import BenchmarkOutcome, Estimate, Level, Outcome, Ranked, Verification
from app.sizing.uncertainty import HIGH, NORMAL, OUTCOME_DEVIATIONS
from app.sizing.words import format_count, format_number, percent

MEDIAN_CONFIDENCE = 0.5  # confidence of the median prediction
NEGLIGIBLE_SAVING_SHARE = 0.005  # a saving up to this share of the price counts as none


@dataclass(frozen=True, slots=True)
class DecisionValue:
    """Cost of one candidate at the requested confidence, and its cost if a benchmark confirms the median prediction.

    `at_confidence` and `at_prediction` are in USD per hour of a service, USD of a run, or accelerators where there
    is no price.
    """

    ranked: Ranked
    at_confidence: Level
    at_prediction: Level
    priced: bool

    def cost_of_level(self, level: Level) -> float | None:
        """USD or accelerators that a level takes; None where no number of accelerators is enough."""
        if self.priced:
            return level.usd_total if level.usd_total is not None else level.usd_per_hour
        return None if level.total_accelerators is None else float(level.total_accelerators)

    @property
    def is_run_cost(self) -> bool:
        """Whether the cost is paid once, as the cost of a benchmark is."""
        return self.at_prediction.usd_total is not None

    @property
    def cost_to_beat(self) -> float | None:
        """Cost that a confirmed prediction is compared with.

        A service is bought in the size of the requested confidence. A run costs what its duration turns out to be, so
        both sides of a comparison are median predictions.
        """
        cost = self.ranked.estimate.cost
        if self.is_run_cost and self.priced and cost is not None and cost.usd_total is not None:
            return cost.usd_total
        return self.cost_of_level(self.at_confidence)

    @property
    def accelerator_name(self) -> str:
        return self.ranked.accelerator.name


def choose_verification(
    question: Question, ranked: Sequence[Ranked], host_counts: Hosts = ONE_HOST
) -> Verification | None:
    """Benchmark whose result can save most; None without costs at other confidences or without a command.

    Where the objective is not cost, only the first option is measured: a cheaper one would not be first.
    """
    stakes = [stake for each in ranked if (stake := decision_value(each)) is not None]
    if not ranked or not stakes or stakes[0].ranked is not ranked[0]:
        return None
    first = stakes[0]
    by_cost = question.objective is Objective.COST
    stakes = [stake for stake in stakes if stake is first or (by_cost and stake.priced is first.priced)]
    chosen = max(stakes, key=lambda stake: saving_over_first(stake, first))
    pooled = chosen.ranked.estimate.deployment.pools is not None
    trial = (plan_pools_benchmark if pooled else plan_benchmark)(question, chosen.ranked.estimate, host_counts)
    if trial is None:
        return None
    runner_up = next((s for s in stakes if s is not first), None)
    text = decision_text(chosen, first, runner_up, trial.rate_expression, trial.section)
    text += drafting_note(chosen.ranked.estimate.deployment)
    if chosen.is_run_cost and 0 < saving_over_first(chosen, first) <= (trial.usd or 0.0):
        text += " The benchmark costs more than it saves."
    return Verification(
        command=trial.command,
        accelerator=chosen.ranked.estimate.deployment.accelerator,
        accelerators=trial.accelerators,
        minutes=trial.minutes,
        usd=trial.usd,
        decides=text,
        after=tuple(benchmark_outcomes(chosen.ranked.estimate, trial.section)),
    )


def benchmark_outcomes(estimate: Estimate, section: RunSection | None = None) -> Iterator[BenchmarkOutcome]:
    """What a service, or a run of which a section is measured, needs after each outcome, in the order of Outcome."""
    speed, p, sure = benchmark_speed(estimate), estimate.performance, estimate.assurance
    if speed is None or p is None or sure is None or p.interval.low <= 0:
        return
    deviation = math.log(p.interval.high / p.interval.low) / (2 * NORMAL.inv_cdf(HIGH))
    for outcome, slower, level in zip(Outcome, OUTCOME_DEVIATIONS, sure.after, strict=False):
        rate = speed[0] * (1.0 if section is None else section.rate_share) * math.exp(-slower * deviation)
        needed = level.total_accelerators, level.usd_per_hour, level.usd_total
        yield BenchmarkOutcome(outcome, rate, speed[1], *needed)


def drafting_note(d: Deployment) -> str:
    """What the benchmark of speculative decoding needs, as text; empty without it."""
    if d.speculative is None:
        return ""
    return (
        " Random prompts show no acceptance. Set PROMPTS_FILE to a JSON Lines file with prompts of your own traffic, "
        f"and compare the mean accepted tokens per step with the assumed {d.speculative.tokens_per_step:.2f}."
    )


def decision_value(ranked: Ranked) -> DecisionValue | None:
    """Costs of a candidate at both confidences; None where they are not known. Later ranks may leave out levels."""
    assurance = ranked.estimate.assurance
    if assurance is None:
        return None
    by_level = {level.confidence: level for level in assurance.by_level}
    at_confidence = by_level.get(assurance.asked)
    at_prediction = by_level.get(MEDIAN_CONFIDENCE, None if ranked.rank == 1 else at_confidence)
    if at_confidence is None or at_prediction is None:
        return None
    priced = any(
        level.usd_per_hour is not None or level.usd_total is not None for level in (at_confidence, at_prediction)
    )
    return DecisionValue(ranked, at_confidence, at_prediction, priced)


def saving_over_first(stake: DecisionValue, first: DecisionValue) -> float:
    """Saving if a candidate performs as predicted, relative to the cost to beat of the first candidate.

    Zero where the first candidate takes as many accelerators at both confidences: a benchmark then changes no
    decision.
    """
    paid, found = first.cost_to_beat, stake.cost_of_level(stake.at_prediction)
    alike = stake is first and stake.at_prediction.total_accelerators == stake.at_confidence.total_accelerators
    if paid is None or found is None or alike:
        return 0.0
    return max(0.0, paid - found)


def decision_text(
    chosen: DecisionValue,
    first: DecisionValue,
    runner_up: DecisionValue | None,
    counts: str = "",
    section: RunSection | None = None,
) -> str:
    """Text that says which result changes the decision, and how much it saves."""
    speed = benchmark_speed(chosen.ranked.estimate)
    if speed is None:
        return f"The benchmark confirms {hardware_text(first)}."
    value, unit, where = speed
    if section is not None:
        value, where = (
            value * section.rate_share,
            f" on {format_count(section.deployment.total_accelerators or 1, 'accelerator')}",
        )
    note = "" if section is None else section.note
    saving, paid = saving_over_first(chosen, first), first.cost_to_beat or 0.0
    read = f" (computed as {counts})" if counts else ""
    rate = f"{format_number(value)} {unit}{where}{read}"
    confidence = f"{percent(first.at_confidence.confidence)} confidence"
    against = "the predicted cost of the first option" if chosen.is_run_cost else f"the first option at {confidence}"
    other, outcome = (runner_up, "is cheaper") if chosen is first else (first, "stays cheaper")
    if saving <= NEGLIGIBLE_SAVING_SHARE * paid:
        text = (
            f"The benchmark checks the predicted {rate}. If it confirms this rate, the recommendation stays "
            f"{hardware_text(first)} ({confidence})."
        )
    elif chosen is first:
        enough = chosen.at_prediction.total_accelerators or 0
        text = (
            f"If the benchmark shows at least {rate}, {format_count(enough, 'accelerator')} "
            f"{'is' if enough == 1 else 'are'} enough instead of {chosen.at_confidence.total_accelerators:,}. "
            f"This saves {saving_text(saving, chosen)}."
        )
    else:
        text = (
            f"If the benchmark of {chosen.accelerator_name} shows at least {rate}, choose "
            f"{hardware_text(chosen, chosen.at_prediction)} instead of {hardware_text(first)}. "
            f"This saves {saving_text(saving, chosen)} compared with {against}."
        )
    least = break_even_speed(value, chosen, other)
    unchanged = chosen is not first and saving <= NEGLIGIBLE_SAVING_SHARE * paid
    if least is None or other is None or unchanged:
        return text + note
    return f"{text} Below {format_number(least)} {unit}, {hardware_text(other)} {outcome}.{note}"


def break_even_speed(value: float, chosen: DecisionValue, other: DecisionValue | None) -> float | None:
    """Speed of the chosen candidate at which another candidate costs as much; cost is inversely proportional to speed.

    None where that speed is not between the low end of the predicted range and the prediction.
    """
    bound, found = (
        None if other is None else other.cost_to_beat,
        chosen.cost_of_level(chosen.at_prediction),
    )
    p, point = chosen.ranked.estimate.performance, predicted_value(chosen.ranked.estimate)
    if not bound or found is None or p is None or not point:
        return None
    return value * found / bound if p.interval.low / point < found / bound < 1 else None


def predicted_value(estimate: Estimate) -> float | None:
    """Predicted value of the quantity that the first interval describes."""
    p = estimate.performance
    return None if p is None else getattr(p, p.interval.quantity, None)


def benchmark_speed(estimate: Estimate) -> tuple[float, str, str] | None:
    """Rate that a benchmark reports, its unit, and what it describes: a replica, a pair of pool replicas or the run."""
    p, value = estimate.performance, predicted_value(estimate)
    if p is None or value is None:
        return None
    unit = p.interval.quantity.removesuffix("_per_s").replace("_", " ") + "/s"
    if p.samples_per_s is not None and p.total_tokens_per_s is not None:  # a text that one pass reads is a request
        unit = "requests/s"
    if p.days is not None and p.requests_per_s_capacity is None:  # training has no replicas
        return value, unit, ""
    sure = estimate.assurance
    limited = p.e2e is not None and sure is not None and sure.meets_slo is not None
    if estimate.deployment.pools is not None:
        where = " from one replica of each pool"
        return value * pool_pair_share(estimate), unit, f"{where} within the limits" if limited else where
    where = " per replica within the limits" if limited else " per replica"
    return value / max(1, estimate.deployment.replicas or 1), unit, where


def hardware_text(stake: DecisionValue, level: Level | None = None) -> str:
    """Number and name of the accelerators of a level."""
    count, pools = (level or stake.at_confidence).total_accelerators, stake.ranked.estimate.deployment.pools
    if pools is not None and pools.prefill.accelerator != pools.decode.accelerator:
        return "the two pools" if count is None else f"two pools with {count:,} accelerators"
    return stake.accelerator_name if count is None else f"{count:,} × {stake.accelerator_name}"


def saving_text(saving: float, stake: DecisionValue) -> str:
    """Saving as text: of a run in USD, of a service in USD per month, without a price in accelerators."""
    if not stake.priced:
        return format_count(saving, "accelerator")
    if stake.is_run_cost:
        return format_usd(saving)
    return f"{format_usd(saving * HOURS_PER_MONTH)} per month"
