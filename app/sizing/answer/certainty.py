"""Uncertainty of a prediction: its 80 % interval, its basis and the nearest published results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, at
from app.sizing.evidence import Familiarity, Neighbor, Setting
from app.sizing.hardware.achieved import format_class
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.tables import FORMATS
from app.sizing.result import Interval
from app.sizing.serving.options import PlanEvaluations
from app.sizing.snapshot import Catalog
from app.sizing.surroundings import Shape, StackKey, evidence_pool
from app.sizing.training.recipes import PRECISIONS
from app.sizing.uncertainty import HIGH, LOW, NORMAL, Neighborhood, Spread, Spreads
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

    @property
    def evidence_basis(self) -> str:
        """Basis of the prediction: "measured", "calibrated" or "roofline".

        Measured means that a published result has the same stack, size and load; calibrated means that parts of the
        stack were fitted to results.
        """
        if self.neighbours and self.neighbours[0].distance <= self.assumed.same_setting_distance:
            return "measured"
        return "calibrated" if self.near is not Familiarity.FAR else "roofline"

    @property
    def source_count(self) -> int:
        """Number of independent sources with results of the runtime on the hardware family."""
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


# Kinds of error where a higher value is better.
RATES = frozenset({"throughput", "single_stream", "prefill", "samples", "training", "training_samples"})


def build_certainty(
    setting: Setting,
    catalog: Catalog,
    assumed: Assumptions,
    *,
    training: bool = False,
    neighbourhood: Mapping[str, Neighborhood] | None = None,
) -> Certainty:
    """Evidence around a setting of serving or training.

    Parameters:
        neighbourhood: evidence by pool of results, if already computed.
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
    return Certainty(catalog.spreads, neighbourhood, setting, near, neighbours, assumed, training)
