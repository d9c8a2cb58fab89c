"""From where on what is observed is no noise but a finding."""

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
        reason="beyond what is expected before it is a finding",
        source="chosen: above what runs of one system differ by",
        as_of="2026-11",
    )
    diagnosed_least_share: float = assumption(
        0.05,
        low=0.001,
        high=0.9,
        unit="1",
        reason="of time or money, least that a finding costs",
        source="chosen: less is hard to measure",
        as_of="2026-11",
    )
    diagnosed_full_share: float = assumption(
        0.95,
        low=0.5,
        high=1,
        unit="1",
        reason="of a limit at which it counts as reached",
        source="chosen: gauges are read between steps",
        as_of="2026-11",
    )
    diagnosed_idle_share: float = assumption(
        0.3,
        low=0.05,
        high=0.95,
        unit="1",
        reason="of a fleet without use before it is told",
        source="chosen: a day's load moves by as much",
        as_of="2026-11",
    )
    diagnosed_hot_c: float = assumption(
        83,
        low=50,
        high=120,
        unit="C",
        reason="from where on accelerators lower their clocks",
        source="chosen: usual slowdown from 83 to 90 C",
        as_of="2026-11",
    )
