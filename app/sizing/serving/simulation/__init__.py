"""Seeded discrete-event simulation of one replica's scheduler, request by request."""

from app.sizing.serving.simulation.kernel import choose_replicas, simulate_replica
from app.sizing.serving.simulation.record import MIXED, PREFILL_FIRST, Gaps, Replica, Requests, Routed, SimulationResult

__all__ = [
    "MIXED",
    "PREFILL_FIRST",
    "Gaps",
    "Replica",
    "Requests",
    "Routed",
    "SimulationResult",
    "choose_replicas",
    "simulate_replica",
]
