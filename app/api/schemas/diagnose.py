"""Schemas of POST /diagnose: observations, pasted metrics and logs, and the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import BaseModel, Field

from app.api.schemas.answers import AssumedShown, PerformanceShown
from app.api.schemas.base import Choice, RequestModel, ResponseModel, round_value, rounded_fields, with_examples
from app.api.schemas.origins import ADDED, EMPTY, WHOLE, From, ResultModel
from app.api.schemas.requests import EstimateRequest
from app.api.schemas.results import DeploymentPatch
from app.observed.figures import MAX_UNREAD_SHOWN, Figure, Reading
from app.observed.logs import FORMATS
from app.sizing.columns import GIB
from app.sizing.diagnosis.case import (
    DevicesObservation,
    LoadObservation,
    MemoryObservation,
    Observations,
    ScalePoint,
    ServiceObservation,
    TrainingObservation,
)
from app.sizing.diagnosis.diagnose import Diagnosis
from app.sizing.diagnosis.findings import Evidence, Finding
from app.sizing.diagnosis.memory import MemoryTerm

# Fields whose strings may contain line breaks.
PASTED_FIELDS = frozenset({"exposition", "text", "log"})
Text = Annotated[str, Field(min_length=1, max_length=2_000_000)]
LogFormat = Annotated[str, Choice("LogFormat", FORMATS)]
Moment = Annotated[float, Field(ge=0, le=1e11)]
SIMPLE_UNITS = {
    "requests_per_s": "requests/s",
    "output_tokens_per_s": "tokens/s",
    "input_tokens_mean": "tokens",
    "output_tokens_mean": "tokens",
    "running": "requests",
    "waiting": "requests",
    "tokens_per_s": "tokens/s",
    "tokens_per_step": "tokens",
    "cache_tokens": "tokens",
}
UNITS = (("_ms", "ms"), ("_per_day", "1/day"), ("_s", "s"), ("_c", "C"), ("_w", "W"), ("_gib", "GiB"))


class ScrapeSpec(RequestModel):
    """Metrics scraped at one time; scrapes with the same time are from several replicas."""

    text: Text = Field(description="Prometheus or OpenMetrics text, or JSON of Prometheus' query API.")
    at_s: Moment = Field(description="Time of the scrape in seconds since 1970, or since any common start.")


class PastedSpec(RequestModel):
    """Text instead of explicit values."""

    exposition: Text | None = Field(
        None,
        description="Prometheus text, or JSON of Prometheus' query API: metrics of vLLM, SGLang, TGI, TensorRT-LLM, "
        "Triton, LMDeploy, llama.cpp, the Dynamo frontend, or the DCGM or AMD exporter.",
    )
    at_s: Moment | None = Field(
        None, description="Time of `exposition` in seconds since 1970. Rates require it, or two scrapes."
    )
    expositions: Annotated[list[ScrapeSpec], Field(max_length=20)] = Field(
        [], description="Several scrapes; rates are computed from the differences between them."
    )
    of_replicas: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Number of replicas in the metrics. Default: derived from their labels."
    )

    log: Text | None = Field(
        None,
        description="Training log of torchtitan, Megatron-LM, NeMo, the Hugging Face Trainer (axolotl, LLaMA-Factory, "
        "ms-swift, TRL), DeepSpeed, PyTorch Lightning, MaxText, OLMo-core, torchtune, NeMo AutoModel or verl; server "
        "log of vLLM or SGLang; or start-up lines or an out-of-memory error of an engine, llama.cpp, Ollama or "
        "PyTorch.",
    )
    format: LogFormat | None = Field(None, description="Format of the log. Default: detected.")

    @property
    def timed_scrapes(self) -> list[tuple[str, float | None]]:
        """Pasted metrics with their times; the time is None if unknown."""
        single = [] if self.exposition is None else [(self.exposition, self.at_s)]
        return [*single, *((s.text, s.at_s) for s in self.expositions)]


class ReadShown(ResponseModel):
    """A value read from the pasted text."""

    quantity: str = Field(description="Name of the value in `observed`.")
    value: float = Field(description="The value in `unit`.")
    unit: str = Field(description="Unit of the value, as in the request field.")
    source: str = Field(alias="from", description="Metrics or lines that the value comes from.")
    low: float | None = Field(None, description="Lower end of the histogram bucket.")
    high: float | None = Field(None, description="Upper end of the histogram bucket.")


class NotReadShown(ResponseModel):
    """Pasted text that was not used."""

    metrics: int = Field(description="Number of unused metrics.")
    lines: int = Field(description="Number of lines that could not be parsed.")
    first: list[str] = Field(description="The first metrics and lines that were not used.")


def reading_json(reading: Reading, notes: Sequence[str], groups: dict[str, type[BaseModel]]) -> dict[str, Any]:
    """The values read from pasted text as JSON."""
    unread = reading.unread
    return {
        "read": [
            *(figure_json(f, groups[f.group]) for f in reading.figures),
            *(
                figure_json(
                    Figure("service", name, value, "difference of two scrapes"), groups["service"], f"by_load.{i}."
                )
                for i, point in enumerate(reading.by_load)
                for name, value in asdict(point).items()
                if value is not None
            ),
        ],
        "not_read": {
            "metrics": len(unread.metrics),
            "lines": unread.lines,
            "first": [*unread.metrics[:MAX_UNREAD_SHOWN], *unread.first],
        },
        "notes": [*notes, *reading.notes],
    }


def wire_name(figure: Figure, spec: type[BaseModel]) -> tuple[str, float]:
    """The name of a value in the API, and the factor from base units to the unit of that name."""
    for end, base, times in (("_ms", "_s", 1e3), ("_gib", "_bytes", 1 / GIB)):
        name = figure.quantity.removesuffix(base) + end
        if name in spec.model_fields:
            return name, times
    return figure.quantity, 1.0


def figure_json(f: Figure, spec: type[BaseModel], within: str = "") -> dict[str, Any]:
    """One value as JSON, in the unit that requests use."""
    name, times = wire_name(f, spec)
    return {
        "quantity": f"{f.group}.{within}{name}",
        "value": round_value(f.value * times),
        "unit": unit_from_name(name),
        "from": f.source,
        **rounded_fields(low=None if f.low is None else f.low * times, high=None if f.high is None else f.high * times),
    }


def unit_from_name(name: str) -> str:
    """The unit that a field's name implies."""
    return SIMPLE_UNITS.get(name) or next((unit for end, unit in UNITS if name.endswith(end)), "1")


