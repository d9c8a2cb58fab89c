"""Selects the benchmark worth running before a purchase: the one whose result can save most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.sizing.answer.benchmark import trial_of
from app.sizing.answer.money import usd
from app.sizing.answer.pools_trial import pair_share, pools_trial
from app.sizing.question import Question
from app.sizing.result import Estimate, Level, Ranked, Verification
from app.sizing.units import HOURS_PER_MONTH
from app.sizing.words import counted, figure, percent

PREDICTED = 0.5  # confidence of the median prediction
ROUNDS_TO_NOTHING = 0.005  # a saving up to this share of the price counts as none


@dataclass(frozen=True, slots=True)
class Stake:
    """Cost of one candidate at the requested confidence, and its cost if a benchmark confirms the median prediction.

    `at_confidence` and `at_prediction` are in USD per hour of a service, USD of a run, or accelerators where there
    is no price.
    """

    ranked: Ranked
    at_confidence: Level
    at_prediction: Level
    priced: bool

    def amount(self, level: Level) -> float | None:
        """USD or accelerators that a level takes; None where no number of accelerators is enough."""
        if self.priced:
            return level.usd_total if level.usd_total is not None else level.usd_per_hour
        return None if level.total_accelerators is None else float(level.total_accelerators)

    @property
    def of_a_run(self) -> bool:
        """Whether the cost is paid once, as the cost of a benchmark is."""
        return self.at_prediction.usd_total is not None

    @property
    def name(self) -> str:
        return self.ranked.accelerator.name


def verification(question: Question, ranked: Sequence[Ranked]) -> Verification | None:
    """Benchmark whose result can save most; None without costs at other confidences or without a command."""
    stakes = [stake for each in ranked if (stake := stake_of(each)) is not None]
    if not ranked or not stakes or stakes[0].ranked is not ranked[0]:
        return None
    first = stakes[0]
    stakes = [stake for stake in stakes if stake.priced is first.priced]
    chosen = max(stakes, key=lambda stake: saved(stake, first))
    pooled = chosen.ranked.estimate.deployment.pools is not None
    trial = (pools_trial if pooled else trial_of)(question, chosen.ranked.estimate)
    if trial is None:
        return None
    runner_up = next((s for s in stakes if s is not first), None)
    text = decides(chosen, first, runner_up, trial.counts)
    if chosen.of_a_run and 0 < saved(chosen, first) <= (trial.usd or 0.0):
        text += " The benchmark costs more than it saves."
    return Verification(
        command=trial.command,
        accelerator=chosen.ranked.estimate.deployment.accelerator,
        accelerators=trial.accelerators,
        minutes=trial.minutes,
        usd=trial.usd,
        decides=text,
    )


def stake_of(ranked: Ranked) -> Stake | None:
    """Costs of a candidate at both confidences; None where they are not known."""
    assurance = ranked.estimate.assurance
    if assurance is None:
        return None
    by_level = {level.confidence: level for level in assurance.by_level}
    at_confidence, at_prediction = by_level.get(assurance.asked), by_level.get(PREDICTED)
    if at_confidence is None or at_prediction is None:
        return None
    priced = any(level.usd_per_hour is not None or level.usd_total is not None for level in (at_confidence, at_prediction))
    return Stake(ranked, at_confidence, at_prediction, priced)


def saved(stake: Stake, first: Stake) -> float:
    """Saving if a candidate performs as predicted, relative to the first candidate at the requested confidence.

    Zero where the first candidate takes as many accelerators at both confidences: a benchmark then changes no
    decision.
    """
    paid, found = first.amount(first.at_confidence), stake.amount(stake.at_prediction)
    alike = stake is first and stake.at_prediction.total_accelerators == stake.at_confidence.total_accelerators
    if paid is None or found is None or alike:
        return 0.0
    return max(0.0, paid - found)


def decides(chosen: Stake, first: Stake, runner_up: Stake | None, counts: str = "") -> str:
    """Text that says which result changes the decision, and how much it saves."""
    speed = speed_of(chosen.ranked.estimate)
    if speed is None:
        return f"The benchmark confirms {hardware(first)}."
    value, unit, where = speed
    saving, paid = saved(chosen, first), first.amount(first.at_confidence) or 0.0
    read = f" (computed as {counts})" if counts else ""
    reached = f"If the benchmark shows at least {figure(value)} {unit}{where}{read}"
    other, outcome = (runner_up, "is cheaper") if chosen is first else (first, "stays cheaper")
    if saving <= ROUNDS_TO_NOTHING * paid:
        text = (
            f"The benchmark checks the predicted {figure(value)} {unit}{where}{read}. If it confirms this rate, the "
            f"recommendation stays {hardware(first)} ({percent(first.at_confidence.confidence)} confidence)."
        )
    elif chosen is first:
        enough = chosen.at_prediction.total_accelerators or 0
        text = (
            f"{reached}, {counted(enough, 'accelerator')} {'is' if enough == 1 else 'are'} enough instead of "
            f"{chosen.at_confidence.total_accelerators:,}. This saves {difference(saving, chosen)}."
        )
    else:
        text = (
            f"{reached}, choose {hardware(chosen, chosen.at_prediction)} instead of {hardware(first)}. This saves "
            f"{difference(saving, chosen)}."
        )
    least = tied_at(value, chosen, other)
    if least is None or other is None:
        return text
    return f"{text} Below {figure(least)} {unit}, {hardware(other)} {outcome}."


def tied_at(value: float, chosen: Stake, other: Stake | None) -> float | None:
    """Speed of the chosen candidate at which another candidate costs as much; cost is inversely proportional to speed.

    None where that speed is not between the low end of the predicted range and the prediction.
    """
    bound, found = None if other is None else other.amount(other.at_confidence), chosen.amount(chosen.at_prediction)
    p, point = chosen.ranked.estimate.performance, point_of(chosen.ranked.estimate)
    if not bound or found is None or p is None or not point:
        return None
    return value * found / bound if p.interval.low / point < found / bound < 1 else None


def point_of(estimate: Estimate) -> float | None:
    """Predicted value of the quantity that the first interval describes."""
    p = estimate.performance
    return None if p is None else getattr(p, p.interval.quantity, None)


def speed_of(estimate: Estimate) -> tuple[float, str, str] | None:
    """Rate that a benchmark reports, its unit, and what it describes: a replica, a pair of pool replicas or the run."""
    p, value = estimate.performance, point_of(estimate)
    if p is None or value is None:
        return None
    unit = p.interval.quantity.removesuffix("_per_s").replace("_", " ") + "/s"
    if p.days is not None and p.requests_per_s_capacity is None:  # training has no replicas
        return value, unit, ""
    sure = estimate.assurance
    limited = p.e2e is not None and sure is not None and sure.meets_slo is not None
    if estimate.deployment.pools is not None:
        where = " from one replica of each pool"
        return value * pair_share(estimate), unit, f"{where} within the limits" if limited else where
    where = " per replica within the limits" if limited else " per replica"
    return value / max(1, estimate.deployment.replicas or 1), unit, where


def hardware(stake: Stake, level: Level | None = None) -> str:
    """Number and name of the accelerators of a level."""
    count = (level or stake.at_confidence).total_accelerators
    return stake.name if count is None else f"{count:,} × {stake.name}"


def difference(saving: float, stake: Stake) -> str:
    """Saving as text: of a run in USD, of a service in USD per month, without a price in accelerators."""
    if not stake.priced:
        return counted(saving, "accelerator")
    if stake.of_a_run:
        return usd(saving)
    return f"{usd(saving * HOURS_PER_MONTH)} per month"
