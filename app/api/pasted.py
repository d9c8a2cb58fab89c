"""Pasted text beside figures that were told: what it is of, what goes before what, and where they contradict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pydantic import BaseModel, ValidationError

from app.api.schemas.diagnose import DevicesObservedSpec, ObservedSpec, ServiceObservedSpec, TrainingObservedSpec
from app.api.schemas.pasted import reading_json, wire_name
from app.errors import Unanswerable
from app.observed.figures import Reading, Runs, over
from app.observed.logs import log
from app.observed.read import metrics
from app.sizing.diagnosis.observed import Observed
from app.sizing.estimate import estimate
from app.sizing.question import Deployment, Question
from app.sizing.snapshot import Snapshot
from app.sizing.words import figure
from app.sizing.workload import InferenceWorkload

GROUPS: dict[str, type[BaseModel]] = {
    "service": ServiceObservedSpec,
    "training": TrainingObservedSpec,
    "devices": DevicesObservedSpec,
}
SAME = 0.1  # up to which two figures are one, measured twice


@dataclass(frozen=True, slots=True)
class Pasted:
    """All that was observed, and what was read for it."""

    observed: Observed
    reading: Reading | None = None
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> dict[str, object]:
        """What an answer says of the text."""
        return {} if self.reading is None else reading_json(self.reading, self.notes, GROUPS)


def observed_of(spec: ObservedSpec, question: Question, deployment: Deployment, market: Snapshot) -> Pasted:
    """What was told and what was read. Raises what says that a text cannot be read, and where it stands."""
    told = spec.to_observed()
    if not spec.scrapes and spec.log is None:
        return Pasted(told)
    reading = Reading()
    runs = runs_of(spec, question, deployment, market)
    if spec.scrapes:
        at = "exposition" if spec.exposition is not None else "expositions"
        with_time = [at_s for _, at_s in spec.scrapes if at_s is not None]
        if len(spec.scrapes) > 1 and len(with_time) < len(spec.scrapes):
            raise refused("at_s", "Give at_s with the exposition too: there is more than one.")
        reading += read_at(at, lambda: metrics(spec.scrapes, runs))
    if spec.log is not None:
        text = spec.log
        reading += read_at("log", lambda: log(text, runs, spec.format))
    check_phase_of(reading, question)
    reading = possible(reading)
    return Pasted(over(told, reading.observed()), reading, tuple(contradictions(told, reading)))


def read_at(field: str, read: Callable[[], Reading]) -> Reading:
    """What a text says; what cannot be read is refused where it stands."""
    try:
        return read()
    except Unanswerable as error:
        error.facts.setdefault("errors", [{"pointer": f"#/observed/{field}", "detail": error.detail}])
        raise


def refused(field: str, detail: str) -> Unanswerable:
    """A field of `observed` that does not go with the others."""
    return Unanswerable(detail, errors=[{"pointer": f"#/observed/{field}", "detail": detail}])


def check_phase_of(reading: Reading, question: Question) -> None:
    """Refuse metrics of a service with a run, and a run's log with a service."""
    serves = isinstance(question.workload, InferenceWorkload)
    wrong = next((f for f in reading.figures if f.group == ("training" if serves else "service")), None)
    if wrong is not None:
        kind, other = ("service", "training run") if serves else ("training run", "service")
        field = "log" if serves or "log" in wrong.source else "exposition"
        raise refused(field, f"The text is of a {other} ({wrong.source}), and the workload is a {kind}.")


def runs_of(spec: ObservedSpec, question: Question, deployment: Deployment, market: Snapshot) -> Runs:
    """What the text can be of: the deployment in full, and a step of the workload."""
    found = estimate(question, deployment, market)
    d, p = found.deployment, found.performance
    replicas = d.replicas or 1
    step = None if p is None or not p.step_time_s or not p.tokens_per_s else p.step_time_s * p.tokens_per_s
    workload = question.workload
    each = None if isinstance(workload, InferenceWorkload) else workload.units_per_sequence
    return Runs(
        replicas=float(replicas),
        accelerators=float(d.total_accelerators or replicas * (d.accelerators_per_replica or 1)),
        tokens_per_step=step,
        sequences_per_step=step / each if step and each else None,
        draft_tokens=None if d.speculative is None else d.speculative.draft_tokens,
        of_replicas=spec.of_replicas,
    )


def possible(reading: Reading) -> Reading:
    """The figures that can be told; of the others it is said that they are left out."""
    figures, notes = [], []
    for f in reading.figures:
        spec = GROUPS[f.group]
        name, times = wire_name(f, spec)
        try:
            spec.model_validate({name: f.value * times})
        except ValidationError:
            notes.append(f"{f.group}.{name} is read as {figure(f.value * times)} ({f.source}): left out, it cannot be.")
        else:
            figures.append(f)
    return replace(reading, figures=tuple(figures), notes=(*notes, *reading.notes))


def contradictions(told: Observed, reading: Reading) -> Iterator[str]:
    """Figures that were told and are read otherwise."""
    for f in reading.figures:
        said = getattr(getattr(told, f.group), f.quantity)
        if isinstance(said, float | int) and abs(said - f.value) > SAME * max(abs(said), abs(f.value)):
            name, times = wire_name(f, GROUPS[f.group])
            yield (
                f"{f.group}.{name} is told as {figure(said * times)} and read as {figure(f.value * times)} "
                f"({f.source}); what was told is taken."
            )
