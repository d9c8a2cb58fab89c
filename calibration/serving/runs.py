"""Measurement procedure of a published result: arrivals, lengths, and launch settings of the engine.

These are columns of `measurements_inference.csv`; a blank value is not published.

- `run_requests`: requests of the whole run.
- `run_start`: how requests arrived.
- `run_client`: over HTTP, or from the engine's own process.
- `statistic`: statistic of TTFT and TPOT over requests.
- `length_spread`: spread relative to `input_len` and `output_len`: `fixed`, `uniform 0.8-1`, or `lognormal 3`.
  The number of `lognormal` is the ratio of the 95th percentile to the mean.
- `launch_...`: settings of the launch command at the row's date.
- `launch_receive_interval`: decode steps between two polls for new requests.
- `launch_batch_wait`: steps that prompts wait for others until they fill `launch_batch_wait_share` of a step.
  Ranks that gather prompts wait until each has one.
- `launch_planning_lag`: steps that the scheduler plans ahead.
- `launch_stream_interval`: tokens per message to a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.engines.record import SchedulerSettings
from app.sizing.workload import Lengths, Load
from calibration.case import parse_number


class Start(StrEnum):
    """How the requests of a run arrived.

    Single: one after another. Burst: a closed loop in which all clients start at once. Steady: a window of a running
    service. Static: one batch. Offline: all queued at once. Poisson: at a rate.
    """

    SINGLE = "single"
    BURST = "burst"
    STEADY = "steady"
    STATIC = "static"
    OFFLINE = "offline"
    POISSON = "poisson"


# Kind of load that the formulas assume for each start.
LOADS = {
    Start.SINGLE: Load.CLOSED,
    Start.BURST: Load.CLOSED,
    Start.STEADY: Load.CLOSED,
    Start.STATIC: Load.BATCH,
    Start.OFFLINE: Load.OFFLINE,
    Start.POISSON: Load.OPEN,
}


class Statistic(StrEnum):
    """Statistic of a published TTFT or TPOT over the requests of a run."""

    MEAN = "mean"
    P50 = "p50"


@dataclass(frozen=True, slots=True)
class LengthSpread:
    """Distribution of lengths around the published one: uniform between two multiples of it, or log-normal."""

    low: float = 1.0
    high: float = 1.0
    p95_to_mean: float | None = None

    @classmethod
    def parse_text(cls, text: str) -> LengthSpread:
        """Parses a row's column; a blank column gives the spread assumed for any service.

        Check:
            >>> LengthSpread.parse_text("uniform 0.8-1").low
            0.8
        """
        kind, _, numbers = text.partition(" ")
        if kind == "uniform":
            low, high = map(float, numbers.split("-"))
            return cls(low, high)
        if kind == "lognormal":
            return cls(p95_to_mean=float(numbers))
        return cls() if kind == "fixed" else cls(p95_to_mean=Assumptions.default_value("length_p95_to_mean"))

    def lengths_around(self, tokens: float) -> Lengths:
        """The lengths for a published number of tokens."""
        if self.p95_to_mean is not None:
            return Lengths(tokens, p95=tokens * self.p95_to_mean)
        if self.low == self.high:
            return Lengths(tokens)
        return Lengths.uniform(max(1, round(self.low * tokens)), max(1, round(self.high * tokens)))


@dataclass(frozen=True, slots=True)
class Run:
    """One published run."""

    start: Start
    requests: int | None  # of the whole run; None if not published
    served: bool  # whether requests went over HTTP
    statistic: Statistic | None  # None if neither TTFT nor TPOT is published
    spread: LengthSpread
    settings: SchedulerSettings
    memory_fraction: float | None
    stream_interval: int
    graph_tokens: int | None  # most tokens of a step with prompts that graphs launch; None: the default of the engine

    @property
    def load_kind(self) -> Load:
        """The kind of load that the formulas assume."""
        return LOADS[self.start]


def parse_integer(value: Any) -> int | None:
    """An integer column of a row; None if blank."""
    return None if value in (None, "") else int(value)


def settings_of(row: Mapping[str, Any]) -> SchedulerSettings:
    """Scheduler settings of the launch command."""
    return SchedulerSettings(
        max_batched_tokens=parse_integer(row["launch_max_batched_tokens"]),
        max_sequences=parse_integer(row["launch_max_sequences"]),
        prefix_cache={"on": True, "off": False}.get(row["launch_prefix_cache"]),
        receive_interval_steps=parse_integer(row["launch_receive_interval"]),
        batch_wait_steps=parse_integer(row["launch_batch_wait"]),
        batch_wait_share=parse_number(row["launch_batch_wait_share"]),
        planning_lag_steps=parse_integer(row["launch_planning_lag"]),
    )


def run_of(row: Mapping[str, Any]) -> Run:
    return Run(
        start=Start(row["run_start"]),
        requests=parse_integer(row["run_requests"]),
        served=row["run_client"] == "http",
        statistic=Statistic(row["statistic"]) if row["statistic"] else None,
        spread=LengthSpread.parse_text(row["length_spread"]),
        settings=settings_of(row),
        memory_fraction=parse_number(row["launch_memory_fraction"]),
        stream_interval=parse_integer(row["launch_stream_interval"]) or 1,
        graph_tokens=parse_integer(row["launch_graph_tokens"]),
    )
