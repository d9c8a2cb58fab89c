"""Published serving results that contradict all other results of their engine or model: compared, but not fitted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.sizing.facts import build_tables
from calibration.case import Stack


@dataclass(frozen=True, slots=True)
class ExcludedResults:
    """Results of one source that are compared and reported, but not fitted; a blank field matches any value."""

    why: str
    source: str
    engine: str = ""
    vendor: str = ""
    family: str = ""
    model: str = ""
    in_flight: float = 0.0

    def matches_result(self, source: str, stack: Stack, model: str, in_flight: float) -> bool:
        """Whether a result of this stack and model, with this many requests in flight, is one of them."""
        ran = self.engine in ("", stack.engine) and self.vendor in ("", stack.vendor)
        on = self.family in ("", stack.family)
        of = self.model in ("", model) and self.in_flight in (0.0, in_flight)
        return source == self.source and ran and on and of

    @property
    def name(self) -> str:
        """Source, engine, vendor, family and model as one label."""
        return " ".join(filter(None, (self.source, self.engine, self.vendor, self.family, self.model)))


EXCLUDED_RESULTS = build_tables(ExcludedResults, Path(__file__).with_name("excluded.toml"), "excluded")


def find_exclusion_reason(source: str, stack: Stack, model: str, in_flight: float) -> str | None:
    """Why such a result is not fitted; None if it is fitted."""
    return next(
        (results.why for results in EXCLUDED_RESULTS if results.matches_result(source, stack, model, in_flight)), None
    )
