"""Warnings in the order shown: known mistakes, thin margins and evidence, prices, failures, software support."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from app.sizing.answer.money import electricity_price_assumed, format_usd
from app.sizing.answer.overkill import CheapestOption, overkill_warning
from app.sizing.answer.replica_placement import (
    describe_covered_failures,
    describe_machines,
    describe_survivors,
    replica_placement,
)
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GB, GIB, HOURS_PER_DAY, HOURS_PER_MONTH, SECONDS_PER_DAY
from app.sizing.decisions.placement import max_usual_workstations
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.hosts import HostProcessor, excluded_use
from app.sizing.hardware.parts import FIRM, PRICE_KIND_TEXTS, SOCKET, Accelerator, PriceKind, PricingModel, Segment
from app.sizing.hardware.stacks import training_work
from app.sizing.hardware.support.records import Level as SupportLevel
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.support.rules import verdict
from app.sizing.hardware.terms import commercial_terms
from app.sizing.model.architecture import OTHER_WEIGHTS_NOTE
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import ModelTask
from app.sizing.question import Question
from app.sizing.result import (
    Assurance,
    DeviceMemory,
    Estimate,
    Interval,
    Level,
    Notice,
    Performance,
    Price,
    Ranked,
    Reason,
)
from app.sizing.serving.kinds import serving_backend
from app.sizing.snapshot import Catalog
from app.sizing.words import (
    format_count,
    format_duration,
    format_name,
    format_number,
    join_words,
    percent,
    product_name,
    provider_name,
)
from app.sizing.workload import FailureDomain, InferenceWorkload, Load, Method, Redundancy, TrainingWorkload

SLOW_CASE = "In a slow case (slow end of the 80 % interval),"
REMEDY = "Run the benchmark or plan for a higher confidence."
RUN_BENCHMARK = "Run the benchmark before deciding."
BENCHMARK_FIRST = "Benchmark the first option before deciding."
# Sentences that recommend a benchmark, at the end of a text.
BENCHMARK_ADVICE = (REMEDY, RUN_BENCHMARK, BENCHMARK_FIRST)
THIN_MARGIN = "thin_margin"  # recommends a benchmark within its text


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
    return [*advise_once(notice for caution in CAUTIONS if (notice := caution(answer)) is not None)]


def advise_once(notices: Iterable[Notice]) -> Iterator[Notice]:
    """The same notices; only the first one that recommends a benchmark says so."""
    advised = False
    for notice in notices:
        advice = next((advice for advice in BENCHMARK_ADVICE if notice.text.endswith(f" {advice}")), "")
        yield replace(notice, text=notice.text.removesuffix(f" {advice}")) if advised and advice else notice
        advised = advised or bool(advice) or notice.code == THIN_MARGIN


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
        search = f" Set confidence to {after.confidence:g} to search for machines that reach it."
        instead = search if after.unreachable is None else f" {after.unreachable.instead}"
        text = (
            f"{sure}. With this layout on these machines, no number of accelerators reaches "
            f"{percent(after.confidence)} ({weakest_condition(assurance)}). {RUN_BENCHMARK}{instead}"
        )
        return Notice(THIN_MARGIN, text)
    if after.cost / max(here.cost, 1e-9) < assumed.thin_margin_growth:
        return None
    same = after.deployment is None and after.total_accelerators == here.total_accelerators
    less = ", with settings that take less memory" if same else ""
    need = f"{sure} with {describe_level(here)}; {percent(after.confidence)} confidence needs {describe_level(after)}"
    if after.unreachable is not None:
        return Notice(THIN_MARGIN, f"{need}, more than your inventory has. {RUN_BENCHMARK}")
    advice = f"{RUN_BENCHMARK.removesuffix('.')}, or set confidence to {after.confidence:g}."
    return Notice(THIN_MARGIN, f"{need}{less}. {advice}")


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


def describe_level(level: Level) -> str:
    """A confidence level as text: "8 accelerators (16.00 USD/h)"."""
    count = level.total_accelerators or 0
    text = format_count(count, "accelerator")
    text = text if level.deployment is None else f"{text} of another type or layout"
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
    what = "samples" if workload.model.sample else "requests"
    carried = workload.peak_per_s / max(p.utilization_at_peak, 1e-9) / factor
    served, peak = format_number(carried), format_number(workload.peak_per_s)
    if p.utilization_at_peak > 1 or carried >= workload.peak_per_s or served == peak:
        return None
    return Notice(
        "low_end_misses_load", f"{SLOW_CASE} the deployment serves {served} of the {peak} {what}/s at peak. {REMEDY}"
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
            over = slow / bound - 1
            by = f"{percent(over)} above" if over >= 0.005 else "slightly above"
            return Notice(
                "low_end_misses_limit",
                f"{SLOW_CASE} {shown[:3]} {label} is {slow * 1e3:,.0f} ms, {by} the limit of {bound * 1e3:,.0f} ms. "
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
    workload, fixed = answer.serving_workload, memory.total_bytes - memory.kv_cache_bytes
    if workload is None or workload.load is not Load.OPEN:
        return fixed
    used_bytes = (answer.performance.batch_at_peak or 0.0) * memory.request_cache_bytes
    return fixed + min(memory.kv_cache_bytes, used_bytes)


def requests_wait_for_the_batch(answer: FeasibleAnswer) -> Notice | None:
    """Warn that a replica cannot run its share of the requests in flight at once."""
    workload, d = answer.serving_workload, answer.estimate.deployment
    if workload is None or workload.load not in (Load.CLOSED, Load.BATCH) or not d.max_batch or not d.replicas:
        return None
    each, runs = float(np.ceil(workload.in_flight / d.replicas)), d.max_batch * (d.data_parallel or 1)
    if each <= runs:
        return None
    return Notice(
        "requests_wait_for_the_batch",
        f"A replica runs {runs:,} of its {format_count(each, 'request')} at once: its KV cache or `max_batch` "
        "allows no more. The others wait for a free place.",
    )


def prefix_cache_must_survive(answer: FeasibleAnswer) -> Notice | None:
    """Warn that cached prefixes must survive between turns, or that their hits are not counted."""
    workload, prefixes = answer.serving_workload, answer.estimate.prefixes
    if workload is not None and workload.uncounted_prefix_fraction > 0:
        host = ' or host memory for prefixes (`constraints.prefix_cache_tiers` ["gpu", "host"])'
        other = "" if answer.question.constraints.host_prefix_cache else host
        return Notice(
            "prefix_hits_not_counted",
            f"{percent(workload.uncounted_prefix_fraction)} of each prompt, the prefix of its session, is not counted "
            "as cached: to keep it for the whole time between turns takes more hardware than to compute it again. "
            f"Route requests by load (`traffic.router`: {workload.router.value}), not by session. "
            f"A shorter gap{other} changes this.",
        )
    if workload is None or prefixes is None:
        return None
    gap, twice = format_number(prefixes.turn_gap_s), format_number(2 * prefixes.turn_gap_s)
    devices, kept = answer.estimate.deployment.accelerators_per_replica or 1, prefixes.bytes_per_replica / GIB
    over = f" over its {devices} accelerators" if devices > 1 else ""
    sessions = f"{format_number(prefixes.sessions)} idle sessions ({format_number(kept)} GiB{over})"
    share = percent(workload.cached_prefix_fraction)
    if not prefixes.counted:
        return Notice(
            "prefix_hits_not_counted",
            f"Prefix cache hits are not counted, although {share} of each prompt could be cached. With {gap} s between "
            f"turns, each replica would have to keep {sessions}; it serves more without them. "
            "A shorter gap, a prefix shared by all requests or host memory for prefixes "
            '(`constraints.prefix_cache_tiers` ["gpu", "host"]) changes this.',
        )
    room = format_number(prefixes.host_bytes / GIB)
    host = (
        f"Host memory of the replica ({room} GiB) holds copies; no published result covers it. " if room != "0" else ""
    )
    bare, later = (
        describe_remaining_load(prefixes.times_without_hits),
        describe_remaining_load(prefixes.times_at_twice_the_gap),
    )
    return Notice(
        "prefix_cache_must_survive",
        f"{share} of each prompt is counted as cached. Every replica must keep {sessions} for the {gap} s between "
        f"turns. Route all requests of a session to the same replica. {host}Without cache hits, a replica {bare}; with "
        f"{twice} s between turns, it {later}.",
    )


def describe_remaining_load(times: float | None) -> str:
    """Share of its load that a replica still carries, as text.

    A share and not a number of replicas, because replicas may have room left.

    Parameters:
        times: replicas that a load needs, relative to the plan if all are full; None if it misses its limits.
    """
    if times is None:
        return "misses the limits"
    share = percent(1 / times)
    return (
        "carries the same load" if share == percent(1.0) else f"carries at most {share} of the load that fills it now"
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
                f"{other.accelerator.name}, ranked {other.rank}, is based on published benchmarks. {BENCHMARK_FIRST}",
            )
    return None


def one_source_only(answer: FeasibleAnswer) -> Notice | None:
    """Warn if the catalog has no results of the engine on this hardware family, or those of one source only."""
    d, sources = answer.estimate.deployment, answer.performance.sources
    if sources is None or sources > 1:
        return None
    of = product_name(d.engine or d.framework or "") + (" with weights in host memory" if d.weights_on_host else "")
    known = "no benchmarks" if sources < 1 else "benchmarks from only one source"
    text = f"The catalog has {known} of {of} on this hardware family. {RUN_BENCHMARK}"
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
    requests_wait_for_the_batch,
    prefix_cache_must_survive,
    roofline_above_calibrated,
    one_source_only,
    cheaper_apart,
)


# Name of the assumption on how many accelerators a seller usually has; other kinds of price have no seller. The
# sellers of a survey are those that quote.
USUAL_QUANTITY_ASSUMPTIONS: Mapping[PriceKind, str] = MappingProxyType(
    {kind: f"usual_{kind}_accelerators" for kind in (*FIRM, PriceKind.BROKER)}
    | {PriceKind.SURVEY: f"usual_{PriceKind.QUOTE}_accelerators"}
)


def price_not_firm(ranked: Sequence[Ranked]) -> Notice | None:
    """Warn about recommendations whose price is not a firm offer."""
    by_kind: dict[PriceKind, dict[str, None]] = {}
    for r in ranked:
        price = None if r.estimate.cost is None else r.estimate.cost.price
        if price is not None and price.terms.kind not in FIRM:
            by_kind.setdefault(price.terms.kind, {})[r.accelerator.name] = None
    if not by_kind:
        return None
    named = join_words([f"{join_words(list(names))} ({PRICE_KIND_TEXTS[kind]})" for kind, names in by_kind.items()])
    several = sum(len(names) for names in by_kind.values()) > 1
    text = f"The prices of {named} are not firm offers" if several else f"The price of {named} is not a firm offer"
    return Notice("price_not_firm", f"{text}. Ask for a quote before deciding.")


def recommendation_price(context: AnswerContext) -> Price | None:
    """Price of the recommendation, where it has one."""
    return None if context.estimate.cost is None else context.estimate.cost.price


def stale_price(context: AnswerContext) -> Notice | None:
    """Warn about a price that is too old to rely on."""
    price = recommendation_price(context)
    if price is None or price.age_days is None or price.age_days <= context.question.assumptions.stale_price_days:
        return None
    seen = f"The price dates from {price.terms.observed}, {price.age_days:,} days ago"
    return Notice("stale_price", f"{seen}. Ask for a current price before deciding.")


def license_not_included(context: AnswerContext) -> Notice | None:
    """Warn about a license of the engine that the cost does not include, with its published price."""
    d = context.estimate.deployment
    license_name = engine_named(d.engine or "").licence
    price = recommendation_price(context)
    included = price is not None and license_name in price.terms.licences
    if not license_name or not d.total_accelerators or included:
        return None
    text = f"{product_name(d.engine or '')} needs the license {license_name}, which the cost does not include."
    term = commercial_terms().get(("licence", license_name))
    if term is not None:
        monthly = term.usd_over(d.total_accelerators, 1.0)
        accelerators = format_count(d.total_accelerators, "accelerator")
        published = term.describe()
        text += f" {published[0].upper()}{published[1:]}. For {accelerators}, that is {monthly:,.0f} USD a month."
    return Notice("license_not_included", text)


def quantity_warning(context: AnswerContext) -> Notice | None:
    """Warn about fewer machines than the minimum quantity, or more than the seller has or usually has."""
    price, d = recommendation_price(context), context.estimate.deployment
    if price is None or not d.nodes or not d.total_accelerators:
        return None
    terms = price.terms
    if d.nodes < terms.min_quantity:
        text = (
            f"The price requires at least {format_count(terms.min_quantity, 'machine')}; this option uses {d.nodes:,}."
        )
        return Notice("below_minimum_quantity", text)
    if terms.max_quantity is not None and d.nodes > terms.max_quantity:
        text = f"The seller has at most {format_count(terms.max_quantity, 'machine')}; this option uses {d.nodes:,}."
        return Notice("above_maximum_quantity", text)
    seen = price.availability
    if seen is not None and seen.quantity is not None and d.nodes > seen.quantity:
        text = (
            f"The provider had {format_count(seen.quantity, 'machine')} when a price feed last looked, at "
            f"{seen.seen_at}; this option uses {d.nodes:,}."
        )
        return Notice("above_seen_quantity", text)
    if terms.max_quantity is not None or terms.kind not in USUAL_QUANTITY_ASSUMPTIONS:
        return None
    usual = getattr(context.question.assumptions, USUAL_QUANTITY_ASSUMPTIONS[terms.kind])
    if d.total_accelerators <= usual:
        return None
    return Notice(
        "beyond_usual_quantity",
        f"This option uses {d.total_accelerators:,} accelerators. Sellers with this type of price "
        f"({PRICE_KIND_TEXTS[terms.kind]}) rarely have more than {usual:,.0f} at once. Confirm availability and price.",
    )


def machine_failure_exceeds_redundancy(context: AnswerContext) -> Notice | None:
    """Warn if losing one machine, or as many machines as failure domains covered, leaves too few replicas."""
    if context.serving_workload is None or not context.serving_workload.redundancy.domains_lost:
        return None
    placement, redundancy = (
        replica_placement(context.serving_workload, context.estimate.deployment),
        context.serving_workload.redundancy,
    )
    machines = max(1, redundancy.machines_lost)
    if placement is None or (remaining := placement.replicas_after_loss(machines)) >= placement.needed_replicas:
        return None
    lost = "one machine" if machines == 1 else f"{machines} machines"
    text = (
        f"A machine runs up to {format_count(placement.most_replicas_per_host, 'replica')}. Losing {lost} "
        f"{describe_survivors(placement, remaining)}."
    )
    if redundancy.domain is FailureDomain.ACCELERATOR:
        text += " Redundancy covers accelerators only: set failure_domain to machine to survive a machine failure."
    else:
        text += " Use more machines, or omit nodes and spare_replicas."
    return Notice("machine_failure_exceeds_redundancy", text)


def zone_failure_exceeds_redundancy(context: AnswerContext) -> Notice | None:
    """Warn if fixed machines do not survive the zone failures that the redundancy covers."""
    if context.serving_workload is None or not context.serving_workload.redundancy.zones_lost:
        return None
    placement = replica_placement(context.serving_workload, context.estimate.deployment)
    if placement is None or placement.surviving_replicas >= placement.needed_replicas:
        return None
    text = (
        f"{describe_machines(placement)}. Losing {describe_covered_failures(placement.redundancy)} "
        f"{describe_survivors(placement, placement.surviving_replicas)}."
    )
    return Notice("zone_failure_exceeds_redundancy", f"{text} Omit nodes and spare_replicas to size enough of them.")


def no_redundancy(context: AnswerContext) -> Notice | None:
    """Warn if one failure stops the service: a single replica, or one machine that runs all replicas of a pool."""
    workload, d = context.serving_workload, context.estimate.deployment
    if workload is None or workload.redundancy.domains_lost or workload.is_personal:
        return None
    if workload.load not in (Load.OPEN, Load.CLOSED):
        return None
    pools = {"": d} if d.pools is None else {"prefill ": d.pools.prefill, "decode ": d.pools.decode}
    placements = {name: placement for name, pool in pools.items() if (placement := replica_placement(workload, pool))}
    single = {name: placement.placed_replicas for name, placement in placements.items() if placement.hosts == 1}
    if not single:
        return None
    pool = min(single, key=single.__getitem__)
    stops = "the service is down" if workload.requests is None else "the run stops"
    failure = f"if {f'the only {pool}' if pool else 'this '}replica fails, {stops}"
    if single[pool] > 1:
        replicas = f"both {pool}replicas" if single[pool] == 2 else f"all {single[pool]} {pool}replicas"
        failure = f"{replicas} run on one machine, and if it fails, {stops}"
    text = f"No redundancy: {failure}. Set redundancy to n+1 to price a deployment that survives a failure."
    return Notice("no_redundancy", text)


def zones_not_verified(context: AnswerContext) -> Notice | None:
    """Warn that the catalog does not list the zones of a provider."""
    workload, d = context.serving_workload, context.estimate.deployment
    rented = d.provider is not None and d.pricing_model not in (None, PricingModel.OWNED)
    if workload is None or workload.redundancy.zones == 1 or not rented:
        return None
    return Notice(
        "zones_not_verified",
        f"The catalog lists regions but not their zones. Check that {provider_name(d.provider or '')} offers "
        f"{d.instance_type or d.accelerator} in {workload.redundancy.zones} zones of {d.region}.",
    )


def with_support(
    estimate: Estimate,
    workload: InferenceWorkload | TrainingWorkload,
    catalog: Catalog,
    assumed: Assumptions,
    *,
    expected: bool,
) -> Estimate:
    """The estimate with its support level; if only rules predict support, also the rules and wider intervals."""
    if not expected:
        return replace(estimate, support=SupportLevel.DOCUMENTED.value)
    reason = expected_reason(estimate, workload, catalog, assumed)
    return replace(estimate, support=SupportLevel.EXPECTED.value, explanation=(*estimate.explanation, reason))


def expected_reason(
    estimate: Estimate, workload: InferenceWorkload | TrainingWorkload, catalog: Catalog, assumed: Assumptions
) -> Reason:
    """Reason that support follows from rules only, and by how much the intervals widen."""
    d, task = estimate.deployment, workload.model.task
    accelerator = catalog.accelerators[catalog.accelerator_index[d.accelerator]]
    engine = d.framework or d.engine or ""
    asked = _requested_work(workload, d.weight_format, task)
    times = assumed.expected_support_widening
    text = (
        "The catalog has no document or published result that shows "
        f"{product_name(engine)} running this on {accelerator.name}. Support is inferred from rules: "
        f"{verdict(accelerator, engine, *asked, catalog.documents).rule} Intervals are {times:g} times as wide."
    )
    return Reason("support_expected", text, "expected_support_widening", times, "1")


def _requested_work(
    workload: InferenceWorkload | TrainingWorkload, weight_format: str | None, task: ModelTask
) -> tuple[str, Work]:
    if isinstance(workload, TrainingWorkload):
        return training_work(workload.phase, workload.method.value, workload.precision, task)
    return weight_format or "", Work(serving_backend(workload).phase, task=task)


SMALLEST_SHOWN_SHARE = 0.01  # smaller shares are shown as "less than 1 %"


@dataclass(frozen=True, slots=True)
class TopAnswer(AnswerContext):
    """The first recommendation, its accelerator and the question."""

    accelerator: Accelerator
    hosts: Mapping[str, HostProcessor] = field(default_factory=dict)  # hosts that are not x86-64, by accelerator name


def find_warnings(
    question: Question, ranked: Sequence[Ranked], cheapest: CheapestOption | None = None
) -> tuple[Notice, ...]:
    """Warnings about the request and its first recommendation; that of an old price comes first.

    Parameters:
        cheapest: cheapest option that a search found; None for a given deployment.
    """
    notices = [of_request(question) for of_request in REQUEST_WARNINGS]
    if ranked:
        best = TopAnswer(question, ranked[0].estimate, ranked[0].accelerator, ranked[0].hosts)
        notices = [
            stale_price(best),
            *notices,
            overkill_warning(question, ranked[0], cheapest),
            price_not_firm(ranked),
            *(of_answer(best) for of_answer in ANSWER_WARNINGS),
        ]
        notices += find_cautions(question, ranked)
    return tuple(notice for notice in notices if notice is not None)


def model_shape_assumed(question: Question) -> Notice | None:
    model = question.workload.model
    if not model.shape_is_assumed:
        return None
    return Notice("model_shape_assumed", f"Part of the model's architecture is assumed: {'; '.join(model.assumed)}.")


def model_has_other_weights(question: Question) -> Notice | None:
    """Warn if the name of the model is that of other weights than those that commands and files start."""
    model = question.workload.model
    note = next((a for a in model.assumed if a.endswith(OTHER_WEIGHTS_NOTE)), None)
    if note is None:
        return None
    text = f"{note[0].upper()}{note[1:]}. Commands and files start {model.name}: put the name of your weights there."
    return Notice("model_has_other_weights", text)


ASSUMED_LIMITS_MISSED = "assumed_limits_missed"


def assumed_limits_missed(question: Question) -> Notice | None:
    """Warn that nothing meets the usual limits, which the request leaves open."""
    workload, times = question.workload, question.workload.assumed_times or 1.0
    if times <= 1:
        return None
    sure = percent(question.constraints.confidence)
    if isinstance(workload, TrainingWorkload):
        allowed = format_duration(workload.deadline_s / SECONDS_PER_DAY)
        return Notice(
            ASSUMED_LIMITS_MISSED,
            f"The request sets no deadline, and no option meets the usual one with {sure} confidence. Options are "
            f"ranked for {allowed}, {times:g} times as long. Set `deadline_days` to the time that you have.",
        )
    slo = workload.slo
    limits = {"TTFT": slo.ttft_s, "TPOT": slo.tpot_s, "latency": slo.e2e_s}
    used = ", ".join(f"{name} {format_number(s * 1e3)} ms" for name, s in limits.items() if s is not None)
    return Notice(
        ASSUMED_LIMITS_MISSED,
        f"The request sets no latency limits, and no option meets the usual ones with {sure} confidence. Options "
        f"are ranked for limits {times:g} times as long ({used} at p{slo.percentile:g}). Set `slo` to the limits that "
        "you need.",
    )


def no_latency_headroom(question: Question) -> Notice | None:
    workload, assumed = question.workload, question.assumptions
    if not isinstance(workload, InferenceWorkload) or workload.load is not Load.OPEN:
        return None
    most = assumed.headroom_utilization
    if workload.target_utilization <= most:
        return None
    return Notice(
        "no_latency_headroom",
        f"A target utilization of {percent(workload.target_utilization)} leaves no headroom: "
        f"queues and p99 latency grow steeply above {most * 100:g} %.",
    )


def average_not_tail(question: Question) -> Notice | None:
    workload, assumed = question.workload, question.assumptions
    if not isinstance(workload, InferenceWorkload) or workload.load is not Load.OPEN:
        return None
    if workload.peak_per_s * workload.tokens_per_request <= 0 or workload.slo.percentile >= assumed.tail_percentile:
        return None
    covered = f"The limits apply only to p{workload.slo.percentile:g}, but users notice slow requests."
    return Notice("average_not_tail", f"{covered} Plan for p95 or p99.")


def accuracy_check_owed(best: TopAnswer) -> Notice | None:
    if best.serving_workload is None:
        return None
    stored = WEIGHT_FORMATS.get(best.estimate.deployment.weight_format or "bf16")
    native = WEIGHT_FORMATS[best.serving_workload.model.native_format]
    if stored is None or stored.nominal_bits >= min(16, native.nominal_bits):
        return None
    return Notice(
        "accuracy_check_owed",
        f"Weights are stored in {format_name(stored.name)}, with fewer bits than the published "
        f"{format_name(native.name)}. Check accuracy on your own task before deciding.",
    )


def purchase_outlasts_run(best: TopAnswer) -> Notice | None:
    cost, performance = best.estimate.cost, best.estimate.performance
    if cost is None or not cost.purchase_usd or performance is None or performance.days is None:
        return None
    horizon = best.question.economics.horizon_months
    share = performance.days * HOURS_PER_DAY / (horizon * HOURS_PER_MONTH)
    used = percent(min(share, 1)) if share >= SMALLEST_SHOWN_SHARE else f"less than {percent(SMALLEST_SHOWN_SHARE)}"
    return Notice(
        "purchase_outlasts_run",
        f"The run uses {used} of the {horizon:g} months over which {format_usd(cost.purchase_usd)} of hardware "
        "is spread. Its cost assumes that other work pays for the rest.",
    )


def unsuited_for_training(question: Question, allowed: Sequence[Accelerator]) -> Notice | None:
    """Warn that none of the accelerators that the request names is built for training, where nothing is feasible."""
    workload = question.workload
    if not isinstance(workload, TrainingWorkload) or workload.method is not Method.FULL or not allowed:
        return None
    if any(a.training_class for a in allowed):
        return None
    names = join_words([a.name for a in allowed[:MAX_NAMED_TYPES]])
    verb = "is" if len(allowed) == 1 else "are"
    return Notice(
        "inference_hardware_for_training",
        f"{names} {verb} not built for training. Remove the limit on accelerators to find hardware that is.",
    )


MAX_NAMED_TYPES = 3  # accelerator types that a warning names


def inference_hardware_for_training(best: TopAnswer) -> Notice | None:
    if (
        best.training_workload is None
        or best.accelerator.training_class
        or best.training_workload.method is not Method.FULL
    ):
        return None
    name, several = best.accelerator.name, (best.estimate.deployment.total_accelerators or 0) > 1
    risk = (
        "Slow links between accelerators can limit the run." if several else "Test a few steps before you rely on it."
    )
    return Notice(
        "inference_hardware_for_training",
        f"{name} is not built for training. {risk}",
    )


def data_pipeline_limit(best: TopAnswer) -> Notice | None:
    performance, machines = best.estimate.performance, max(1, best.estimate.deployment.nodes or 1)
    ingest = None if performance is None else performance.required_ingest_bytes_per_s
    if ingest is None or ingest / machines <= best.question.assumptions.fast_ingest_gb_per_s_per_machine * GB:
        return None
    return Notice(
        "data_pipeline_limit",
        f"The run reads {format_number(ingest / GB)} GB/s of data. Storage and decoding must keep up; otherwise the "
        "accelerators wait for data.",
    )


def consumer_hardware(best: TopAnswer) -> Notice | None:
    what = {"consumer": "a consumer part", "edge": "an embedded module sold on development kits"}
    segment = best.accelerator.segment
    if segment not in what:
        return None
    text = f"{best.accelerator.name} is {what[segment]}. It has no data-center support and usually no ECC memory."
    if (excluded := excluded_use(best.accelerator.vendor, segment)) is not None:
        text += f" {best.accelerator.vendor}'s driver license excludes {excluded}."
    return Notice("consumer_hardware", text)


def workstation_fleet(best: TopAnswer) -> Notice | None:
    """Warn about workstations that are bought for a redundant service, or in numbers that fill racks."""
    d, segment = best.estimate.deployment, best.accelerator.segment
    machines, workload, assumed = d.nodes or 0, best.question.workload, best.question.assumptions
    redundancy = workload.redundancy if isinstance(workload, InferenceWorkload) else Redundancy()
    many = max_usual_workstations(redundancy, assumed)
    bought = d.pricing_model is PricingModel.OWNED and segment is not Segment.DATACENTER
    if not bought or best.accelerator.kind == SOCKET or machines <= many:
        return None
    use = "a redundant service" if redundancy.domains_lost else f"more than {format_count(many, 'machine')}"
    return Notice(
        "workstation_fleet",
        f"{best.accelerator.name} is sold in workstations, and this option buys {format_count(machines, 'machine')}. "
        f"Workstations usually have one power supply and do not mount in a rack, which is unusual for {use}. To "
        "compare servers only, set `segments` to `datacenter`.",
    )


def host_architecture(best: TopAnswer) -> Notice | None:
    """Say which instruction set images need where the host is not x86-64."""
    text = describe_hosts(best.hosts)
    return Notice("host_architecture", text) if text else None


def describe_hosts(hosts: Mapping[str, HostProcessor]) -> str:
    """Sentences on hosts that are not x86-64; empty if there are none."""
    return " ".join(
        f"The host of {name} is {host.processor}: container images and compiled packages must be built for "
        f"{host.architecture}."
        for name, host in hosts.items()
    )


def spot_interruptions(best: TopAnswer) -> Notice | None:
    price = None if best.estimate.cost is None else best.estimate.cost.price
    if price is None or price.pricing_model != "spot":
        return None
    priced = (
        "duration and cost include interruptions at an assumed rate"
        if best.training_workload
        else "the cost does not include interruptions"
    )
    text = f"The provider can reclaim spot capacity at any time; {priced}."
    if price.age_days:
        text += (
            f" Spot prices change daily, and this one was seen {format_count(price.age_days, 'day')} ago: check the "
            "current one before deciding."
        )
    return Notice("spot_interruptions", text)


REQUEST_WARNINGS: tuple[Callable[[Question], Notice | None], ...] = (
    model_shape_assumed,
    model_has_other_weights,
    assumed_limits_missed,
    no_latency_headroom,
    average_not_tail,
    electricity_price_assumed,
)
ANSWER_WARNINGS: tuple[Callable[[TopAnswer], Notice | None], ...] = (
    accuracy_check_owed,
    machine_failure_exceeds_redundancy,
    zone_failure_exceeds_redundancy,
    no_redundancy,
    zones_not_verified,
    purchase_outlasts_run,
    inference_hardware_for_training,
    data_pipeline_limit,
    consumer_hardware,
    workstation_fleet,
    host_architecture,
    quantity_warning,
    license_not_included,
    spot_interruptions,
)
