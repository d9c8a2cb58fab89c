"""Types that no software allowed does the work on: turned down with the rule that keeps it from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Codes
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.support.formats import words
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.support.words import not_done
from app.sizing.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Unsupported:
    """What was asked of software; no engines: any."""

    market: Snapshot
    engines: tuple[str, ...]
    formats: frozenset[str]
    work: Work

    def turn_down(self, rejections: Rejections, before: Codes, after: Codes) -> None:
        """Turn down the types of which no row is left."""
        code = "no_framework" if self.work.trains else "no_engine"
        few = len(self.formats) < 3
        formats = " or ".join(words(f) for f in sorted(self.formats)) if few else "the formats allowed"
        if self.work.precision:  # of what is multiplied, where weights are stored otherwise
            formats = f"{formats} with {words(self.work.precision)}"
        text = f"{not_done(' or '.join(self.engines), self.work)} in {formats} on {{name}}."
        rejections.ruled_out(np.setdiff1d(before, after), code, text, self.rule)

    def rule(self, accelerator: int) -> str:
        """Which rule it is; empty where the software runs and something else is missing."""
        return self.market.software.refused_because(accelerator, self.engines, self.formats, self.work)
