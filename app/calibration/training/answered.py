"""Published runs put as questions to /estimate, with their own layouts: which of them are answered not to fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.calibration.case import NotCompared, gathered
from app.calibration.training.cases import TrainingCases
from app.errors import AppError
from app.sizing.estimate import judge_deployment
from app.sizing.question import Question


@dataclass(frozen=True, slots=True)
class Answered:
    """One run that happened, and what /estimate says of it. `code`: why it does not fit; empty where it does."""

    id: str
    source: str
    method: str
    recomputation: str
    accelerator: str
    fits: bool
    probability: float | None  # that it fits, as answered; None where nothing was judged
    code: str
    total_bytes: float | None
    capacity_bytes: float | None


def answered(row: Mapping[str, Any], builder: TrainingCases) -> Iterator[Answered]:
    """The answer to one published run; NotCompared where it names too little, or contradicts itself."""
    asked = builder.asked(row)
    try:
        found = judge_deployment(Question(asked.workload), asked.deployment, builder.market)
    except AppError as error:
        raise NotCompared(f"declined: {error.code}") from None
    memory, sure = found.memory, found.assurance
    yield Answered(
        row["id"],
        row["source_key"],
        row["method"],
        found.deployment.activation_checkpointing or "",
        row["accelerator"],
        found.fits,
        None if sure is None else sure.fits,
        "" if found.fits else found.explanation[0].code,
        None if memory is None else memory.total_bytes,
        None if memory is None else memory.capacity_bytes,
    )


def every_answer(rows: Iterable[Mapping[str, Any]], builder: TrainingCases) -> tuple[list[Answered], Counter[str]]:
    """The answers to all runs that say enough, and the others by reason."""
    return gathered(rows, lambda row: answered(row, builder))


def misfits(found: Iterable[Answered]) -> list[Answered]:
    """Runs that happened and are answered not to fit in memory."""
    return [a for a in found if a.code == "out_of_memory"]
