"""Confidence of estimates: intervals within physical limits, probabilities, and the cost of more confidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from app.sizing.answer.money import finite_or_none
from app.sizing.assumptions import Assumptions
from app.sizing.columns import HOURS_PER_DAY, SECONDS_PER_DAY, Column, at
from app.sizing.evidence import Familiarity, Neighbor, Setting
from app.sizing.hardware.achieved import format_class
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.tables import FORMATS
from app.sizing.measured import Disagreement, OwnMeasurement, as_neighbor
from app.sizing.result import Assurance, Interval, Level, Reason
from app.sizing.serving.options import PlanEvaluations
from app.sizing.snapshot import Catalog
from app.sizing.training.finalists import Finalists
from app.sizing.training.memory import memory_scale
from app.sizing.training.recipes import PRECISIONS
from app.sizing.uncertainty import HIGH, LOW, NORMAL, Neighborhood, Shape, Spread, Spreads, StackKey, evidence_pool
from app.sizing.words import format_duration, format_number, format_quantity, join_words, percent
from app.sizing.workload import InferenceWorkload, Method, TrainingWorkload

# Both ends of an 80 % interval, as z-scores of a normal distribution.
ENDS = np.array([NORMAL.inv_cdf(LOW), NORMAL.inv_cdf(HIGH)])


def serving_setting(
    workload: InferenceWorkload, judged: PlanEvaluations[Any, Any, Any], row: int, accelerator: Accelerator, engine: str
) -> Setting:
    """Setting of one serving deployment, described like a published result."""
    plans = judged.plans
    return Setting(
        engine=engine_named(engine).base_engine(),
        family=accelerator.family,
        format_class=format_class(FORMATS[int(plans.weight_format[row])], bool(plans.is_native_format[row])),
        accelerator=accelerator.slug,
        load=workload.load.value,
        params=float(workload.model.total_params),
        devices=at(plans.accelerators_per_replica * judged.fleet.replicas, row),
        in_flight=max(1.0, at(judged.operation.batch * judged.fleet.replicas, row)),
        input_tokens=workload.input_tokens.mean,
        output_tokens=workload.output_tokens.mean,
    )


def training_setting(
    workload: TrainingWorkload, accelerator: Accelerator, framework: str, accelerators: float
) -> Setting:
    """Setting of a training run, described like a published result."""
    return Setting(
        engine=engine_named(framework).base_engine(adapts=workload.method is not Method.FULL),
        family=accelerator.family,
        format_class=PRECISIONS[workload.precision].format_class,
        accelerator=accelerator.slug,
        load=workload.method.value,
        params=float(workload.model.total_params),
        devices=accelerators,
        in_flight=float(workload.global_batch),
        input_tokens=workload.units_per_sequence,
        output_tokens=1.0,
    )


@cache
def interval_ends(spread: Spread) -> Column:
    """Both ends of an interval next to many sources, as logarithms of the error factor."""
    return spread.error_quantile(ENDS)


@dataclass(frozen=True, slots=True)
class Certainty:
    """Published evidence around a setting, and the intervals that follow from it."""

    spreads: Spreads
    neighbourhood: Mapping[str, Neighborhood]  # evidence near the setting, by pool of results
    setting: Setting
    near: Familiarity  # how much of the stack was published elsewhere
    neighbours: tuple[Neighbor, ...]  # nearest published results, nearest first
    assumed: Assumptions
    training: bool = False
    own: tuple[tuple[OwnMeasurement, float], ...] = ()  # own measurements of similar stacks, with correlation
    disagreements: tuple[Disagreement, ...] = ()  # between these measurements

    @property
    def evidence_basis(self) -> str:
        """Basis of the prediction: "measured", "calibrated" or "roofline".

        Measured means that a result, published or the user's own, has the same stack, size and load; calibrated means
        that parts of the stack were fitted to results.
        """
        if self.nearest and self.nearest[0].distance <= self.assumed.same_setting_distance:
            return "measured"
        return "calibrated" if self.near is not Familiarity.FAR else "roofline"

    @property
    def nearest(self) -> tuple[Neighbor, ...]:
        """The user's own measurements of similar stacks, then the nearest published results."""
        return (*(as_neighbor(*each) for each in self.own), *self.neighbours)

    def measured_reasons(self) -> Iterator[Reason]:
        """Sentences about the user's own measurements that move this prediction, and those that disagree."""
        if self.own:
            measurement, _ = self.own[0]
            figure = measurement.figures[0]
            times = figure.measured / figure.predicted
            text = (
                f"Your measurement {measurement.identity} of {measurement.day} moves this prediction: it reached "
                f"{format_number(times)} times the {MEASURED_NAMES[figure.metric]} that was predicted without it."
            )
            yield Reason("own_measurement", text, "measured_over_predicted", times, "1")
        for d in self.disagreements:
            text = (
                f"Your measurements {d.first.identity} and {d.second.identity} of one setting differ by a factor of "
                f"{format_number(d.ratio)} in {MEASURED_NAMES[d.metric]}. Both count, with a wider interval."
            )
            yield Reason("measurements_disagree", text, "ratio", d.ratio, "1")

    @property
    def source_count(self) -> int:
        """Number of independent sources with results of the runtime on the hardware family; 0 if none has any of the
        engine there.
        """
        if self.near > Familiarity.ENGINE_ON_FAMILY:
            return 0
        pool = evidence_pool("training" if self.training else "throughput")
        return int(self.neighbourhood[pool].sources[0])

    def predict_interval(self, quantity: str, value: float, kind: str, statistic: str = "mean") -> Interval:
        """80 % interval of one predicted quantity.

        Parameters:
            kind: kind of error whose spread applies.
        """
        spread = self.spreads.get_spread(kind)
        scale = spread.relative_spread(self.neighbourhood[evidence_pool(kind)])
        low, high = np.exp(scale * interval_ends(spread)).tolist()
        if kind in RATES:
            low, high = 1 / high, 1 / low
        return Interval(quantity, value * low, value * high, statistic)


