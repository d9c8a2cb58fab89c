"""Thresholds above which a diagnosis reports an observation as a finding."""

from __future__ import annotations

from dataclasses import dataclass

from app.sizing.assumptions.chosen import assumption


@dataclass(frozen=True)
class DiagnosisAssumptions:
    diagnosed_slower_share: float = assumption(
        0.25,
        low=0.01,
        high=5,
        unit="1",
        reason="slowdown against the prediction that is a finding",
        source="assumed: above the variation between runs of one system",
        as_of="2026-11",
    )
    diagnosed_least_share: float = assumption(
        0.05,
        low=0.001,
        high=0.9,
        unit="1",
        reason="smallest share of time or money that makes a finding",
        source="assumed: smaller shares are hard to measure",
        as_of="2026-11",
    )
    diagnosed_full_share: float = assumption(
        0.95,
        low=0.5,
        high=1,
        unit="1",
        reason="share of a limit at which it counts as reached",
        source="assumed: gauges are read between steps",
        as_of="2026-11",
    )
    diagnosed_idle_share: float = assumption(
        0.3,
        low=0.05,
        high=0.95,
        unit="1",
        reason="unused share of a fleet that makes a finding",
        source="assumed: daily load varies by as much",
        as_of="2026-11",
    )
    diagnosed_hot_c: float = assumption(
        83,
        low=50,
        high=120,
        unit="C",
        reason="temperature from which accelerators lower their clocks",
        source="assumed: thermal slowdown usually starts at 83 to 90 C",
        as_of="2026-11",
    )
