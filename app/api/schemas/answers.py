"""Schemas of recommendations and estimates as documented in OpenAPI. `conversion.py` builds the JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.base import (
    ActivationCheckpointingName,
    BasisName,
    BottleneckName,
    Component,
    DraftingName,
    ResponseModel,
    StatisticName,
    SupportName,
)
from app.api.schemas.materials import PartShown
from app.api.schemas.replica import PoolsShown, RecipeShown, ReplicaShown, SplitShown
from app.api.schemas.results import (
    AlternativeShown,
    CheaperShown,
    DayShown,
    HostedApiShown,
    LoadCurveShown,
    MemoryShown,
    Metrics,
    PackingShown,
    PercentilesShown,
    PriceShown,
    RequestPatch,
    ScalingShown,
    SimulationShown,
)
from app.api.schemas.traffic import SharedShown


class SpeculativeShown(ResponseModel):
    """Speculative decoding, as requested."""

    method: DraftingName
    draft_tokens: int
    acceptance_rate: float
    draft_parameters_billion: float | None = None


class DeploymentShown(ReplicaShown):
    """A complete deployment: sent back to /estimate, it gives the same numbers."""

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


class IntervalShown(ResponseModel):
    """The 80 % interval of one figure."""

    quantity: str
    statistic: StatisticName = Field("mean", description="Statistic of a latency: its mean or a percentile.")
    low: float
    high: float


class LevelShown(ResponseModel):
    """Hardware needed to meet all requirements at one confidence level; null if no number of these accelerators is
    enough.
    """

    confidence: float
    total_accelerators: int | None
    usd_per_hour: float | None = None
    usd_total: float | None = Field(None, description="Cost of a run at the duration with this confidence.")


class ConfidenceShown(ResponseModel):
    """Probability that this deployment meets the requirements."""

    asked: float
    meets_slo: float | None = Field(None, description="Probability that it serves the load within the latency limits.")
    meets_deadline: float | None = Field(None, description="Probability that the run meets its deadline.")
    fits: float = Field(description="Probability that it fits in memory.")
    by_level: list[LevelShown]


class VerificationShown(ResponseModel):
    """The one benchmark that would reduce the uncertainty most."""

    command: str
    accelerator: str
    accelerators: int
    minutes: float
    usd: float | None = Field(description="Rental cost of the machines for this time, if a price is known.")
    decides: str = Field(description="Which result would change the decision, and how much that saves.")


class BreakdownShown(ResponseModel):
    """Time of one optimizer step by component, in seconds; the components sum to the step time."""

    compute: float
    exposed_communication: float
    pipeline_bubble: float
    optimizer: float
    input: float


class ClusterShown(ResponseModel):
    """What a cluster needs in addition to its accelerators and storage. The storage rates are required_storage and
    required_ingest.
    """

    network_gbit_per_s_per_node: float | None = Field(
        None, description="Network bandwidth that the layout assumes; absent within one machine or domain."
    )
    checkpoint_capacity_tb: float = Field(description="Storage for the checkpoints that are kept.")
    host_memory_gib_per_node: float
    power_kw: float
    cooling_kw: float


class MaximumShown(ResponseModel):
    """The largest value that fits, and the smallest tested value that does not."""

    quantity: str
    value: float
    too_large: float
    unit: str


class PerformanceShown(ResponseModel):
    """Performance of the whole deployment with idle spares. For a request rate, throughputs are the capacity within the
    SLO.

    TTFT includes queueing; TPOT excludes the first token; e2e is a whole request.
    """

    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    requests_per_s_capacity: float | None = None
    samples_per_s: float | None = None
    utilization_at_peak: float | None = Field(None, description="Absent if no load meets the limits.")
    overloaded: bool | None = Field(
        None, description="Serving only: the requested load exceeds the capacity within the limits."
    )
    batch_at_peak: float | None = None
    ttft_ms: PercentilesShown | None = None
    tpot_ms: PercentilesShown | None = None
    e2e_ms: PercentilesShown | None = None
    simulation: SimulationShown | None = Field(
        None, description="In the first recommendation and in POST /estimate; null for work that is not simulated."
    )
    load_curve: LoadCurveShown | None = Field(None, description="In the same answers as simulation.")
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
    pools: SplitShown | None = Field(None, description="Load of separate prefill and decode pools.")
    interval: IntervalShown
    intervals: list[IntervalShown] = Field(
        [], description="80 % intervals of the other quantities: latencies in ms, memory in GiB, cost in USD, days."
    )
    basis: BasisName = Field(
        description="measured: based on a published result with the same stack, size and load; calibrated: fitted to "
        "results of its components; roofline: no comparable result was published."
    )


class CostShown(ResponseModel):
    """Cost of renting the deployment, or of buying and running it."""

    usd_per_hour: float | None
    usd_per_day: float | None = Field(
        None,
        description="With a daily profile: daily cost of the fleet that follows the load. The objective cost ranks by "
        "it.",
    )
    usd_per_month: float | None
    usd_per_million_tokens: float | None = Field(
        None,
        description="Cost per million input and output tokens at the average load; for training, tokens of the run.",
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
        description="The bill from which every figure above is computed. Null for later ranks of a long answer."
    )


class EvidenceShown(ResponseModel):
    """The number that supports a reason."""

    quantity: str
    value: float
    unit: str


class ReasonShown(ResponseModel):
    """One reason, in words and with its number."""

    code: str
    text: str
    evidence: EvidenceShown


class StepShown(ResponseModel):
    """One evaluated formula with its inputs, so that readers can recompute it."""

    name: str
    formula: str
    inputs: dict[str, float]
    value: float
    unit: str
    source: str


class NearestShown(ResponseModel):
    """A published result for a similar deployment, with the predicted value."""

    source: str
    distance: float = Field(
        description="Dissimilarity. 0: the same; 0.3: another engine, format or twice the size; above 1.5: another "
        "vendor.",
    )
    quantity: str
    measured: float
    predicted: float
    unit: str


class NoticeShown(ResponseModel):
    """A point to check before you buy."""

    code: str
    text: str


class AssumedShown(ResponseModel):
    """A value that the answer is based on but the request did not have to set: assumed, derived, or set by the request
    instead of the default. GET /catalog/assumptions lists every number that a request may replace.
    """

    name: str
    value: Annotated[float | str, Field(examples=[0.7]), Component("AssumedValue")]
    unit: str
    reason: str
    asked: bool = Field(description="True if the request set it, as a field or under assumptions.")
    source: str = Field(description="Source of the value; `request` if the request set it.")
    range: list[float] | None = Field(description="Smallest and largest allowed value; null for text.")


class EstimateShown(ResponseModel):
    """Predicted result of one deployment. If `fits` is false, it has a reason and, if known, the memory."""

    deployment: DeploymentShown
    fits: bool
    support: SupportName | None = Field(
        None, description="Support of the software: `documented`, or `expected` from the rules alone."
    )
    rule: str | None = Field(None, description="The rule that prevents it from running, if any.")
    memory: MemoryShown | None = None
    performance: PerformanceShown | None = None
    bottleneck: BottleneckName | None = None
    cost: CostShown | None = None
    alternatives: list[AlternativeShown] | None = Field(None, description="The cheapest firm price of each way to pay.")
    confidence: ConfidenceShown | None = None
    explanation: list[ReasonShown]
    summary: str | None = Field(
        None, description="In POST /estimate: summary of the deployment, its performance and cost."
    )
    warnings: list[NoticeShown] | None = Field(None, description="Only in POST /estimate.")
    verification: VerificationShown | None = Field(None, description="Only in POST /estimate.")
    assumptions: list[AssumedShown] | None = Field(None, description="Only in POST /estimate.")
    nearest_measurements: list[NearestShown]
    hosted_api: HostedApiShown | None = Field(None, description="Only in POST /estimate.")
    packing: PackingShown | None = Field(
        None, description="Packing with the requested companions; only in the first rank."
    )
    day: DayShown | None = Field(
        None,
        description="In the first recommendation and in POST /estimate, if the request describes the hours of a day.",
    )
    classes: SharedShown | None = Field(
        None, description="In the first recommendation and in POST /estimate, if traffic.classes share the service."
    )
    scaling: ScalingShown | None = Field(
        None, description="Training only: duration and cost by number of accelerators."
    )
    maximum: MaximumShown | None = Field(None, description="Present if the request set maximize.")
    metrics: Metrics | None = Field(None, description="Definition of each metric, as load testers use it.")
    trace: list[StepShown] | None = None


class RecommendationShown(EstimateShown):
    """A ranked deployment: an estimate that fits, with its rank."""

    rank: int
    score: float
    support: SupportName = Field(description="Support of the software: documented or expected.")
    memory: MemoryShown
    performance: PerformanceShown
    bottleneck: BottleneckName
    cost: CostShown
    confidence: ConfidenceShown


class RejectedShown(ResponseModel):
    """A rejected accelerator type, with the missed requirement."""

    accelerator: str
    code: str
    text: str
    rule: str | None = Field(None, description="The support rule that forbids it, if any.")
    needed: float | None = None
    available: float | None = None
    unit: str | None = None


class CatalogShown(ResponseModel):
    """Version of the catalog and age of its prices."""

    snapshot: str
    prices_as_of: str


class ConsideredShown(ResponseModel):
    """Number of accelerator types and plans evaluated before the ranking."""

    accelerators: int
    plans: int
    feasible_accelerators: int


class ChangeShown(ResponseModel):
    """A change to the request and its effect."""

    change: str
    effect: str
    request: RequestPatch | None = Field(
        None, description="Merge this into the request (RFC 7396) to rank another accelerator first."
    )


class RecommendResponse(ResponseModel):
    """Ranked hardware options with reasons. The same request on the same catalog version gives the same answer, byte
    for byte.
    """

    id: str
    created_at: str = Field(
        description="Publication time of the catalog version that this answer is based on. The same request on the "
        "same version gives the same answer. The Last-Modified header of GET /recommendations/{id} says when the "
        "answer was first stored."
    )
    catalog: CatalogShown
    as_of: str = Field(description="Day that price ages refer to.")
    request: dict[str, Any] = Field(
        description="The request as sent. Sent again, it gives the same answer while catalog and engine are unchanged."
    )
    summary: str
    assumptions: list[AssumedShown]
    assumptions_omitted: int | None = Field(
        None,
        description="Number of internal default assumptions omitted for brevity. GET /catalog/assumptions lists "
        "them; set rejected_limit or trace in the request to include all.",
    )
    warnings: list[NoticeShown]
    recommendations: list[RecommendationShown]
    rejected: list[RejectedShown]
    considered: ConsideredShown
    rejected_by_code: dict[str, int]
    sensitivity: list[ChangeShown]
    verification: VerificationShown | None = None
    cheaper_if: list[CheaperShown] | None = Field(None, description="Absent if there is no cheaper option.")
    hosted_api: HostedApiShown | None = Field(
        None, description="Present if API providers host the model and the request names neither regions nor providers."
    )
    scaling: ScalingShown | None = Field(
        None, description="Training only: duration and cost of the first recommendation by number of accelerators."
    )
    metrics: Metrics | None = Field(None, description="Definition of each metric, as load testers use it.")
