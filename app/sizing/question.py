"""Input of a sizing question: workload, constraints, objective, economics, and a deployment to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.engines.record import SchedulerSettings
from app.sizing.hardware.grids import ElectricityPrice
from app.sizing.hardware.listings import INVENTORY
from app.sizing.hardware.parts import Commitment, Environment, OwnedHardware, PriceKind, PricingModel
from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.workload import RELAXED_LIMITS, InferenceWorkload, TrainingWorkload
from app.sizing.workload.inference import Companion
from app.work import is_work_left

# Default number of recommendations and of rejected types in an answer.
DEFAULT_RANKED = 5
DEFAULT_REJECTED = 20
# Confidences at which deployments are evaluated (others are interpolated), and those that an answer always shows.
CONFIDENCE_GRID = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
CONFIDENCE_LEVELS = (0.5, 0.8, 0.9, 0.95)
MEDIAN_CONFIDENCE = 0.5  # confidence of the median prediction


@dataclass(frozen=True, slots=True)
class Constraints:
    """What may be used; empty tuples and None mean no limit."""

    environments: tuple[Environment, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()  # ISO 3166 codes of the countries that `regions` names as a whole
    jurisdictions: tuple[str, ...] = ()  # ISO 3166 codes of the countries in which providers may have their seat
    vendors: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    exclude_accelerators: tuple[str, ...] = ()
    by_pattern: tuple[str, ...] = ()  # accelerators that the request names only by a pattern
    segments: tuple[str, ...] = ()  # members of SEGMENTS
    pricing_models: tuple[PricingModel, ...] = ()
    commitment: Commitment = Commitment.NONE  # longest commitment accepted
    price_kinds: tuple[PriceKind, ...] = ()  # empty: prices that a seller has published or quoted
    max_price_age_days: float | None = None
    available_since: str | None = None  # moment since which rents must have been seen with capacity, RFC 3339 UTC
    outdated_prices: bool = False  # prices much older than the newest one count for types without another price
    workstation_fleets: bool = False  # as many workstations as needed, also for services of many users
    weight_formats: tuple[str, ...] = ()
    kv_formats: tuple[str, ...] = ()
    host_prefix_cache: bool = False  # whether prefixes of idle sessions may stay in the memory of the machine
    engines: tuple[str, ...] = ()
    speculative: Speculative | None = None  # speculative decoding of every candidate
    max_usd_per_hour: float | None = None
    max_purchase_usd: float | None = None
    max_accelerators: int | None = None
    max_power_w: float | None = None
    max_carbon_kg: float | None = None  # per month of a service, or of the whole run, kg CO2e
    weighs_carbon: bool = False  # whether the objective or a limit is about carbon; set by the question
    excluded_listings: tuple[int, ...] = ()  # quotes for other quantities than needed, by index; set by the search
    stock: tuple[tuple[int, int], ...] = ()  # accelerator types of the inventory by index, each with its number
    inventory_only: bool = False  # whether only the inventory counts
    confidence: float = Assumptions.default_value(
        "confidence"
    )  # probability of meeting memory, latency limits and deadline

    @property
    def named_accelerators(self) -> tuple[str, ...]:
        """Accelerators that the request names directly, not by a pattern."""
        return tuple(name for name in self.accelerators if name not in self.by_pattern)

    @property
    def names_places(self) -> bool:
        """Whether the request names regions or countries."""
        return bool(self.regions or self.countries)


@dataclass(frozen=True, slots=True)
class Economics:
    """Over which period and at which energy price hardware is paid for."""

    horizon_months: float = Assumptions.default_value(
        "horizon_months"
    )  # period over which purchases are paid off, months
    electricity_usd_per_kwh: float = Assumptions.default_value("electricity_usd_per_kwh")
    pue: float = Assumptions.default_value("pue")  # power usage effectiveness of the building
    discounts: tuple[tuple[str, float], ...] = ()  # by accelerator: share off the price of its machines, 0 to 1
    country: str | None = None  # where owned machines stand, ISO 3166 code
    country_price: ElectricityPrice | None = None  # where the electricity price is that of the country

    @classmethod
    def from_assumptions(
        cls,
        assumed: Assumptions,
        *,
        horizon_months: float | None = None,
        electricity_usd_per_kwh: float | None = None,
        pue: float | None = None,
        discounts: tuple[tuple[str, float], ...] = (),
        country: str | None = None,
        country_price: ElectricityPrice | None = None,
    ) -> Economics:
        """Economics with the given values; None takes the assumed value. The price of the country replaces a price that
        is not given.
        """
        if electricity_usd_per_kwh is None and country_price is not None:
            electricity_usd_per_kwh = country_price.usd_per_kwh
        return cls(
            assumed.horizon_months if horizon_months is None else horizon_months,
            assumed.electricity_usd_per_kwh if electricity_usd_per_kwh is None else electricity_usd_per_kwh,
            assumed.pue if pue is None else pue,
            discounts,
            country,
            country_price,
        )


class Objective(StrEnum):
    """What the ranking optimizes."""

    COST = "cost"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    ENERGY = "energy"
    CARBON = "carbon"
    BALANCED = "balanced"


class Extra(StrEnum):
    """A part of an answer that a request may leave out or, for the trace, must ask for."""

    SENSITIVITY = "sensitivity"
    CHEAPER_IF = "cheaper_if"
    LOAD_CURVE = "load_curve"
    ALTERNATIVES = "alternatives"
    DAY = "day"
    TRACE = "trace"


DEFAULT_EXTRAS = frozenset(Extra) - {Extra.TRACE}


class DraftMethod(StrEnum):
    """Source of the drafted tokens of speculative decoding."""

    DRAFT_MODEL = "draft_model"
    MTP = "mtp"  # the model's own multi-token prediction layer
    EAGLE = "eagle"  # one extra layer on the model's hidden states
    NGRAM = "ngram"  # n-grams of the text so far


@dataclass(frozen=True, slots=True)
class Speculative:
    """Settings of speculative decoding, which is used only where the request asks for it."""

    method: DraftMethod  # source of the drafted tokens
    draft_tokens: int  # tokens drafted per step
    acceptance_rate: float  # probability that a drafted token is accepted, 0 to 1
    draft_parameters: float = 0.0  # parameters of a draft model

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a sequence gains per verified step: 1 + a + ... + a^k.

        Source: Leviathan et al. 2023 (arXiv:2211.17192).
        Limits: every drafted token is accepted with the same probability.
        Check: 3 drafted tokens at 0.8: 1 + 0.8 + 0.64 + 0.512.
            >>> round(Speculative(DraftMethod.MTP, draft_tokens=3, acceptance_rate=0.8).tokens_per_step, 3)
            2.952
        """
        return sum(self.acceptance_rate**i for i in range(self.draft_tokens + 1))

    def draft_share(self, model: ModelArchitecture) -> float:
        """Work to draft one token, as a share of the target model's work for one token.

        The draft is one layer and the head, or a separate draft model.

        Parameters:
            model: the target model.
        Limits: the attention of a drafted token costs as much as that of its layers; n-gram look-up is free.
        Check: a draft model of 1 billion parameters for Llama-3.1-8B, which multiplies 7.5 billion elements.
            >>> round(Speculative(DraftMethod.DRAFT_MODEL, 3, 0.8, draft_parameters=1e9).draft_share(LLAMA_8B), 4)
            0.1333
        """
        if self.method is DraftMethod.NGRAM:
            return 0.0
        if self.method is DraftMethod.DRAFT_MODEL:
            return self.draft_parameters / model.matmul_params
        head = model.head_matmul_params
        return ((model.matmul_params - head) / model.num_layers + head) / model.matmul_params

    def draft_params(self, model: ModelArchitecture) -> float:
        """Parameters that the engine loads for drafting, besides those of the target model.

        An EAGLE head is counted as the elements that it multiplies for a token: one layer and the output head.

        Parameters:
            model: the target model.
        Limits: heads with a reduced vocabulary are smaller.
        Check: an EAGLE head of Llama-3.1-8B: 218 million in the layer, 525 million in the output head.
            >>> round(Speculative(DraftMethod.EAGLE, 3, 0.8).draft_params(LLAMA_8B) / 1e6)
            743
        """
        if self.method is DraftMethod.MTP:
            return float(model.mtp_params)
        return self.draft_share(model) * model.matmul_params


