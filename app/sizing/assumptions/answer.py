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
    overkill_utilization: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="used less than this at peak, less may do",
        source="chosen: a twentieth of what is paid for",
        as_of="2026-11",
    )
    stale_price_days: float = assumption(
        365,
        low=1,
        high=3650,
        unit="days",
        reason="age of a price that is to be asked for again",
        source="chosen",
        as_of="2026-11",
    )
    usual_provider_accelerators: float = assumption(
        64,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="that a provider has free for one buyer",
        source="chosen: quotas without a contract",
        as_of="2026-11",
    )
    usual_reseller_accelerators: float = assumption(
        32,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="that a reseller has free for one buyer",
        source="chosen: half a provider",
        as_of="2026-11",
    )
    usual_broker_accelerators: float = assumption(
        8,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="that a broker has alike at once",
        source="chosen: one machine of eight",
        as_of="2026-11",
    )
    usual_quote_accelerators: float = assumption(
        256,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="that one quote is good for",
        source="chosen: 32 machines of eight",
        as_of="2026-11",
    )
    usual_list_accelerators: float = assumption(
        16,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="that a shop sells at list price at once",
        source="chosen",
        as_of="2026-11",
    )
    deadline_nearly_used: float = assumption(
        0.9,
        low=0.1,
        high=1,
        unit="1",
        reason="share of the deadline that leaves no room",
        source="chosen",
        as_of="2026-11",
    )
    memory_nearly_full: float = assumption(
        0.95,
        low=0.5,
        high=1,
        unit="1",
        reason="share of usable memory that leaves no room",
        source="chosen: fragmentation is a few percent",
        as_of="2026-11",
    )
    thin_margin: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="probability above the one asked for that is only just",
        source="chosen",
        as_of="2026-11",
    )
    thin_margin_growth: float = assumption(
        1.5,
        low=1,
        high=100,
        unit="1",
        reason="times as much for the next confidence is a cliff",
        source="chosen",
        as_of="2026-11",
    )
    # The benchmark that settles most
    benchmark_window_min: float = assumption(
        10,
        low=1,
        high=240,
        unit="min",
        reason="load held steady while it is measured",
        source="chosen: hundreds of requests",
        as_of="2026-11",
    )
    benchmark_warm_up_min: float = assumption(
        5,
        low=0,
        high=240,
        unit="min",
        reason="compilation and first steps before measuring",
        source="chosen",
        as_of="2026-11",
    )
    benchmark_steps: float = assumption(
        50,
        low=5,
        high=10_000,
        unit="steps",
        reason="training steps until speed is steady",
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
