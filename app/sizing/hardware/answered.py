"""Support verdicts for one accelerator and engine, in every format and way of training that the request leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.sizing.hardware.software import Software
from app.sizing.hardware.stacks import SERVED
from app.sizing.hardware.support.builds import accepted_formats
from app.sizing.hardware.support.generations import generation_of
from app.sizing.hardware.support.records import (
    FINE_TUNING,
    FULL,
    LORA,
    PRETRAINING,
    QLORA,
    SAMPLES,
    SERVING,
    Verdict,
    Work,
)
from app.sizing.hardware.trainers import training_work
from app.sizing.model.tasks import ModelTask

# Format of the verdict for an engine that accepts no format for the work.
USUAL = "bf16"
METHODS = {PRETRAINING: (FULL,), FINE_TUNING: (FULL, LORA, QLORA)}


@dataclass(frozen=True, slots=True)
class PairQuery:
    """A support query for an accelerator and an engine; None leaves a field open."""

    accelerator: int
    engine: str
    weight_format: str | None = None
    phase: str | None = None
    method: str | None = None
    task: ModelTask | None = None


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """The verdict for one weight format and kind of work."""

    weight_format: str
    work: Work
    verdict: Verdict


def answer_pair(query: PairQuery, software: Software) -> list[PairVerdict]:
    """Every requested verdict, in order."""
    return [
        PairVerdict(f, work, software.verdict(query.accelerator, query.engine, f, work))
        for work in _requested_works(query)
        for f, work in _requested_formats(query, work, software)
    ]


def _requested_works(query: PairQuery) -> Iterator[Work]:
    for phase in (query.phase,) if query.phase else (SERVING, SAMPLES, PRETRAINING, FINE_TUNING):
        if phase in METHODS:
            for method in (query.method,) if query.method else METHODS[phase]:
                yield Work(phase, method, query.task or ModelTask.DECODER)
        elif not query.method:
            for task in (query.task,) if query.task else SERVED[phase]:
                yield Work(SERVING if task is ModelTask.DECODER else SAMPLES, task=task)


def _requested_formats(query: PairQuery, work: Work, software: Software) -> Iterator[tuple[str, Work]]:
    """Weight formats for a piece of work. Adapters on a quantized base train in the 16-bit format of the chip."""
    accelerator = software.accelerators[query.accelerator]
    if work.method == QLORA:
        wide = "bf16" if "bf16" in generation_of(accelerator).multiplies else "fp16"
        named = None if query.weight_format == "nf4" else query.weight_format
        yield training_work(work.phase, QLORA, named or wide, work.task)
        return
    accepted = dict.fromkeys(accepted_formats(query.engine, work))
    accepted |= dict.fromkeys(software.documents.formats(query.engine, accelerator.family, work.phase))
    for f in (query.weight_format,) if query.weight_format else accepted or (USUAL,):
        yield f, work
