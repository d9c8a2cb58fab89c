"""Assumptions about warnings, the suggested benchmark, and confidence in predictions."""

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
        reason="utilization above which queues grow steeply",
        source="assumed: M/M/1 then waits for 6 service times",
        as_of="2026-11",
    )
    tail_percentile: float = assumption(
        90,
        low=50,
        high=99.9,
        unit="%",
        reason="percentile below which limits do not cover the tail",
        source="assumed",
        as_of="2026-11",
    )
    fast_ingest_gb_per_s_per_machine: float = assumption(
        1,
        low=0.05,
        high=100,
        unit="GB/s",
        reason="data rate per machine above which storage needs planning",
        source="assumed: rate of one disk or network share",
        as_of="2026-11",
    )
    overkill_utilization: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="peak utilization below which smaller hardware may suffice",
        source="assumed: 5 % of the paid capacity",
        as_of="2026-11",
    )
    stale_price_days: float = assumption(
        365,
        low=1,
        high=3650,
        unit="days",
        reason="price age above which to ask for a new quote",
        source="assumed",
        as_of="2026-11",
    )
    usual_provider_accelerators: float = assumption(
        64,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="accelerators that a provider has free for one buyer",
        source="assumed: quotas without a contract",
        as_of="2026-11",
    )
    usual_reseller_accelerators: float = assumption(
        32,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="accelerators that a reseller has free for one buyer",
        source="assumed: half as many as a provider",
        as_of="2026-11",
    )
    usual_broker_accelerators: float = assumption(
        8,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="identical accelerators that a broker has at one time",
        source="assumed: one machine with eight",
        as_of="2026-11",
    )
    usual_quote_accelerators: float = assumption(
        256,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="largest number of accelerators that one quote covers",
        source="assumed: 32 machines with eight each",
        as_of="2026-11",
    )
    usual_list_accelerators: float = assumption(
        16,
        low=1,
        high=100_000,
        unit="accelerators",
        reason="accelerators that a shop sells at list price at one time",
        source="assumed",
        as_of="2026-11",
    )
    deadline_nearly_used: float = assumption(
        0.9,
        low=0.1,
        high=1,
        unit="1",
        reason="share of the deadline above which an answer warns",
        source="assumed",
        as_of="2026-11",
    )
    memory_nearly_full: float = assumption(
        0.95,
        low=0.5,
        high=1,
        unit="1",
        reason="share of usable memory above which an answer warns",
        source="assumed: fragmentation takes a few percent",
        as_of="2026-11",
    )
    thin_margin: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="probability margin below which an answer warns",
        source="assumed",
        as_of="2026-11",
    )
    thin_margin_growth: float = assumption(
        1.5,
        low=1,
        high=100,
        unit="1",
        reason="hardware growth to the next confidence that is a warning",
        source="assumed",
        as_of="2026-11",
    )
    # Suggested benchmark
    benchmark_window_min: float = assumption(
        10,
        low=1,
        high=240,
        unit="min",
        reason="duration of the steady load of the benchmark",
        source="assumed: covers hundreds of requests",
        as_of="2026-11",
    )
    benchmark_warm_up_min: float = assumption(
        5,
        low=0,
        high=240,
        unit="min",
        reason="warm-up before measuring: compilation, first steps",
        source="assumed",
        as_of="2026-11",
    )
    benchmark_steps: float = assumption(
        50,
        low=5,
        high=10_000,
        unit="steps",
        reason="training steps until the speed is steady",
        source="assumed",
        as_of="2026-11",
    )
    # Near ties
    near_tie_share: float = assumption(
        0.05,
        low=0,
        high=0.5,
        unit="1",
        reason="cost difference below the prediction error",
        source="assumed: smaller than any prediction spread",
        as_of="2026-11",
    )
    # Confidence in a prediction
    same_setting_distance: float = assumption(
        0.2,
        low=0,
        high=2,
        unit="1",
        reason="largest distance of a result that counts as the same setup",
        source="assumed: same accelerator type, half a doubling of size",
        as_of="2026-11",
    )
