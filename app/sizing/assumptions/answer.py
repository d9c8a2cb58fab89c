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
    # How sure a prediction is
    same_setting_distance: float = assumption(
        0.2,
        low=0,
        high=2,
        unit="1",
        reason="distance of a published result up to which a setting counts as measured",
        source="chosen: one type of accelerator, or half a doubling of the model",
        as_of="2026-11",
    )
    fewest_results: float = assumption(
        40,
        low=5,
        high=1000,
        unit="results",
        reason="published results that an interval is taken from, at least",
        source="chosen: four lie outside on either side",
        as_of="2026-11",
    )
    least_interval_share: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="half width of an interval before it is widened, at least",
        source="chosen: runs of one benchmark differ by that much",
        as_of="2026-11",
    )
    unmeasured_low: float = assumption(
        0.4,
        low=0.01,
        high=1,
        unit="1",
        reason="measured over predicted where nothing was measured: low end",
        source="10th percentile of the uncalibrated engine",
        as_of="2026-11",
    )
    unmeasured_high: float = assumption(
        1.9,
        low=1,
        high=100,
        unit="1",
        reason="measured over predicted where nothing was measured: high end",
        source="90th percentile of the uncalibrated engine",
        as_of="2026-11",
    )
