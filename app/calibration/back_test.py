"""Every published result as the question: sized without its source for a confidence, would it have done?

A rate is asked of a fleet: as much as a hundred of what was measured carry, sized by the arithmetic that sizes any
service; a run's deadline is the same question. A time is promised as it would be to a caller, and memory has to hold
what was taken. All of it comes to one count: the results that are no worse than their spread's factor at that
confidence, but for whole replicas, which carry up to 1 % more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.calibration.report import KINDS, SURE_OF
from app.calibration.spreads import around_of, unseen
from app.sizing.columns import column
from app.sizing.decisions.placement import replicas_for_rate
from app.sizing.evidence import Compared, is_cost
from app.sizing.question import CONFIDENCE_LEVELS
from app.sizing.uncertainty import Spread

FLEET = 100


@dataclass(frozen=True, slots=True)
class Tried:
    """Results of one quantity on one family: the share that was as promised, at each of CONFIDENCE_LEVELS."""

    quantity: str
    family: str
    rows: int
    sources: int
    kept: tuple[float, ...]


def done(row: Compared, factor: float) -> bool:
    """Whether what was sized with a factor of the prediction would have done what was measured."""
    if is_cost(row.metric):
        return row.measured <= row.held_out * factor
    asked = FLEET * row.measured
    replicas = float(replicas_for_rate(asked, column([row.held_out / factor]), 1.0)[0])
    return replicas * row.measured >= asked


def outcomes(row: Compared, spread: Spread) -> list[bool]:
    """Whether it would have done, at each of CONFIDENCE_LEVELS."""
    scale = spread.scale(around_of([row]))
    return [done(row, float(spread.factor(level, scale)[0])) for level in CONFIDENCE_LEVELS]


def back_test(rows: Sequence[Compared]) -> tuple[Tried, ...]:
    """By quantity, and by quantity and family where there are results enough; the whole of a quantity comes first."""
    groups: dict[tuple[str, str], list[tuple[str, list[bool]]]] = defaultdict(list)
    for row, spread in unseen(rows):
        found = (row.source, outcomes(row, spread))
        groups[row.kind, ""].append(found)
        groups[row.kind, row.setting.family].append(found)
    return tuple(
        Tried(
            quantity,
            family or "all",
            len(found),
            len({source for source, _ in found}),
            tuple(np.mean([kept for _, kept in found], axis=0).tolist()),
        )
        for (quantity, family), found in sorted(groups.items(), key=lambda g: (KINDS.index(g[0][0]), g[0][1]))
        if not family or len(found) >= SURE_OF
    )
