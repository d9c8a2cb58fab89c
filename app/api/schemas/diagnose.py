"""POST /diagnose on the wire: what was observed of a deployment, and what is found."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.api.schemas.answers import AssumedShown
from app.api.schemas.base import Shown, Wire, present, rounded, shown_as
from app.api.schemas.conversion import assumed_json, estimate_json
from app.api.schemas.maps import DeploymentPatch
from app.api.schemas.pasted import NotReadShown, PastedSpec, ReadShown
from app.api.schemas.requests import EstimateRequest
from app.sizing.diagnosis.case import Finding
from app.sizing.diagnosis.diagnose import Diagnosis
from app.sizing.diagnosis.observed import (
    DevicesObserved,
    LoadSeen,
    Observed,
    ScalePoint,
    ServiceObserved,
    TrainingObserved,
)
from app.sizing.units import GIB

Amount = Annotated[float, Field(ge=0, le=1e12)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, le=1e12)]
BASE_UNITS = {"_ms": ("_s", 1e-3), "_gib": ("_bytes", float(GIB))}


class LoadSeenSpec(Wire):
    """Waits at a load of the whole deployment."""

    requests_per_s: Positive
    ttft_p50_ms: Positive | None = None
    ttft_p95_ms: Positive | None = None
    ttft_p99_ms: Positive | None = None
    tpot_p50_ms: Positive | None = None
    tpot_p95_ms: Positive | None = None
    tpot_p99_ms: Positive | None = None

    def to_seen(self) -> LoadSeen:
        return LoadSeen(**_in_base_units(self.model_dump()))


class ServiceObservedSpec(Wire):
    """Of the whole deployment; `running` and `waiting` of one replica. What is not known is left out."""

    requests_per_s: Positive | None = None
    peak_requests_per_s: Positive | None = Field(None, description="In the busiest ten seconds.")
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
    prefix_hit_share: Share | None = None
    acceptance_rate: Annotated[float, Field(gt=0, lt=1)] | None = None
    error_share: Share | None = None
    busiest_replica_share: Positive | None = Field(None, description="Load of the busiest replica over the mean.")
    cold_start_s: Positive | None = None
    restarts_per_day: Amount | None = Field(None, description="Of one replica.")
    by_load: Annotated[list[LoadSeenSpec], Field(max_length=12)] = []

    def to_observed(self) -> ServiceObserved:
        said = _in_base_units(self.model_dump(exclude={"by_load"}))
        return ServiceObserved(**said, by_load=tuple(point.to_seen() for point in self.by_load))


class ScaleSpec(Wire):
    """The speed of a run at one size."""

    accelerators: Positive
    tokens_per_s: Positive


class TrainingObservedSpec(Wire):
    """Of a run; parts are seconds of a step."""

    step_time_s: Positive | None = None
    tokens_per_s: Positive | None = Field(None, description="Of the whole run; of samples where it counts these.")
    mfu: Annotated[float, Field(gt=0, le=1)] | None = None
    compute_s: Amount | None = None
    communication_s: Amount | None = Field(None, description="That nothing hides.")
    input_s: Amount | None = None
    synchronisation_s: Amount | None = None
    outside_kernels_s: Amount | None = None
    optimizer_s: Amount | None = None
    bubble_s: Amount | None = None
    slowest_rank_s: Positive | None = None
    median_rank_s: Positive | None = None
    memory_peak_gib: Positive | None = Field(None, description="Of the fullest accelerator.")
    allocator_retries_per_step: Amount | None = None
    checkpoint_s: Amount | None = Field(None, description="For which the run stands still.")
    checkpoint_interval_s: Positive | None = None
    restarts_per_day: Amount | None = None
    warmup_s: Amount | None = Field(None, description="At each start, until steps have their pace.")
    evaluation_share: Share | None = None
    scales: Annotated[list[ScaleSpec], Field(max_length=20)] = []

    def to_observed(self) -> TrainingObserved:
        said = _in_base_units(self.model_dump(exclude={"scales"}))
        return TrainingObserved(**said, scales=tuple(ScalePoint(s.accelerators, s.tokens_per_s) for s in self.scales))


class DevicesObservedSpec(Wire):
    """Of the accelerators, on the mean; errors of all of them."""

    utilization: Share | None = None
    clock_share: Annotated[float, Field(ge=0, le=1.5)] | None = Field(
        None, description="Of the clock they are sold with."
    )
    temperature_c: Amount | None = None
    power_w: Amount | None = None
    power_limit_w: Positive | None = None
    memory_used_gib: Positive | None = Field(None, description="Of the fullest.")
    link_width_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Lanes of the slot in use, of those there are."
    )
    slowest_clock_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Clock of the slowest accelerator over the mean."
    )
    errors_per_day: Amount | None = Field(None, description="Xid and uncorrected memory errors.")

    def to_observed(self) -> DevicesObserved:
        return DevicesObserved(**_in_base_units(self.model_dump()))


class ObservedSpec(PastedSpec):
    """What was observed: `service` with phase inference, `training` with the others, `devices` with any, or text that
    says it; a figure that is told goes before one that is read.
    """

    service: ServiceObservedSpec | None = None
    training: TrainingObservedSpec | None = None
    devices: DevicesObservedSpec | None = None

    def to_observed(self) -> Observed:
        return Observed(
            ServiceObserved() if self.service is None else self.service.to_observed(),
            TrainingObserved() if self.training is None else self.training.to_observed(),
            DevicesObserved() if self.devices is None else self.devices.to_observed(),
        )


EXAMPLE: dict[str, Any] = {
    "workload": {
        "phase": "inference",
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "traffic": {"peak_requests_per_s": 20, "input_tokens": 800, "output_tokens": 200},
    },
    "deployment": {"accelerator": "nvidia-l4", "total_accelerators": 8},
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
    """A workload, the deployment it runs on, and what was observed there."""

    model_config = shown_as(EXAMPLE)

    observed: ObservedSpec


class ObservationShown(Shown):
    """An observed figure beside the expected one."""

    quantity: str
    observed: float
    expected: float | None
    unit: str


class CostsShown(Shown):
    """What a finding costs while it stays."""

    share: float | None = Field(description="Of time, of requests or of money; null where it is not known.")
    usd_per_month: float | None = None


class ChangeOfFindingShown(Shown):
    """What would mend what was found."""

    text: str
    gain_share: float | None = Field(description="What the change gives back; null where it is not known.")
    settings: DeploymentPatch | None = Field(
        None, description="Fields of the deployment as the change would have them, judged by the core."
    )


class FindingShown(Shown):
    """Something wrong, what it costs and what would mend it."""

    rank: int
    code: str
    text: str
    costs: CostsShown
    evidence: list[ObservationShown]
    cause: str
    change: ChangeOfFindingShown
    do_not_buy: str | None = None


class DiagnoseResponse(Shown):
    """Findings, the dearest first."""

    healthy: bool
    summary: str
    findings: list[FindingShown]
    expected: dict[str, Any] = Field(description="The performance that /estimate gives at the load observed.")
    not_to_buy: list[str]
    not_judged: list[str] | None = Field(None, description="Figures of the service of which nothing is expected here.")
    assumptions: list[AssumedShown]
    read: list[ReadShown] | None = Field(None, description="Figures that pasted text says; absent without any.")
    not_read: NotReadShown | None = Field(None, description="What of it was not understood.")
    notes: list[str] | None = Field(None, description="What it leaves open, and where it contradicts what was told.")


def diagnosis_json(d: Diagnosis) -> dict[str, Any]:
    """A diagnosis."""
    cost = d.expected.cost
    usd = None if cost is None else cost.usd_per_month
    return {
        "healthy": not d.findings,
        "summary": d.summary,
        "findings": [_finding_json(f, rank, usd) for rank, f in enumerate(d.findings, 1)],
        "expected": estimate_json(d.expected, trace=False)["performance"],
        "not_to_buy": list(d.not_to_buy),
        **({"not_judged": [f"{name.removesuffix('_s')}_ms" for name in d.not_judged]} if d.not_judged else {}),
        "assumptions": [assumed_json(a) for a in d.assumptions],
    }


def _finding_json(f: Finding, rank: int, usd: float | None) -> dict[str, Any]:
    return {
        "rank": rank,
        "code": f.code,
        "text": f.text,
        "costs": costs_json(f, usd),
        "evidence": [
            {"quantity": e.quantity, "observed": rounded(e.observed), "expected": rounded(e.expected), "unit": e.unit}
            for e in f.evidence
        ],
        "cause": f.cause,
        "change": {
            "text": f.change,
            "gain_share": rounded(f.gain),
            **({"settings": dict(f.settings)} if f.settings else {}),
        },
        **present(do_not_buy=f.do_not_buy),
    }


def costs_json(f: Finding, usd: float | None) -> dict[str, Any]:
    """What a finding costs: the share, and that of the bill."""
    money = None if usd is None or f.share is None else usd * f.share
    return {"share": rounded(f.share), **present(usd_per_month=money)}


def _in_base_units(said: dict[str, Any]) -> dict[str, Any]:
    """Fields in milliseconds as fields in seconds, in GiB as in bytes."""
    found = {}
    for name, value in said.items():
        unit = next((unit for unit in BASE_UNITS if name.endswith(unit)), None)
        base, times = BASE_UNITS[unit] if unit else ("", 1.0)
        found[name.removesuffix(unit or "") + base] = value * times if unit and value is not None else value
    return found