@dataclass(frozen=True, slots=True)
class Deployment:
    """Fields of a deployment that the request fixes; None is chosen by the service and returned in the answer."""

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
    scheduler: SchedulerSettings | None = None  # includes the two fields above where it sets them
    memory_fraction: float | None = None
    skip_mm_profiling: bool | None = None  # the engine reserves no memory for its largest images
    weights_on_host: float | None = None  # share of the weights in host memory, 0 to 1
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
    recipe: RecipeSettings | None = None
    pools: Pools | None = None  # separate prefill and decode pools, instead of replicas that do both

    @property
    def names_listing(self) -> bool:
        """Whether it names a system, provider, region or instance type."""
        return bool(self.system or self.provider or self.region or self.instance_type)

    @property
    def fixes_hardware(self) -> bool:
        """Whether the deployment fixes the amount of hardware, which is then used as well as possible.

        A number of replicas of any size fixes no amount of hardware.
        """
        each = self.accelerators_per_replica is not None or self.fixes_layout
        return self.nodes is not None or self.total_accelerators is not None or (self.replicas is not None and each)

    @property
    def fixes_layout(self) -> bool:
        """Whether the layout of a replica is fully specified."""
        degrees = (self.tensor_parallel, self.pipeline_parallel, self.accelerators_per_replica)
        return sum(degree is not None for degree in degrees) > 1

    @property
    def uses_inventory(self) -> bool:
        """Whether the machines are the caller's own."""
        return INVENTORY in (self.provider, self.pools and self.pools.decode.provider)


