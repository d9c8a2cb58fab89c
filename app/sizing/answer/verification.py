"""Which one benchmark would settle most: whose result may change what is bought, and what knowing it saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.sizing.answer.benchmark import trial_of
from app.sizing.answer.money import usd
from app.sizing.answer.pools_trial import pair_share, pools_trial
from app.sizing.question import Question
from app.sizing.result import Estimate, Level, Ranked, Verification
from app.sizing.units import HOURS_PER_MONTH
from app.sizing.words import counted, figure

PREDICTED = 0.5  # the confidence at which a deployment does what is predicted of it, no more
ROUNDS_TO_NOTHING = 0.005


@dataclass(frozen=True, slots=True)
class Stake:
    """What one candidate costs at the confidence asked for, and if a benchmark finds what is predicted.

    `sure` and `found` are USD per hour of a service and USD of a run, or accelerators where there is no price.
    """

    ranked: Ranked
    sure: Level
    found: Level
    priced: bool

    def amount(self, level: Level) -> float | None:
        """What a level takes; None where no number of accelerators would do."""
        if self.priced:
            return level.usd_total if level.usd_total is not None else level.usd_per_hour
        return None if level.total_accelerators is None else float(level.total_accelerators)

    @property
    def of_a_run(self) -> bool:
        """Whether what is paid is paid once, as a benchmark is."""
        return self.found.usd_total is not None

    @property
    def name(self) -> str:
        return self.ranked.accelerator.name


def verification(question: Question, ranked: Sequence[Ranked]) -> Verification | None:
    """The benchmark that would settle most; None where nothing is known of other confidences."""
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
        text += " The benchmark costs more than that."
    return Verification(
        command=trial.command,
        accelerator=chosen.ranked.estimate.deployment.accelerator,
        accelerators=trial.accelerators,
        minutes=trial.minutes,
        usd=trial.usd,
        decides=text,
    )


def stake_of(ranked: Ranked) -> Stake | None:
    """What is at stake of one candidate."""
    assurance = ranked.estimate.assurance
    if assurance is None:
        return None
    by_level = {level.confidence: level for level in assurance.by_level}
    sure, found = by_level.get(assurance.asked), by_level.get(PREDICTED)
    if sure is None or found is None:
        return None
    priced = any(level.usd_per_hour is not None or level.usd_total is not None for level in (sure, found))
    return Stake(ranked, sure, found, priced)


def saved(stake: Stake, first: Stake) -> float:
    """How much less is paid than for the first at the confidence asked for, if a candidate does what is predicted.

    Nothing where the first takes as many accelerators either way: knowing changes no decision then.
    """
    paid, found = first.amount(first.sure), stake.amount(stake.found)
    alike = stake is first and stake.found.total_accelerators == stake.sure.total_accelerators
    if paid is None or found is None or alike:
        return 0.0
    return max(0.0, paid - found)


def decides(chosen: Stake, first: Stake, runner_up: Stake | None, counts: str = "") -> str:
    """Which result changes the decision, and what it saves."""
    speed = speed_of(chosen.ranked.estimate)
    if speed is None:
        return f"It confirms {hardware(first)}."
    value, unit, where = speed
    saving, paid = saved(chosen, first), first.amount(first.sure) or 0.0
    read = f" ({counts})" if counts else ""
    reached = f"At {figure(value)} {unit} or more{where}{read}"
    rival, outcome = (runner_up, "is cheaper") if chosen is first else (first, "stays cheaper")
    if saving <= ROUNDS_TO_NOTHING * paid:
        asked = f"{first.sure.confidence:.0%} confidence takes {hardware(first)} either way"
        text = f"It confirms {figure(value)} {unit}{where}{read}; {asked}."
    elif chosen is first:
        counted = f"{chosen.found.total_accelerators:,} instead of {chosen.sure.total_accelerators:,}"
        text = f"{reached}, {counted} would do: {difference(saving, chosen)} less."
    else:
        text = (
            f"{reached}, {hardware(chosen, chosen.found)} would do: {difference(saving, chosen)} less than "
            f"{hardware(first)}."
        )
    least = tied_at(value, chosen, rival)
    return text if least is None or rival is None else f"{text} Below {figure(least)}, {hardware(rival)} {outcome}."


def tied_at(value: float, chosen: Stake, other: Stake | None) -> float | None:
    """Speed of the chosen at which another costs as much, by the rule that cost goes with one over speed; None where
    that is outside what is expected of it.
    """
    bound, found = None if other is None else other.amount(other.sure), chosen.amount(chosen.found)
    p, point = chosen.ranked.estimate.performance, point_of(chosen.ranked.estimate)
    if not bound or found is None or p is None or not point:
        return None
    return value * found / bound if p.interval.low / point < found / bound < 1 else None


def point_of(estimate: Estimate) -> float | None:
    """The predicted value of the quantity that the first interval is of."""
    p = estimate.performance
    return None if p is None else getattr(p, p.interval.quantity, None)


def speed_of(estimate: Estimate) -> tuple[float, str, str] | None:
    """What a benchmark shows, and of what: of one replica, or of the run."""
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
    """How many of what."""
    count = (level or stake.sure).total_accelerators
    return stake.name if count is None else f"{count:,} x {stake.name}"


def difference(saving: float, stake: Stake) -> str:
    """What is saved: of a run its money, of a service a month's."""
    if not stake.priced:
        return counted(saving, "accelerator")
    if stake.of_a_run:
        return usd(saving)
    return f"{usd(saving * HOURS_PER_MONTH)} a month"
