"""Answers on the wire: the shapes that are documented. `conversion.py` fills them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import Component, Shown
from app.api.schemas.bill import PartShown
from app.api.schemas.classes import SharedShown
from app.api.schemas.day import DayShown
from app.api.schemas.latencies import LoadCurveShown, PercentilesShown, SimulationShown
from app.api.schemas.maps import Metrics, RequestPatch
from app.api.schemas.memory import MemoryShown
from app.api.schemas.names import (
    ActivationCheckpointingName,
    BasisName,
    BottleneckName,
    DraftingName,
    StatisticName,
    SupportName,
)
from app.api.schemas.packing import PackingShown
from app.api.schemas.pools import PoolsShown, SplitShown
from app.api.schemas.prices import PriceShown
from app.api.schemas.recipe import RecipeShown
from app.api.schemas.replica import ReplicaShown
from app.api.schemas.scaling import ScalingShown
from app.api.schemas.ways import AlternativeShown, CheaperShown, HostedApiShown


class SpeculativeShown(Shown):
    """Speculative decoding, as it was asked for."""

    method: DraftingName
    draft_tokens: int
    acceptance_rate: float
    draft_parameters_billion: float | None = None


class DeploymentShown(ReplicaShown):
    """Complete: posted back to /estimate it gives the same numbers."""

    engine: str | None = None
    engine_version: str | None = None
    speculative: SpeculativeShown | None = None
    zero_stage: int | None = None
    micro_batch_sequences: int | None = None
    activation_checkpointing: ActivationCheckpointingName | None = None
    optimizer_offload: bool | None = None
    activation_offload: bool | None = None
    parameter_offload: bool | None = None
    framework: str | None = None
    virtual_pipeline: int | None = Field(None, description="Model chunks of a pipeline stage, interleaved.")
    sequence_parallel: bool | None = None
    flash_attention: bool | None = None
    framework_version: str | None = None
    recipe: RecipeShown | None = None
    pools: PoolsShown | None = None


class IntervalShown(Shown):
    """The 80 % interval of one figure."""

    quantity: str
    statistic: StatisticName = Field("mean", description="Of a latency its percentile.")
    low: float
    high: float


class LevelShown(Shown):
    """What is needed so that everything asked holds with a confidence; null where no number of these would do."""

    confidence: float
    total_accelerators: int | None
    usd_per_hour: float | None = None
    usd_total: float | None = Field(None, description="Of a run, at the duration that holds with this confidence.")


class ConfidenceShown(Shown):
    """How sure this deployment is to do what was asked."""

    asked: float
    meets_slo: float | None = Field(None, description="Probability that it carries the load within the limits.")
    meets_deadline: float | None = Field(None, description="Probability that the run is done in time.")
    fits: float = Field(description="Probability that it fits in memory.")
    by_level: list[LevelShown]


class VerificationShown(Shown):
    """The one benchmark that would settle most."""

    command: str
    accelerator: str
    accelerators: int
    minutes: float
    usd: float | None = Field(description="Rent of the machines for so long, where a price is known.")
    decides: str = Field(description="Which result changes the decision, and what knowing it saves.")


class BreakdownShown(Shown):
    """Seconds of one optimizer step, by what they go to; they sum to it."""

    compute: float
    exposed_communication: float
    pipeline_bubble: float
    optimizer: float
    input: float


class ClusterShown(Shown):
    """What a cluster must bring beside its accelerators and its storage, whose rates are required_storage and
    required_ingest.
    """

    network_gbit_per_s_per_node: float | None = Field(
        None, description="As the layout assumes; absent within one machine or domain."
    )
    checkpoint_capacity_tb: float = Field(description="Of the checkpoints that are kept.")
    host_memory_gib_per_node: float
    power_kw: float
    cooling_kw: float


class MaximumShown(Shown):
    """The largest value that fits, and the least found that does not."""

    quantity: str
    value: float
    too_large: float
    unit: str


class PerformanceShown(Shown):
    """Whole deployment, spares idle; for a request rate, throughputs are its capacity within the SLO.

    TTFT includes queueing; TPOT leaves the first token out; e2e is a whole request.
    """

    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    requests_per_s_capacity: float | None = None
    samples_per_s: float | None = None
    utilization_at_peak: float | None = Field(None, description="Absent where nothing is carried within the limits.")
    overloaded: bool | None = Field(None, description="Of serving: more is asked than is carried within the limits.")
    batch_at_peak: float | None = None
    ttft_ms: PercentilesShown | None = None
    tpot_ms: PercentilesShown | None = None
    e2e_ms: PercentilesShown | None = None
    simulation: SimulationShown | None = Field(
        None, description="Of the first recommendation and of POST /estimate; null of work that is not simulated."
    )
    load_curve: LoadCurveShown | None = Field(None, description="Of the same.")
    unstable_above_requests_per_s: float | None = None
    cold_start_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_accelerator: float | None = None
    step_time_s: float | None = None
    mfu: float | None = None
    step_breakdown_s: BreakdownShown | None = None
    scaling_efficiency: float | None = None
    days: float | None = None
    accelerator_hours: float | None = None
    checkpoint_gb: float | None = None
    required_storage_gb_per_s: float | None = None
    required_ingest_mb_per_s: float | None = None
    expected_interruptions: float | None = None
    checkpoint_interval_minutes: float | None = None
    checkpoint_stall_s: float | None = None
    cluster: ClusterShown | None = None
    pools: SplitShown | None = Field(None, description="Of prefill and decode in pools of their own.")
    interval: IntervalShown
    intervals: list[IntervalShown] = Field(
        [], description="80 % intervals of the other figures: latencies in ms, memory in GiB, cost in USD, days."
    )
    basis: BasisName = Field(
        description="measured: a published result of the same stack, size and load; calibrated: fitted to results of "
        "its parts; roofline: nothing comparable was published."
    )


class CostShown(Shown):
    """What the deployment costs to rent or to buy and run."""

    usd_per_hour: float | None
    usd_per_day: float | None = Field(
        None, description="Where the day's hours are told: as it is paid, replicas following the load. Ranks by cost."
    )
    usd_per_month: float | None
    usd_per_million_tokens: float | None = Field(
        None, description="Of a million input and output tokens together, at the average load; training: of the run's."
    )
    usd_per_million_samples: float | None = None
    usd_total: float | None
    purchase_usd: float | None
    power_kw: float
    kwh_per_million_tokens: float | None = None
    kwh_per_million_samples: float | None = None
    tco_usd: float | None
    price: PriceShown | None
    parts: list[PartShown] | None = Field(
        description="The bill: every figure above adds up from it. Null of later ranks of a long answer."
    )


class EvidenceShown(Shown):
    """The number behind a reason."""

    quantity: str
    value: float
    unit: str


class ReasonShown(Shown):
    """One reason, in words and with its number."""

    code: str
    text: str
    evidence: EvidenceShown


class StepShown(Shown):
    """One formula with its numbers: it can be computed again."""

    name: str
    formula: str
    inputs: dict[str, float]
    value: float
    unit: str
    source: str


class NearestShown(Shown):
    """A published result near this deployment, with what the engine predicts for it."""

    source: str
    distance: float = Field(
        description="0: the same; 0.3: another engine, format or twice the size; above 1.5: another vendor."
    )
    quantity: str
    measured: float
    predicted: float
    unit: str


class NoticeShown(Shown):
    """Something to look at before anything is bought."""

    code: str
    text: str


class AssumedShown(Shown):
    """What an answer rests on beside what its request had to say: chosen, derived, or given in place of what would
    have been chosen. GET /catalog/assumptions has every number that may be replaced.
    """

    name: str
    value: Annotated[float | str, Field(examples=[0.7]), Component("AssumedValue")]
    unit: str
    reason: str
    asked: bool = Field(description="Whether the request gave it, as a field or under its assumptions.")
    source: str = Field(description="Where the value is from; of what was asked for, the request.")
    range: list[float] | None = Field(description="The least and the most it may be; null of a text.")


class EstimateShown(Shown):
    """What one deployment would do. Without `fits` there is a reason and, where known, the memory."""

    deployment: DeploymentShown
    fits: bool
    support: SupportName | None = Field(
        None, description="How surely the software runs there: `documented`, or `expected` from the rules alone."
    )
    rule: str | None = Field(None, description="The rule that keeps it from running, where one does.")
    memory: MemoryShown | None = None
    performance: PerformanceShown | None = None
    bottleneck: BottleneckName | None = None
    cost: CostShown | None = None
    alternatives: list[AlternativeShown] | None = Field(None, description="Of each way the cheapest that is firm.")
    confidence: ConfidenceShown | None = None
    explanation: list[ReasonShown]
    summary: str | None = Field(None, description="Of POST /estimate: what it is, does and costs, in sentences.")
    warnings: list[NoticeShown] | None = Field(None, description="Of POST /estimate.")
    verification: VerificationShown | None = Field(None, description="Of POST /estimate.")
    assumptions: list[AssumedShown] | None = Field(None, description="Of POST /estimate.")
    nearest_measurements: list[NearestShown]
    hosted_api: HostedApiShown | None = Field(None, description="Of POST /estimate.")
    packing: PackingShown | None = Field(None, description="With the companions asked for; of the first rank.")
    day: DayShown | None = Field(
        None, description="Of the first recommendation and of POST /estimate, where the hours of a day are told."
    )
    classes: SharedShown | None = Field(
        None, description="Of the first recommendation and of POST /estimate, where traffic.classes share the service."
    )
    scaling: ScalingShown | None = Field(None, description="Of training: days and money against accelerators.")
    maximum: MaximumShown | None = Field(None, description="Where the request asked to maximize something.")
    metrics: Metrics | None = Field(None, description="What each metric means, as load testers define it.")
    trace: list[StepShown] | None = None


class RecommendationShown(EstimateShown):
    """A ranked deployment: an estimate that fits, with its rank."""

    rank: int
    score: float
    support: SupportName = Field(description="How surely the software runs there.")
    memory: MemoryShown
    performance: PerformanceShown
    bottleneck: BottleneckName
    cost: CostShown
    confidence: ConfidenceShown


class RejectedShown(Shown):
    """An accelerator type that was turned down, and by how much."""

    accelerator: str
    code: str
    text: str
    rule: str | None = Field(None, description="The rule of what runs where that forbids it.")
    needed: float | None = None
    available: float | None = None
    unit: str | None = None


class CatalogShown(Shown):
    """The version of the catalogue and how new its prices are."""

    snapshot: str
    prices_as_of: str


class ConsideredShown(Shown):
    """How much was judged before the ranking."""

    accelerators: int
    plans: int
    feasible_accelerators: int


class ChangeShown(Shown):
    """A change of the question and what it would do."""

    change: str
    effect: str
    request: RequestPatch | None = Field(
        None, description="Merged into the request (RFC 7396) it makes another accelerator first."
    )


class RecommendResponse(Shown):
    """Ranked, explained hardware; the same request on the same snapshot is the same answer, byte for byte."""

    id: str
    created_at: str = Field(
        description="When the catalogue snapshot that this answer rests on was published. The same request on the same "
        "snapshot is one answer, so this is its date; GET /recommendations/{id} says in Last-Modified when it was "
        "first stored."
    )
    catalog: CatalogShown
    as_of: str = Field(description="Day to which the ages of prices are counted.")
    request: dict[str, Any] = Field(
        description="As the caller gave it; posted again it is the same answer while catalogue and engine are the same."
    )
    summary: str
    assumptions: list[AssumedShown]
    assumptions_omitted: int | None = Field(
        None,
        description="Usual figures of the inside that found no room: GET /catalog/assumptions lists "
        "them, and rejected_limit or trace in the request have all shown.",
    )
    warnings: list[NoticeShown]
    recommendations: list[RecommendationShown]
    rejected: list[RejectedShown]
    considered: ConsideredShown
    rejected_by_code: dict[str, int]
    sensitivity: list[ChangeShown]
    verification: VerificationShown | None = None
    cheaper_if: list[CheaperShown] | None = Field(None, description="Absent where nothing is.")
    hosted_api: HostedApiShown | None = Field(
        None, description="Where the model is hosted by others and neither regions nor providers are named."
    )
    scaling: ScalingShown | None = Field(
        None, description="Of training: days and money against accelerators of the first recommendation."
    )
    metrics: Metrics | None = Field(None, description="What each metric means, as load testers define it.")
