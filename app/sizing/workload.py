"""What somebody wants to run: three phases, one value each, in base units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from app.sizing.model.architecture import ModelArchitecture

_NORMAL = NormalDist()


def z_score(percentile: float) -> float:
    """Standard normal quantile of a percentile in 0..100."""
    return _NORMAL.inv_cdf(percentile / 100)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A token-length distribution: fixed at the mean, or log-normal through mean and p95."""

    mean: float
    p95: float | None = None

    @property
    def sigma(self) -> float:
        """Log-normal sigma from ln(p95 / mean) = z * sigma - sigma^2 / 2, the smaller root."""
        if self.p95 is None or self.mean <= 0 or self.p95 <= self.mean:
            return 0.0
        z = z_score(95)
        ratio = min(math.log(self.p95 / self.mean), z * z / 2)
        return z - math.sqrt(z * z - 2 * ratio)

    @property
    def squared_variation(self) -> float:
        """Squared coefficient of variation."""
        return math.expm1(self.sigma**2)

    def quantile(self, percentile: float) -> float:
        if self.mean <= 0:
            return 0.0
        return self.mean * math.exp(z_score(percentile) * self.sigma - self.sigma**2 / 2)


class Load(StrEnum):
    """How requests arrive."""

    OPEN = "open"  # a rate, whatever the service does
    CLOSED = "closed"  # a fixed number in flight
    BATCH = "batch"  # a static batch that starts together
    OFFLINE = "offline"  # everything queued at once


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in seconds that `percentile` of requests must meet; None: no limit."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    percentile: float


@dataclass(frozen=True, slots=True)
class Redundancy:
    """Spare capacity: how many failure domains may be lost. With zones, the domain is a zone."""

    spare: int = 0
    double: bool = False
    zones: int = 1

    @property
    def label(self) -> str:
        return "2n" if self.double else f"n+{self.spare}" if self.spare else "none"


@dataclass(frozen=True, slots=True)
class InferenceWorkload:
    """Traffic on one model. `peak_per_s` holds requests (or samples) per second for open load."""

    model: ModelArchitecture
    load: Load
    peak_per_s: float
    average_per_s: float
    in_flight: float
    burstiness: float
    input_tokens: Lengths
    output_tokens: Lengths
    cached_prefix_fraction: float
    slo: Slo
    max_context_tokens: float
    redundancy: Redundancy
    target_utilization: float
    encoder_flops_per_request: float = 0.0  # of the images that come with a prompt

    @property
    def single_pass(self) -> bool:
        """Whether a request is one unit of work rather than a stream of tokens."""
        return self.model.sample is not None or self.model.kind.value == "encoder"

    @property
    def personal(self) -> bool:
        """Use by one person or very few: a fixed handful of requests in flight."""
        return self.load in (Load.CLOSED, Load.BATCH) and self.in_flight <= 4

    @property
    def tokens_per_request(self) -> float:
        return self.input_tokens.mean + self.output_tokens.mean


class Method(StrEnum):
    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


@dataclass(frozen=True, slots=True)
class TrainingWorkload:
    """A training or fine-tuning run, in tokens or in samples.

    `units` are tokens (or samples) to go through, `units_per_sequence` tokens of one sequence
    (1 for samples), `global_batch` sequences (or samples) per optimizer step.
    """

    model: ModelArchitecture
    phase: str
    method: Method
    units: float
    units_per_sequence: float
    global_batch: int
    precision: str
    optimizer: str
    deadline_s: float
    experiment_overhead: float
    dataset_bytes: float | None
    checkpoint_interval_s: float | None
    synchronous_checkpoints: bool
    lora_rank: int
    lora_targets: str | tuple[str, ...]

    @property
    def in_samples(self) -> bool:
        return self.model.sample is not None
