"""Which engine was made to run on which family of accelerators, and in which formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


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


def least_tentative(support: Sequence[EngineSupport]) -> tuple[EngineSupport, ...]:
    """Tentative rows stay tentative only where their family has a better one for the phase."""
    better = {(s.family, s.phase) for s in support if not s.tentative}
    return tuple(replace(s, tentative=s.tentative and (s.family, s.phase) in better) for s in support)
