"""What is put in where a request leaves it open."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class WorkloadAssumptions:
    # Traffic and limits
    target_utilization: float = assumption(
        0.7,
        low=0.05,
        high=1.0,
        unit="1",
        reason="share of its capacity within the SLO that a replica carries",
        source="chosen: queues stay short",
        as_of="2026-11",
    )
    busy_hour_factor: float = assumption(
        3.0,
        low=1.0,
        high=20.0,
        unit="1",
        reason="busiest minute over the mean of the users' hourly rate",
        source="chosen: users come in waves",
        as_of="2026-11",
    )
    average_to_peak: float = assumption(
        0.4,
        low=0.01,
        high=1.0,
        unit="1",
        reason="mean over peak load where the mean is not given",
        source="chosen: a day's curve",
        as_of="2026-11",
    )
    default_ttft_ms: float = assumption(
        2000,
        low=10,
        high=600000,
        unit="ms",
        reason="TTFT of an interactive service where no limit is given",
        source="chosen: as MLPerf's Llama 2 70B server",
        as_of="2024-08",
    )
    default_tpot_ms: float = assumption(
        100,
        low=1,
        high=60000,
        unit="ms",
        reason="TPOT where no limit is given",
        source="chosen: 10 tokens/s outpace reading",
        as_of="2026-11",
    )
    default_e2e_ms: float = assumption(
        1000,
        low=1,
        high=600000,
        unit="ms",
        reason="single-pass request where no limit is given",
        source="chosen: one interaction",
        as_of="2026-11",
    )
    default_training_days: float = assumption(
        30,
        low=0.01,
        high=3650,
        unit="days",
        reason="deadline of a pre-training run where none is given",
        source="chosen: one month",
        as_of="2026-11",
    )
    default_fine_tuning_hours: float = assumption(
        24,
        low=0.1,
        high=8760,
        unit="hours",
        reason="deadline of a fine-tuning run where none is given",
        source="chosen: one day",
        as_of="2026-11",
    )
