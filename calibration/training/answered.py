"""Asks /estimate for published runs with their own layouts, and finds those that it reports as not fitting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import AppError
from app.sizing.decisions.search import Search
from app.sizing.estimate import judge_deployment
from app.sizing.question import Question
from calibration.case import NotCompared, collect_cases
from calibration.training.cases import TrainingCases


@dataclass(frozen=True, slots=True)
class AnsweredRun:
    """One published run and the answer of /estimate; `code` is why it does not fit, empty if it fits."""

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


def answer_run(row: Mapping[str, Any], builder: TrainingCases) -> Iterator[AnsweredRun]:
    """The answer for one published run; raises NotCompared if the row states too little or contradicts itself."""
    asked = builder.read_question(row)
    try:
        found = judge_deployment(Search.start(Question(asked.workload), builder.catalog), asked.deployment)
    except AppError as error:
        raise NotCompared(f"declined: {error.code}") from None
    memory, sure = found.memory, found.assurance
    yield AnsweredRun(
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


def answer_all_runs(
    rows: Iterable[Mapping[str, Any]], builder: TrainingCases
) -> tuple[list[AnsweredRun], Counter[str]]:
    """The answers for all complete rows, and the number of other rows by reason."""
    return collect_cases(rows, lambda row: answer_run(row, builder))


def false_misfits(found: Iterable[AnsweredRun]) -> list[AnsweredRun]:
    """Runs that took place although /estimate reports that they do not fit in memory."""
    return [a for a in found if a.code == "out_of_memory"]