Amount = Annotated[float, Field(ge=0, le=1e12)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
BASE_UNITS = {"_ms": ("_s", 1e-3), "_gib": ("_bytes", float(GIB))}


class LoadSeenSpec(RequestModel):
    """Latencies observed at one load of the whole deployment."""

    requests_per_s: Positive
    ttft_p50_ms: Positive | None = None
    ttft_p95_ms: Positive | None = None
    ttft_p99_ms: Positive | None = None
    tpot_p50_ms: Positive | None = None
    tpot_p95_ms: Positive | None = None
    tpot_p99_ms: Positive | None = None

    def to_load_seen(self) -> LoadObservation:
        return LoadObservation(**_in_base_units(self.model_dump()))


class ServiceObservedSpec(RequestModel):
    """Observations of the whole deployment; `running` and `waiting` are per replica. Omit what you do not know."""

    requests_per_s: Positive | None = None
    peak_requests_per_s: Positive | None = Field(None, description="Requests per second in the busiest ten seconds.")
    output_tokens_per_s: Amount | None = None
    input_tokens_mean: Annotated[float, Field(ge=1, le=1e7)] | None = None
    output_tokens_mean: Annotated[float, Field(ge=1, le=1e7)] | None = None
    ttft_p50_ms: Positive | None = None
    ttft_p95_ms: Positive | None = None
    ttft_p99_ms: Positive | None = None
    tpot_p50_ms: Positive | None = None
    tpot_p95_ms: Positive | None = None
    tpot_p99_ms: Positive | None = None
    inter_token_p50_ms: Positive | None = None
    inter_token_p99_ms: Positive | None = None
    queue_p50_ms: Amount | None = None
    running: Amount | None = None
    waiting: Amount | None = None
    cache_usage: Share | None = None
    preemptions_per_request: Amount | None = None
    preemptions: Amount | None = Field(None, description="Preemptions that a log counts.")
    prefix_hit_share: Share | None = None
    acceptance_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    error_share: Share | None = None
    busiest_replica_share: Positive | None = Field(None, description="Load of the busiest replica divided by the mean.")
    cache_tokens: Amount | None = Field(None, description="Tokens that the KV cache of one replica holds.")
    cold_start_s: Positive | None = None
    restarts_per_day: Amount | None = Field(None, description="Restarts of one replica per day.")
    by_load: Annotated[list[LoadSeenSpec], Field(max_length=12)] = []

    def to_observed(self) -> ServiceObservation:
        values = _in_base_units(self.model_dump(exclude={"by_load"}))
        return ServiceObservation(**values, by_load=tuple(point.to_load_seen() for point in self.by_load))


class ScaleSpec(RequestModel):
    """Throughput of a run at one size."""

    accelerators: Positive
    tokens_per_s: Positive


class TrainingObservedSpec(RequestModel):
    """Observations of a training run; components of a step are in seconds."""

    step_time_s: Positive | None = None
    tokens_per_s: Positive | None = Field(
        None, description="Throughput of the whole run; in samples for a model that processes samples."
    )
    tokens_per_step: Positive | None = Field(None, description="Tokens of one step, padding excluded.")
    mfu: Annotated[float, Field(gt=0, le=1)] | None = None
    compute_s: Amount | None = None
    communication_s: Amount | None = Field(None, description="Communication that does not overlap with computation.")
    input_s: Amount | None = None
    synchronisation_s: Amount | None = None
    outside_kernels_s: Amount | None = None
    optimizer_s: Amount | None = None
    bubble_s: Amount | None = None
    slowest_rank_s: Positive | None = None
    median_rank_s: Positive | None = None
    memory_peak_gib: Positive | None = Field(None, description="Peak memory of the fullest accelerator.")
    allocator_retries_per_step: Amount | None = None
    checkpoint_s: Amount | None = Field(None, description="Time that the run pauses for one checkpoint.")
    checkpoint_interval_s: Positive | None = None
    restarts_per_day: Amount | None = None
    warmup_s: Amount | None = Field(None, description="Time after each start until steps reach their normal speed.")
    evaluation_share: Share | None = None
    scales: Annotated[list[ScaleSpec], Field(max_length=20)] = []

    def to_observed(self) -> TrainingObservation:
        values = _in_base_units(self.model_dump(exclude={"scales"}))
        return TrainingObservation(
            **values, scales=tuple(ScalePoint(s.accelerators, s.tokens_per_s) for s in self.scales)
        )


class DevicesObservedSpec(RequestModel):
    """Averages over the accelerators; errors are summed over all of them."""

    utilization: Share | None = None
    clock_share: Annotated[float, Field(ge=0, le=1.5)] | None = Field(
        None, description="Clock rate as a share of the rated clock."
    )
    temperature_c: Amount | None = None
    power_w: Amount | None = None
    power_limit_w: Positive | None = None
    memory_used_gib: Positive | None = Field(None, description="Memory in use on the fullest accelerator.")
    link_width_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Share of the slot's lanes in use."
    )
    slowest_clock_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Clock of the slowest accelerator divided by the mean."
    )
    errors_per_day: Amount | None = Field(None, description="Xid errors and uncorrected memory errors.")

    def to_observed(self) -> DevicesObservation:
        return DevicesObservation(**_in_base_units(self.model_dump()))


