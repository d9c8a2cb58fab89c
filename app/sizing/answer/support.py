"""Level of software support for an estimate: documented, or expected from rules."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.support.records import Level, Work
from app.sizing.hardware.support.verdicts import verdict
from app.sizing.hardware.trainers import training_work
from app.sizing.model.tasks import ModelTask
from app.sizing.product_names import product_name
from app.sizing.result import Estimate, Reason
from app.sizing.serving.kinds import serving_backend
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, TrainingWorkload


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
        return replace(estimate, support=Level.DOCUMENTED.value)
    reason = expected_reason(estimate, workload, catalog, assumed)
    return replace(estimate, support=Level.EXPECTED.value, explanation=(*estimate.explanation, reason))


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
