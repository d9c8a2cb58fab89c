"""What somebody wants to run: three phases, one value each, in base units."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist

from app.sizing.assumptions import Assumptions
from app.sizing.hardware import Environment, PricingModel
from app.sizing.model import ModelArchitecture

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


@dataclass(frozen=True, slots=True)
class Constraints:
    """What may be used; empty tuples and None mean no limit."""

    environments: tuple[Environment, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    exclude_accelerators: tuple[str, ...] = ()
    pricing_models: tuple[PricingModel, ...] = ()
    weight_formats: tuple[str, ...] = ()
    kv_formats: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    max_usd_per_hour: float | None = None
    max_purchase_usd: float | None = None
    max_accelerators: int | None = None
    max_power_w: float | None = None


@dataclass(frozen=True, slots=True)
class Economics:
    """Over how long and at which energy price hardware is paid for."""

    horizon_months: float = 36.0
    electricity_usd_per_kwh: float = 0.12
    pue: float = 1.3


class Objective(StrEnum):
    COST = "cost"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    ENERGY = "energy"
    BALANCED = "balanced"


class Drafting(StrEnum):
    """Where speculated tokens come from."""

    DRAFT_MODEL = "draft_model"
    MTP = "mtp"  # the model's own multi-token prediction layer
    EAGLE = "eagle"  # one extra layer on the model's hidden states
    NGRAM = "ngram"  # looked up in the text so far


@dataclass(frozen=True, slots=True)
class Speculative:
    """Tokens drafted and verified together; only ever on where a caller asks for it."""

    method: Drafting
    draft_tokens: int
    acceptance_rate: float
    draft_parameters: float = 0.0  # of a draft model

    @property
    def tokens_per_step(self) -> float:
        """Tokens a sequence gains per verified step: 1 + a + ... + a^k.

        Source: Leviathan et al. 2023 (arXiv:2211.17192). Check: 3 drafted at 0.8: 1 + 0.8 + 0.64 + 0.512 = 2.952.
        """
        return sum(self.acceptance_rate**i for i in range(self.draft_tokens + 1))

    def draft_share(self, model: ModelArchitecture) -> float:
        """Work of drafting one token, as a share of the model's own for one: a layer and the head, or the draft model's."""
        if self.method is Drafting.NGRAM:
            return 0.0
        if self.method is Drafting.DRAFT_MODEL:
            return self.draft_parameters / model.matmul_params
        head = model.head_matmul_params
        return ((model.matmul_params - head) / model.num_layers + head) / model.matmul_params


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a caller fixed of a deployment; None is chosen well and echoed."""

    accelerator: str
    system: str | None = None
    provider: str | None = None
    region: str | None = None
    pricing_model: PricingModel | None = None
    instance_type: str | None = None
    accelerators_per_replica: int | None = None
    replicas: int | None = None
    spare_replicas: int | None = None
    nodes: int | None = None
    total_accelerators: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    engine: str | None = None
    engine_version: str | None = None
    weight_format: str | None = None
    kv_format: str | None = None
    max_batch: int | None = None
    max_batched_tokens: int | None = None
    memory_fraction: float | None = None
    speculative: Speculative | None = None
    data_parallel: int | None = None
    context_parallel: int | None = None
    zero_stage: int | None = None
    micro_batch_sequences: int | None = None
    activation_checkpointing: str | None = None
    optimizer_offload: bool | None = None
    framework: str | None = None
    virtual_pipeline: int | None = None
    sequence_parallel: bool | None = None
    flash_attention: bool | None = None
    fused_cross_entropy: bool | None = None
    fp32_gradients: bool | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A workload and everything that decides between plans."""

    workload: InferenceWorkload | TrainingWorkload
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = Objective.COST
    economics: Economics = field(default_factory=Economics)
    assumptions: Assumptions = field(default_factory=Assumptions)
    limit: int = 5
    rejected_limit: int = 20
    trace: bool = False
    maximize: str | None = None  # what to make as large as fits: maximum.QUANTITIES