class MemoryObservedSpec(RequestModel):
    """Memory of the fullest accelerator as the engine or trainer reports it."""

    weights_gib: Amount | None = None
    cache_gib: Amount | None = None
    activation_gib: Amount | None = None
    overhead_gib: Amount | None = Field(None, description="CUDA graphs and libraries.")
    needed_cache_gib: Amount | None = Field(None, description="KV cache that the longest context needs.")
    failed_allocation_gib: Amount | None = Field(
        None, description="Allocation that failed. 0: the error does not state its size."
    )
    capacity_gib: Amount | None = None
    free_gib: Amount | None = None
    process_gib: Amount | None = Field(None, description="Memory of this process.")
    allocated_gib: Amount | None = Field(None, description="Memory of tensors.")
    unused_gib: Amount | None = Field(None, description="Memory that the allocator holds without a tensor.")
    failed_host_gib: Amount | None = Field(
        None, description="Allocation of host memory that failed. 0: its size is unknown, as of a killed process."
    )

    def to_observed(self) -> MemoryObservation:
        return MemoryObservation(**_in_base_units(self.model_dump()))


class ObservedSpec(PastedSpec):
    """Observations: `service` with phase inference, `training` with the other phases, `devices` and `memory` with any
    phase, or pasted text.

    An explicit value overrides a value read from text.
    """

    service: ServiceObservedSpec | None = None
    training: TrainingObservedSpec | None = None
    devices: DevicesObservedSpec | None = None
    memory: MemoryObservedSpec | None = None

    def to_observed(self) -> Observations:
        return Observations(
            ServiceObservation() if self.service is None else self.service.to_observed(),
            TrainingObservation() if self.training is None else self.training.to_observed(),
            DevicesObservation() if self.devices is None else self.devices.to_observed(),
            MemoryObservation() if self.memory is None else self.memory.to_observed(),
        )


EXAMPLE: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 20, "input_tokens": 800, "output_tokens": 200},
    },
    "deployment": {"accelerator": "nvidia-l4", "total_accelerators": 8, "engine": "vllm"},
    "observed": {
        "service": {
            "requests_per_s": 20,
            "preemptions_per_request": 0.4,
            "by_load": [{"requests_per_s": 10, "ttft_p95_ms": 300}, {"requests_per_s": 20, "ttft_p95_ms": 2400}],
        },
        "devices": {"temperature_c": 60},
    },
}


