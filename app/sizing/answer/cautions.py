"""Warnings about thin margins and thin evidence, and about limits that a slow case would miss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.sizing.answer.money import format_usd
from app.sizing.product_names import product_name
from app.sizing.question import Question
from app.sizing.result import Assurance, DeviceMemory, Estimate, Interval, Level, Notice, Performance, Ranked
from app.sizing.units import GIB, SECONDS_PER_DAY
from app.sizing.words import format_count, format_duration, format_number, percent
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

SLOW_CASE = "In a slow case (slow end of the 80 % interval),"
REMEDY = "Run the benchmark or plan for a higher confidence."


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """An estimate and the question it answers, from which warnings are derived."""

    question: Question
    estimate: Estimate

    @property
    def serving_workload(self) -> InferenceWorkload | None:
        workload = self.question.workload
        return workload if isinstance(workload, InferenceWorkload) else None

    @property
    def training_workload(self) -> TrainingWorkload | None:
        workload = self.question.workload
        return workload if isinstance(workload, TrainingWorkload) else None


@dataclass(frozen=True, slots=True)
class FeasibleAnswer(AnswerContext):
    """An estimate that runs, and the recommendations ranked below it."""

    performance: Performance
    lower_ranked: Sequence[Ranked] = ()


def find_cautions(question: Question, ranked: Sequence[Ranked]) -> list[Notice]:
    """Cautions about the first recommendation, in the order of CAUTIONS."""
    if not ranked or ranked[0].estimate.performance is None or not ranked[0].estimate.fits:
        return []
    answer = FeasibleAnswer(question, ranked[0].estimate, ranked[0].estimate.performance, ranked[1:])
    return [notice for caution in CAUTIONS if (notice := caution(answer)) is not None]


def thin_margin(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the requested confidence is only just met, and the next level costs far more or is out of reach."""
    assurance, assumed = answer.estimate.assurance, answer.question.assumptions
    if assurance is None or not 0 <= lowest_probability(assurance) - assurance.asked < assumed.thin_margin:
        return None
    here = next((level for level in assurance.by_level if level.confidence == assurance.asked), None)
    after = next((level for level in assurance.by_level if level.confidence > assurance.asked), None)
    if here is None or after is None or here.total_accelerators is None:
        return None
    sure = f"Sized for {percent(assurance.asked)} confidence"
    if after.total_accelerators is None:
        text = (
            f"{sure}. With this layout, no number of these accelerators reaches {percent(after.confidence)} "
            f"({weakest_condition(assurance)}). Run the benchmark before buying, or set confidence to "
            f"{after.confidence:g}."
        )
        return Notice("thin_margin", text)
    growth = level_cost(after) / max(level_cost(here), 1e-9)
    if growth < assumed.thin_margin_growth:
        return None
    return Notice(
        "thin_margin",
        f"{sure} with {describe_level(here)}; {percent(after.confidence)} confidence needs {describe_level(after)}. "
        "Run the "
        f"benchmark before buying, or set confidence to {after.confidence:g}.",
    )


def condition_probabilities(assurance: Assurance) -> list[tuple[float, str]]:
    """Probability and name of each condition that applies."""
    named = (
        (assurance.fits, "memory"),
        (assurance.meets_slo, "load and limits"),
        (assurance.meets_deadline, "deadline"),
    )
    return [(p, words) for p, words in named if p is not None]


def lowest_probability(assurance: Assurance) -> float:
    """Probability of the least likely condition."""
    return min(condition_probabilities(assurance))[0]


def weakest_condition(assurance: Assurance) -> str:
    """The least likely condition and its probability as text."""
    probability, words = min(condition_probabilities(assurance))
    return f"{words}: {percent(probability)} likely"


def level_cost(level: Level) -> float:
    """Cost of a confidence level in USD, or its number of accelerators where there is no price."""
    spent = level.usd_total if level.usd_total is not None else level.usd_per_hour
    return float(level.total_accelerators or 0) if spent is None else spent


def describe_level(level: Level) -> str:
    """A confidence level as text: "8 accelerators (16.00 USD/h)"."""
    count = level.total_accelerators or 0
    text = format_count(count, "accelerator")
    if level.usd_total is not None:
        return f"{text} ({format_usd(level.usd_total)})"
    return text if level.usd_per_hour is None else f"{text} ({format_usd(level.usd_per_hour)}/h)"


