"""One replica as its scheduler runs it, request by request: a seeded simulation of discrete events."""

from app.sizing.serving.simulation.kernel import run
from app.sizing.serving.simulation.record import MIXED, PREFILL_FIRST, Gaps, Replica, Requests, Simulated

__all__ = ["MIXED", "PREFILL_FIRST", "Gaps", "Replica", "Requests", "Simulated", "run"]