class DiagnoseRequest(EstimateRequest):
    """A workload, the deployment it runs on, and observations of that deployment."""

    model_config = with_examples(EXAMPLE)

    observed: ObservedSpec


class ObservationShown(ResultModel, of=Evidence):
    """An observed value with the expected one."""

    quantity: str
    observed: float
    expected: float | None
    unit: str


class CostsShown(ResultModel, of=Finding):
    """Cost of a finding until it is fixed."""

    share: float | None = Field(description="Share of time, requests or money; null if unknown.")
    usd_per_month: Annotated[float | None, ADDED] = None


class ChangeOfFindingShown(ResultModel, of=Finding):
    """The change that fixes the finding."""

    text: Annotated[str, From("change")]
    gain_share: Annotated[float | None, From("gain")] = Field(
        description="Share that the change recovers; null if unknown."
    )
    settings: Annotated[DeploymentPatch | None, From(omit=EMPTY)] = Field(
        None, description="Deployment fields with their new values, evaluated by the engine."
    )


class FindingShown(ResultModel, of=Finding):
    """A problem, its cost and the change that fixes it."""

    rank: Annotated[int, ADDED]
    code: str
    text: str
    costs: Annotated[CostsShown, ADDED]
    evidence: list[ObservationShown]
    cause: str
    change: Annotated[ChangeOfFindingShown, From(WHOLE)]
    do_not_buy: str | None = None


def _wire_names(names: Sequence[str]) -> list[str]:
    specs = (ServiceObservedSpec, TrainingObservedSpec, DevicesObservedSpec, MemoryObservedSpec)
    return [
        next(wire for spec in specs if (wire := wire_name(Figure("", name, 0.0, ""), spec)[0]) in spec.model_fields)
        for name in names
    ]


class MemoryTermShown(ResultModel, of=MemoryTerm):
    """A term of memory as the engine reports it, with the expected value."""

    term: str = Field(description="Part of the memory, or kv_cache_tokens.")
    observed: float = Field(description="What the engine reports.")
    expected: float | None = Field(description="Expected value; null if unknown.")
    difference: float | None = Field(description="Observed minus expected value.")
    unit: str


class DiagnoseResponse(ResultModel, of=Diagnosis):
    """Findings, most expensive first."""

    healthy: bool | None
    summary: str
    findings: Annotated[list[FindingShown], ADDED]
    expected: Annotated[dict[str, Any], From("expected.performance", convert=PerformanceShown.as_json)] = Field(
        description="Performance that /estimate predicts at the observed load; empty if it predicts none."
    )
    memory: Annotated[list[MemoryTermShown] | None, From(omit=EMPTY)] = Field(
        None, description="Memory of one accelerator that the engine reports, against the expected memory."
    )
    not_to_buy: list[str]
    not_judged: Annotated[list[str] | None, From(convert=_wire_names, omit=EMPTY)] = Field(
        None, description="Observed quantities that cannot be judged: health says nothing about them."
    )
    assumptions: list[AssumedShown]
    read: Annotated[list[ReadShown] | None, ADDED] = Field(
        None, description="Values read from pasted text; absent without pasted text."
    )
    not_read: Annotated[NotReadShown | None, ADDED] = Field(None, description="Pasted text that was not used.")
    notes: Annotated[list[str] | None, From(omit=EMPTY)] = Field(
        None, description="Missing values, and contradictions between text, explicit values and expectation."
    )


def diagnosis_json(d: Diagnosis) -> dict[str, Any]:
    cost = d.expected.cost
    usd = None if cost is None else cost.usd_per_month
    findings = [
        FindingShown.as_json(f, given={"rank": rank, "costs": costs_json(f, usd)})
        for rank, f in enumerate(d.findings, 1)
    ]
    return DiagnoseResponse.as_json(d, given={"findings": findings})


def costs_json(f: Finding, usd: float | None) -> dict[str, Any]:
    """Cost of a finding as JSON: its share, and that share of the monthly bill `usd`."""
    money = None if usd is None or f.share is None else usd * f.share
    return CostsShown.as_json(f, given=rounded_fields(usd_per_month=money))


def _in_base_units(values: dict[str, Any]) -> dict[str, Any]:
    """The fields with milliseconds converted to seconds and GiB to bytes."""
    converted = {}
    for name, value in values.items():
        unit = next((unit for unit in BASE_UNITS if name.endswith(unit)), None)
        base, times = BASE_UNITS[unit] if unit else ("", 1.0)
        converted[name.removesuffix(unit or "") + base] = value * times if unit and value is not None else value
    return converted