def clip_interval(interval: Interval, value: float, *, least: float = 0.0, most: float = math.inf) -> Interval:
    """An interval clipped to the possible range; it always contains the prediction."""
    return replace(interval, low=min(value, max(interval.low, least)), high=max(value, min(interval.high, most)))


# Measured quantities in words.
MEASURED_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "output_tokens_per_s": "output tokens per second",
        "tpot_s": "TPOT",
        "ttft_s": "TTFT",
        "tokens_per_s": "tokens per second",
        "samples_per_s": "samples per second",
    }
)
# Kinds of error where a higher value is better.
RATES = frozenset({"throughput", "single_stream", "prefill", "samples", "training", "training_samples"})


def build_certainty(
    setting: Setting,
    catalog: Catalog,
    assumed: Assumptions,
    *,
    training: bool = False,
    neighbourhood: Mapping[str, Neighborhood] | None = None,
    own: Setting | None = None,
) -> Certainty:
    """Evidence around a setting of serving or training.

    Parameters:
        neighbourhood: evidence by pool of results, if already computed.
        own: the setting as the user's own measurements describe it: one replica, or any number of accelerators.
    """
    evidence = catalog.evidence
    near, neighbours = (
        evidence.get_familiarity(setting, training=training),
        evidence.find_neighbors(setting, training=training),
    )
    key = StackKey(setting.engine, setting.family, setting.format_class)
    shape = Shape(setting.params, setting.input_tokens, setting.output_tokens)
    if neighbourhood is None:
        neighbourhood = {
            pool: results.index_stacks([key]).neighborhood(shape) for pool, results in catalog.evidence_pools.items()
        }
    certainty = Certainty(catalog.spreads, neighbourhood, setting, near, neighbours, assumed, training)
    return certainty if own is None else with_own_evidence(certainty, own, catalog)


def with_own_evidence(certainty: Certainty, setting: Setting, catalog: Catalog) -> Certainty:
    """The certainty with the user's own measurements of stacks like `setting`, which describes one replica."""
    if catalog.measured is None:
        return certainty
    own = tuple(catalog.measured.find_neighbors(setting))
    shown = {measurement.identity for measurement, _ in own}
    disagreements = tuple(d for d in catalog.measured.disagreements if {d.first.identity, d.second.identity} <= shown)
    return replace(certainty, own=own, disagreements=disagreements)


NEGLIGIBLE_INTERRUPTIONS = 0.01  # fewer expected interruptions are shown as none
UNCERTAIN_RANGE = (0.2, 0.8)  # range of probabilities in which the answer warns that the run may not fit
MEMORY = "memory_total_bytes"


def speed_interval(finalists: Finalists, row: int, certainty: Certainty, *, samples: bool) -> Interval:
    """80 % interval of the units per second; its upper end is the peak compute rate."""
    outcome = finalists.outcome
    units = at(outcome.units_per_s, row)
    name, kind = ("samples_per_s", "training_samples") if samples else ("tokens_per_s", "training")
    return clip_interval(certainty.predict_interval(name, units, kind), units, most=units / at(outcome.mfu, row))


