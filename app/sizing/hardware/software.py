"""Software support on the accelerators of one catalog, with cached answers."""

from __future__ import annotations

from collections.abc import Sequence

from app.sizing.hardware.parts import Accelerator
from app.sizing.hardware.support.records import Verdict, Work
from app.sizing.hardware.support.refusals import find_refusal, no_engine_text
from app.sizing.hardware.support.verdicts import SupportEvidence, verdict
from app.sizing.hardware.trainers import Trainers, find_trainers


class Software:
    """Support rules and evidence for the accelerators of one catalog."""

    def __init__(
        self,
        accelerators: Sequence[Accelerator],
        documents: SupportEvidence,
        engines: Sequence[str],
        families: Sequence[str],
    ) -> None:
        self.accelerators, self.documents, self.engines, self.families = accelerators, documents, engines, families
        self._trainers: dict[tuple[str, Work], Trainers] = {}
        self._refusals: dict[tuple[int, tuple[str, ...], frozenset[str], Work], str] = {}

    def verdict(self, accelerator: int, engine: str, weight_format: str, work: Work) -> Verdict:
        """Whether an engine supports a piece of work on an accelerator."""
        return verdict(self.accelerators[accelerator], engine, weight_format, work, self.documents)

    def trainers(self, weight_format: str, work: Work) -> Trainers:
        """Frameworks that support a piece of training work."""
        asked = weight_format, work
        if asked not in self._trainers:
            self._trainers[asked] = find_trainers(
                self.accelerators, self.documents, weight_format, work, engines=self.engines, families=self.families
            )
        return self._trainers[asked]

    def refusal_reason(self, accelerator: int, engines: tuple[str, ...], formats: frozenset[str], work: Work) -> str:
        """Text of the rule that excludes a piece of work from an accelerator; empty if no rule does."""
        asked = accelerator, engines, formats, work
        if asked not in self._refusals:
            a = self.accelerators[accelerator]
            found = find_refusal(a, engines, formats, work, self.documents)
            self._refusals[asked] = (
                no_engine_text(a, work) if found is None else "" if found.is_supported else found.rule
            )
        return self._refusals[asked]
