"""Where an answer warns, and how sure it says it is."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class AnswerAssumptions:
    # Warnings
    headroom_utilization: float = assumption(
        0.85,
        low=0.5,
        high=1,
        unit="1",
        reason="where queues grow steeply",
        source="chosen: M/M/1 waits 6 services",
        as_of="2026-11",
    )
    tail_percentile: float = assumption(
        90,
        low=50,
        high=99.9,
        unit="%",
        reason="below it limits leave out the tail",
        source="chosen",
        as_of="2026-11",
    )
    fast_ingest_gb_per_s_per_machine: float = assumption(
        1,
        low=0.05,
        high=100,
        unit="GB/s",
        reason="data beyond one disk or share",
        source="chosen: a network share",
        as_of="2026-11",
    )
    stale_price_months: float = assumption(
        6,
        low=1,
        high=60,
        unit="months",
        reason="age beside the newest price",
        source="chosen",
        as_of="2026-11",
    )
    # Beside the best
    near_tie_share: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="difference that predictions cannot tell apart",
        source="chosen: below any spread",
        as_of="2026-11",
    )
    # How sure a prediction is
    same_setting_distance: float = assumption(
        0.2,
        low=0,
        high=2,
        unit="1",
        reason="distance up to which a result is the same setting",
        source="chosen: one type, half a doubling",
        as_of="2026-11",
    )
