"""Schemas of recommendations and estimates as documented in OpenAPI. `conversion.py` builds the JSON."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal

from pydantic import Field

from app.api.schemas.base import (
    ActivationCheckpointingName,
    BasisName,
    BillFactorName,
    BottleneckName,
    Component,
    DraftingName,
    OutcomeName,
    ResponseModel,
    StatisticName,
    SupportName,
    round_value,
)
from app.api.schemas.materials import PartShown
from app.api.schemas.origins import ADDED, EMPTY, WHOLE, From, ResultModel
from app.api.schemas.replica import (
    OFFERED,
    OWN_SCHEDULER,
    OfferShown,
    PoolsShown,
    RecipeShown,
    ReplicaShown,
    SchedulerShown,
    SplitShown,
)
from app.api.schemas.results import (
    AlternativeShown,
    AvailabilityShown,
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
from app.sizing.assumptions import Assumed
from app.sizing.columns import GBIT, GIB
from app.sizing.evidence import Neighbor
from app.sizing.formula import Step
from app.sizing.hardware.grids import Grid
from app.sizing.hardware.licenses import SourceLicense
from app.sizing.question import Deployment, Speculative
from app.sizing.result import (
    Answer,
    Assurance,
    BenchmarkOutcome,
    CertaintyFactor,
    ClusterNeeds,
    Considered,
    CostSummary,
    Effect,
    Estimate,
    FleetGroup,
    Interval,
    LargestLoad,
    Level,
    LevelDeployment,
    MaximumThatFits,
    MixedFleet,
    Notice,
    Performance,
    Reason,
    Rejection,
    Unreachable,
    Verification,
)


class SpeculativeShown(ResultModel, of=Speculative):
    """Speculative decoding, as requested."""

    method: DraftingName
    draft_tokens: int
    acceptance_rate: float
    draft_parameters_billion: Annotated[float | None, From("draft_parameters", per=1e9, omit=EMPTY)] = None


class DeploymentShown(ReplicaShown, of=Deployment):
    """A complete deployment: sent back to /estimate, it gives the same numbers."""

    engine: str | None = None
    engine_version: str | None = None
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
    offer: Annotated[OfferShown | None, OFFERED] = None
    speculative: SpeculativeShown | None = None
    recipe: Annotated[RecipeShown | None, From(omit=EMPTY)] = None
    scheduler: Annotated[SchedulerShown | None, OWN_SCHEDULER] = None
    pools: PoolsShown | None = None


# Ending of a quantity's name in the engine, its ending in the API, and the factor between their units.
UNIT_CONVERSIONS = (("_per_s", "_per_s", 1.0), ("_s", "_ms", 1e3), ("_bytes", "_gib", 1 / GIB))


@cache
def shown_quantity(name: str) -> tuple[str, float]:
    """Name of a quantity in the API, with times in ms and sizes in GiB, and the factor to its unit there."""
    for ending, shown, times in UNIT_CONVERSIONS:
        if name.endswith(ending):
            return name.removesuffix(ending) + shown, times
    return name, 1.0


def _bound_of(name: str) -> From:
    """A bound of an interval, in the unit of its quantity."""
    bound = attrgetter(name)
    return From(WHOLE, convert=lambda interval: round_value(bound(interval) * shown_quantity(interval.quantity)[1]))


class IntervalShown(ResultModel, of=Interval):
    """The 80 % interval of one figure."""

    quantity: Annotated[str, From(convert=lambda name: shown_quantity(name)[0])]
    statistic: Annotated[StatisticName, From(omit=("mean",))] = Field(
        "mean", description="Statistic of a latency: its mean or a percentile."
    )
    low: Annotated[float, _bound_of("low")]
    high: Annotated[float, _bound_of("high")]


class LevelDeploymentShown(ResultModel, of=LevelDeployment):
    """A deployment that serves a confidence level at less cost than the one recommended; the layout of separate
    prefill and decode pools is null.
    """

    accelerator: str
    accelerators_per_replica: int | None
    tensor_parallel: int | None
    pipeline_parallel: int | None
    data_parallel: int | None
    weight_format: str | None
    engine: str | None


class UnreachableShown(ResultModel, of=Unreachable):
    """Why no number of accelerators reaches a confidence level, and what would."""

    why: str = Field(description="Why no number of these accelerators is enough.")
    instead: str = Field(description="What would reach the level.")


class LevelShown(ResultModel, of=Level):
    """Hardware needed to meet all requirements at one confidence level, in the layout of this option or of another
    ranked one; null if no number of these accelerators is enough.
    """

    confidence: float
    total_accelerators: int | None
    usd_per_hour: float | None = None
    usd_total: float | None = Field(None, description="Cost of a run at the duration with this confidence.")
    deployment: LevelDeploymentShown | None = Field(
        None, description="Another deployment, if it serves this level at less cost than the one recommended."
    )
    unreachable: UnreachableShown | None = Field(
        None, description="Why no number of accelerators, or none that you own, is enough; the level then has no cost."
    )


class CertaintyFactorShown(ResultModel, of=CertaintyFactor):
    """One factor of the bill: why the load gets more accelerators than it needs at full speed."""

    factor: BillFactorName = Field(description="Reason for more accelerators.")
    multiplier: float = Field(
        description="Factor on the accelerators of the line before; 1 in the first line, other factors of 1 omitted."
    )
    total_accelerators: float = Field(description="Accelerators up to this factor; whole in the last line.")
    usd_per_hour: float | None = None
    removed_by: str = Field(description="What would remove the factor.")


class ConfidenceShown(ResultModel, of=Assurance):
    """Probability that this deployment meets the requirements."""

    asked: float
    meets_slo: float | None = Field(None, description="Probability that it serves the load within the latency limits.")
    meets_deadline: float | None = Field(None, description="Probability that the run meets its deadline.")
    fits: float = Field(description="Probability that it fits in memory.")
    by_level: list[LevelShown]
    bill: list[CertaintyFactorShown] = Field(
        default_factory=list,
        description="Factors from the accelerators at full load to those of this deployment; they multiply to it.",
    )


class BenchmarkOutcomeShown(ResultModel, of=BenchmarkOutcome):
    """What one outcome of the benchmark would change."""

    outcome: OutcomeName = Field(description="Slower or faster by one standard deviation, or as predicted.")
    rate: float = Field(description="What the benchmark reports then.")
    unit: str
    total_accelerators: int | None = Field(
        description="Accelerators that this deployment needs then at the requested confidence; null if no number is "
        "enough. More than your inventory has are given without a cost."
    )
    usd_per_hour: float | None = None
    usd_total: float | None = None


class VerificationShown(ResultModel, of=Verification):
    """The one benchmark that would reduce the uncertainty most."""

    command: str
    accelerator: str
    accelerators: int
    minutes: float
    usd: float | None = Field(description="Rental cost of the machines for this time, if a price is known.")
    decides: str = Field(description="Which result would change the decision, and how much that saves.")
    after: list[BenchmarkOutcomeShown] = Field(default_factory=list, description="What each outcome would change.")


class BreakdownShown(ResponseModel):
    """Time of one optimizer step by component, in seconds; the components sum to the step time."""

    compute: float
    exposed_communication: float
    pipeline_bubble: float
    optimizer: float
    input: float


class ClusterShown(ResultModel, of=ClusterNeeds):
    """What a cluster needs in addition to its accelerators and storage. The storage rates are required_storage and
    required_ingest.
    """

    network_gbit_per_s_per_node: Annotated[float | None, From("network_bytes_per_s_per_node", per=GBIT)] = Field(
        None, description="Network bandwidth that the layout assumes; absent within one machine or domain."
    )
    checkpoint_capacity_tb: float = Field(description="Storage for the checkpoints that are kept.")
    host_memory_gib_per_node: Annotated[float, From("host_memory_bytes_per_node", per=GIB)]
    power_kw: float
    cooling_kw: float


class MaximumShown(ResultModel, of=MaximumThatFits):
    """The largest value that fits, and the smallest tested value that does not."""

    quantity: str
    value: float
    too_large: float
    unit: str


class LargestLoadShown(ResultModel, of=LargestLoad):
    """The largest load, or the first model in order, within the limits; the hardware is recommended for it."""

    quantity: str
    value: float = Field(description="The largest load, to within 5 %; for a model, its parameters.")
    times: float = Field(description="Ratio to the load of the request, or to the parameters of its model.")
    model: str | None = Field(None, description="Name of the model; only for maximize model.")


FOR_SERVING = From(when=lambda performance: performance.overloaded is not None, null=True)


class PerformanceShown(ResultModel, of=Performance):
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
    batch_at_peak: float | None = None
    unstable_above_requests_per_s: float | None = None
    cold_start_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_accelerator: float | None = None
    step_time_s: float | None = None
    mfu: float | None = None
    scaling_efficiency: float | None = None
    days: float | None = None
    accelerator_hours: float | None = None
    expected_interruptions: float | None = None
    overloaded: bool | None = Field(
        None, description="Serving only: the requested load exceeds the capacity within the limits."
    )
    checkpoint_gb: float | None = None
    required_storage_gb_per_s: float | None = None
    required_ingest_mb_per_s: float | None = None
    checkpoint_interval_minutes: float | None = None
    checkpoint_stall_s: float | None = None
    ttft_ms: Annotated[PercentilesShown | None, From("ttft")] = None
    tpot_ms: Annotated[PercentilesShown | None, From("tpot")] = None
    e2e_ms: Annotated[PercentilesShown | None, From("e2e")] = None
    simulation: Annotated[SimulationShown | None, FOR_SERVING] = Field(
        None, description="In the first recommendation and in POST /estimate; null for work that is not simulated."
    )
    load_curve: Annotated[LoadCurveShown | None, FOR_SERVING] = Field(
        None, description="In the same answers as simulation."
    )
    step_breakdown_s: BreakdownShown | None = None
    interval: IntervalShown
    intervals: Annotated[list[IntervalShown], From(omit=EMPTY)] = Field(
        [], description="80 % intervals of the other quantities: latencies in ms, memory in GiB, cost in USD, days."
    )
    cluster: ClusterShown | None = None
    pools: SplitShown | None = Field(None, description="Load of separate prefill and decode pools.")
    basis: BasisName = Field(
        description="measured: based on a published result with the same stack, size and load; calibrated: fitted to "
        "results of its components; roofline: no comparable result was published."
    )


def _per_million(name: str, unit: str) -> From:
    """A figure per million tokens or samples, where the deployment is charged by that unit."""
    return From(f"{name}_per_million", when=lambda cost: cost.per_million == unit, null=True)


class GridShown(ResultModel, of=Grid):
    """Electricity grid on which the greenhouse gases of a deployment rest."""

    name: str = Field(description="Name of the country, or of the part of it that the grid feeds.")
    country: str = Field(description="ISO 3166 code of the country.")
    g_per_kwh: float = Field(description="Greenhouse gases of a kWh on average over the year, g CO2e.")
    year: int = Field(description="Year of the intensity.")
    basis: Literal["lifecycle", "operation"] = Field(
        description="lifecycle: of the fuel burned, of its supply and of building power stations; operation: of the "
        "fuel burned only."
    )
    source: str
    as_of: str


def _carbon(name: str, unit: str = "") -> From:
    """A figure of the greenhouse gases; omitted where the grid is unknown."""
    return From(f"carbon.{name}", when=lambda cost: cost.carbon is not None and unit in ("", cost.per_million))


class CostShown(ResultModel, of=CostSummary):
    """Cost of renting the deployment, or of buying and running it."""

    usd_per_hour: float | None = Field(
        description="With a daily profile: mean over the day of the fleet that follows the load."
    )
    usd_per_day: float | None = Field(None, description="With a daily profile: 24 times usd_per_hour.")
    peak_usd_per_hour: float | None = Field(
        None, description="With a daily profile: hourly cost at the peak, to which max_usd_per_hour applies."
    )
    usd_per_month: float | None
    usd_per_million_tokens: Annotated[float | None, _per_million("usd", "tokens")] = Field(
        None,
        description="Cost per million input and output tokens at the average load; for training, tokens of the run.",
    )
    usd_per_million_samples: Annotated[float | None, _per_million("usd", "samples")] = None
    usd_total: float | None
    purchase_usd: float | None
    power_kw: float
    average_power_kw: float | None = Field(
        None, description="With a daily profile: mean power of the machines that run, over the day."
    )
    kwh_per_million_tokens: Annotated[float | None, _per_million("kwh", "tokens")] = None
    kwh_per_million_samples: Annotated[float | None, _per_million("kwh", "samples")] = None
    carbon_kg_per_million_tokens: Annotated[float | None, _carbon("kg_per_million", "tokens")] = Field(
        None,
        description="Greenhouse gases of the electricity of the machines and their building, kg CO2e: scope 2, "
        "location-based. Omitted where the grid is unknown.",
    )
    carbon_kg_per_million_samples: Annotated[float | None, _carbon("kg_per_million", "samples")] = Field(
        None, description="The same per million samples."
    )
    carbon_kg_total: Annotated[float | None, _carbon("kg")] = Field(
        None, description="Greenhouse gases of carbon_period, kg CO2e."
    )
    carbon_period: Annotated[Literal["month", "run"] | None, _carbon("period")] = Field(
        None, description="run for work that ends, otherwise month."
    )
    carbon_sources: Annotated[list[GridShown] | None, _carbon("grids")] = Field(
        None, description="The grid with its vintage and source; two for pools on different grids."
    )
    tco_usd: float | None
    price: PriceShown | None
    parts: list[PartShown] | None = Field(
        description="The bill from which every figure above is computed. Null for later ranks of a long answer."
    )


class EvidenceShown(ResultModel, of=Reason):
    """The number that supports a reason."""

    quantity: str
    value: float
    unit: str


class ReasonShown(ResultModel, of=Reason):
    """One reason, in words and with its number."""

    code: str
    text: str
    evidence: Annotated[EvidenceShown, From(WHOLE)]


# A factor of one makes whole numbers floats, so that they are rounded as well.
RECOMPUTABLE = From(times=1.0, digits=12)


class StepShown(ResultModel, of=Step):
    """One evaluated formula with its inputs, so that readers can recompute it."""

    name: str
    formula: str
    inputs: Annotated[dict[str, float], RECOMPUTABLE]
    value: Annotated[float, RECOMPUTABLE]
    unit: str
    source: str


SHOWN_UNITS = {"s": (1e3, "ms"), "B": (1 / GIB, "GiB")}


def metric_name(metric: str) -> str:
    """The name of a metric in the API; training rates are per accelerator."""
    if metric.startswith("training_"):
        return metric.removeprefix("training_") + "_per_accelerator"
    if metric == "peak_memory_bytes":
        return "peak_memory_gib"
    return metric.removesuffix("_s") + "_ms" if metric.endswith("_s") and not metric.endswith("per_s") else metric


def _compared(name: str) -> From:
    """A figure of a published result, in the unit of its metric in the API."""
    figure = attrgetter(name)
    return From("compared", convert=lambda c: round_value(figure(c) * SHOWN_UNITS.get(c.unit, (1.0, ""))[0]))


class NearestShown(ResultModel, of=Neighbor):
    """A published result for a similar deployment, with the predicted value."""

    source: Annotated[str, From("compared.reference")]
    distance: Annotated[float, From(digits=3)] = Field(
        description="Dissimilarity. 0: the same; 0.3: another engine, format or twice the size; above 1.5: another "
        "vendor.",
    )
    quantity: Annotated[str, From("compared.metric", convert=metric_name)]
    measured: Annotated[float, _compared("measured")]
    predicted: Annotated[float, _compared("predicted")]
    unit: Annotated[str, From("compared.unit", convert=lambda unit: SHOWN_UNITS.get(unit, (1.0, unit))[1])]


class NoticeShown(ResultModel, of=Notice):
    """A point to check before you buy."""

    code: str
    text: str


class AssumedShown(ResultModel, of=Assumed):
    """A value that the answer is based on but the request did not have to set: assumed, derived, or set by the request
    instead of the default. GET /catalog/assumptions lists every number that a request may replace.
    """

    name: str
    value: Annotated[float | str, Field(examples=[0.7]), Component("AssumedValue")]
    unit: str
    reason: str
    asked: bool = Field(description="True if the request set it, as a field or under assumptions.")
    source: Annotated[str, From(WHOLE, convert=lambda each: "request" if each.asked else each.source)] = Field(
        description="Source of the value; `request` if the request set it."
    )
    range: Annotated[list[float] | None, From("bounds", times=1.0)] = Field(
        None, description="Smallest and largest allowed value; omitted for text and in a long answer."
    )


METRICS = {
    "ttft_ms": "time from sending a request to its first token, including queueing",
    "tpot_ms": "mean time per token after the first; equals the inter-token latency if tokens arrive one at a time",
    "e2e_ms": "time from sending a request to its last token: TTFT + (output tokens - 1) x TPOT",
    "output_tokens_per_s": "generated tokens per second of the whole deployment, with idle spares",
    "total_tokens_per_s": "prompt and generated tokens per second of the whole deployment",
    "prefill_tokens_per_s": "prompt tokens per second if the deployment only processed prompts",
}
ALONE = From(when=lambda estimate: estimate.summary is not None)  # for a deployment judged by itself


def metric_definitions(e: Estimate) -> dict[str, str] | None:
    """Definitions of the metrics as load testers use them, or None if the deployment generates no tokens."""
    return METRICS if e.performance is not None and e.performance.output_tokens_per_s is not None else None


def availability_json(e: Estimate) -> dict[str, Any] | None:
    """Capacity of the priced offer, or None if no feed states it."""
    price = None if e.cost is None else e.cost.price
    return None if price is None or price.availability is None else AvailabilityShown.as_json(price.availability)


class EstimateShown(ResultModel, of=Estimate):
    """Predicted result of one deployment. If `fits` is false, it has a reason and, if known, the memory."""

    deployment: DeploymentShown
    fits: bool
    support: SupportName | None = Field(
        None, description="Support of the software: `documented`, or `expected` from the rules alone."
    )
    rule: Annotated[str | None, From(omit=EMPTY)] = Field(
        None, description="The rule that prevents it from running, if any."
    )
    memory: MemoryShown | None = None
    performance: PerformanceShown | None = None
    bottleneck: BottleneckName | None = None
    cost: CostShown | None = None
    availability: Annotated[AvailabilityShown | None, From(WHOLE, convert=availability_json, omit=(None,))] = Field(
        None, description="Capacity of the offer as a price feed last saw it; absent if no feed states it."
    )
    alternatives: Annotated[list[AlternativeShown] | None, From(omit=EMPTY)] = Field(
        None, description="The cheapest firm price of each way to pay."
    )
    confidence: Annotated[ConfidenceShown | None, From("assurance")] = None
    explanation: list[ReasonShown]
    verification: VerificationShown | None = Field(None, description="Only in POST /estimate.")
    summary: str | None = Field(
        None, description="In POST /estimate: summary of the deployment, its performance and cost."
    )
    assumptions: Annotated[list[AssumedShown] | None, ALONE] = Field(None, description="Only in POST /estimate.")
    warnings: Annotated[list[NoticeShown] | None, ALONE] = Field(None, description="Only in POST /estimate.")
    day: DayShown | None = Field(
        None,
        description="In the first recommendation and in POST /estimate, if the request describes the hours of a day.",
    )
    hosted_api: HostedApiShown | None = Field(None, description="Only in POST /estimate.")
    packing: PackingShown | None = Field(
        None, description="Packing with the requested companions; only in the first rank."
    )
    classes: Annotated[SharedShown | None, From("shared")] = Field(
        None, description="In the first recommendation and in POST /estimate, if traffic.classes share the service."
    )
    metrics: Annotated[Metrics | None, From(WHOLE, convert=metric_definitions, omit=(None,))] = Field(
        None, description="Definition of each metric, as load testers use it."
    )
    nearest_measurements: Annotated[list[NearestShown], From("nearest")]
    scaling: ScalingShown | None = Field(
        None, description="Training only: duration and cost by number of accelerators."
    )
    maximum: MaximumShown | None = Field(None, description="Present if the request set maximize.")
    trace: list[StepShown] | None = None


class RecommendationShown(EstimateShown, of=Estimate):
    """A ranked deployment: an estimate that fits, with its rank."""

    rank: Annotated[int, ADDED]
    score: Annotated[float, ADDED]
    support: SupportName = Field(description="Support of the software: documented or expected.")
    memory: MemoryShown
    performance: PerformanceShown
    bottleneck: BottleneckName
    cost: CostShown
    confidence: Annotated[ConfidenceShown, From("assurance")]


class RejectedShown(ResultModel, of=Rejection):
    """A rejected accelerator type, with the missed requirement."""

    accelerator: str
    code: str
    text: str
    rule: Annotated[str | None, From(omit=EMPTY)] = Field(None, description="The support rule that forbids it, if any.")
    needed: float | None = None
    available: float | None = None
    unit: str | None = None


class CatalogShown(ResponseModel):
    """Version of the catalog and age of its prices."""

    snapshot: str
    prices_as_of: str


class ConsideredShown(ResultModel, of=Considered):
    """Number of accelerator types and plans evaluated before the ranking."""

    accelerators: int
    plans: int
    feasible_accelerators: int


class ChangeShown(ResultModel, of=Effect):
    """A change to the request and its effect."""

    change: str
    effect: str
    request: RequestPatch | None = Field(
        None, description="Merge this into the request (RFC 7396) to rank another accelerator first."
    )


class SourceLicenseShown(ResultModel, of=SourceLicense):
    """A published source and its license."""

    name: str = Field(description="Name of the source.")
    license: str = Field(description="SPDX identifier of its license.")


def group_deployment_json(deployment: Deployment) -> dict[str, Any]:
    """A deployment as JSON without its scheduler settings, the defaults of the engine."""
    return DeploymentShown.as_json(deployment, without=("scheduler",))


class FleetGroupShown(ResultModel, of=FleetGroup):
    """Replicas of one deployment, sized for their share of the load with spares of their own."""

    owned: bool = Field(description="True for machines of the inventory, false for machines for sale.")
    share: float = Field(description="Share of the requests that the router sends here, from 0 to 1.")
    deployment: Annotated[DeploymentShown, From("first.estimate.deployment", convert=group_deployment_json)]
    requests_per_s_capacity: Annotated[float, From("first.estimate.performance.requests_per_s_capacity")]
    usd_per_hour: Annotated[float, From("first.estimate.cost.usd_per_hour")]
    purchase_usd: Annotated[float | None, From("first.estimate.cost.purchase_usd")]


class MixedFleetShown(ResultModel, of=MixedFleet):
    """Groups of replicas behind one router that together carry the load on the inventory and, where that is not enough,
    on machines for sale.
    """

    text: str = Field(description="The groups and what they cost, as sentences.")
    groups: list[FleetGroupShown] = Field(description="Owned groups first.")
    requests_per_s_capacity: float | None = Field(
        None, description="Rate at which the first group reaches its capacity, with these shares."
    )
    usd_per_hour: float
    purchase_usd: float | None
    saves_share: float | None = Field(
        None, description="Saving over the first recommendation, as a share of its cost; absent if there is none."
    )


class RecommendResponse(ResultModel, of=Answer):
    """Ranked hardware options with reasons. The same request on the same catalog version gives the same answer, byte
    for byte.
    """

    id: Annotated[str, ADDED]
    created_at: Annotated[str, ADDED] = Field(
        description="Publication time of the catalog version that this answer is based on. The same request on the "
        "same version gives the same answer. The Last-Modified header of GET /recommendations/{id} says when the "
        "answer was first stored."
    )
    catalog: Annotated[CatalogShown, ADDED]
    as_of: Annotated[str, ADDED] = Field(description="Day of the prices; their ages refer to it.")
    request: Annotated[dict[str, Any], ADDED] = Field(
        description="The request as sent. Sent again, it gives the same answer while catalog and engine are unchanged."
    )
    summary: str
    assumptions: list[AssumedShown]
    assumptions_omitted: Annotated[int | None, ADDED] = Field(
        None,
        description="Number of internal default assumptions omitted for brevity. GET /catalog/assumptions lists "
        "them; set rejected_limit or trace in the request to include all.",
    )
    warnings: list[NoticeShown]
    recommendations: Annotated[list[RecommendationShown], ADDED]
    rejected: list[RejectedShown]
    considered: ConsideredShown
    rejected_by_code: dict[str, int]
    sensitivity: list[ChangeShown]
    verification: VerificationShown | None = None
    cheaper_if: Annotated[list[CheaperShown] | None, From(omit=EMPTY)] = Field(
        None, description="Absent if there is no cheaper option."
    )
    hosted_api: HostedApiShown | None = Field(
        None, description="Present if API providers host the model and the request names neither regions nor providers."
    )
    maximum: LargestLoadShown | None = Field(
        None, description="Present if the request set maximize and some load or model meets the limits."
    )
    licenses: Annotated[list[SourceLicenseShown] | None, From(omit=EMPTY)] = Field(
        None,
        description="Licenses of the published prices, grids and measurements in this answer, as far as they are "
        "known. Give credit as they require if you publish the answer.",
    )
    mixed_fleet: MixedFleetShown | None = Field(
        None,
        description="Present if no deployment on the inventory carries a service alone, but groups of replicas on it "
        "do, with or without further machines, at less cost than the first recommendation.",
    )
    scaling: ScalingShown | None = Field(
        None, description="Training only: duration and cost of the first recommendation by number of accelerators."
    )
    metrics: Annotated[Metrics | None, ADDED] = Field(
        None, description="Definition of each metric, as load testers use it."
    )
