"""How sure a prediction is: its 80 % interval, what it rests on, and which published results are near."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, at
from app.sizing.evidence import Near, Neighbour, Setting
from app.sizing.hardware.achieved import format_class
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.tables import FORMATS
from app.sizing.result import Interval
from app.sizing.serving.options import Judged
from app.sizing.snapshot import Snapshot
from app.sizing.surroundings import Shape, StackKey, pool_of
from app.sizing.training.recipes import PRECISIONS
from app.sizing.uncertainty import HIGH, LOW, NORMAL, Around, Spread, Spreads
from app.sizing.workload import InferenceWorkload, Method, TrainingWorkload

# Both ends of an interval, as standings in a normal distribution.
ENDS = np.array([NORMAL.inv_cdf(LOW), NORMAL.inv_cdf(HIGH)])


def setting_of(
    workload: InferenceWorkload, judged: Judged[Any, Any, Any], row: int, accelerator: Accelerator, engine: str
) -> Setting:
    """A row of a token stream as published results are described."""
    plans = judged.plans
    return Setting(
        engine=engine_named(engine).underneath(),
        family=accelerator.family,
        format_class=format_class(FORMATS[int(plans.weight_format[row])], bool(plans.native[row])),
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
    """A run as published results are described."""
    return Setting(
        engine=engine_named(framework).underneath(adapts=workload.method is not Method.FULL),
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
def ends_of(spread: Spread) -> Column:
    """Both ends of an interval right beside many sources."""
    return spread.quantile(ENDS)


@dataclass(frozen=True, slots=True)
class Certainty:
    """What is known around a setting."""

    spreads: Spreads
    around: Mapping[str, Around]  # by pool of results
    setting: Setting
    near: Near
    neighbours: tuple[Neighbour, ...]
    assumed: Assumptions
    training: bool = False

    @property
    def basis(self) -> str:
        """Measured where a published result is of the same stack, size and load; calibrated where the stack's parts
        were fitted.
        """
        if self.neighbours and self.neighbours[0].distance <= self.assumed.same_setting_distance:
            return "measured"
        return "calibrated" if self.near is not Near.FAR else "roofline"

    @property
    def sources(self) -> int:
        """How many published results of the runtime on the family."""
        pool = pool_of("training" if self.training else "throughput")
        return int(self.around[pool].sources[0])

    def interval(self, quantity: str, value: float, kind: str, statistic: str = "mean") -> Interval:
        """The 80 % interval of one predicted quantity, errors of which are those of `kind`."""
        spread = self.spreads.of(kind)
        scale = spread.scale(self.around[pool_of(kind)])
        low, high = np.exp(scale * ends_of(spread)).tolist()
        if kind in RATES:
            low, high = 1 / high, 1 / low
        return Interval(quantity, value * low, value * high, statistic)


def inside(found: Interval, value: float, *, least: float = 0.0, most: float = math.inf) -> Interval:
    """An interval that never leaves what is possible, and never its prediction."""
    return replace(found, low=min(value, max(found.low, least)), high=max(value, min(found.high, most)))


# Kinds of errors of which more is better.
RATES = frozenset({"throughput", "single_stream", "prefill", "samples", "training", "training_samples"})


def certainty_of(
    setting: Setting,
    snapshot: Snapshot,
    assumed: Assumptions,
    *,
    training: bool = False,
    around: Mapping[str, Around] | None = None,
) -> Certainty:
    """What is known around a setting, of serving or of training; `around` where it was found already."""
    evidence = snapshot.evidence
    near, neighbours = evidence.near(setting, training=training), evidence.neighbours(setting, training=training)
    key = StackKey(setting.engine, setting.family, setting.format_class)
    shape = Shape(setting.params, setting.input_tokens, setting.output_tokens)
    if around is None:
        around = {pool: results.beside([key]).around(shape) for pool, results in snapshot.surroundings.items()}
    return Certainty(snapshot.spreads, around, setting, near, neighbours, assumed, training)
