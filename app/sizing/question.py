"""What somebody asks, allows and pays: limits, objective, money, a deployment to judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.engines.scheduling import SchedulerSettings
from app.sizing.hardware.parts import Environment, PricingModel
from app.sizing.hardware.prices import Commitment, PriceKind
from app.sizing.hardware.recipes import RecipeSaid
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.workload import InferenceWorkload, TrainingWorkload
from app.sizing.workload.companions import Companion

# Plans ranked and types turned down that are told of where nobody says how many.
DEFAULT_RANKED = 5
DEFAULT_REJECTED = 20
# Confidences that an answer shows beside the one asked for.
CONFIDENCE_LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Constraints:
    """What may be used; empty tuples and None mean no limit."""

    environments: tuple[Environment, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    exclude_accelerators: tuple[str, ...] = ()
    by_pattern: tuple[str, ...] = ()  # accelerators that nobody named outright
    segments: tuple[str, ...] = ()  # of SEGMENTS
    pricing_models: tuple[PricingModel, ...] = ()
    commitment: Commitment = Commitment.NONE  # at most
    price_kinds: tuple[PriceKind, ...] = ()  # empty: those that somebody stands behind
    max_price_age_days: float | None = None
    weight_formats: tuple[str, ...] = ()
    kv_formats: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    max_usd_per_hour: float | None = None
    max_purchase_usd: float | None = None
    max_accelerators: int | None = None
    max_power_w: float | None = None
    confidence: float = Assumptions.usual("confidence")  # with which memory, limits and deadline hold

    @property
    def outright(self) -> tuple[str, ...]:
        """Accelerators that somebody named, not a pattern."""
        return tuple(name for name in self.accelerators if name not in self.by_pattern)


@dataclass(frozen=True, slots=True)
class Economics:
    """Over how long and at which energy price hardware is paid for."""

    horizon_months: float = Assumptions.usual("horizon_months")
    electricity_usd_per_kwh: float = Assumptions.usual("electricity_usd_per_kwh")
    pue: float = Assumptions.usual("pue")
    discounts: tuple[tuple[str, float], ...] = ()  # share off what machines with an accelerator are sold or let for

    @classmethod
    def of(
        cls,
        assumed: Assumptions,
        *,
        horizon_months: float | None = None,
        electricity_usd_per_kwh: float | None = None,
        pue: float | None = None,
        discounts: tuple[tuple[str, float], ...] = (),
    ) -> Economics:
        """As asked; None is assumed."""
        return cls(
            assumed.horizon_months if horizon_months is None else horizon_months,
            assumed.electricity_usd_per_kwh if electricity_usd_per_kwh is None else electricity_usd_per_kwh,
            assumed.pue if pue is None else pue,
            discounts,
        )


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

        Source: Leviathan et al. 2023 (arXiv:2211.17192).
        Limits: every drafted token is accepted with the same probability.
        Check: 3 drafted at 0.8: 1 + 0.8 + 0.64 + 0.512.
            >>> round(Speculative(Drafting.MTP, draft_tokens=3, acceptance_rate=0.8).tokens_per_step, 3)
            2.952
        """
        return sum(self.acceptance_rate**i for i in range(self.draft_tokens + 1))

    def draft_share(self, model: ModelArchitecture) -> float:
        """Work of drafting one token, as a share of the model's own for one: a layer and the head, or the draft
        model's.

        Source: counted.
        Limits: a drafted token attends as cheaply as its layers do; a look-up is free.
        Check: a 1B draft model beside Llama-3.1-8B's 7.5 billion multiplied elements.
            >>> round(Speculative(Drafting.DRAFT_MODEL, 3, 0.8, draft_parameters=1e9).draft_share(LLAMA_8B), 4)
            0.1333
        """
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
    scheduler: SchedulerSettings | None = None  # with the two before, where it sets them
    memory_fraction: float | None = None
    weights_on_host: float | None = None  # share of them in the host's memory
    speculative: Speculative | None = None
    data_parallel: int | None = None
    context_parallel: int | None = None
    zero_stage: int | None = None
    micro_batch_sequences: int | None = None
    activation_checkpointing: str | None = None
    optimizer_offload: bool | None = None
    activation_offload: bool | None = None
    parameter_offload: bool | None = None
    framework: str | None = None
    virtual_pipeline: int | None = None
    sequence_parallel: bool | None = None
    flash_attention: bool | None = None
    framework_version: str | None = None
    recipe: RecipeSaid | None = None
    pools: Pools | None = None  # prefill and decode apart, in the place of replicas that do both

    @property
    def sized(self) -> bool:
        """Whether it says how much hardware there is, which is then used as well as can be. So many replicas of any
        size are no amount of hardware.
        """
        each = self.accelerators_per_replica is not None or self.laid_out
        return self.nodes is not None or self.total_accelerators is not None or (self.replicas is not None and each)

    @property
    def laid_out(self) -> bool:
        """Whether a replica's layout is written out in full."""
        said = (self.tensor_parallel, self.pipeline_parallel, self.accelerators_per_replica)
        return sum(degree is not None for degree in said) > 1


@dataclass(frozen=True, slots=True)
class Pools:
    """Replicas that read prompts, and replicas that write answers from the cache the others send."""

    prefill: Deployment
    decode: Deployment


@dataclass(frozen=True, slots=True)
class Question:
    """A workload and everything that decides between plans."""

    workload: InferenceWorkload | TrainingWorkload
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = Objective.COST
    economics: Economics = field(default_factory=Economics)
    assumptions: Assumptions = field(default_factory=Assumptions)
    limit: int = DEFAULT_RANKED
    rejected_limit: int = DEFAULT_REJECTED
    trace: bool = False
    briefly: bool = False  # what is ranked and what it costs; nothing is told of what would change it
    today: str = ""  # day to which the ages of prices are counted; empty: they are not
    companions: tuple[Companion, ...] = ()  # to stand on the same cards
    maximize: str | None = None  # what to make as large as fits: maximum.QUANTITIES