def duration_intervals(finalists: Finalists, row: int, speed: Interval) -> Iterator[Interval]:
    """Intervals of the duration and, where priced, of the cost of a run, from the interval of its speed."""
    outcome = finalists.outcome
    units = at(outcome.units_per_s, row)
    for name, value in (("days", at(outcome.days, row)), ("usd_total", at(outcome.usd_total, row))):
        if finite_or_none(value) is not None:
            yield clip_interval(Interval(name, value * units / speed.high, value * units / speed.low), value)


def memory_interval(finalists: Finalists, row: int) -> Interval:
    """80 % interval of the memory of one accelerator, in bytes.

    It is at least the sum of weights, gradients and optimizer states, and at most the capacity if the run fits.
    """
    memory, spread = finalists.run.memory, finalists.plans.stack.margins.memory
    total, capacity = at(memory.total_bytes, row), at(memory.capacity_bytes, row)
    counted = at(memory.weights_bytes + memory.gradient_bytes + memory.optimizer_bytes, row)
    most = capacity if finalists.fits[row] else np.inf
    low, high = np.exp(at(memory_scale(finalists.plans, memory), row) * interval_ends(spread)).tolist()
    return clip_interval(Interval(MEMORY, total * low, total * high), total, least=counted, most=most)


def run_assurance(finalists: Finalists, row: int) -> Assurance:
    """Probabilities of one run, and the accelerators and cost that each confidence level needs."""
    sure, owned = finalists.assurance, at(finalists.assurance.owned, row)

    def levels_of(confidences: Sequence[float], accelerators: Column, usd_total: Column) -> tuple[Level, ...]:
        return tuple(
            Level(
                level, None if finite_or_none(count) is None else int(count), usd_total=finite_or_none(usd)
            ).within_stock(owned)
            for level, count, usd in zip(confidences, accelerators.tolist(), usd_total.tolist(), strict=True)
        )

    return Assurance(
        asked=finalists.plans.stack.margins.asked,
        fits=at(sure.fits, row),
        meets_slo=None,
        meets_deadline=at(sure.meets_deadline, row),
        by_level=levels_of(sure.levels, sure.accelerators[row], sure.usd_total[row]),
        after=levels_of(sure.after, sure.accelerators_after[row], sure.usd_total_after[row]),
    )


def fits_reason(probability: float) -> Iterator[Reason]:
    """Reason that the run may not fit in memory, where neither outcome is likely enough."""
    if UNCERTAIN_RANGE[0] < probability < UNCERTAIN_RANGE[1]:
        text = f"The run is {percent(probability)} likely to fit in memory. Test a few steps before paying for more."
        yield Reason("doubtful_memory", text, "fits", probability, "1")


def describe_interruptions(expected: float) -> str:
    """Expected interruptions of a run as text; below one, the probability of any (Poisson)."""
    if expected < 1:
        return f"interruptions ({percent(-np.expm1(-expected))} likely)"
    return format_quantity(expected, "expected interruption")


def deadline_reason(workload: TrainingWorkload, finalists: Finalists, row: int) -> Reason:
    """Share of the allowed time that a run takes: expected, and at the requested confidence."""
    days, limit = at(finalists.outcome.days, row), workload.deadline_s / SECONDS_PER_DAY
    sure, asked = at(finalists.assurance.wall_s, row) / SECONDS_PER_DAY, finalists.plans.stack.margins.asked
    unit, each = ("day", 1.0) if limit >= 2 else ("hour", HOURS_PER_DAY)
    in_one_unit = min(days, sure) * each >= 1
    expected = format_number(days * each) if in_one_unit else format_duration(days)
    surely = format_quantity(sure * each, unit) if in_one_unit else format_duration(sure)
    interruptions = at(finalists.run.interruptions, row)
    included = []
    if workload.experiment_overhead:
        included.append(f"{percent(workload.experiment_overhead)} for extra experiments")
    if interruptions >= NEGLIGIBLE_INTERRUPTIONS:
        included.append(describe_interruptions(interruptions))
    also = f" This includes {join_words(included)}." if included else ""
    return Reason(
        "deadline",
        f"The run is expected to take {expected} of the {format_quantity(limit * each, unit)} allowed ({surely} at "
        f"{percent(asked)} confidence).{also}",
        "days",
        days,
        "days",
    )
