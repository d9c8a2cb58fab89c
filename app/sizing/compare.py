"""Compares answers: what differs between them, why, and what each option costs month by month."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.money import format_usd
from app.sizing.assumptions import Assumed, Assumptions
from app.sizing.columns import GIB, HOURS_PER_MONTH, Column
from app.sizing.decisions.acquisition import running_usd_per_hour
from app.sizing.formula import formula
from app.sizing.hardware.parts import Accelerator, Commitment
from app.sizing.hardware.terms import ResaleValue, resale_values
from app.sizing.outcomes import LEFT_OUT, Option, Outcome, evaluate_option
from app.sizing.question import Deployment, Question
from app.sizing.result import (
    OPTION_OF_PRICING,
    AcquisitionOption,
    CostSummary,
    DeviceMemory,
    Estimate,
    HostedApi,
    Percentiles,
    Performance,
)
from app.sizing.snapshot import Catalog
from app.sizing.whatif.change import Change, probe
from app.sizing.words import format_count, format_name, format_number, join_words, percent, product_name, provider_name
from app.sizing.workload import InferenceWorkload, TrainingWorkload

Value = float | None


@dataclass(frozen=True, slots=True)
class TableLine:
    """One quantity for every option, in the order of the options."""

    quantity: str  # name of the quantity
    unit: str  # its unit
    values: tuple[Value, ...]  # one per option; None where the option has none
    best: str | None  # name of the best option; None where there is none


def _cost_reader(of: Callable[[CostSummary], Value]) -> Callable[[Estimate], Value]:
    return lambda e: None if e.cost is None else of(e.cost)


def _performance_reader(of: Callable[[Performance], Value]) -> Callable[[Estimate], Value]:
    return lambda e: None if e.performance is None else of(e.performance)


def _memory_reader(of: Callable[[DeviceMemory], Value]) -> Callable[[Estimate], Value]:
    return lambda e: None if e.memory is None else of(e.memory) or None


def _p95_ms(of: Callable[[Performance], Percentiles | None]) -> Callable[[Estimate], Value]:
    def read_p95_ms(e: Estimate) -> Value:
        found = None if e.performance is None else of(e.performance)
        return None if found is None or found.p95_s is None else found.p95_s * 1e3

    return read_p95_ms


def _success_probability(e: Estimate) -> Value:
    a = e.assurance
    return None if a is None else a.meets_slo if a.meets_slo is not None else a.meets_deadline


# (quantity, unit, 1 where less is better, -1 where more is better, 0 where neither, function that reads the value)
QUANTITIES: tuple[tuple[str, str, int, Callable[[Estimate], Value]], ...] = (
    ("usd_per_hour", "USD/h", 1, _cost_reader(lambda c: c.usd_per_hour)),
    ("usd_total", "USD", 1, _cost_reader(lambda c: c.usd_total)),
    ("usd_per_million", "USD", 1, _cost_reader(lambda c: c.usd_per_million)),
    ("purchase_usd", "USD", 1, _cost_reader(lambda c: c.purchase_usd)),
    ("tco_usd", "USD", 1, _cost_reader(lambda c: c.tco_usd)),
    ("power_kw", "kW", 1, _cost_reader(lambda c: c.power_w / 1e3)),
    ("total_accelerators", "accelerators", 0, lambda e: e.deployment.total_accelerators),
    ("ttft_p95_ms", "ms", 1, _p95_ms(lambda p: p.ttft)),
    ("tpot_p95_ms", "ms", 1, _p95_ms(lambda p: p.tpot)),
    ("e2e_p95_ms", "ms", 1, _p95_ms(lambda p: p.e2e)),
    ("requests_per_s_capacity", "requests/s", -1, _performance_reader(lambda p: p.requests_per_s_capacity)),
    ("output_tokens_per_s", "tokens/s", -1, _performance_reader(lambda p: p.output_tokens_per_s)),
    ("samples_per_s", "samples/s", -1, _performance_reader(lambda p: p.samples_per_s)),
    ("days", "days", 1, _performance_reader(lambda p: p.days)),
    ("tokens_per_s", "tokens/s", -1, _performance_reader(lambda p: p.tokens_per_s)),
    ("mfu", "1", -1, _performance_reader(lambda p: p.mfu)),
    ("confidence", "1", -1, _success_probability),
    ("weights_gib", "GiB", 0, _memory_reader(lambda m: m.weights_bytes / GIB)),
    ("gradients_gib", "GiB", 0, _memory_reader(lambda m: m.gradient_bytes / GIB)),
    ("optimizer_gib", "GiB", 0, _memory_reader(lambda m: m.optimizer_bytes / GIB)),
    ("activations_gib", "GiB", 0, _memory_reader(lambda m: m.activation_bytes / GIB)),
    ("kv_cache_gib", "GiB", 0, _memory_reader(lambda m: m.kv_cache_bytes / GIB)),
    ("memory_total_gib", "GiB", 0, _memory_reader(lambda m: m.total_bytes / GIB)),
)


def build_table(outcomes: Sequence[Outcome], *, judged: bool = True) -> tuple[TableLine, ...]:
    """Every quantity that at least one option has.

    With `judged`, each line names the best of the options that meet the requirements. Phases do different work, so
    their lines have no best option.
    """
    lines = []
    for quantity, unit, sign, value in QUANTITIES:
        values = tuple(None if o.estimate is None else value(o.estimate) for o in outcomes)
        if any(v is not None for v in values):
            best = _best_name(outcomes, values, sign) if judged else None
            lines.append(TableLine(quantity, unit, values, best))
    return tuple(lines)


def _best_name(outcomes: Sequence[Outcome], values: Sequence[Value], sign: int) -> str | None:
    """Name of the best option that meets the requirements; None for a tie or fewer than two values."""
    candidates = [
        (sign * v, o.name) for o, v in zip(outcomes, values, strict=True) if v is not None and o.meets_requirements
    ]
    if not sign or len(candidates) < 2:
        return None
    least = min(candidates)[0]
    first = [name for v, name in candidates if v == least]
    return first[0] if len(first) == 1 else None


# Factors closer to 1 than this are not mentioned.
MIN_DEVIATION = 0.005


@dataclass(frozen=True, slots=True)
class Cause:
    """One factor of a cost ratio, with an explanation."""

    code: str  # name of the factor
    ratio: float  # factor of the first cost divided by that of the second
    text: str  # explanation


@dataclass(frozen=True, slots=True)
class Difference:
    """Cost of one option divided by the cost of another, with the factors of that ratio, the largest first."""

    name: str  # option that is compared
    baseline: str  # option that it is compared with
    quantity: str  # name of the cost quantity
    ratio: float  # cost of `name` divided by the cost of `baseline`
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class CostFactors:
    """Factors of a cost: price x idle x room x work / speed.

    For a service the cost is in USD/h and `work` in requests/s. For work with an end the cost is in USD and `work` in
    units of work; the product also contains the hours.
    """

    price: float  # price of one paid accelerator, USD/h
    idle: float  # paid accelerators per working accelerator
    headroom: float  # capacity divided by load; 1 for work with an end
    work: float  # requests/s, or units of work
    speed: float  # work per working accelerator, per second for a service and per hour for work with an end


def working_accelerators(d: Deployment) -> float | None:
    """Accelerators that carry the load, without spares and without those left over in a machine."""
    if d.pools is not None:
        sides = [working_accelerators(d.pools.prefill), working_accelerators(d.pools.decode)]
        return None if None in sides else sum(side for side in sides if side is not None)
    if d.replicas is not None and d.accelerators_per_replica is not None:
        return float(d.replicas * d.accelerators_per_replica)
    return None if d.total_accelerators is None else float(d.total_accelerators)


def cost_factors(o: Outcome) -> CostFactors | None:
    """Cost factors of an outcome; None where it has no price or no capacity."""
    e = o.estimate
    if e is None or not o.usd or e.cost is None or e.performance is None or not e.cost.usd_per_hour:
        return None
    paid, busy = e.deployment.total_accelerators, working_accelerators(e.deployment)
    if not paid or not busy:
        return None
    price, idle = e.cost.usd_per_hour / paid, paid / busy
    if o.has_an_end:
        work = _work_units(o)
        hours = o.usd / e.cost.usd_per_hour
        return CostFactors(price, idle, 1.0, work, work / (busy * hours))
    capacity = e.performance.requests_per_s_capacity or e.performance.samples_per_s
    if o.peak_per_s is not None and capacity:
        return CostFactors(price, idle, capacity / o.peak_per_s, o.peak_per_s, capacity / busy)
    done = e.performance.total_tokens_per_s or e.performance.samples_per_s
    return (
        CostFactors(price, idle, 1.0, 1.0, 1.0 / busy) if not done else CostFactors(price, idle, 1.0, done, done / busy)
    )


def _work_units(o: Outcome) -> float:
    """Units of work: tokens or samples of a training run, requests of a volume."""
    workload = o.question.workload
    if isinstance(workload, TrainingWorkload):
        return workload.units
    assert isinstance(workload, InferenceWorkload) and workload.volume_requests is not None
    return workload.volume_requests


def explain_difference(mine: Outcome, baseline: Outcome) -> Difference | None:
    """Why one outcome costs more or less than another; None where one has no cost or only one of them has an end."""
    first, second = cost_factors(mine), cost_factors(baseline)
    if (
        first is None
        or second is None
        or mine.has_an_end != baseline.has_an_end
        or mine.usd is None
        or baseline.usd is None
    ):
        return None
    quantity = "usd_total" if mine.has_an_end else "usd_per_hour"
    causes = sorted(_cost_causes(mine, baseline, first, second), key=lambda c: -abs(math.log(c.ratio)))
    return Difference(mine.name, baseline.name, quantity, mine.usd / baseline.usd, tuple(causes))


def _cost_causes(mine: Outcome, baseline: Outcome, a: CostFactors, b: CostFactors) -> Iterator[Cause]:
    """The factors that differ from 1, with their explanations."""
    unit = "requests/s" if mine.peak_per_s is not None else "tokens/s"
    factors = (
        (
            "price",
            a.price / b.price,
            f"an accelerator costs {format_usd(a.price)}/h instead of {format_usd(b.price)}/h",
        ),
        ("speed", b.speed / a.speed, _speed_text(mine, baseline, a, b, unit)),
        (
            "room",
            a.headroom / b.headroom,
            f"its capacity is {format_number(a.headroom)} times the load instead of {format_number(b.headroom)}",
        ),
        (
            "idle",
            a.idle / b.idle,
            f"it pays for {format_number(a.idle)} accelerators per working one instead of {format_number(b.idle)}",
        ),
        ("work", a.work / b.work, f"it has {format_number(a.work / b.work)} times the work to do"),
    )
    for code, ratio, text in factors:
        if abs(ratio - 1) > MIN_DEVIATION:
            yield Cause(code, ratio, text)


def _speed_text(mine: Outcome, baseline: Outcome, a: CostFactors, b: CostFactors, unit: str) -> str:
    """How much more one accelerator does than one of the other outcome, and why."""
    times = a.speed / b.speed
    text = f"an accelerator does {format_number(times)} times as much work per hour"
    if not mine.has_an_end and mine.peak_per_s is not None:
        text = (
            f"an accelerator carries {format_number(a.speed)} instead of {format_number(b.speed)} {unit} within the "
            "limits"
        )
    why = explain_speed(mine, baseline)
    return f"{text} ({why})" if why else text


# Smaller relative differences are not mentioned.
MIN_DIFFERENCE = 0.03
MAX_REASONS = 4


def explain_speed(mine: Outcome, baseline: Outcome) -> str:
    """What differs between two outcomes, the limiting resource first; an empty text where no difference is known."""
    if mine.accelerator is None or baseline.accelerator is None or mine.estimate is None or baseline.estimate is None:
        return ""
    reasons = [
        *_hardware_reasons(mine, baseline),
        *_layout_reasons(mine.estimate, baseline.estimate),
        *_batch_reasons(mine.estimate, baseline.estimate),
    ]
    return join_words(reasons[:MAX_REASONS]) if reasons else ""


def _hardware_reasons(mine: Outcome, baseline: Outcome) -> Iterator[str]:
    """Differences of the hardware, the limiting resource first."""
    a, b = mine.accelerator, baseline.accelerator
    assert a is not None and b is not None and mine.estimate is not None
    limit = mine.estimate.bottleneck
    resources = (
        ("memory_bandwidth", "memory bandwidth", a.memory_bytes_per_s, b.memory_bytes_per_s),
        ("compute", "16-bit matrix rate", _matrix_rate(a), _matrix_rate(b)),
        ("memory_capacity", "memory", a.memory_bytes, b.memory_bytes),
        ("interconnect", "link bandwidth", a.scaleup_bytes_per_s, b.scaleup_bytes_per_s),
    )
    for _, name, has, other in sorted(resources, key=lambda r: r[0] != limit):
        if has and other and abs(has / other - 1) > MIN_DIFFERENCE:
            yield f"{format_number(has / other)} times the {name}"


def _matrix_rate(a: Accelerator) -> float:
    """Matrix rate in 16 bit, FLOP/s."""
    return max(a.flops_per_s.get("bf16", 0.0), a.flops_per_s.get("fp16", 0.0))


def _layout_reasons(mine: Estimate, baseline: Estimate) -> Iterator[str]:
    """Differences of formats, engine and layout."""
    a, b = mine.deployment, baseline.deployment
    if (a.pools is None) != (b.pools is None):
        yield "two pools instead of one" if a.pools is not None else "one pool instead of two"
        return
    if a.pools is not None and b.pools is not None:
        a, b = a.pools.decode, b.pools.decode
    for what, as_text, has, other in (
        ("weights in {} instead of {}", format_name, a.weight_format, b.weight_format),
        ("KV cache in {} instead of {}", format_name, a.kv_format, b.kv_format),
        ("{} instead of {}", product_name, a.engine or a.framework, b.engine or b.framework),
    ):
        if has is not None and other is not None and has != other:
            yield what.format(as_text(has), as_text(other))
    size, other_size = _replica_size(a), _replica_size(b)
    if size is not None and other_size is not None and size != other_size:
        yield f"replicas of {size} instead of {other_size} accelerators"


def _replica_size(d: Deployment) -> int | None:
    """Accelerators per replica."""
    return d.accelerators_per_replica


def _batch_reasons(mine: Estimate, baseline: Estimate) -> Iterator[str]:
    """Difference of the batch size at peak load."""
    if mine.performance is None or baseline.performance is None:
        return
    has, other = mine.performance.batch_at_peak, baseline.performance.batch_at_peak
    if has and other and abs(has / other - 1) > MIN_DIFFERENCE:
        yield f"a batch of {format_number(has)} instead of {format_number(other)}"


MONTHS_PER_YEAR = 12
TERM_MONTHS = {
    AcquisitionOption.ONE_YEAR: Commitment.ONE_YEAR.months,
    AcquisitionOption.THREE_YEARS: Commitment.THREE_YEARS.months,
}
HOSTED = "hosted_api"
MIN_DECLINE = 1e-9  # monthly declines below this count as none


@dataclass(frozen=True, slots=True)
class SpendingPath:
    """Cumulative spending of one acquisition option, by month up to the horizon."""

    way: str  # acquisition option
    provider: str  # seller or host
    usd: tuple[float, ...]  # cumulative spending after 0, 1, ... months, USD
    left_usd: float = 0.0  # resale value of owned machines at the horizon, USD
    committed_usd: float = 0.0  # rent still owed for the last term at the horizon, USD
    left_basis: str = ""  # recorded sales that the resale value follows; empty where it follows the assumption

    @property
    def net_usd(self) -> float:
        """Net cost at the horizon, USD: spent plus still owed, minus resale value."""
        return self.usd[-1] + self.committed_usd - self.left_usd


@dataclass(frozen=True, slots=True)
class Crossover:
    """Month from which one acquisition option has cost less than another that was cheaper before."""

    way: str  # option that becomes cheaper
    overtakes: str  # option that was cheaper before
    month: float  # months from the start


@dataclass(frozen=True, slots=True)
class Spending:
    """Acquisition options of one outcome, the cheapest at the horizon first."""

    name: str  # name of the compared option
    paths: tuple[SpendingPath, ...]  # cheapest at the horizon first
    crossovers: tuple[Crossover, ...]  # in order of the month


@formula(unit="USD", source="geometric series: prices fall by the same share every year")
def rent_usd(usd_per_month: float, month: Column, decline_per_year: float) -> Column:
    """Cumulative rent when each month is paid at the price of its day.

    Parameters:
        usd_per_month: rent of the first month, USD per month.
        month: months paid.
        decline_per_year: share by which prices fall each year, 0 to 1.
    Limits: the price in the first month is the price of today; no commitment.
    Check: 100 USD per month for two months, falling 50 % a year: 100 and 94.39.
        >>> round(float(rent_usd(100.0, np.array(2.0), 0.5)), 2)
        194.39
    """
    falls = np.log1p(-decline_per_year) / MONTHS_PER_YEAR
    months_paid: Column = np.where(
        falls < -MIN_DECLINE, np.expm1(falls * month) / np.minimum(np.expm1(falls), -MIN_DECLINE), month
    )
    return usd_per_month * months_paid


@formula(unit="USD", source="geometric series: prices fall by the same share every year, in steps of a term")
def committed_usd(usd_per_month: float, month: Column, decline_per_year: float, term_months: float) -> Column:
    """Cumulative rent under consecutive contracts, each at the price of the day it begins.

    Parameters:
        usd_per_month: rent of the first contract, USD per month.
        month: months paid.
        decline_per_year: share by which prices fall each year, 0 to 1.
        term_months: length of a contract, months.
    Limits: paid month by month; the rest of the last term is still owed.
    Check: 100 USD per month for 18 months in 12-month terms, falling 10 % a year: 12 * 100 + 6 * 90.
        >>> round(float(committed_usd(100.0, np.array(18.0), 0.1, 12.0)), 2)
        1740.0
    """
    whole = np.floor(month / term_months)
    falls = np.log1p(-decline_per_year) * term_months / MONTHS_PER_YEAR
    paid = np.where(falls < -MIN_DECLINE, np.expm1(falls * whole) / np.minimum(np.expm1(falls), -MIN_DECLINE), whole)
    months_paid: Column = term_months * paid + (month - term_months * whole) * np.exp(falls * whole)
    return usd_per_month * months_paid


@formula(unit="USD", source="geometric decline: the same share of the value is lost every year")
def resale_usd(purchase_usd: float, month: Column, resale_decline_per_year: float) -> Column:
    """Resale value of purchased machines.

    Parameters:
        purchase_usd: purchase price, USD.
        month: months since the purchase.
        resale_decline_per_year: share of the value lost each year, 0 to 1.
    Limits: whole machines sold at once; cables and racks lose value at the same rate.
    Check: 100,000 USD after two years that lose 35 % each.
        >>> round(float(resale_usd(100_000.0, np.array(24.0), 0.35)))
        42250
    """
    kept: Column = (1 - resale_decline_per_year) ** (month / MONTHS_PER_YEAR)
    return purchase_usd * kept


def spending_by_month(outcome: Outcome) -> Spending | None:
    """Spending by month of each acquisition option; None for work with an end and where no option has a price."""
    e, question = outcome.estimate, outcome.question
    if e is None or outcome.has_an_end or not outcome.fits or e.cost is None or not e.cost.usd_per_hour:
        return None
    months = np.arange(0.0, np.floor(question.economics.horizon_months) + 1)
    found = _spending_paths(e, question, outcome.hosted_api, months, recorded_resale(outcome))
    paths = sorted(found, key=lambda p: (p.net_usd, p.way))
    return Spending(outcome.name, tuple(paths), tuple(_find_crossovers(paths))) if paths else None


def recorded_resale(outcome: Outcome) -> ResaleValue | None:
    """Recorded resale value of the accelerators; None if they are not of the training class, if their generation has
    none, or if the request sets the decline.
    """
    accelerator, given = outcome.accelerator, outcome.question.assumptions.without_recording.resale_decline_per_year
    is_default = given == Assumptions.default_value("resale_decline_per_year")
    return (
        resale_values().get(accelerator.family) if accelerator and accelerator.training_class and is_default else None
    )


def _spending_paths(
    e: Estimate, question: Question, hosted: HostedApi | None, months: Column, resale: ResaleValue | None
) -> Iterator[SpendingPath]:
    """The option of the deployment itself, its alternatives, and the cheapest host of the model."""
    assert e.cost is not None and e.cost.usd_per_hour is not None
    d, within = e.deployment, (question.economics.horizon_months, question.assumptions, months, resale)
    if d.pricing_model is not None and d.pricing_model in OPTION_OF_PRICING:
        own = OPTION_OF_PRICING[d.pricing_model], d.provider or "", e.cost.usd_per_hour, e.cost.purchase_usd
        yield _spending_path(*own, *within)
    for a in e.alternatives:
        yield _spending_path(a.way, a.provider, a.usd_per_hour, a.purchase_usd, *within)
    if hosted is not None and (host := hosted.hosts[0]).usd_per_month is not None:
        paid = rent_usd(host.usd_per_month, months, 0.0)
        yield SpendingPath(HOSTED, host.price.provider, tuple(paid.tolist()))


def _spending_path(
    way: AcquisitionOption,
    provider: str,
    usd_per_hour: float,
    purchase_usd: float | None,
    horizon_months: float,
    assumed: Assumptions,
    months: Column,
    resale: ResaleValue | None,
) -> SpendingPath:
    """Cumulative spending of one acquisition option."""
    if way is AcquisitionOption.OWNED and purchase_usd is not None:
        hours = horizon_months * HOURS_PER_MONTH
        running = float(running_usd_per_hour(np.array(usd_per_hour), np.array(purchase_usd), hours))
        paid = purchase_usd + running * HOURS_PER_MONTH * months
        decline = assumed.resale_decline_per_year if resale is None else resale.decline_per_year
        left = float(resale_usd(purchase_usd, months[-1:], decline)[0])
        basis = "" if resale is None else resale.describe()
        return SpendingPath(way.value, provider, tuple(paid.tolist()), left_usd=left, left_basis=basis)
    monthly, decline = usd_per_hour * HOURS_PER_MONTH, assumed.rent_decline_per_year
    if (term := TERM_MONTHS.get(way)) is not None:
        ends = np.ceil(months[-1:] / term) * term
        paid, in_all = (committed_usd(monthly, m, decline, float(term)) for m in (months, ends))
        return SpendingPath(way.value, provider, tuple(paid.tolist()), committed_usd=float(in_all[0] - paid[-1]))
    return SpendingPath(way.value, provider, tuple(rent_usd(monthly, months, decline).tolist()))


def _find_crossovers(paths: list[SpendingPath]) -> Iterator[Crossover]:
    """Months where the spending of one option falls below another, interpolated between months, in order of the
    month.
    """
    found = []
    for mine in paths:
        for other in paths:
            more = np.array(mine.usd) - np.array(other.usd)
            for m in np.flatnonzero((more[:-1] > 0) & (more[1:] <= 0)):
                month = m + more[m] / (more[m] - more[m + 1])
                found.append(Crossover(mine.way, other.way, float(month)))
    yield from sorted(found, key=lambda o: (o.month, o.way, o.overtakes))


# Resource that hardware should be chosen for, by bottleneck.
PRIORITY_BY_BOTTLENECK = {
    "compute": "compute throughput",
    "memory_bandwidth": "memory bandwidth",
    "memory_capacity": "memory capacity",
    "interconnect": "bandwidth between accelerators",
    "latency": "latency per step",
    "host": "host performance",
    "storage": "storage throughput",
}
MIN_SHARE_SHOWN = 0.05
PHASE_LABELS = {"training": "Training", "fine_tuning": "Fine-tuning", "inference": "Inference"}


@dataclass(frozen=True, slots=True)
class Priority:
    """Resource that matters most for a phase, and what fills its memory."""

    name: str  # phase
    chosen_by: str  # resource that matters most, as text
    memory_shares: Mapping[str, float]  # shares of the used memory by content, largest first
    text: str  # explanation


@dataclass(frozen=True, slots=True)
class OtherHardware:
    """A phase on the accelerator that another phase chose."""

    name: str  # phase
    on: str  # phase that chose the accelerator
    accelerator: str  # slug of that accelerator
    usd: float | None  # cost there, USD or USD/h; None where it is infeasible
    times: float | None  # cost there divided by the phase's own cost
    text: str  # explanation


def phase_label(name: str) -> str:
    """Name of a phase at the start of a sentence."""
    return PHASE_LABELS.get(name, name)


def hardware_priority(o: Outcome) -> Priority | None:
    """Hardware priority of one phase; None where it is infeasible."""
    e = o.estimate
    if e is None or e.memory is None or e.bottleneck is None:
        return None
    shares = memory_shares(e.memory)
    filled = join_words([f"{percent(share)} {name}" for name, share in shares.items() if share >= MIN_SHARE_SHOWN])
    by = PRIORITY_BY_BOTTLENECK.get(e.bottleneck, e.bottleneck)
    return Priority(o.name, by, shares, f"{phase_label(o.name)} is limited by {by}. Its memory holds {filled}.")


def memory_shares(m: DeviceMemory) -> Mapping[str, float]:
    """Shares of the used memory of a device by content, largest first."""
    parts = {
        "weights": m.weights_bytes,
        "gradients": m.gradient_bytes,
        "optimizer": m.optimizer_bytes,
        "activations": m.activation_bytes,
        "cache": m.kv_cache_bytes,
        "overhead": m.overhead_bytes,
    }
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return {name: held / m.total_bytes for name, held in ordered if held > 0}


def compare_hardware(outcomes: Sequence[Outcome], catalog: Catalog) -> tuple[OtherHardware, ...]:
    """Every phase on each accelerator that another phase chose."""
    return tuple(
        _evaluate_on_hardware(mine, other, catalog)
        for mine in outcomes
        for other in outcomes
        if mine.accelerator is not None and other.accelerator is not None and mine.accelerator != other.accelerator
    )


def _only_on(question: Question, slug: str) -> Question:
    """The question with one accelerator type as the only choice, and one recommendation."""
    limits = replace(question.constraints, accelerators=(slug,), exclude_accelerators=(), by_pattern=())
    return replace(question, constraints=limits, limit=1, trace=False)


def _evaluate_on_hardware(mine: Outcome, other: Outcome, catalog: Catalog) -> OtherHardware:
    """One phase on the accelerator of another, with everything else as requested."""
    assert other.accelerator is not None and mine.accelerator is not None
    slug, name = other.accelerator.slug, other.accelerator.name
    change = Change(f"on {name}", lambda asked: _only_on(asked, slug))
    found = probe(lambda asked: evaluate_option(Option(mine.name, asked), catalog), mine.question, change)
    if found.usd is None or not mine.usd:
        rejected = () if found.answer is None else found.answer.rejected
        why = LEFT_OUT if found.left_out else rejected[0].text if rejected else f"not feasible on {name}."
        return OtherHardware(mine.name, other.name, slug, None, None, f"{phase_label(mine.name)}: {why}")
    times = found.usd / mine.usd
    dearer = f"{percent(times - 1)} more" if times >= 1 else f"{percent(1 - times)} less"
    text = f"{phase_label(mine.name)} costs {dearer} on {name}, the choice for {phase_label(other.name).lower()}."
    return OtherHardware(mine.name, other.name, slug, found.usd, times, text)


EQUAL_COST_TOLERANCE = 0.005  # cost ratios closer to 1 than this count as equal
MIN_EXTRA_COST = 1.005  # smaller extra costs of a shared accelerator are not mentioned
WAYS_IN_WORDS = {
    "on_demand": "on demand",
    "committed_1y": "one-year commitment",
    "committed_3y": "three-year commitment",
    "spot": "spot capacity",
    "owned": "purchase",
    HOSTED: "hosted API",
}


def cheapest_outcome(outcomes: Sequence[Outcome]) -> Outcome | None:
    """The cheapest outcome that meets the requirements; outcomes with the planned headroom come first."""
    priced = [o for o in outcomes if o.meets_requirements and o.usd is not None]
    return min(priced, key=lambda o: (o.level_with_reserve is not None, o.usd or 0.0), default=None)


def summarize_comparison(
    outcomes: Sequence[Outcome], differences: Sequence[Difference], spent: Sequence[Spending]
) -> str:
    """Summary: the cheapest option, why others cost more, and which options miss the requirements."""
    best = cheapest_outcome(outcomes)
    if best is None:
        evaluated = [o for o in outcomes if not o.left_out]
        options = "options" if len(evaluated) == len(outcomes) else "evaluated options"
        sentences = [f"None of the {options} meets the requirements at a known price."] if evaluated else []
    else:
        sentences = [f"'{best.name}' costs the least: {format_hardware(best)} for {format_cost(best)}."]
    by_name = {o.name: o for o in outcomes}
    sentences += [_difference_sentence(d, by_name[d.name]) for d in differences]
    stated = {d.name for d in differences if _is_late(by_name[d.name])}
    left_out = [o.name for o in outcomes if o.left_out]
    stated |= {*left_out}
    sentences += [f"'{o.name}': {o.why_not}" for o in outcomes if not o.meets_requirements and o.name not in stated]
    if left_out:
        sentences.append(f"Left out: {join_words([*map(repr, left_out)])}. {LEFT_OUT}")
    sentences += [_months_sentence(s) for s in spent if best is not None and s.name == best.name]
    return " ".join(sentences)


def _months_sentence(s: Spending) -> str:
    """Sentence that names the cheapest ways to acquire the cheapest option over the horizon."""
    cheapest, *others = [
        f"{WAYS_IN_WORDS.get(p.way, p.way)} ({provider_name(p.provider)}), {format_usd(p.net_usd)}" for p in s.paths[:2]
    ]
    text = f"Cheapest over {len(s.paths[0].usd) - 1} months: {cheapest}"
    return "; next best: ".join((text, *others)) + "."


def _difference_sentence(d: Difference, o: Outcome) -> str:
    """Sentence that compares an option with the cheapest one and names the main cause."""
    if abs(d.ratio - 1) <= EQUAL_COST_TOLERANCE:
        return f"'{d.name}' costs about the same."
    times = f"costs {format_number(d.ratio)} times as much" if d.ratio > 1 else f"costs {percent(1 - d.ratio)} less"
    pulling = [c for c in d.causes if (c.ratio > 1) == (d.ratio > 1)]
    why = f", mainly because {pulling[0].text}" if pulling else ""
    unable = "" if o.meets_requirements else "; it does not meet the requirements"
    if o.level_with_reserve is None:
        return f"'{d.name}' {times}{why}{unable}."
    if _is_late(o):
        needed = format_count(o.level_with_reserve.total_accelerators or 0, "accelerator")
        return f"'{d.name}' {times} but {o.missed_deadline}. To meet the deadline, it needs {needed}."
    sized = f"{o.level_with_reserve.total_accelerators:,} accelerators"
    usd = "" if o.level_with_reserve.usd_per_hour is None else f" for {format_usd(o.level_with_reserve.usd_per_hour)}/h"
    return f"'{d.name}' {times} but has less headroom than planned. With the planned headroom, it needs {sized}{usd}."


def _is_late(o: Outcome) -> bool:
    """Whether an outcome misses its deadline and a known larger size meets it."""
    return o.missed_deadline is not None and o.level_with_reserve is not None


def summarize_phases(outcomes: Sequence[Outcome], others: Sequence[OtherHardware]) -> str:
    """Summary: what each phase needs, and the largest extra cost of sharing one accelerator type."""
    sentences = [
        f"{phase_label(o.name)} needs {format_hardware(o)} for {format_cost(o)}."
        if o.meets_requirements and o.usd is not None
        else f"{phase_label(o.name)}: {o.why_not or 'no price is known.'}"
        for o in outcomes
    ]
    dear = max(others, key=lambda e: float("inf") if e.times is None else e.times, default=None)
    if dear is not None and (dear.times is None or dear.times > MIN_EXTRA_COST):
        sentences.append(dear.text)
    elif len({o.accelerator.slug for o in outcomes if o.accelerator is not None}) == 1:
        sentences.append("The same accelerator type is best for all phases.")
    return " ".join(sentences)


def format_hardware(o: Outcome) -> str:
    """Accelerators as text: "13 × NVIDIA GH200 96GB HBM3"."""
    assert o.estimate is not None and o.accelerator is not None
    d = o.estimate.deployment
    sides = (
        [o.accelerator.slug] if d.pools is None else sorted({d.pools.prefill.accelerator, d.pools.decode.accelerator})
    )
    named = o.accelerator.name if len(sides) == 1 else " and ".join(sides)
    return f"{d.total_accelerators or 0:,} × {named}"


def format_cost(o: Outcome) -> str:
    """Cost as text: "29.80 USD/h", or in total for work with an end."""
    assert o.usd is not None
    if not o.has_an_end:
        return f"{format_usd(o.usd)}/h"
    bought = None if o.estimate is None or o.estimate.cost is None else o.estimate.cost.purchase_usd
    share = "" if bought is None else f" (the run's share of a purchase of {format_usd(bought)})"
    return f"{format_usd(o.usd)} in total{share}"


SPENDING_ASSUMPTIONS = ("rent_decline_per_year", "resale_decline_per_year")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Options compared with each other; `priorities` and `on_other_hardware` only if phases of one model are."""

    summary: str
    outcomes: tuple[Outcome, ...]
    table: tuple[TableLine, ...]
    differences: tuple[Difference, ...]
    spending: tuple[Spending, ...]
    assumptions: tuple[Assumed, ...]
    priorities: tuple[Priority, ...] = ()
    on_other_hardware: tuple[OtherHardware, ...] = ()


