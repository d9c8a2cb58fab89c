"""How a published result was taken: what was sent when, how long it was, and what the engine was launched with.

The columns of `measurements_inference.csv` that say so; what is blank was not said. `run_requests` are the requests
of the whole run, `run_start` how they came, `run_client` whether over HTTP or from the engine's own process,
`statistic` what TTFT and TPOT are over requests. `length_spread` is relative to `input_len` and `output_len`:
`fixed`, `uniform 0.8-1`, or `lognormal 3` with its 95th percentile over the mean. `launch_...` are settings of the
launch command of the row's date: `launch_receive_interval` in decode steps between two looks at what arrived,
`launch_batch_wait` in steps that prompts wait for more until they fill `launch_batch_wait_share` of a step (of ranks
that gather prompts, until each has one),
`launch_planning_lag` in steps planned ahead, `launch_stream_interval` in tokens sent to a client at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.calibration.case import figure
from app.sizing.assumptions import Assumptions
from app.sizing.hardware.engines.scheduling import SchedulerSettings
from app.sizing.workload import Lengths, Load


class Start(StrEnum):
    """How the requests of a run came.

    Single: one after another. Burst: a closed loop from a standing start, all that may be in flight at once. Steady:
    a window of a service in its stride. Static: one batch together. Offline: all queued at once. Poisson: at a rate.
    """

    SINGLE = "single"
    BURST = "burst"
    STEADY = "steady"
    STATIC = "static"
    OFFLINE = "offline"
    POISSON = "poisson"


# What a start is to the formulas.
LOADS = {
    Start.SINGLE: Load.CLOSED,
    Start.BURST: Load.CLOSED,
    Start.STEADY: Load.CLOSED,
    Start.STATIC: Load.BATCH,
    Start.OFFLINE: Load.OFFLINE,
    Start.POISSON: Load.OPEN,
}


class Statistic(StrEnum):
    """What a published TTFT or TPOT is over the requests of a run."""

    MEAN = "mean"
    P50 = "p50"


@dataclass(frozen=True, slots=True)
class LengthSpread:
    """How lengths lie about the one that is told: uniform between two multiples of it, or log-normal about it."""

    low: float = 1.0
    high: float = 1.0
    p95_to_mean: float | None = None

    @classmethod
    def read(cls, told: str) -> LengthSpread:
        """From a row's words; the spread that is assumed of any service where none are said.

        Check:
            >>> LengthSpread.read("uniform 0.8-1").mean
            0.9
        """
        kind, _, numbers = told.partition(" ")
        if kind == "uniform":
            low, high = map(float, numbers.split("-"))
            return cls(low, high)
        if kind == "lognormal":
            return cls(p95_to_mean=float(numbers))
        return cls() if kind == "fixed" else cls(p95_to_mean=Assumptions.usual("length_p95_to_mean"))

    @property
    def mean(self) -> float:
        """Of a length that is told as 1."""
        return (self.low + self.high) / 2

    def about(self, told: float) -> Lengths:
        """The lengths of which so many tokens are told."""
        if self.p95_to_mean is not None:
            return Lengths(told, p95=told * self.p95_to_mean)
        if self.low == self.high:
            return Lengths(told)
        return Lengths.even(max(1, round(self.low * told)), max(1, round(self.high * told)))


@dataclass(frozen=True, slots=True)
class Run:
    """One published run."""

    start: Start
    requests: int | None  # None: not said
    served: bool  # over HTTP
    statistic: Statistic | None  # None where no TTFT or TPOT is given
    spread: LengthSpread
    settings: SchedulerSettings
    memory_fraction: float | None
    stream_interval: int

    @property
    def load(self) -> Load:
        """What it is to the formulas."""
        return LOADS[self.start]


def whole(value: Any) -> int | None:
    """A whole number of a row; None where it is blank."""
    return None if value in (None, "") else int(value)


def settings_of(row: Mapping[str, Any]) -> SchedulerSettings:
    """What the launch command set of the scheduler."""
    return SchedulerSettings(
        max_batched_tokens=whole(row["launch_max_batched_tokens"]),
        max_sequences=whole(row["launch_max_sequences"]),
        prefix_cache={"on": True, "off": False}.get(row["launch_prefix_cache"]),
        receive_interval_steps=whole(row["launch_receive_interval"]),
        batch_wait_steps=whole(row["launch_batch_wait"]),
        batch_wait_share=figure(row["launch_batch_wait_share"]),
        planning_lag_steps=whole(row["launch_planning_lag"]),
    )


def run_of(row: Mapping[str, Any]) -> Run:
    """The procedure of a row."""
    return Run(
        start=Start(row["run_start"]),
        requests=whole(row["run_requests"]),
        served=row["run_client"] == "http",
        statistic=Statistic(row["statistic"]) if row["statistic"] else None,
        spread=LengthSpread.read(row["length_spread"]),
        settings=settings_of(row),
        memory_fraction=figure(row["launch_memory_fraction"]),
        stream_interval=whole(row["launch_stream_interval"]) or 1,
    )
