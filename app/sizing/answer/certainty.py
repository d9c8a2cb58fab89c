"""How sure a prediction is: its 80 % interval, what it rests on, and which published results are near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.columns import at
from app.sizing.evidence import Evidence, Near, Neighbour, Setting, kind_of
from app.sizing.hardware.achieved import format_class
from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.tables import FORMATS
from app.sizing.result import Interval
from app.sizing.serving.search import Judged
from app.sizing.training.recipes import PRECISIONS
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def setting_of(
    workload: InferenceWorkload, judged: Judged[Any, Any, Any], row: int, accelerator: Accelerator, engine: str
) -> Setting:
    """A row of a token stream as published results are described."""
    plans = judged.plans
    return Setting(
        engine=engine,
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
        engine=framework,
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


@dataclass(frozen=True, slots=True)
class Certainty:
    """What is known around a setting."""

    evidence: Evidence
    setting: Setting
    near: Near
    neighbours: tuple[Neighbour, ...]
    assumed: Assumptions

    @property
    def basis(self) -> str:
        """Measured where a published result is of the same stack, size and load; calibrated where the stack's parts
        were fitted.
        """
        if self.neighbours and self.neighbours[0].distance <= self.assumed.same_setting_distance:
            return "measured"
        return "calibrated" if self.near is not Near.FAR else "roofline"

    def interval(self, quantity: str, value: float, kind: str | None = None) -> Interval:
        """The 80 % interval of one predicted quantity; `kind` is how it is reported, where its name does not say."""
        low, high = self.evidence.spread(kind or kind_of(quantity, self.setting), self.near, assumed=self.assumed)
        return Interval(quantity, value * low, value * high)


def certainty_of(setting: Setting, evidence: Evidence, assumed: Assumptions, *, training: bool = False) -> Certainty:
    """What is known around a setting, of serving or of training."""
    near, neighbours = evidence.near(setting, training=training), evidence.neighbours(setting, training=training)
    return Certainty(evidence, setting, near, neighbours, assumed)
