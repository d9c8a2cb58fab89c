"""Types of the answers of the service, generated from its OpenAPI document by `make artefacts PART=client`.

Answers are open: a later version of the service may return additional fields.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

JsonObject: TypeAlias = dict[str, Any]


class AcceleratorList(TypedDict):
    items: list[AcceleratorShown]
    next_cursor: str | None


class AcceleratorShown(TypedDict):
    source: str
    as_of: str
    slug: str
    name: str
    vendor: str
    kind: str
    family: str
    form_factor: str
    architecture: str
    segment: SoldFor
    release_year: int
    memory_gib: float | None
    memory_is_reported: bool
    memory_type: str
    memory_gb_per_s: float | None
    unified_memory: bool
    tflops: dict[str, float]
    power_w: float | None
    scaleup_link: str
    scaleup_gb_per_s: float | None
    scaleup_domain_size: int | None
    typical_node_size: int
    list_price_usd: list[float] | None
    price_source: str | None
    price_observed: str | None
    price_confidence: Trust | None
    training_class: bool
    confidence: Trust
    notes: str | None


class AccuracyResponse(TypedDict):
    snapshot: str
    definitions: dict[str, str]
    overall: list[SliceShown]
    by: dict[str, list[SliceShown]]
    order: list[PairOrderShown]
    worst: list[WorstShown]
    kv_cache: CacheShown
    scaling: ScaleUpsShown
    peaks: list[PeaksShown]
    runs: RunsShown
    left_out: dict[str, int]
    training_left_out: dict[str, int]
    reasons: dict[str, str]
    excluded: dict[str, str]


ActivationCheckpointing: TypeAlias = "Literal['none', 'selective', 'full']"


class ActivationPartsShown(TypedDict):
    kept: float
    working: float
    logits: float
    gathered: float
    update: float


class ActivationsShown(TypedDict):
    fused: float
    eager: float


AdapterPrecision: TypeAlias = "Literal['fp32', 'autocast', '16bit']"


class AliveShown(TypedDict):
    status: Literal["ok"]


class AlternativeShown(TypedDict):
    way: Way
    provider: str
    region: str
    usd_per_hour: float
    purchase_usd: NotRequired[float | None]
    kind: PriceKind
    observed: str
    break_even_month: NotRequired[float | None]
    risk: NotRequired[str | None]


class ApartShown(TypedDict):
    name: str
    accelerator: str | None
    total_accelerators: NotRequired[int | None]
    replicas: int | None
    usd_per_hour: float | None


class AssumedShown(TypedDict):
    name: str
    value: AssumedValue
    unit: str
    reason: str
    asked: bool
    source: str
    range: NotRequired[list[float] | None]


AssumedValue: TypeAlias = "float | str"


class AssumptionList(TypedDict):
    items: list[AssumptionShown]
    next_cursor: str | None


class AssumptionShown(TypedDict):
    name: str
    value: float
    unit: str
    low: float
    high: float
    reason: str
    source: str
    as_of: str


class AutoscaledShown(TypedDict):
    replica_hours: float
    usd_per_day: float | None
    least_replicas: int
    warm_replicas: int
    saving_share: float
    note: str


class AvailabilityShown(TypedDict):
    state: Literal["available", "low", "none", "unknown"]
    quantity: NotRequired[int | None]
    seen_at: str


Basis: TypeAlias = "Literal['measured', 'calibrated', 'roofline']"


class BenchmarkOutcomeShown(TypedDict):
    outcome: Outcome
    rate: float
    unit: str
    total_accelerators: int | None
    usd_per_hour: NotRequired[float | None]
    usd_total: NotRequired[float | None]


BillFactor: TypeAlias = "Literal['predicted', 'limits', 'confidence', 'reserve', 'redundancy', 'whole_machines']"


class BillLineShown(TypedDict):
    line_no: int
    kind: str
    goods: str
    sku: str
    description: str
    quantity: float
    unit: str
    unit_price: NotRequired[float | None]
    line_total: NotRequired[float | None]
    paid: Paid
    term_months: NotRequired[float | None]
    price: NotRequired[PriceSourceShown | None]
    manufacturer: NotRequired[str | None]
    part_number: NotRequired[str | None]
    supplier: NotRequired[str | None]
    supplier_kind: str
    supplier_part_id: NotRequired[str | None]
    codes: dict[str, str]
    owned: NotRequired[bool | None]
    notes: NotRequired[str | None]


Bottleneck: TypeAlias = (
    "Literal['compute', 'memory_bandwidth', 'memory_capacity', 'interconnect', 'latency', 'host', 'storage']"
)


class BreakdownShown(TypedDict):
    compute: float
    exposed_communication: float
    pipeline_bubble: float
    optimizer: float
    input: float


class CacheShown(TypedDict):
    logs: int
    median: float
    p90: float
    left_out: dict[str, int]


class CatalogShown(TypedDict):
    snapshot: str
    prices_as_of: str


class CauseShown(TypedDict):
    code: str
    ratio: float
    text: str


class CertaintyFactorShown(TypedDict):
    factor: BillFactor
    multiplier: float
    total_accelerators: float
    usd_per_hour: NotRequired[float | None]
    removed_by: str


class ChangeOfFindingShown(TypedDict):
    text: str
    gain_share: float | None
    settings: NotRequired[DeploymentPatch | None]


class ChangeShown(TypedDict):
    change: str
    effect: str
    request: NotRequired[RequestPatch | None]


CheaperShown = TypedDict(
    "CheaperShown",
    {
        "if": "str",
        "accelerator": "str",
        "total_accelerators": "int",
        "provider": "str",
        "usd_per_hour": "float",
        "usd_total": "NotRequired[float | None]",
        "saves_share": "float",
        "kind": "PriceKind",
        "observed": "str",
        "risk": "str",
    },
)


class ClassRatioShown(TypedDict):
    of_means: float
    of_medians: float


class ClassShown(TypedDict):
    name: str
    ttft_ms: TimesShown
    tpot_ms: TimesShown
    e2e_ms: TimesShown
    limits_met: bool
    within_requests_per_s: float


class ClusterShown(TypedDict):
    network_gbit_per_s_per_node: NotRequired[float | None]
    checkpoint_capacity_tb: float
    host_memory_gib_per_node: float
    power_kw: float
    cooling_kw: float


class ColdStartShown(TypedDict):
    seconds: float
    ten_at_once_seconds: float
    parts_s: StartPartsShown


Commitment: TypeAlias = "Literal['none', '1y', '3y']"


class CompareResponse(TypedDict):
    catalog: dict[str, str]
    as_of: str
    summary: str
    options: list[OutcomeShown]
    table: list[ComparedLineShown]
    differences: list[DifferenceShown]
    spending: list[SpendingShown]
    assumptions: list[AssumedShown]
    priorities: NotRequired[list[PriorityShown] | None]
    elsewhere: NotRequired[list[ElsewhereShown] | None]


class ComparedLineShown(TypedDict):
    quantity: str
    unit: str
    values: list[float | None]
    best: NotRequired[str | None]


class ConfidenceShown(TypedDict):
    asked: float
    meets_slo: NotRequired[float | None]
    meets_deadline: NotRequired[float | None]
    fits: float
    by_level: list[LevelShown]
    bill: NotRequired[list[CertaintyFactorShown]]


class ConsideredShown(TypedDict):
    accelerators: int
    plans: int
    feasible_accelerators: int


class ContextShown(TypedDict):
    context_tokens: int
    kv_cache_gib: float
    forward_flops_per_token: float
    training_flops_per_token: float


class CostShown(TypedDict):
    usd_per_hour: float | None
    usd_per_day: NotRequired[float | None]
    peak_usd_per_hour: NotRequired[float | None]
    usd_per_month: float | None
    usd_per_million_tokens: NotRequired[float | None]
    usd_per_million_samples: NotRequired[float | None]
    usd_total: float | None
    purchase_usd: float | None
    power_kw: float
    average_power_kw: NotRequired[float | None]
    kwh_per_million_tokens: NotRequired[float | None]
    kwh_per_million_samples: NotRequired[float | None]
    carbon_kg_per_million_tokens: NotRequired[float | None]
    carbon_kg_per_million_samples: NotRequired[float | None]
    carbon_kg_total: NotRequired[float | None]
    carbon_period: NotRequired[Literal["month", "run"] | None]
    carbon_sources: NotRequired[list[GridShown] | None]
    tco_usd: float | None
    price: PriceShown | None
    parts: list[PartShown] | None


class CostsShown(TypedDict):
    share: float | None
    usd_per_month: NotRequired[float | None]


class DayShown(TypedDict):
    hours: list[HourShown]
    fixed: FixedShown
    autoscaled: AutoscaledShown
    scale_to_zero: ScaleToZeroShown
    cold_start: ColdStartShown
    scale_out: ScaleOutShown
    failures: list[FailureShown]
    cheaper: str


DeploymentPatch: TypeAlias = "JsonObject"


class DeploymentShown(TypedDict):
    accelerator: str
    system: NotRequired[str | None]
    accelerators_per_replica: NotRequired[int | None]
    replicas: NotRequired[int | None]
    spare_replicas: NotRequired[int | None]
    nodes: NotRequired[int | None]
    total_accelerators: NotRequired[int | None]
    tensor_parallel: NotRequired[int | None]
    pipeline_parallel: NotRequired[int | None]
    data_parallel: NotRequired[int | None]
    context_parallel: NotRequired[int | None]
    expert_parallel: NotRequired[int | None]
    weight_format: NotRequired[WeightFormat | None]
    kv_format: NotRequired[KvFormat | None]
    max_batch: NotRequired[int | None]
    max_batched_tokens: NotRequired[int | None]
    memory_fraction: NotRequired[float | None]
    skip_mm_profiling: NotRequired[bool | None]
    weights_on_host: NotRequired[float | None]
    engine: NotRequired[str | None]
    engine_version: NotRequired[str | None]
    zero_stage: NotRequired[int | None]
    micro_batch_sequences: NotRequired[int | None]
    activation_checkpointing: NotRequired[ActivationCheckpointing | None]
    optimizer_offload: NotRequired[bool | None]
    activation_offload: NotRequired[bool | None]
    parameter_offload: NotRequired[bool | None]
    framework: NotRequired[str | None]
    virtual_pipeline: NotRequired[int | None]
    sequence_parallel: NotRequired[bool | None]
    flash_attention: NotRequired[bool | None]
    framework_version: NotRequired[str | None]
    offer: NotRequired[OfferShown | None]
    speculative: NotRequired[SpeculativeShown | None]
    recipe: NotRequired[RecipeShown | None]
    scheduler: NotRequired[SchedulerShown | None]
    pools: NotRequired[PoolsShown | None]


class DiagnoseResponse(TypedDict):
    healthy: bool | None
    summary: str
    findings: list[FindingShown]
    expected: JsonObject
    memory: NotRequired[list[MemoryTermShown] | None]
    not_to_buy: list[str]
    not_judged: NotRequired[list[str] | None]
    assumptions: list[AssumedShown]
    read: NotRequired[list[ReadShown] | None]
    not_read: NotRequired[NotReadShown | None]
    notes: NotRequired[list[str] | None]


class DifferenceShown(TypedDict):
    name: str
    compared_with: str
    quantity: str
    ratio: float
    causes: list[CauseShown]


Drafting: TypeAlias = "Literal['draft_model', 'mtp', 'eagle', 'ngram']"


class ElsewhereShown(TypedDict):
    phase: str
    on_that_of: str
    accelerator: str
    usd: float | None
    times: float | None
    text: str


class EngineList(TypedDict):
    items: list[EngineShown]
    next_cursor: str | None


class EngineShown(TypedDict):
    source: str
    as_of: str
    engine: str
    accelerator_family: str
    phase: JudgedPhase
    weight_formats: list[str]
    kv_formats: list[str]
    notes: str | None
    confidence: Trust


class ErrorsShown(TypedDict):
    median: float
    p90: float
    bias: float


class EstimateShown(TypedDict):
    deployment: DeploymentShown
    fits: bool
    support: NotRequired[Support | None]
    rule: NotRequired[str | None]
    memory: NotRequired[MemoryShown | None]
    performance: NotRequired[PerformanceShown | None]
    bottleneck: NotRequired[Bottleneck | None]
    cost: NotRequired[CostShown | None]
    availability: NotRequired[AvailabilityShown | None]
    alternatives: NotRequired[list[AlternativeShown] | None]
    confidence: NotRequired[ConfidenceShown | None]
    explanation: list[ReasonShown]
    verification: NotRequired[VerificationShown | None]
    summary: NotRequired[str | None]
    assumptions: NotRequired[list[AssumedShown] | None]
    warnings: NotRequired[list[NoticeShown] | None]
    day: NotRequired[DayShown | None]
    hosted_api: NotRequired[HostedApiShown | None]
    packing: NotRequired[PackingShown | None]
    classes: NotRequired[SharedShown | None]
    metrics: NotRequired[Metrics | None]
    nearest_measurements: list[NearestShown]
    scaling: NotRequired[ScalingShown | None]
    maximum: NotRequired[MaximumShown | None]
    trace: NotRequired[list[StepShown] | None]


class EvidenceShown(TypedDict):
    quantity: str
    value: float
    unit: str


class FailureMinuteShown(TypedDict):
    minute: int
    capacity_share: float
    backlog_requests: float
    ttft_p95_ms: NotRequired[float | None]


class FailureShown(TypedDict):
    what: str
    lost_replicas: int
    minutes: list[FailureMinuteShown]
    back_after_minutes: float | None


class FileShown(TypedDict):
    name: str
    media_type: str
    text: str


class FiledShown(TypedDict):
    id: str
    stored_at: str
    status: Status
    etag: str
    superseded_by: NotRequired[str | None]
    label: NotRequired[str | None]
    reference: NotRequired[str | None]
    cost_centre: NotRequired[str | None]
    model: NotRequired[str | None]
    accelerators: list[str]
    option: NotRequired[str | None]


class FindingShown(TypedDict):
    rank: int
    code: str
    text: str
    costs: CostsShown
    evidence: list[ObservationShown]
    cause: str
    change: ChangeOfFindingShown
    do_not_buy: NotRequired[str | None]


FineTuningMethod: TypeAlias = "Literal['full', 'lora', 'qlora']"


class FixedShown(TypedDict):
    replica_hours: float
    usd_per_day: float | None


class FleetGroupShown(TypedDict):
    owned: bool
    share: float
    deployment: DeploymentShown
    requests_per_s_capacity: float
    usd_per_hour: float
    purchase_usd: float | None


class FlipShown(TypedDict):
    knob: str
    text: str
    first: str
    request: JsonObject
    now: NotRequired[float | None]
    value: NotRequired[float | None]
    unchanged: NotRequired[float | None]
    unit: NotRequired[str | None]


FormatOrPrecision: TypeAlias = "Literal['fp32', 'bf16', 'fp16', 'fp8', 'int8', 'int4-awq', 'int4-gptq', 'int4-mlx', 'int8-mlx', 'int8-gptq', 'nf4', 'nvfp4', 'mxfp4', 'gguf-f16', 'gguf-q8_0', 'gguf-q6_k', 'gguf-q5_k_m', 'gguf-q5_k_s', 'gguf-q5_1', 'gguf-q5_0', 'gguf-q4_k_m', 'gguf-q4_k_s', 'gguf-q4_1', 'gguf-q4_0', 'gguf-q3_k_l', 'gguf-q3_k_m', 'gguf-q3_k_s', 'gguf-q2_k', 'gguf-iq4_nl', 'gguf-iq4_xs', 'gguf-iq3_m', 'gguf-iq3_s', 'gguf-iq3_xs', 'gguf-iq3_xxs', 'gguf-iq2_m', 'gguf-iq2_s', 'gguf-iq2_xs', 'gguf-iq2_xxs', 'gguf-iq1_m', 'gguf-iq1_s', 'mxfp8', 'tf32', 'bf16-true']"


class FrameworkList(TypedDict):
    items: list[FrameworkShown]
    next_cursor: str | None


class FrameworkShown(TypedDict):
    framework: str
    also_called: list[str]
    methods: list[str]
    runtimes: list[str]
    kinds: list[str]
    judged_as: str | None
    recipes: list[RecipeListed]
    source: str
    as_of: str


GradientKeeping: TypeAlias = "Literal['as_weights', '32bit', 'copied']"


class GridShown(TypedDict):
    name: str
    country: str
    g_per_kwh: float
    year: int
    basis: Literal["lifecycle", "operation"]
    source: str
    as_of: str


class HandoffShown(TypedDict):
    target: HandoffTarget
    rank: int
    targets: list[HandoffTarget]
    files: list[FileShown]
    notes: list[str]


HandoffTarget: TypeAlias = "Literal['shell', 'docker', 'docker-compose', 'kubernetes', 'kserve', 'llm-d', 'dynamo', 'ray', 'skypilot', 'dstack', 'torchrun', 'deepspeed', 'megatron', 'accelerate', 'slurm', 'vllm', 'sglang', 'tensorrt-llm', 'llama.cpp', 'ollama', 'lmdeploy', 'tgi', 'text-embeddings-inference', 'mlx', 'ctranslate2', 'diffusers', 'pytorch']"


class HoldShown(TypedDict):
    knob: str
    text: str
    low: float
    high: float


HostMemory: TypeAlias = "HostMemoryShown | float"


class HostMemoryShown(TypedDict):
    weights: float
    cache: float
    usable: float


class HostShown(TypedDict):
    provider: str
    usd_per_million_input: float
    usd_per_million_output: float
    usd_per_million_cached_input: NotRequired[float | None]
    usd_per_million_tokens: float
    usd_per_month: NotRequired[float | None]
    usd_total: NotRequired[float | None]


class HostedApiShown(TypedDict):
    text: str
    hosts: list[HostShown]
    pays_from_requests_per_s: NotRequired[float | None]
    source: str
    observed: str


class HourShown(TypedDict):
    requests_per_s: float
    replicas: int


class ImageShown(TypedDict):
    width: int
    height: int
    tokens: int
    patches: int
    tower_flops: float


class InspectResponse(TypedDict):
    name: str
    source: str
    kind: str
    family: str
    parameters: int
    active_parameters: int
    parts: dict[str, int]
    kv_cache_bytes_per_token: float
    state_bytes_per_sequence: float
    weights_gib: dict[str, float]
    native: NativeShown
    assumed: list[str]
    flops_per_sample: NotRequired[float | None]
    sample: NotRequired[SampleShown | None]
    mtp_parameters: NotRequired[int]
    shape: NotRequired[ShapeShown | None]
    kv_cache_bytes_per_token_beyond_window: NotRequired[float]
    cross_kv_bytes_per_source_token: NotRequired[float]
    flops_per_token: NotRequired[float | None]
    by_context: NotRequired[list[ContextShown]]
    activation_bytes_per_token_and_layer: NotRequired[ActivationsShown | None]
    lora: NotRequired[LoraShown | None]
    logits: NotRequired[LogitsShown | None]
    flops_per_source_token: NotRequired[float | None]
    image: NotRequired[ImageShown | None]


class IntervalShown(TypedDict):
    quantity: str
    statistic: NotRequired[Statistic]
    low: float
    high: float


JudgedPhase: TypeAlias = "Literal['fine_tuning', 'inference', 'sample_inference', 'training']"

Kernels: TypeAlias = "Literal['eager', 'fused', 'compiled']"

KvFormat: TypeAlias = "Literal['bf16', 'fp16', 'fp8', 'int8', 'gguf-q8_0', 'gguf-q4_0', 'nvfp4', 'int4']"


class LargestLoadShown(TypedDict):
    quantity: str
    value: float
    times: float
    model: NotRequired[str | None]


class LeadTimeShown(TypedDict):
    weeks_low: float
    weeks_high: NotRequired[float | None]
    seller: str
    source: str
    as_of: str


class LevelDeploymentShown(TypedDict):
    accelerator: str
    accelerators_per_replica: int | None
    tensor_parallel: int | None
    pipeline_parallel: int | None
    data_parallel: int | None
    weight_format: str | None
    engine: str | None


class LevelShown(TypedDict):
    confidence: float
    total_accelerators: int | None
    usd_per_hour: NotRequired[float | None]
    usd_total: NotRequired[float | None]
    deployment: NotRequired[LevelDeploymentShown | None]
    unreachable: NotRequired[UnreachableShown | None]


class LoadCurveShown(TypedDict):
    points: list[LoadPointShown]
    knee_requests_per_s: float


class LoadPointShown(TypedDict):
    requests_per_s: float
    in_flight: NotRequired[float | None]
    ttft_ms: MedianShown
    tpot_ms: MedianShown
    output_tokens_per_s: float
    goodput_share: float


class LogitsShown(TypedDict):
    vocabulary_gib: float
    serving_bytes_per_token: float
    training_bytes_per_token: float


class LoraShown(TypedDict):
    rank: int
    parameters: dict[str, int]


LossComputation: TypeAlias = "Literal['shifted', 'held', 'upcast', 'narrow', 'in_place', 'chunked_eager', 'narrow_chunked', 'compiled', 'chunked', 'fused', 'fused_limited']"


class MarketGroupShown(TypedDict):
    name: str
    offers: int
    min_usd_per_hour: float
    median_usd_per_hour: float
    max_usd_per_hour: float
    usd_per_tflops_hour: NotRequired[float | None]
    usd_per_gb_hour: NotRequired[float | None]
    usd_per_gb_per_s_hour: NotRequired[float | None]
    trend_30d: NotRequired[float | None]
    trend_90d: NotRequired[float | None]


class MarketResponse(TypedDict):
    by: str
    prices_as_of: str
    items: list[MarketGroupShown]
    training_to_inference: NotRequired[ClassRatioShown | None]


class MaterialsShown(TypedDict):
    recommendation: str
    rank: int
    option: str
    created_at: str
    snapshot: str
    as_of: str
    label: NotRequired[str | None]
    reference: NotRequired[str | None]
    cost_centre: NotRequired[str | None]
    currency: str
    usd_rate: NotRequired[float | None]
    rate_date: NotRequired[str | None]
    tax_name: NotRequired[str | None]
    tax_percent: NotRequired[float | None]
    order: NotRequired[OrderShown | None]
    lines: list[BillLineShown]
    totals: MaterialsTotalsShown
    to_be_quoted: list[int]


class MaterialsTotalsShown(TypedDict):
    once: float
    over_term: float
    subtotal: float
    tax: float
    total: float
    excludes: list[str]


class MaximumShown(TypedDict):
    quantity: str
    value: float
    too_large: float
    unit: str


class MeasuredFigureShown(TypedDict):
    quantity: str
    measured: float
    predicted: float
    cut: bool


class MeasurementList(TypedDict):
    items: list[MeasurementShown]
    next_cursor: str | None


class MeasurementResult(TypedDict):
    stored: bool
    measurements: list[MeasurementShown]
    notes: list[str]


class MeasurementShown(TypedDict):
    id: str
    stored_at: NotRequired[str | None]
    day: str
    run: JsonObject
    figures: list[MeasuredFigureShown]


class MedianShown(TypedDict):
    p50: float
    p95: float


class MemoryPartsShown(TypedDict):
    weights: float
    kv_cache: float
    activations: float
    overhead: float
    gradients: float
    optimizer: float
    total: float
    capacity: float
    usable: float


class MemoryShown(TypedDict):
    per_accelerator_gib: MemoryPartsShown
    kv_cache_tokens: NotRequired[int | None]
    max_concurrent_sequences: NotRequired[int | None]
    prefix_cache_gib: NotRequired[float | None]
    idle_sessions: NotRequired[float | None]
    host_gib: NotRequired[HostMemory | None]
    peak_moment: NotRequired[PeakMoment | None]
    moments_gib: NotRequired[MomentsShown | None]
    activation_parts_gib: NotRequired[ActivationPartsShown | None]


class MemoryTermShown(TypedDict):
    term: str
    observed: float
    expected: float | None
    difference: float | None
    unit: str


Metrics: TypeAlias = "dict[str, str]"


class MixedFleetShown(TypedDict):
    text: str
    groups: list[FleetGroupShown]
    requests_per_s_capacity: NotRequired[float | None]
    usd_per_hour: float
    purchase_usd: float | None
    saves_share: NotRequired[float | None]


class ModelList(TypedDict):
    items: list[ModelShown]
    next_cursor: str | None


class ModelShown(TypedDict):
    source: str
    as_of: str
    id: str
    family: str
    developer: str
    modality: str
    licence: str | None
    release_date: str | None
    parameters: int
    active_parameters: int
    aliases: list[str]
    origin: str
    confidence: Trust


ModelTask: TypeAlias = "Literal['decoder', 'embedding', 'reranker', 'speech', 'diffusion', 'vision']"


class ModelUseShown(TypedDict):
    use: Use
    accelerator: str
    accelerators: int
    software: str
    weight_format: NotRequired[str | None]
    weights_on_host: NotRequired[float | None]
    replicas: NotRequired[int | None]
    tensor_parallel: NotRequired[int | None]
    pipeline_parallel: NotRequired[int | None]
    data_parallel: NotRequired[int | None]
    expert_parallel: NotRequired[int | None]
    tokens_per_s: float
    low: float
    high: float
    basis: Basis


class MomentsShown(TypedDict):
    loss: float
    backward: float
    gradients: float
    update: float


class MonthShown(TypedDict):
    month: int
    usd: float


class MovedCauseShown(TypedDict):
    cause: PriceMove
    usd: NotRequired[float | None]
    text: str


class NativeShown(TypedDict):
    format: str
    checkpoint_gib: float


class NearestShown(TypedDict):
    source: str
    distance: float
    quantity: str
    measured: float
    predicted: float
    unit: str


class NotReadShown(TypedDict):
    metrics: int
    lines: int
    first: list[str]


class NoticeShown(TypedDict):
    code: str
    text: str


class ObservationShown(TypedDict):
    quantity: str
    observed: float
    expected: float | None
    unit: str


class OfferList(TypedDict):
    items: list[OfferRowShown]
    next_cursor: str | None


class OfferRowShown(TypedDict):
    source: str
    as_of: str
    provider: str
    region: str
    country: str | None
    instance_type: str
    system: str | None
    accelerator: str
    accelerator_count: float
    pricing_model: PricingModel
    commitment: Commitment
    usd_per_hour: float
    usd_per_accelerator_hour: float
    price_kind: PriceKind
    confidence: Trust
    min_quantity: int
    max_quantity: int | None
    upfront_usd: float | None
    date_estimated: bool
    tier: str
    notes: str | None


class OfferShown(TypedDict):
    provider: str
    region: str
    pricing_model: PricingModel
    instance_type: NotRequired[str | None]


OptimizerImplementation: TypeAlias = (
    "Literal['fused', 'foreach', 'paged', 'in_backward', 'paged_in_backward', 'offloaded']"
)

OrderComparison: TypeAlias = "Literal['engine', 'hardware', 'hardware_per_accelerator', 'degree', 'format']"


class OrderShown(TypedDict):
    buyer: NotRequired[str | None]
    buyer_address: NotRequired[str | None]
    buyer_contact: NotRequired[str | None]
    buyer_tax_id: NotRequired[str | None]
    supplier: NotRequired[str | None]
    delivery_address: NotRequired[str | None]
    incoterm: NotRequired[str | None]
    payment_terms: NotRequired[str | None]
    lead_time_days: NotRequired[int | None]
    due_date: NotRequired[str | None]
    valid_until: NotRequired[str | None]
    term_months: NotRequired[int | None]


Outcome: TypeAlias = "Literal['slower', 'as_predicted', 'faster']"


class OutcomeShown(TypedDict):
    name: str
    does_it: bool
    fits: bool
    id: NotRequired[str | None]
    accelerator: NotRequired[str | None]
    bottleneck: NotRequired[Bottleneck | None]
    deployment: NotRequired[DeploymentShown | None]
    with_reserve: NotRequired[ReserveShown | None]
    why_not: NotRequired[str | None]


class OvertakingShown(TypedDict):
    way: str
    overtakes: str
    month: float


class PackedShown(TypedDict):
    name: str
    engine: str
    weight_format: WeightFormat
    replicas: int


Packing: TypeAlias = "Literal['packed', 'padded']"


class PackingShown(TypedDict):
    cards: NotRequired[int | None]
    machines: NotRequired[int | None]
    usd_per_hour: NotRequired[float | None]
    on: list[PlacedShown]
    models: list[PackedShown]
    apart_usd_per_hour: NotRequired[float | None]
    cheaper: NotRequired[str | None]
    why: str


Paid: TypeAlias = "Literal['once', 'over_term']"


class PairOrderShown(TypedDict):
    compared: OrderComparison
    metric: str
    pairs: int
    sources: int
    unseen_source: float
    in_sample: float


class PartShown(TypedDict):
    what: str
    quantity: float
    unit_usd: NotRequired[float | None]
    usd_per_hour: NotRequired[float | None]


class PathShown(TypedDict):
    way: str
    provider: str
    months: list[MonthShown]
    left_usd: float
    left_basis: NotRequired[str | None]
    committed_usd: float
    net_usd: float


PeakMoment: TypeAlias = "Literal['loss', 'backward', 'gradients', 'update']"


class PeaksShown(TypedDict):
    part: str
    value: str
    rows: int
    sources: int
    median: float
    p90: float
    bias: float
    too_low: float
    too_low_with_reserve: float
    inside: float
    width: float


class PercentilesShown(TypedDict):
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class PerformanceShown(TypedDict):
    output_tokens_per_s: NotRequired[float | None]
    total_tokens_per_s: NotRequired[float | None]
    prefill_tokens_per_s: NotRequired[float | None]
    requests_per_s_capacity: NotRequired[float | None]
    samples_per_s: NotRequired[float | None]
    utilization_at_peak: NotRequired[float | None]
    batch_at_peak: NotRequired[float | None]
    unstable_above_requests_per_s: NotRequired[float | None]
    cold_start_s: NotRequired[float | None]
    tokens_per_s: NotRequired[float | None]
    tokens_per_s_per_accelerator: NotRequired[float | None]
    step_time_s: NotRequired[float | None]
    mfu: NotRequired[float | None]
    scaling_efficiency: NotRequired[float | None]
    days: NotRequired[float | None]
    accelerator_hours: NotRequired[float | None]
    expected_interruptions: NotRequired[float | None]
    overloaded: NotRequired[bool | None]
    checkpoint_gb: NotRequired[float | None]
    required_storage_gb_per_s: NotRequired[float | None]
    required_ingest_mb_per_s: NotRequired[float | None]
    checkpoint_interval_minutes: NotRequired[float | None]
    checkpoint_stall_s: NotRequired[float | None]
    ttft_ms: NotRequired[PercentilesShown | None]
    tpot_ms: NotRequired[PercentilesShown | None]
    e2e_ms: NotRequired[PercentilesShown | None]
    simulation: NotRequired[SimulationShown | None]
    load_curve: NotRequired[LoadCurveShown | None]
    step_breakdown_s: NotRequired[BreakdownShown | None]
    interval: IntervalShown
    intervals: NotRequired[list[IntervalShown]]
    cluster: NotRequired[ClusterShown | None]
    pools: NotRequired[SplitShown | None]
    basis: Basis


class PlaceShown(TypedDict):
    countries: list[str]
    source: str
    as_of: str


class PlacedShown(TypedDict):
    card: int
    cards: NotRequired[int | None]
    name: str
    share_memory: float
    share_time: float
    slice: NotRequired[str | None]


PlanChange: TypeAlias = "Literal['unchanged', 'price_changed', 'offer_gone', 'price_expired', 'cheaper_plan']"


class PlanFindingShown(TypedDict):
    code: PlanChange
    text: str
    then: NotRequired[float | None]
    now: NotRequired[float | None]


class PlanShown(TypedDict):
    rank: int
    option: str
    usd_per_hour: NotRequired[float | None]
    usd_total: NotRequired[float | None]
    provider: str


class PointShown(TypedDict):
    accelerators: int
    days: float
    usd_total: NotRequired[float | None]
    tokens_per_s: float
    efficiency: float


class PoolLoadShown(TypedDict):
    utilization: NotRequired[float | None]
    requests_per_s_capacity: float


class PoolShown(TypedDict):
    accelerator: str
    system: NotRequired[str | None]
    accelerators_per_replica: NotRequired[int | None]
    replicas: NotRequired[int | None]
    spare_replicas: NotRequired[int | None]
    nodes: NotRequired[int | None]
    total_accelerators: NotRequired[int | None]
    tensor_parallel: NotRequired[int | None]
    pipeline_parallel: NotRequired[int | None]
    data_parallel: NotRequired[int | None]
    context_parallel: NotRequired[int | None]
    expert_parallel: NotRequired[int | None]
    weight_format: NotRequired[WeightFormat | None]
    kv_format: NotRequired[KvFormat | None]
    max_batch: NotRequired[int | None]
    max_batched_tokens: NotRequired[int | None]
    memory_fraction: NotRequired[float | None]
    skip_mm_profiling: NotRequired[bool | None]
    weights_on_host: NotRequired[float | None]
    offer: NotRequired[OfferShown | None]
    scheduler: NotRequired[SchedulerShown | None]


class PoolsShown(TypedDict):
    prefill: PoolShown
    decode: PoolShown


PriceKind: TypeAlias = (
    "Literal['provider', 'reseller', 'quote', 'survey', 'list', 'broker', 'launch', 'press', 'estimate']"
)


class PriceList(TypedDict):
    items: list[PriceRowShown]
    next_cursor: str | None


PriceMove: TypeAlias = "Literal['price', 'seller', 'estimate', 'quantity', 'added', 'gone', 'unpriced', 'priced']"


class PriceRowShown(TypedDict):
    provider: str
    region: str
    instance_type: str
    accelerator: str
    accelerator_count: float
    pricing_model: PricingModel
    usd_per_hour: float
    observed_on: str
    source: str


class PriceShown(TypedDict):
    kind: PriceKind
    source: str
    observed: str
    as_of: str
    age_days: NotRequired[int | None]
    confidence: Trust
    min_quantity: NotRequired[int]
    max_quantity: NotRequired[int | None]
    pricing_model: PricingModel
    commitment: Commitment
    upfront_usd: NotRequired[float | None]
    trend_30d: NotRequired[float | None]
    countries: NotRequired[list[str] | None]
    discount: NotRequired[float | None]
    lead_time: NotRequired[LeadTimeShown | None]


class PriceSourceShown(TypedDict):
    kind: str
    source: str
    observed: str
    confidence: Trust
    age_days: NotRequired[int | None]


PricingModel: TypeAlias = "Literal['on_demand', 'spot', 'reserved_1y', 'reserved_3y', 'committed_1y', 'committed_3y', 'capacity_block', 'owned']"


class PriorityShown(TypedDict):
    phase: str
    chosen_by: str
    memory_shares: dict[str, float]
    text: str


class PrivateRecordList(TypedDict):
    items: list[PrivateRecordShown]
    next_cursor: NotRequired[str | None]


class PrivateRecordShown(TypedDict):
    name: str


class Problem(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    errors: NotRequired[list[ProblemError] | None]


class ProblemError(TypedDict):
    pointer: str
    detail: str


class ProviderList(TypedDict):
    items: list[ProviderShown]
    next_cursor: str | None


class ProviderShown(TypedDict):
    provider: str
    also_called: list[str]
    rents: bool
    sells: bool
    regions: list[str]
    data_centers: PlaceShown | None
    seat: PlaceShown | None
    pricing_models: list[PricingModel]
    price_kinds: list[PriceKind]
    accelerators: int
    offers: int


ReadShown = TypedDict(
    "ReadShown",
    {
        "quantity": "str",
        "value": "float",
        "unit": "str",
        "from": "str",
        "low": "NotRequired[float | None]",
        "high": "NotRequired[float | None]",
    },
)


class ReadyShown(TypedDict):
    status: Literal["ready"]
    snapshot: str
    prices_as_of: str


class ReasonShown(TypedDict):
    code: str
    text: str
    evidence: EvidenceShown


class RecipeListed(TypedDict):
    name: str
    since: str | None
    methods: list[str]
    loss: LossComputation
    kernels: Kernels
    weights: WeightKeeping
    gradients: GradientKeeping
    selective: str
    recomputation: Recomputation
    optimizer_implementation: OptimizerImplementation
    adapter_precision: AdapterPrecision
    adapter_dropout: bool
    kbit_widening: bool
    offloads_checkpoints: bool
    packing: Packing
    source: str
    as_of: str
    sources: dict[str, str]


class RecipeShown(TypedDict):
    loss: NotRequired[LossComputation | None]
    kernels: NotRequired[Kernels | None]
    weights: NotRequired[WeightKeeping | None]
    gradients: NotRequired[GradientKeeping | None]
    recomputation: NotRequired[Recomputation | None]
    optimizer_implementation: NotRequired[OptimizerImplementation | None]
    adapter_precision: NotRequired[AdapterPrecision | None]
    adapter_dropout: NotRequired[bool | None]
    kbit_widening: NotRequired[bool | None]
    packing: NotRequired[Packing | None]
    name: NotRequired[str | None]
    source: NotRequired[str | None]


class RecommendResponse(TypedDict):
    id: str
    created_at: str
    catalog: CatalogShown
    as_of: str
    request: JsonObject
    summary: str
    assumptions: list[AssumedShown]
    assumptions_omitted: NotRequired[int | None]
    warnings: list[NoticeShown]
    recommendations: list[RecommendationShown]
    rejected: list[RejectedShown]
    considered: ConsideredShown
    rejected_by_code: dict[str, int]
    sensitivity: list[ChangeShown]
    verification: NotRequired[VerificationShown | None]
    cheaper_if: NotRequired[list[CheaperShown] | None]
    hosted_api: NotRequired[HostedApiShown | None]
    maximum: NotRequired[LargestLoadShown | None]
    licenses: NotRequired[list[SourceLicenseShown] | None]
    mixed_fleet: NotRequired[MixedFleetShown | None]
    scaling: NotRequired[ScalingShown | None]
    metrics: NotRequired[Metrics | None]


class RecommendationList(TypedDict):
    items: list[FiledShown]
    next_cursor: str | None


class RecommendationShown(TypedDict):
    deployment: DeploymentShown
    fits: bool
    support: Support
    rule: NotRequired[str | None]
    memory: MemoryShown
    performance: PerformanceShown
    bottleneck: Bottleneck
    cost: CostShown
    availability: NotRequired[AvailabilityShown | None]
    alternatives: NotRequired[list[AlternativeShown] | None]
    confidence: ConfidenceShown
    explanation: list[ReasonShown]
    verification: NotRequired[VerificationShown | None]
    summary: NotRequired[str | None]
    assumptions: NotRequired[list[AssumedShown] | None]
    warnings: NotRequired[list[NoticeShown] | None]
    day: NotRequired[DayShown | None]
    hosted_api: NotRequired[HostedApiShown | None]
    packing: NotRequired[PackingShown | None]
    classes: NotRequired[SharedShown | None]
    metrics: NotRequired[Metrics | None]
    nearest_measurements: list[NearestShown]
    scaling: NotRequired[ScalingShown | None]
    maximum: NotRequired[MaximumShown | None]
    trace: NotRequired[list[StepShown] | None]
    rank: int
    score: float


class RecommendedTodayShown(TypedDict):
    id: str
    changed: bool
    why: list[str]


Recomputation: TypeAlias = "Literal['none', 'operators', 'attention', 'every_second_layer', 'full']"


class RecordError(TypedDict):
    pointer: str
    detail: str


class RecordLine(TypedDict):
    line: int
    name: NotRequired[str | None]
    action: Literal["added", "changed", "unchanged", "refused"]
    errors: NotRequired[list[RecordError]]


class RecordsReport(TypedDict):
    dry_run: bool
    stored: int
    refused: int
    lines: list[RecordLine]


class RegionList(TypedDict):
    items: list[RegionShown]
    next_cursor: str | None


class RegionShown(TypedDict):
    region: str
    country: str | None
    countries: list[str]
    providers: list[str]
    accelerators: int
    offers: int


class RejectedShown(TypedDict):
    accelerator: str
    code: str
    text: str
    rule: NotRequired[str | None]
    needed: NotRequired[float | None]
    available: NotRequired[float | None]
    unit: NotRequired[str | None]


class RepriceResponse(TypedDict):
    id: str
    as_of: dict[str, str]
    catalog: dict[str, CatalogShown]
    machines: NotRequired[RepricedShown | None]
    today: RecommendedTodayShown


class RepricedLineShown(TypedDict):
    goods: str
    then: NotRequired[BillLineShown | None]
    now: NotRequired[BillLineShown | None]
    difference: NotRequired[float | None]
    causes: list[MovedCauseShown]


class RepricedShown(TypedDict):
    rank: int
    option: str
    text: str
    lines: list[RepricedLineShown]
    then: MaterialsTotalsShown
    now: NotRequired[MaterialsTotalsShown | None]
    difference: NotRequired[float | None]


RequestPatch: TypeAlias = "JsonObject"


class ReserveShown(TypedDict):
    total_accelerators: int
    usd_per_hour: NotRequired[float | None]


class RunnableModelShown(TypedDict):
    model: str
    parameters: int
    active_parameters: int
    licence: NotRequired[str | None]
    release_date: NotRequired[str | None]
    uses: list[ModelUseShown]


class RunnableResponse(TypedDict):
    items: list[RunnableModelShown]
    next_cursor: str | None


class RunsShown(TypedDict):
    asked: int
    misfits: int
    by_source: dict[str, list[int]]


class SampleShown(TypedDict):
    unit: str
    described: str
    passes: float
    flops_per_pass: float
    flops_once: float
    activation_mib: float
    sized_by: list[str]


class SavingShown(TypedDict):
    pattern: str
    text: str
    owes: str
    first: str
    usd: float
    saves_share: float
    request: JsonObject


class ScaleOutShown(TypedDict):
    fast_enough: bool
    steepest_requests_per_s_per_minute: float
    replicas_per_minute: float
    why: str


class ScaleToZeroShown(TypedDict):
    replica_hours: float
    usd_per_day: float | None
    idle_hours: float
    first_request_ms: float


class ScaleUpsShown(TypedDict):
    pairs: int
    median_points: float
    p90_points: float


class ScalingShown(TypedDict):
    points: list[PointShown]
    knee_accelerators: int
    minimum_accelerators: int
    binds: str


class SchedulerList(TypedDict):
    items: list[SchedulerListed]
    next_cursor: str | None


class SchedulerListed(TypedDict):
    engine: str
    also_called: list[str]
    judged_as: str | None
    versions: list[SchedulingListed]


class SchedulerShown(TypedDict):
    max_batched_tokens: NotRequired[int | None]
    max_sequences: NotRequired[int | None]
    policy: NotRequired[SchedulingPolicy | None]
    prefix_cache: NotRequired[bool | None]
    receive_interval_steps: NotRequired[int | None]
    batch_wait_steps: NotRequired[int | None]
    batch_wait_share: NotRequired[float | None]
    planning_lag_steps: NotRequired[int | None]


class SchedulingListed(TypedDict):
    since: str | None
    steps: list[StepSizeListed]
    steps_of: dict[str, list[StepSizeListed]]
    slots: bool
    policy: SchedulingPolicy
    chunked: bool
    preemption: str
    prefix_cache: bool
    kv_block_tokens: int
    receive_interval_steps: int
    batch_wait_steps: int
    batch_wait_share: float
    planning_lag_steps: int
    output_reserve_share: float
    graph_tokens: int
    sources: dict[str, str]
    read: str


SchedulingPolicy: TypeAlias = "Literal['mixed', 'prefill_first', 'static']"


class SensitivityShown(TypedDict):
    id: str
    catalog: dict[str, str]
    first: str
    flips: list[FlipShown]
    holds: list[HoldShown]
    savings: list[SavingShown]
    asked: int
    next: NotRequired[int | None]


class ShapeShown(TypedDict):
    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    mlp_width: float
    vocab_size: int
    num_experts: int
    experts_per_token: int
    max_context_tokens: int | None


class SharedShown(TypedDict):
    together: TogetherShown
    apart: list[ApartShown]
    cheaper: str | None
    saving_usd_per_hour: float | None
    why: str


class SimulationShown(TypedDict):
    requests: int
    seed: int
    arrivals: str
    policy: str
    inter_token_ms: PercentilesShown
    queue_ms: PercentilesShown
    mean_batch: float
    cache_occupancy: float
    preemptions_per_request: float
    goodput_requests_per_s: float
    goodput_share: float


class SliceShown(TypedDict):
    metric: str
    value: str
    rows: int
    sources: int
    unseen_source: ErrorsShown
    in_sample: ErrorsShown
    coverage: float
    width: float
    interval_score: float
    kept: float


SoldFor: TypeAlias = "Literal['datacenter', 'workstation', 'consumer', 'apple', 'edge']"


class SourceLicenseShown(TypedDict):
    name: str
    license: str


class SpeculativeShown(TypedDict):
    method: Drafting
    draft_tokens: int
    acceptance_rate: float
    draft_parameters_billion: NotRequired[float | None]


class SpendingShown(TypedDict):
    name: str
    ways: list[PathShown]
    overtakes: list[OvertakingShown]


class SplitShown(TypedDict):
    prefill: PoolLoadShown
    decode: PoolLoadShown
    transfer: TransferShown


class StandingResponse(TypedDict):
    id: str
    as_of: dict[str, str]
    catalog: dict[str, CatalogShown]
    holds: bool
    plan: PlanShown
    today: NotRequired[PlanShown | None]
    cheaper: NotRequired[PlanShown | None]
    findings: list[PlanFindingShown]


class StartPartsShown(TypedDict):
    machine: float
    image: float
    weights_read: float
    weights_to_device: float
    engine_start: float


Statistic: TypeAlias = "Literal['mean', 'p50', 'p95', 'p99']"

Status: TypeAlias = "Literal['draft', 'approved', 'ordered', 'superseded']"


class StatusChangeShown(TypedDict):
    status: Status
    at: str
    by: str
    note: NotRequired[str | None]
    superseded_by: NotRequired[str | None]


class StatusShown(TypedDict):
    id: str
    stored_at: str
    status: Status
    etag: str
    superseded_by: NotRequired[str | None]
    label: NotRequired[str | None]
    reference: NotRequired[str | None]
    cost_centre: NotRequired[str | None]
    model: NotRequired[str | None]
    accelerators: list[str]
    option: NotRequired[str | None]
    next: list[Status]
    history: list[StatusChangeShown]


class StepShown(TypedDict):
    name: str
    formula: str
    inputs: dict[str, float]
    value: float
    unit: str
    source: str


class StepSizeListed(TypedDict):
    from_gib: float
    max_batched_tokens: int
    offline_max_batched_tokens: int
    max_sequences: int


Support: TypeAlias = "Literal['documented', 'expected']"


class SupportAnswer(TypedDict):
    accelerator: str
    engine: str
    items: list[SupportShown]


class SupportShown(TypedDict):
    format: FormatOrPrecision
    phase: JudgedPhase
    method: NotRequired[FineTuningMethod | None]
    kind: ModelTask
    verdict: Verdict
    rule: str
    source: str
    native: bool
    kv_formats: list[KvFormat]


SystemKind: TypeAlias = "Literal['server', 'workstation', 'cloud_instance', 'pod_slice']"


class SystemList(TypedDict):
    items: list[SystemShown]
    next_cursor: str | None


class SystemShown(TypedDict):
    source: str
    as_of: str
    slug: str
    name: str
    kind: SystemKind
    provider: str
    accelerator: str
    accelerator_count: float
    hosts: int
    cpu_model: str | None
    vcpus: int | None
    ram_gib: float | None
    topology: str
    network_gbit_per_s: float | None
    network_type: str | None
    power_kw: float | None
    list_price_usd: float | None
    price_kind: PriceKind | None
    price_source: str | None
    price_observed: str | None
    price_confidence: Trust | None
    min_quantity: int
    max_quantity: int | None
    confidence: Trust
    notes: str | None


class TimesShown(TypedDict):
    p50: float | None
    p95: float | None


class TogetherShown(TypedDict):
    replicas: int
    usd_per_hour: float | None
    by_class: list[ClassShown]


class TransferShown(TypedDict):
    mib_per_request: float
    ms: float
    link: str
    gbit_per_s: float
    requests_per_s_capacity: float
    utilization: NotRequired[float | None]


Trust: TypeAlias = "Literal['high', 'medium', 'low']"


class UnreachableShown(TypedDict):
    why: str
    instead: str


Use: TypeAlias = "Literal['one_stream', 'throughput', 'full', 'lora', 'qlora']"

Verdict: TypeAlias = "Literal['refused', 'expected', 'documented']"


class VerificationShown(TypedDict):
    command: str
    accelerator: str
    accelerators: int
    minutes: float
    usd: float | None
    decides: str
    after: NotRequired[list[BenchmarkOutcomeShown]]


Way: TypeAlias = "Literal['on_demand', 'committed_1y', 'committed_3y', 'spot', 'owned']"

WeightFormat: TypeAlias = "Literal['fp32', 'bf16', 'fp16', 'fp8', 'int8', 'int4-awq', 'int4-gptq', 'int4-mlx', 'int8-mlx', 'int8-gptq', 'nf4', 'nvfp4', 'mxfp4', 'gguf-f16', 'gguf-q8_0', 'gguf-q6_k', 'gguf-q5_k_m', 'gguf-q5_k_s', 'gguf-q5_1', 'gguf-q5_0', 'gguf-q4_k_m', 'gguf-q4_k_s', 'gguf-q4_1', 'gguf-q4_0', 'gguf-q3_k_l', 'gguf-q3_k_m', 'gguf-q3_k_s', 'gguf-q2_k', 'gguf-iq4_nl', 'gguf-iq4_xs', 'gguf-iq3_m', 'gguf-iq3_s', 'gguf-iq3_xs', 'gguf-iq3_xxs', 'gguf-iq2_m', 'gguf-iq2_s', 'gguf-iq2_xs', 'gguf-iq2_xxs', 'gguf-iq1_m', 'gguf-iq1_s']"

WeightKeeping: TypeAlias = "Literal['master', 'sharded', 'autocast', '16bit']"


class WorstShown(TypedDict):
    measurement: str
    source: str
    link: str | None
    model: str
    accelerator: str
    engine: str
    metric: str
    measured: float
    predicted: float
    unit: str