def compare_outcomes(outcomes: Sequence[Outcome], catalog: Catalog, *, phases: bool = False) -> Comparison:
    """Compare outcomes. With `phases`, the outcomes are different phases of work on one model."""
    outcomes = tuple(outcomes)
    lines = build_table(outcomes, judged=not phases)
    spending_of_each = tuple(found for o in outcomes if (found := spending_by_month(o)) is not None)
    if phases:
        on_other_hardware = compare_hardware(outcomes, catalog)
        priorities = tuple(p for o in outcomes if (p := hardware_priority(o)) is not None)
        summary = summarize_phases(outcomes, on_other_hardware)
        return Comparison(
            summary,
            outcomes,
            lines,
            (),
            spending_of_each,
            _spending_assumptions(outcomes),
            priorities,
            on_other_hardware,
        )
    differences = _differences_from_cheapest(outcomes)
    return Comparison(
        summarize_comparison(outcomes, differences, spending_of_each),
        outcomes,
        lines,
        differences,
        spending_of_each,
        _spending_assumptions(outcomes),
    )


def _differences_from_cheapest(outcomes: Sequence[Outcome]) -> tuple[Difference, ...]:
    """Each outcome compared with the cheapest one, the cheapest first."""
    best = cheapest_outcome(outcomes)
    if best is None:
        return ()
    found = (explain_difference(o, best) for o in outcomes if o is not best)
    return tuple(sorted((d for d in found if d is not None), key=lambda d: (d.ratio, d.name)))


def _spending_assumptions(outcomes: Sequence[Outcome]) -> tuple[Assumed, ...]:
    """Assumptions behind the spending by month. The answer of each option lists its other assumptions."""
    read = (
        a
        for o in outcomes
        for a in o.question.assumptions.with_recording().used_assumptions()
        if a.name in SPENDING_ASSUMPTIONS
    )
    return tuple({a.name: a for a in read}.values())
