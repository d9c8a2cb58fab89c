"""Combines pasted metrics and logs with the figures that the caller gave, and reports contradictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from app.api.schemas.diagnose import (
    DevicesObservedSpec,
    MemoryObservedSpec,
    ObservedSpec,
    ServiceObservedSpec,
    TrainingObservedSpec,
    reading_json,
    wire_name,
)
from app.errors import Unanswerable
from app.garbage import paused_collection
from app.observed.figures import Reading, RunContext, merge_observations
from app.observed.logs import read_log
from app.observed.read import read_metrics
from app.sizing.diagnosis.case import Observations
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Catalog
from app.sizing.words import format_number
from app.sizing.workload import InferenceWorkload

GROUPS: dict[str, type[BaseModel]] = {
    "service": ServiceObservedSpec,
    "training": TrainingObservedSpec,
    "devices": DevicesObservedSpec,
    "memory": MemoryObservedSpec,
}
SAME_SHARE = 0.1  # relative difference up to which two figures agree


@dataclass(frozen=True, slots=True)
class ObservedText:
    """All observed figures, and what the pasted text contributed to them."""

    observed: Observations
    reading: Reading | None = None
    notes: tuple[str, ...] = ()

    @property
    def response_fields(self) -> dict[str, Any]:
        """Returns the fields of the response that describe the pasted text."""
        return {} if self.reading is None else reading_json(self.reading, self.notes, GROUPS)


def read_observation(spec: ObservedSpec, question: Question, deployment: Deployment, catalog: Catalog) -> ObservedText:
    """Returns the figures of the caller and those read from pasted text. Errors carry the location of the text."""
    explicit = spec.to_observed()
    if not spec.timed_scrapes and spec.log is None:
        return ObservedText(explicit)
    reading = Reading()
    runs = expected_runs(spec, question, deployment, catalog)
    if spec.timed_scrapes:
        at = "exposition" if spec.exposition is not None else "expositions"
        with_time = [at_s for _, at_s in spec.timed_scrapes if at_s is not None]
        if len(spec.timed_scrapes) > 1 and len(with_time) < len(spec.timed_scrapes):
            raise observed_error("at_s", "Set at_s for every exposition if you send more than one.")
        reading += read_text(at, lambda: read_metrics(spec.timed_scrapes, runs))
    if spec.log is not None:
        text = spec.log
        reading += read_text("log", lambda: read_log(text, runs, spec.format))
    check_text_phase(reading, question)
    reading = drop_impossible(reading)
    return ObservedText(
        merge_observations(explicit, reading.to_observations()), reading, tuple(find_contradictions(explicit, reading))
    )


def read_text(field: str, read: Callable[[], Reading]) -> Reading:
    """Returns what a text contains. Errors carry the location of the text."""
    try:
        with paused_collection():  # a long text becomes many objects, which the answer needs to its end
            return read()
    except Unanswerable as error:
        error.facts.setdefault("errors", [{"pointer": f"#/observed/{field}", "detail": error.detail}])
        raise


def observed_error(field: str, detail: str) -> Unanswerable:
    """Returns an error for a field of `observed` that cannot be combined with the others."""
    return Unanswerable(detail, errors=[{"pointer": f"#/observed/{field}", "detail": detail}])


def check_text_phase(reading: Reading, question: Question) -> None:
    """Rejects service metrics for a training run, and a training log for a service."""
    serves = isinstance(question.workload, InferenceWorkload)
    wrong = next((f for f in reading.figures if f.group == ("training" if serves else "service")), None)
    if wrong is not None:
        kind, other = ("service", "training run") if serves else ("training run", "service")
        field = "log" if serves or "log" in wrong.source else "exposition"
        raise observed_error(field, f"The text describes a {other} ({wrong.source}), but the workload is a {kind}.")


def expected_runs(spec: ObservedSpec, question: Question, deployment: Deployment, catalog: Catalog) -> RunContext:
    """Returns the run that the text can describe: the complete deployment and one step of the workload."""
    result = estimate_deployment(question, deployment, catalog)
    d, p = result.deployment, result.performance
    replicas = d.replicas or 1
    step = None if p is None or not p.step_time_s or not p.tokens_per_s else p.step_time_s * p.tokens_per_s
    workload = question.workload
    each = None if isinstance(workload, InferenceWorkload) else workload.units_per_sequence
    return RunContext(
        accelerator=d.accelerator,
        replicas=float(replicas),
        accelerators=float(d.total_accelerators or replicas * (d.accelerators_per_replica or 1)),
        tokens_per_step=step,
        sequences_per_step=step / each if step and each else None,
        draft_tokens=None if d.speculative is None else d.speculative.draft_tokens,
        of_replicas=spec.of_replicas,
    )


def drop_impossible(reading: Reading) -> Reading:
    """Returns the reading without impossible figures; a note lists each omitted figure."""
    figures, notes = [], []
    for f in reading.figures:
        spec = GROUPS[f.group]
        name, times = wire_name(f, spec)
        try:
            spec.model_validate({name: f.value * times})
        except ValidationError:
            notes.append(
                f"{f.group}.{name}: ignored the impossible value {format_number(f.value * times)} ({f.source})."
            )
        else:
            figures.append(f)
    return replace(reading, figures=tuple(figures), notes=(*notes, *reading.notes))


def find_contradictions(explicit: Observations, reading: Reading) -> Iterator[str]:
    """Yields a note for each figure whose given value differs from the value read."""
    for f in reading.figures:
        sent = getattr(getattr(explicit, f.group), f.quantity)
        if isinstance(sent, float | int) and abs(sent - f.value) > SAME_SHARE * max(abs(sent), abs(f.value)):
            name, times = wire_name(f, GROUPS[f.group])
            yield (
                f"{f.group}.{name}: you sent {format_number(sent * times)}, but the text contains "
                f"{format_number(f.value * times)} "
                f"({f.source}). Your value is used."
            )