def slowdown_factor(interval: Interval, point: float, *, more_is_better: bool) -> float:
    """Slowdown at the slow end of an interval, as a factor of the predicted time."""
    if more_is_better:
        return point / interval.low if interval.low > 0 else float("inf")
    return interval.high / point if point > 0 else 1.0


def low_end_misses_load(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the slow case does not carry the peak load."""
    workload, p = answer.serving_workload, answer.performance
    capacity = p.requests_per_s_capacity
    point = getattr(p, p.interval.quantity, None)
    if workload is None or workload.load is not Load.OPEN or not capacity or not point or p.utilization_at_peak is None:
        return None
    factor = slowdown_factor(p.interval, point, more_is_better=True)
    carried = workload.peak_per_s / max(p.utilization_at_peak, 1e-9) / factor
    if p.utilization_at_peak > 1 or carried >= workload.peak_per_s:
        return None
    return Notice(
        "low_end_misses_load",
        f"{SLOW_CASE} the deployment serves {format_number(carried)} of the {format_number(workload.peak_per_s)} "
        f"requests/s at peak. {REMEDY}",
    )


LIMITS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "end-to-end latency"}


def low_end_misses_limit(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the slow case misses a latency limit that the median prediction meets."""
    workload, p = answer.serving_workload, answer.performance
    if workload is None or workload.classes:  # classes have limits of their own
        return None
    shown = "p95_s" if 50 < workload.slo.percentile <= 95 else "p99_s" if workload.slo.percentile > 95 else "p50_s"
    for name, label in LIMITS.items():
        bound, latency = getattr(workload.slo, f"{name}_s"), getattr(p, name)
        interval = next((i for i in p.intervals if i.quantity == f"{name}_s"), None)
        point, tail = (None, None) if latency is None else (latency.p50_s, getattr(latency, shown))
        if bound is None or interval is None or point is None or tail is None or tail > bound:
            continue
        slow = tail * slowdown_factor(interval, point, more_is_better=False)
        if slow > bound:
            return Notice(
                "low_end_misses_limit",
                f"{SLOW_CASE} {shown[:3]} {label} is {slow * 1e3:,.0f} ms; the limit is {bound * 1e3:,.0f} ms. "
                f"{REMEDY}",
            )
    return None


def low_end_misses_deadline(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the slow case misses the deadline that the expected duration meets."""
    deadline_s, p = answer.question.workload.deadline_s, answer.performance
    point = getattr(p, p.interval.quantity, None)
    if deadline_s is None or p.days is None or not point:
        return None
    limit, slow = deadline_s / SECONDS_PER_DAY, p.days * slowdown_factor(p.interval, point, more_is_better=True)
    if p.days > limit or slow <= limit:
        return None
    return Notice(
        "low_end_misses_deadline",
        f"{SLOW_CASE} the run takes {format_duration(slow)}, {percent(slow / limit)} of the {format_duration(limit)} "
        f"allowed. {REMEDY}",
    )


def deadline_nearly_used(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the expected duration uses nearly all of the time allowed."""
    deadline_s, days = answer.question.workload.deadline_s, answer.performance.days
    if deadline_s is None or days is None:
        return None
    share = days * SECONDS_PER_DAY / deadline_s
    if not answer.question.assumptions.deadline_nearly_used < share <= 1:
        return None
    allowed = format_duration(deadline_s / SECONDS_PER_DAY)
    text = (
        f"The run is expected to take {percent(share)} of the {allowed} allowed. Any repeated work would miss the "
        "deadline."
    )
    return Notice("deadline_nearly_used", text)


def memory_nearly_full(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the memory that the work needs is nearly full; cache that only fills free memory does not count."""
    memory = answer.estimate.memory
    if memory is None or memory.usable_bytes <= 0:
        return None
    needed_bytes = memory.total_bytes if answer.training_workload is not None else memory_at_peak_bytes(memory, answer)
    share = needed_bytes / memory.usable_bytes
    if not answer.question.assumptions.memory_nearly_full < share <= 1:
        return None
    one_pass = answer.serving_workload is not None and answer.serving_workload.single_pass
    more = "A larger batch, a larger input" if one_pass else "A longer sequence"
    return Notice(
        "memory_nearly_full",
        f"Memory is {percent(share)} full ({needed_bytes / GIB:.1f} of {memory.usable_bytes / GIB:.1f} GiB usable). "
        f"{more} or fragmentation can cause an out-of-memory error.",
    )


def memory_at_peak_bytes(memory: DeviceMemory, answer: FeasibleAnswer) -> float:
    """Bytes that a service needs at peak: everything but the cache, and the cache of the running sequences.

    Work without a request rate fills the cache by design, so its cache does not count.
    """
    workload, tokens = answer.serving_workload, memory.kv_cache_tokens
    fixed = memory.total_bytes - memory.kv_cache_bytes
    if workload is None or workload.load is not Load.OPEN or not tokens:
        return fixed
    used = (answer.performance.batch_at_peak or 0.0) * workload.tokens_per_request / tokens
    return fixed + memory.kv_cache_bytes * min(1.0, used)


def prefix_cache_must_survive(answer: FeasibleAnswer) -> Notice | None:
    """Warn that cached prefixes must survive between turns, or that their hits are not counted."""
    workload, prefixes = answer.serving_workload, answer.estimate.prefixes
    if workload is None or prefixes is None:
        return None
    gap, twice = format_number(prefixes.turn_gap_s), format_number(2 * prefixes.turn_gap_s)
    sessions = (
        f"{format_number(prefixes.sessions)} idle sessions ({format_number(prefixes.bytes_per_replica / GIB)} GiB)"
    )
    share = percent(workload.cached_prefix_fraction)
    if not prefixes.counted:
        return Notice(
            "prefix_hits_not_counted",
            f"Prefix cache hits are not counted, although {share} of each prompt could be cached. With {gap} s between "
            f"turns, each replica would have to keep {sessions}; it serves more without them. "
            "A shorter gap or a prefix shared by all requests changes this.",
        )
    bare, later = (
        describe_replica_need(prefixes.times_without_hits),
        describe_replica_need(prefixes.times_at_twice_the_gap),
    )
    return Notice(
        "prefix_cache_must_survive",
        f"{share} of each prompt is counted as cached. Every replica must keep {sessions} for the {gap} s between "
        "turns. "
        "Route all requests of a session to the same replica. "
        f"Without cache hits, the same load {bare}; with {twice} s between turns, it {later}.",
    )


def describe_replica_need(times: float | None) -> str:
    """Replicas that a load needs compared with the plan, as text; None means that it misses its limits."""
    if times is None:
        return "misses the limits"
    return (
        "may need no more replicas"
        if format_number(times) == "1"
        else f"needs at least {format_number(times)} times the replicas"
    )


def roofline_above_calibrated(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the first recommendation has no published benchmark nearby, but a lower-ranked one has."""
    if answer.performance.basis != "roofline":
        return None
    for other in answer.lower_ranked:
        known = other.estimate.performance
        if known is not None and known.basis != "roofline":
            return Notice(
                "roofline_above_calibrated",
                "No published benchmark is close to the first option (basis: roofline). "
                f"{other.accelerator.name}, ranked {other.rank}, is based on published benchmarks. "
                "Benchmark the first option before buying.",
            )
    return None


def one_source_only(answer: FeasibleAnswer) -> Notice | None:
    """Warn if at most one source has published results of the runtime on this hardware family."""
    d, sources = answer.estimate.deployment, answer.performance.sources
    if sources is None or sources > 1:
        return None
    known = "No source has" if sources < 1 else "Only one source has"
    runtime = product_name(d.engine or d.framework or "")
    text = f"{known} published benchmarks of {runtime} on this hardware family. Run the benchmark before buying."
    return Notice("one_source_only", text)


def cheaper_apart(answer: FeasibleAnswer) -> Notice | None:
    """Warn if traffic classes or models cost less on separate machines."""
    for fleet in (answer.estimate.shared, answer.estimate.packing):
        if fleet is not None and fleet.cheaper == "apart":
            return Notice("cheaper_apart", fleet.why)
    return None


CAUTIONS: tuple[Callable[[FeasibleAnswer], Notice | None], ...] = (
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
