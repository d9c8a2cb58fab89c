"""Back-test: sizes hardware for every published result without its source and checks whether it would have sufficed.

A rate is tested on a fleet: the load is 100 times the measured rate, and the arithmetic of any service sizes the
replicas. A deadline of a run is the same test. A latency is guaranteed as in an answer, and memory must hold the
measured peak. In each case the test counts results that are no worse than their spread's factor at that confidence.
Whole replicas add at most 1 % of capacity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.sizing.accuracy import MIN_INTERVAL_ROWS, QUANTITIES
from app.sizing.columns import column
from app.sizing.decisions.placement import replicas_for_rate
from app.sizing.evidence import Compared, lower_is_better
from app.sizing.question import CONFIDENCE_LEVELS
from app.sizing.uncertainty import Spread
from calibration.spreads import around_of, leave_one_source_out

FLEET_REPLICAS = 100


@dataclass(frozen=True, slots=True)
class BackTest:
    """Results of one quantity on one family; `kept` is the share that met the guaranteed value per confidence level."""

    quantity: str
    family: str
    rows: int
    sources: int
    kept_shares: tuple[float, ...]


def meets_guarantee(row: Compared, factor: float) -> bool:
    """Whether hardware sized with a factor on the prediction would have delivered the measured figure."""
    if lower_is_better(row.metric):
        return row.measured <= row.held_out * factor
    asked = FLEET_REPLICAS * row.measured
    replicas = float(replicas_for_rate(asked, column([row.held_out / factor]))[0])
    return replicas * row.measured >= asked


def guarantees_met(row: Compared, spread: Spread) -> list[bool]:
    """Whether the measured figure met the guaranteed value, at each of CONFIDENCE_LEVELS."""
    scale = spread.relative_spread(around_of([row]))
    return [meets_guarantee(row, float(spread.error_factor(level, scale)[0])) for level in CONFIDENCE_LEVELS]


def back_test(rows: Sequence[Compared]) -> tuple[BackTest, ...]:
    """Shares by quantity, and by quantity and family if there are enough results; the whole quantity comes first."""
    groups: dict[tuple[str, str], list[tuple[str, list[bool]]]] = defaultdict(list)
    for row, spread in leave_one_source_out(rows):
        found = (row.source, guarantees_met(row, spread))
        groups[row.kind, ""].append(found)
        groups[row.kind, row.setting.family].append(found)
    return tuple(
        BackTest(
            quantity,
            family or "all",
            len(found),
            len({source for source, _ in found}),
            tuple(np.mean([kept for _, kept in found], axis=0).tolist()),
        )
        for (quantity, family), found in sorted(groups.items(), key=lambda g: (QUANTITIES.index(g[0][0]), g[0][1]))
        if not family or len(found) >= MIN_INTERVAL_ROWS
    )
