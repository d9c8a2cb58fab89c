"""Where an answer warns."""

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
        reason="utilisation beyond which queues grow steeply",
        source="chosen: M/M/1 waits 6 services there",
        as_of="2026-11",
    )
    tail_percentile: float = assumption(
        90,
        low=50,
        high=99.9,
        unit="%",
        reason="percentile below which limits leave out the tail",
        source="chosen",
        as_of="2026-11",
    )
    fast_ingest_gb_per_s_per_machine: float = assumption(
        1,
        low=0.05,
        high=100,
        unit="GB/s",
        reason="data per machine beyond one disk or share",
        source="chosen: a network share",
        as_of="2026-11",
    )
    stale_price_months: float = assumption(
        6,
        low=1,
        high=60,
        unit="months",
        reason="age beside the newest price that is warned of",
        source="chosen",
        as_of="2026-11",
    )
