"""How sure a prediction is: its 80 % interval, what it rests on, and which published results are near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.sizing.columns import at
from app.sizing.evidence import USUAL, Evidence, Near, Neighbour, Setting, kind_of
from app.sizing.hardware.achieved import format_class
from app.sizing.result import Interval
from app.sizing.serving.search import Judged
from app.sizing.snapshot import Market
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.recipes import PRECISIONS
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def setting_of(workload: InferenceWorkload, judged: Judged[Any, Any, Any], row: int, market: Market) -> Setting:
    """A row of a token stream as published results are described."""
    plans = judged.plans
    weights, native = market.formats[int(plans.weight_format[row])], bool(plans.native[row])
    return Setting(
        engine=market.engines[int(plans.engine[row])],
        family=market.families[int(plans.family[row])],
        format_class=format_class(weights, native),
        accelerator=market.accelerators[int(plans.accelerator[row])].slug,
        load=workload.load.value,
        params=float(workload.model.total_params),
        devices=at(plans.accelerators_per_replica * judged.fleet.replicas, row),
        in_flight=max(1.0, at(judged.operation.batch * judged.fleet.replicas, row)),
        input_tokens=workload.input_tokens.mean,
        output_tokens=workload.output_tokens.mean,
    )


@dataclass(frozen=True, slots=True)
class Certainty:
    """What is known around a one-row table."""

    evidence: Evidence
    setting: Setting
    near: Near
    neighbours: tuple[Neighbour, ...]

    @property
    def basis(self) -> str:
        """Measured where a published result is of the same stack, size and load; calibrated where the stack's parts
        were fitted.
        """
        if self.neighbours and self.neighbours[0].distance <= USUAL.same_setting_distance:
            return "measured"
        return "calibrated" if self.near is not Near.FAR else "roofline"

    def interval(self, quantity: str, value: float, kind: str | None = None) -> Interval:
        """The 80 % interval of one predicted quantity; `kind` is what it is reported as, where its name does not say."""
        low, high = self.evidence.spread(kind or kind_of(quantity, self.setting), self.near)
        return Interval(quantity, value * low, value * high)


def certainty_of(workload: InferenceWorkload, judged: Judged[Any, Any, Any], row: int, market: Market) -> Certainty:
    """What is known around a row of a token stream."""
    setting = setting_of(workload, judged, row, market)
    evidence = market.evidence
    return Certainty(evidence, setting, evidence.near(setting), evidence.neighbours(setting))


def training_setting(
    workload: TrainingWorkload, plans: TrainingPlans, row: int, accelerators: float, market: Market
) -> Setting:
    """A row of layouts as published results are described."""
    return Setting(
        engine=market.engines[int(plans.framework[row])],
        family=market.families[int(market.family_of[plans.accelerator[row]])],
        format_class=PRECISIONS[workload.precision].format_class,
        accelerator=market.accelerators[int(plans.accelerator[row])].slug,
        load=workload.method.value,
        params=float(workload.model.total_params),
        devices=accelerators,
        in_flight=float(workload.global_batch),
        input_tokens=workload.units_per_sequence,
        output_tokens=1.0,
    )


def training_certainty(
    workload: TrainingWorkload, plans: TrainingPlans, row: int, accelerators: float, market: Market
) -> Certainty:
    """What is known around a row of runs."""
    setting, evidence = training_setting(workload, plans, row, accelerators, market), market.evidence
    return Certainty(
        evidence, setting, evidence.near(setting, training=True), evidence.neighbours(setting, training=True)
    )
