"""Which engine was made to run on which family of accelerators, and in which formats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.sizing.hardware.engines import place_of


@dataclass(frozen=True, slots=True)
class EngineSupport:
    """A software stack that was made to run on a family: which formats, end to end.

    `weight_formats` maps a format to whether the hardware also computes in it; False means that
    weights are widened to 16 bit first. `tentative` marks what is known with low confidence only.
    """

    engine: str
    family: str
    phase: str
    weight_formats: Mapping[str, bool]
    kv_formats: tuple[str, ...]
    source: str
    tentative: bool = False

    @property
    def order(self) -> tuple[bool, int, str]:
        """Sorts support: of equals the surer is chosen, then the engine that is listed first, then by name."""
        return self.tentative, place_of(self.engine), self.engine
