"""Where an answer stands on thin ground: little margin, little evidence, a limit that a poor result would miss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.sizing.answer.money import usd
from app.sizing.question import Question
from app.sizing.result import Assurance, DeviceMemory, Estimate, Interval, Level, Notice, Performance, Ranked
from app.sizing.units import GIB, SECONDS_PER_DAY
from app.sizing.words import counted, figure, span
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload


@dataclass(frozen=True, slots=True)
class Told:
    """What there may be something to tell of: an estimate, and what was asked."""

    question: Question
    estimate: Estimate

    @property
    def serving(self) -> InferenceWorkload | None:
        workload = self.question.workload
        return workload if isinstance(workload, InferenceWorkload) else None

    @property
    def training(self) -> TrainingWorkload | None:
        workload = self.question.workload
        return workload if isinstance(workload, TrainingWorkload) else None


@dataclass(frozen=True, slots=True)
class Sized(Told):
    """One estimate that runs, and what is ranked behind it."""

    performance: Performance
    behind: Sequence[Ranked] = ()


def cautions(question: Question, ranked: Sequence[Ranked]) -> list[Notice]:
    """What is to be told of the first."""
    if not ranked or ranked[0].estimate.performance is None or not ranked[0].estimate.fits:
        return []
    sized = Sized(question, ranked[0].estimate, ranked[0].estimate.performance, ranked[1:])
    return [notice for of in CAUTIONS if (notice := of(sized)) is not None]


def thin_margin(sized: Sized) -> Notice | None:
    """The confidence asked for holds only just, and the next one takes far more or cannot be had."""
    assurance, assumed = sized.estimate.assurance, sized.question.assumptions
    if assurance is None or not 0 <= met_with(assurance) - assurance.asked < assumed.thin_margin:
        return None
    here = next((level for level in assurance.by_level if level.confidence == assurance.asked), None)
    after = next((level for level in assurance.by_level if level.confidence > assurance.asked), None)
    if here is None or after is None or here.total_accelerators is None:
        return None
    sure = f"Sized for {assurance.asked:.0%}"
    if after.total_accelerators is None:
        text = (
            f"{sure}: laid out like this no number of these accelerators reaches {after.confidence:.0%} "
            f"({weakest(assurance)}). Measure before buying, or ask for confidence {after.confidence:g}."
        )
        return Notice("thin_margin", text)
    growth = amount(after) / max(amount(here), 1e-9)
    if growth < assumed.thin_margin_growth:
        return None
    return Notice(
        "thin_margin",
        f"{sure} with {words_of(here)}; {after.confidence:.0%} takes {words_of(after)}. Measure before buying, or ask "
        f"for confidence {after.confidence:g}.",
    )


def conditions(assurance: Assurance) -> list[tuple[float, str]]:
    """Probability of each condition, in words."""
    told = (
        (assurance.fits, "memory"),
        (assurance.meets_slo, "load and limits"),
        (assurance.meets_deadline, "deadline"),
    )
    return [(p, words) for p, words in told if p is not None]


def met_with(assurance: Assurance) -> float:
    """Probability of the condition that is least sure to hold."""
    return min(conditions(assurance))[0]


def weakest(assurance: Assurance) -> str:
    """The condition that is least sure to hold, in words."""
    probability, words = min(conditions(assurance))
    return f"{words}: {probability:.0%} sure"


def amount(level: Level) -> float:
    """What a level takes: money where there is a price."""
    spent = level.usd_total if level.usd_total is not None else level.usd_per_hour
    return float(level.total_accelerators or 0) if spent is None else spent


def words_of(level: Level) -> str:
    """A level in words: accelerators, and their cost where there is a price."""
    count = level.total_accelerators or 0
    text = counted(count, "accelerator")
    if level.usd_total is not None:
        return f"{text} ({usd(level.usd_total)})"
    return text if level.usd_per_hour is None else f"{text} ({usd(level.usd_per_hour)} per hour)"


def worse(interval: Interval, point: float, *, more_is_better: bool) -> float:
    """How many times as long as predicted the poor end of an interval takes."""
    if more_is_better:
        return point / interval.low if interval.low > 0 else float("inf")
    return interval.high / point if point > 0 else 1.0


def low_end_misses_load(sized: Sized) -> Notice | None:
    """A poor result does not carry the peak."""
    workload, p = sized.serving, sized.performance
    capacity = p.requests_per_s_capacity
    point = getattr(p, p.interval.quantity, None)
    if workload is None or workload.load is not Load.OPEN or not capacity or not point or p.utilization_at_peak is None:
        return None
    factor = worse(p.interval, point, more_is_better=True)
    carried = workload.peak_per_s / max(p.utilization_at_peak, 1e-9) / factor
    if p.utilization_at_peak > 1 or carried >= workload.peak_per_s:
        return None
    return Notice(
        "low_end_misses_load",
        f"At the low end of its 80 % interval it carries {figure(carried)} of {figure(workload.peak_per_s)} requests/s "
        "at peak: measure first, or ask for more confidence.",
    )


LIMITS = {"ttft": "time to first token", "tpot": "time per output token", "e2e": "whole request"}


def low_end_misses_limit(sized: Sized) -> Notice | None:
    """A poor result does not meet a limit that the prediction meets."""
    workload, p = sized.serving, sized.performance
    if workload is None or workload.classes:  # whose limits are told class by class
        return None
    shown = "p95_s" if 50 < workload.slo.percentile <= 95 else "p99_s" if workload.slo.percentile > 95 else "p50_s"
    for name, label in LIMITS.items():
        bound, found = getattr(workload.slo, f"{name}_s"), getattr(p, name)
        interval = next((i for i in p.intervals if i.quantity == f"{name}_s"), None)
        point, tail = (None, None) if found is None else (found.p50_s, getattr(found, shown))
        if bound is None or interval is None or point is None or tail is None or tail > bound:
            continue
        slow = tail * worse(interval, point, more_is_better=False)
        if slow > bound:
            return Notice(
                "low_end_misses_limit",
                f"At the slow end of its 80 % interval the {label} is {slow * 1e3:,.0f} ms at {shown[:3]}, above the "
                f"{bound * 1e3:,.0f} ms allowed: measure first, or ask for more confidence.",
            )
    return None


def low_end_misses_deadline(sized: Sized) -> Notice | None:
    """A poor result is late where the predicted one is in time."""
    deadline_s, p = sized.question.workload.deadline_s, sized.performance
    point = getattr(p, p.interval.quantity, None)
    if deadline_s is None or p.days is None or not point:
        return None
    limit, slow = deadline_s / SECONDS_PER_DAY, p.days * worse(p.interval, point, more_is_better=True)
    if p.days > limit or slow <= limit:
        return None
    return Notice(
        "low_end_misses_deadline",
        f"At the low end of its 80 % interval the run takes {slow / limit:.0%} of the {span(limit)} allowed: measure "
        "first, or ask for more confidence.",
    )


def deadline_nearly_used(sized: Sized) -> Notice | None:
    """The expected duration leaves no room."""
    deadline_s, days = sized.question.workload.deadline_s, sized.performance.days
    if deadline_s is None or days is None:
        return None
    share = days * SECONDS_PER_DAY / deadline_s
    if not sized.question.assumptions.deadline_nearly_used < share <= 1:
        return None
    allowed = span(deadline_s / SECONDS_PER_DAY)
    text = f"The run is expected to take {share:.0%} of the {allowed} allowed: anything repeated misses the deadline."
    return Notice("deadline_nearly_used", text)


def memory_nearly_full(sized: Sized) -> Notice | None:
    """What must be held leaves no room; a cache that only fills what is free does not count."""
    memory = sized.estimate.memory
    if memory is None or memory.usable_bytes <= 0:
        return None
    held = memory.total_bytes if sized.training is not None else held_at_peak(memory, sized)
    share = held / memory.usable_bytes
    if not sized.question.assumptions.memory_nearly_full < share <= 1:
        return None
    return Notice(
        "memory_nearly_full",
        f"{held / GIB:.1f} of {memory.usable_bytes / GIB:.1f} GiB usable are needed ({share:.0%}): a longer sequence "
        "or fragmentation ends in out of memory.",
    )


def held_at_peak(memory: DeviceMemory, sized: Sized) -> float:
    """Bytes that the sequences of the peak need, of a service; other work fills memory by design."""
    workload, tokens = sized.serving, memory.kv_cache_tokens
    fixed = memory.total_bytes - memory.kv_cache_bytes
    if workload is None or workload.load is not Load.OPEN or not tokens:
        return fixed
    used = (sized.performance.batch_at_peak or 0.0) * workload.tokens_per_request / tokens
    return fixed + memory.kv_cache_bytes * min(1.0, used)


def prefix_cache_must_survive(sized: Sized) -> Notice | None:
    """Hits are counted that idle sessions must find again; or none are, because waiting for them does less."""
    workload, kept = sized.serving, sized.estimate.prefixes
    if workload is None or kept is None:
        return None
    gap, twice = figure(kept.turn_gap_s), figure(2 * kept.turn_gap_s)
    held = f"{figure(kept.sessions)} idle sessions, {figure(kept.bytes_per_replica / GIB)} GiB"
    share = f"{workload.cached_prefix_fraction:.0%}"
    if not kept.counted:
        return Notice(
            "prefix_hits_not_counted",
            f"The {share} of a prompt that could be cached are computed all the same: with {gap} s between turns a "
            f"replica would keep {held}, and does more without. A shorter gap or a prefix that all share changes that.",
        )
    bare, later = times_of(kept.times_without_hits), times_of(kept.times_at_twice_the_gap)
    return Notice(
        "prefix_cache_must_survive",
        f"{share} of a prompt are counted as cached: every replica keeps {held}, for {gap} s between turns, and a "
        f"session's requests must reach the same replica. Without hits the same load {bare}; with {twice} s between "
        f"turns it {later}.",
    )


def times_of(times: float | None) -> str:
    """How many times the replicas a load takes; None: it misses its limits."""
    if times is None:
        return "misses the limits"
    return "may take no more" if figure(times) == "1" else f"takes at least {figure(times)} times the replicas"


def roofline_above_calibrated(sized: Sized) -> Notice | None:
    """The first was never measured, and one behind it was."""
    if sized.performance.basis != "roofline":
        return None
    for other in sized.behind:
        known = other.estimate.performance
        if known is not None and known.basis != "roofline":
            return Notice(
                "roofline_above_calibrated",
                f"No published result is near the first (basis: roofline). {other.accelerator.name}, "
                f"ranked {other.rank}, rests on results: measure the first before buying.",
            )
    return None


def one_source_only(sized: Sized) -> Notice | None:
    """One source, or none, knows the runtime on this family."""
    d, sources = sized.estimate.deployment, sized.performance.sources
    if sources is None or sources > 1:
        return None
    known = "No source has" if sources < 1 else "Only one source has"
    text = f"{known} published results of {d.engine or d.framework} on hardware of this family: measure before buying."
    return Notice("one_source_only", text)


def cheaper_apart(sized: Sized) -> Notice | None:
    """Classes of traffic, or models, that would cost less each on machines of its own."""
    for fleet in (sized.estimate.shared, sized.estimate.packing):
        if fleet is not None and fleet.cheaper == "apart":
            return Notice("cheaper_apart", fleet.why)
    return None


CAUTIONS: tuple[Callable[[Sized], Notice | None], ...] = (
    thin_margin,
    low_end_misses_load,
    low_end_misses_limit,
    low_end_misses_deadline,
    deadline_nearly_used,
    memory_nearly_full,
    prefix_cache_must_survive,
    roofline_above_calibrated,
    one_source_only,
    cheaper_apart,
)