@dataclass(frozen=True, slots=True)
class Pools:
    """Separate replicas for prefill and for decode; the KV cache is transferred between them."""

    prefill: Deployment  # replicas that process prompts
    decode: Deployment  # replicas that generate outputs


class LoadUnit(StrEnum):
    """What a load is counted in."""

    REQUESTS = "requests_per_s"
    USERS = "users"
    TOKENS = "tokens"  # training tokens


LARGEST_MODEL = "model"  # maximized in place of a load


@dataclass(frozen=True, slots=True)
class SoughtLoad:
    """A load to maximize: its unit, the load of the request, and the workload of the request with `times` that load."""

    unit: LoadUnit
    load: float
    workload_at: Callable[[float], InferenceWorkload | TrainingWorkload]


@dataclass(frozen=True, slots=True)
class Question:
    """A workload and everything that decides between plans."""

    workload: InferenceWorkload | TrainingWorkload
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = Objective.COST
    economics: Economics = field(default_factory=Economics)
    assumptions: Assumptions = field(default_factory=Assumptions)
    limit: int = DEFAULT_RANKED  # number of recommendations
    rejected_limit: int = DEFAULT_REJECTED  # number of rejected types in the answer
    trace: bool = False  # whether to record the arithmetic
    extras: frozenset[Extra] = DEFAULT_EXTRAS  # parts that the answer includes
    first_only: bool = False  # whether only the first recommendation is asked for
    cost_only: bool = False  # whether only its cost is asked for, where that takes less than an estimate
    today: str = ""  # day that price ages are counted to; empty: ages are not computed
    companions: tuple[Companion, ...] = ()  # models to pack onto the same cards
    inventory: tuple[OwnedHardware, ...] = ()  # hardware that the caller owns
    maximize: str | None = None  # quantity to maximize, a member of maximum.QUANTITIES
    largest: SoughtLoad | None = None  # load to maximize within the limits

    def __post_init__(self) -> None:
        limits = self.constraints
        if not limits.weighs_carbon and (self.objective is Objective.CARBON or limits.max_carbon_kg is not None):
            # Kept when a variant of the question drops the objective or the limit: it compares the same offers.
            object.__setattr__(self, "constraints", replace(limits, weighs_carbon=True))

    def includes(self, extra: Extra) -> bool:
        """Whether the answer includes a part that can be left out."""
        return extra in self.extras and not self.first_only


Found = TypeVar("Found")


def find_within_longer_limits(
    question: Question, find: Callable[[Question], Found], is_enough: Callable[[Found], bool]
) -> Found | None:
    """The answer within the shortest longer limits that are enough, where the request leaves its limits open; None
    where it sets them, or where the longest are not enough. The longest are tried first: mostly, they do not help.
    Longer limits are enough wherever shorter ones are: the others are tried in growing steps, then halved. If no work
    is left, the shortest that were found to be enough are returned.

    Parameters:
        find: answers a question.
        is_enough: whether an answer meets the limits of its question.
    """
    workload = question.workload
    if workload.assumed_times is None:
        return None
    *shorter, longest = (replace(question, workload=workload.with_relaxed_limits(times)) for times in RELAXED_LIMITS)
    if not is_work_left("limits longer than usual were not searched"):
        return None
    if not is_enough(at_longest := find(longest)):
        return None
    enough, low, high, step = at_longest, 0, len(shorter), 1
    untried = "limits shorter than {:g} times the usual were not searched"
    while low < high and is_work_left(untried.format(RELAXED_LIMITS[high])):
        middle = min(low + step - 1, (low + high) // 2)
        if is_enough(found := find(shorter[middle])):
            enough, high = found, middle
        else:
            low, step = middle + 1, 2 * step
    return enough


def list_with_fewer_hits(question: Question) -> Iterator[Question]:
    """The question with fewer hits of prefix caches: without copies in host memory, then without prefixes of sessions.

    Either may cost less: a copy takes time to load, a prefix takes memory for as long as its session pauses, and a
    router that finds it again shares no queue between replicas.
    """
    workload, limits = question.workload, question.constraints
    if not isinstance(workload, InferenceWorkload) or not workload.keeps_prefixes:
        return
    if limits.host_prefix_cache:
        yield replace(question, constraints=replace(limits, host_prefix_cache=False))
    without = workload.without_session_hits
    if without is not None:
        yield replace(question, workload=without)


def list_without_drafts(question: Question) -> Iterator[Question]:
    """The question without speculative decoding, if it asks for it: drafts that are often rejected cost more than they
    save, and a drafting engine or layout may be a more expensive one.
    """
    if question.constraints.speculative is not None:
        yield replace(question, constraints=replace(question.constraints, speculative=None))
