"""How surely the software of an estimate runs there, in words."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.support.records import Level, Work
from app.sizing.hardware.support.verdicts import verdict
from app.sizing.hardware.trainers import training_work
from app.sizing.model.tasks import ModelTask
from app.sizing.result import Estimate, Reason
from app.sizing.serving.kinds import kind_of
from app.sizing.snapshot import Snapshot
from app.sizing.workload import InferenceWorkload, TrainingWorkload


def with_support(
    found: Estimate,
    workload: InferenceWorkload | TrainingWorkload,
    snapshot: Snapshot,
    assumed: Assumptions,
    *,
    expected: bool,
) -> Estimate:
    """The same estimate with how surely its software runs; where only rules say so, these and what follows."""
    if not expected:
        return replace(found, support=Level.DOCUMENTED.value)
    reason = expected_reason(found, workload, snapshot, assumed)
    return replace(found, support=Level.EXPECTED.value, explanation=(*found.explanation, reason))


def expected_reason(
    found: Estimate, workload: InferenceWorkload | TrainingWorkload, snapshot: Snapshot, assumed: Assumptions
) -> Reason:
    """That only rules say it runs, and what that does to the intervals."""
    d, task = found.deployment, workload.model.task
    accelerator = snapshot.accelerators[snapshot.accelerator_index[d.accelerator]]
    engine = d.framework or d.engine or ""
    asked = _asked(workload, d.weight_format, task)
    times = assumed.expected_support_widening
    text = (
        f"No document or published result that the catalogue knows shows {engine} doing this on {accelerator.name}. It "
        f"follows from rules: {verdict(accelerator, engine, *asked, snapshot.documents).rule} Intervals are {times:g} "
        "times as wide."
    )
    return Reason("support_expected", text, "expected_support_widening", times, "1")


def _asked(
    workload: InferenceWorkload | TrainingWorkload, weight_format: str | None, task: ModelTask
) -> tuple[str, Work]:
    if isinstance(workload, TrainingWorkload):
        return training_work(workload.phase, workload.method.value, workload.precision, task)
    return weight_format or "", Work(kind_of(workload).phase, task=task)
