"""What every step of a search needs: the question, its workload, the catalog, and the rejections so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from app.sizing.decisions.rejections import NullRejections, Rejections
from app.sizing.question import Question
from app.sizing.snapshot import Catalog
from app.sizing.workload import InferenceWorkload, TrainingWorkload

Workload = InferenceWorkload | TrainingWorkload
Searched_co = TypeVar("Searched_co", bound=Workload, covariant=True)
Other = TypeVar("Other", bound=Workload)


@dataclass(frozen=True, slots=True)
class Search(Generic[Searched_co]):
    """One question to one catalog, handed through every step of its answer."""

    question: Question
    workload: Searched_co  # the question's own, or a part of it: a traffic class, a pool, a companion
    catalog: Catalog
    rejections: Rejections  # collects the accelerator types that a step rejects

    @staticmethod
    def start(question: Question, catalog: Catalog, rejections: Rejections | None = None) -> Search[Workload]:
        """A search for the workload of a question. Without `rejections`, none are collected."""
        collected = NullRejections(catalog.accelerators) if rejections is None else rejections
        return Search(question, question.workload, catalog, collected)

    def of(self, workload: Other) -> Search[Other]:
        """The same search for another workload, or for the same one by its type."""
        return Search(self.question, workload, self.catalog, self.rejections)

    def ask(self, question: Question) -> Search[Workload]:
        """The same search for another question and its workload."""
        return Search(question, question.workload, self.catalog, self.rejections)

    def unrecorded(self) -> Search[Searched_co]:
        """The same search without collecting rejections."""
        return replace(self, rejections=NullRejections(self.catalog.accelerators))
