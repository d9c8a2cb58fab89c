"""Schemas of lists: providers, regions, frameworks, schedulers, support, accuracy and health."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.base import (
    Choice,
    KvFormatName,
    MethodName,
    PhaseName,
    PolicyName,
    PriceKindName,
    PricingName,
    PrintableText,
    ResponseModel,
    round_value,
    with_examples,
)
from app.api.schemas.catalog import ListPage
from app.api.schemas.origins import EMPTY, From, ResultModel
from app.api.schemas.replica import RecipeListed, listed_json
from app.catalog.snapshot import CatalogIndex
from app.sizing.accuracy import FAMILY_REASONS, Errors, Report, Slice, link_of
from app.sizing.decisions.places import possible_countries
from app.sizing.evidence import Compared
from app.sizing.hardware.engines import ENGINES
from app.sizing.hardware.engines.record import Engine, Scheduling, StepSize
from app.sizing.hardware.parts import Environment, Places
from app.sizing.hardware.recipes import recipes_of_framework
from app.sizing.hardware.stacks import PairVerdict
from app.sizing.hardware.support.builds import BUILDS
from app.sizing.hardware.support.records import LEVELS
from app.sizing.model.formats import WEIGHT_FORMATS
from app.sizing.model.tasks import TASKS
from app.sizing.training.recipes import PRECISIONS

FormatName = Annotated[str, Choice("FormatOrPrecision", dict.fromkeys((*WEIGHT_FORMATS, *PRECISIONS)))]
LevelName = Annotated[str, Choice("Verdict", LEVELS)]
TaskName = Annotated[str, Choice("ModelTask", TASKS)]


class SupportQuery(BaseModel):
    """An accelerator and an engine or framework. The answer covers every value of each omitted filter."""

    model_config = ConfigDict(extra="forbid")

    accelerator: PrintableText
    engine: PrintableText
    format: FormatName | None = Field(None, description="Number format of the weights; for training, the precision.")
    phase: PhaseName | None = None
    method: MethodName | None = Field(None, description="Training only: fine-tuning method.")
    kind: TaskName | None = Field(None, description="Only this kind of model.")


_EXAMPLE: dict[str, Any] = {
    "format": "fp8",
    "phase": "inference",
    "kind": "decoder",
    "verdict": "refused",
    "rule": "NVIDIA T4 has compute capability 7.5; FP8 requires 8.9 or higher, and vLLM converts it to 16 bits only "
    "from 8.0.",
    "source": "vLLM docs: installation pages",
    "native": False,
    "kv_formats": [],
}


class SupportShown(ResultModel, of=PairVerdict):
    """One format and kind of work.

    `native`: the hardware multiplies the format directly; otherwise it is converted to 16 bit first.
    """

    model_config = with_examples(_EXAMPLE)

    format: Annotated[FormatName, From("weight_format")]
    phase: Annotated[PhaseName, From("work.phase")]
    method: Annotated[MethodName | None, From("work.method", omit=EMPTY)] = None
    kind: Annotated[TaskName, From("work.task")]
    verdict: Annotated[LevelName, From("verdict.level")]
    rule: Annotated[str, From("verdict.rule")]
    source: Annotated[str, From("verdict.source")]
    native: Annotated[bool, From("verdict.native")]
    kv_formats: Annotated[list[KvFormatName], From("verdict.kv_formats")]


class SupportAnswer(ResponseModel):
    """The accelerator and engine, with a verdict for each format and kind of work."""

    model_config = with_examples({"accelerator": "nvidia-t4", "engine": "vllm", "items": [_EXAMPLE]})

    accelerator: str
    engine: str
    items: list[SupportShown]


class AliveShown(ResponseModel):
    """The process is running."""

    model_config = with_examples({"status": "ok"})

    status: Literal["ok"] = Field(description="Always ok if the service responds.")


class ReadyShown(ResponseModel):
    """The service accepts requests, with this version of the catalog."""

    model_config = with_examples({"status": "ready", "snapshot": "a92c48cdaec828d7", "prices_as_of": "2026-08-22"})

    status: Literal["ready"] = Field(description="Always ready; otherwise the response is a problem.")
    snapshot: str
    prices_as_of: str


ROUGH = From(digits=4)


def _of_interval(name: str) -> From:
    return From(f"intervals.{name}", digits=4)


class ErrorsShown(ResultModel, of=Errors):
    """Errors of predictions against measurements."""

    median: Annotated[float, ROUGH] = Field(description="Median absolute relative error.")
    p90: Annotated[float, ROUGH] = Field(description="Its 90th percentile.")
    bias: Annotated[float, ROUGH] = Field(
        description="Median of predicted over measured; above 1 is predicted too high."
    )


class SliceShown(ResultModel, of=Slice):
    """Errors of one metric in one slice of the measurements."""

    metric: str
    value: str
    rows: int
    sources: int
    unseen_source: Annotated[ErrorsShown, From("held_out")] = Field(
        description="Errors if each source is predicted by a fit that excludes it; use these to judge accuracy."
    )
    in_sample: ErrorsShown
    coverage: Annotated[float, _of_interval("coverage")] = Field(
        description="Share of unseen results inside their 80 % interval."
    )
    width: Annotated[float, _of_interval("width")] = Field(
        description="Median ratio of the interval's upper to its lower end."
    )
    interval_score: Annotated[float, _of_interval("score")] = Field(
        description="Logarithmic width plus ten times the distance of results outside the interval; lower is better."
    )
    kept: Annotated[float, _of_interval("kept")] = Field(
        description="Back-test: share of unseen results at least as good as the 80 % confidence plan."
    )


ORDERED_BY = ("engine", "hardware", "hardware_per_accelerator", "degree", "format")


class PairOrderShown(BaseModel):
    """How often the faster of two published results is predicted to be the faster one: pairs of one source that differ
    by at least 5 %, under the same conditions but for the compared property; two engines have the same layout.
    """

    compared: Annotated[str, Choice("OrderComparison", ORDERED_BY)] = Field(
        description="What the two results differ in; per accelerator, their number of accelerators may differ too."
    )
    metric: str = Field(description="Quantity, or all.")
    pairs: int
    sources: int
    unseen_source: float = Field(
        description="Share in the right order by fits that exclude the source; equal predictions count as wrong."
    )
    in_sample: float = Field(description="The same share by the fit to all sources.")


class WorstShown(ResultModel, of=Compared):
    """One of the largest errors."""

    measurement: str
    source: Annotated[str, From("reference")]
    link: Annotated[str | None, From("reference", convert=link_of)] = Field(
        description="URL of the source, if it is in a public repository."
    )
    model: str
    accelerator: Annotated[str, From("setting.accelerator")]
    engine: Annotated[str, From("setting.engine")]
    metric: str
    measured: float
    predicted: Annotated[float, From("held_out")] = Field(description="Prediction of a fit that excludes the source.")
    unit: str


class CacheShown(ResponseModel):
    """Predicted sizes of KV caches against start-up logs."""

    logs: int
    median: float
    p90: float
    left_out: dict[str, int]


class ScaleUpsShown(ResponseModel):
    """Errors of predicted scaling for runs published at several sizes, in percentage points of efficiency. Each
    prediction excludes its source.
    """

    pairs: int
    median_points: float
    p90_points: float


class PeaksShown(ResponseModel):
    """Errors of predicted peak memory for one part of the published runs; each prediction excludes its source."""

    part: str = Field(description="Property that defines the slice.")
    value: str
    rows: int
    sources: int
    median: float = Field(description="Median absolute relative error.")
    p90: float
    bias: float = Field(description="Median of predicted over measured.")
    too_low: float = Field(description="Share predicted more than 10 % too low.")
    too_low_with_reserve: float = Field(description="The same including the memory that a recommended plan keeps free.")
    inside: float = Field(description="Share of results inside their 80 % interval.")
    width: float = Field(description="Median ratio of the interval's upper to its lower end.")


class RunsShown(ResponseModel):
    """Published runs estimated by /estimate with their own layouts."""

    asked: int
    misfits: int = Field(description="Number of runs predicted not to fit in memory.")
    by_source: dict[str, list[int]] = Field(description="Misfits and estimated runs for each source with misfits.")


class AccuracyResponse(ResponseModel):
    """Errors overall and by slice."""

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
    left_out: dict[str, int] = Field(
        description="Number of published serving results that were not compared, by reason."
    )
    training_left_out: dict[str, int] = Field(
        description="Number of published training results that were not compared, by reason."
    )
    reasons: dict[str, str] = Field(
        description="Accelerator families with large errors for unseen sources, with the reason."
    )
    excluded: dict[str, str] = Field(
        description="Results that are compared but excluded from the fit, with the reason."
    )


DEFINITIONS = {
    "throughput": "tokens/s of a whole deployment under load: generated tokens, or prompt and generated tokens, as in "
    "the source",
    "tpot": "seconds per token after the first, for a request in the middle of the run",
    "ttft": "seconds from sending a request to its first token, including queueing",
    "single_stream": "tokens/s of a single request without other load",
    "prefill": "prompt tokens/s of a single request without other load",
    "e2e": "seconds of a static batch from the first prompt token to the last generated token",
    "training": "tokens/s of one accelerator in training or fine-tuning, whole optimizer steps",
    "training_samples": "samples/s of one accelerator in training: images and the like",
    "training_memory": "peak memory of one accelerator in training, as in the source: reported by the allocator "
    "or by the driver",
}


def accuracy_json(snapshot: str, report: Report, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The accuracy report as JSON. `notes` lists what the calibration excluded, with reasons."""
    off = sorted(abs(log["predicted_bytes"] / log["measured_bytes"] - 1) for log in notes["kv_cache"])
    return {
        "snapshot": snapshot,
        "definitions": DEFINITIONS,
        "overall": [SliceShown.as_json(s) for s in report.overall],
        "by": {name: [SliceShown.as_json(s) for s in slices] for name, slices in report.by.items()},
        "order": notes["order"],
        "worst": [WorstShown.as_json(c) for c in report.worst],
        "kv_cache": {
            "logs": len(off),
            "median": round_value(off[len(off) // 2], 4),
            "p90": round_value(off[int(0.9 * (len(off) - 1))], 4),
            "left_out": notes["kv_cache_left_out"],
        },
        "left_out": notes["left_out"],
        "scaling": notes["scaling"],
        "peaks": notes["peaks"],
        "runs": notes["runs"],
        "training_left_out": notes["training_left_out"],
        "reasons": dict(FAMILY_REASONS),
        "excluded": notes["excluded"],
    }


class PlaceShown(ResponseModel):
    """Countries of a provider's data centers, or the country of its seat."""

    countries: list[str] = Field(description="ISO 3166 codes.")
    source: str
    as_of: str = Field(description="Day on which the source was read, YYYY-MM-DD.")


class ProviderShown(ResponseModel):
    """A company that rents out or sells machines."""

    provider: str
    also_called: list[str]
    rents: bool
    sells: bool
    regions: list[str]
    data_centers: PlaceShown | None = Field(
        description="Countries in which the provider may place machines whose price names no region; null if unknown."
    )
    seat: PlaceShown | None = Field(
        description="Country of the seat, the value of constraints.provider_jurisdiction; null if unknown."
    )
    pricing_models: list[PricingName]
    price_kinds: list[PriceKindName]
    accelerators: int
    offers: int


class RegionShown(ResponseModel):
    """A region in which machines are for rent, named as its providers name it."""

    region: str
    country: str | None
    countries: list[str] = Field(
        description="The country, or all countries of the providers' data centers if the region is none."
    )
    providers: list[str]
    accelerators: int
    offers: int


class FrameworkShown(ResponseModel):
    """A training framework with its methods and runtimes; `judged_as` names the underlying framework."""

    framework: str
    also_called: list[str]
    methods: list[str]
    runtimes: list[str]
    kinds: list[str]
    judged_as: str | None
    recipes: list[RecipeListed] = Field(description="Rules for calculating memory by version, oldest first.")
    source: str
    as_of: str


class ProviderList(ListPage[ProviderShown]):
    """Providers, by name."""


class RegionList(ListPage[RegionShown]):
    """Regions, by name."""


class FrameworkList(ListPage[FrameworkShown]):
    """Training frameworks, by name."""


Items = list[dict[str, Any]]


def providers_json(catalog_index: CatalogIndex) -> Items:
    catalog = catalog_index.catalog
    offers = defaultdict(list)
    for offer in catalog.offers:
        offers[offer.provider].append(offer)
    sells = {s.provider for s in catalog.systems.values() if s.environment is Environment.ON_PREM}
    aliases = _other_names(catalog_index.providers)
    return [
        {
            "provider": name,
            "also_called": aliases.get(name, []),
            "rents": name in offers,
            "sells": name in sells,
            "regions": sorted({o.region for o in offers[name]}),
            **_places_json(catalog.places.get(name, Places())),
            "pricing_models": sorted({o.pricing_model.value for o in offers[name]}),
            "price_kinds": sorted({o.price_kind.value for o in offers[name]}),
            "accelerators": len({o.accelerator for o in offers[name]}),
            "offers": len(offers[name]),
        }
        for name in catalog.providers
        if name in offers or name in sells
    ]


def _places_json(places: Places) -> dict[str, Any]:
    """Where a provider's data centers and its seat are, with sources."""
    return {
        name: None
        if fact is None
        else {"countries": sorted(fact.countries), "source": fact.source, "as_of": fact.as_of}
        for name, fact in (("data_centers", places.data_centers), ("seat", places.seat))
    }


def regions_json(catalog_index: CatalogIndex) -> Items:
    offers = defaultdict(list)
    catalog = catalog_index.catalog
    for offer in catalog.offers:
        offers[offer.region].append(offer)
    return [
        {
            "region": name,
            "country": catalog_index.country_of(name),
            "countries": sorted(
                frozenset[str]().union(*(possible_countries(catalog, o.provider, name) for o in offers[name]))
            ),
            "providers": sorted({o.provider for o in offers[name]}),
            "accelerators": len({o.accelerator for o in offers[name]}),
            "offers": len(offers[name]),
        }
        for name in sorted(offers)
    ]


def frameworks_json(_: CatalogIndex) -> Items:
    """Every training framework as JSON, by name."""
    items = []
    for name in sorted(BUILDS):
        trains = [build for build in BUILDS[name] if build.methods]
        if not trains:
            continue
        record = ENGINES.get(name)
        items.append(
            {
                "framework": name,
                "also_called": [] if record is None else list(record.aliases),
                "methods": sorted({m for build in trains for m in build.methods}),
                "runtimes": sorted({r for build in trains for r in build.runtimes}),
                "kinds": sorted({task.value for build in trains for task in build.trains}),
                "judged_as": None if record is None else record.judged_as,
                "recipes": [listed_json(recipe) for recipe in recipes_of_framework(name)],
                "source": trains[0].source,
                "as_of": trains[0].as_of,
            }
        )
    return items


def _other_names(names: Mapping[str, str]) -> dict[str, list[str]]:
    """The other accepted spellings of each name."""
    aliases: dict[str, list[str]] = defaultdict(list)
    for key, name in names.items():
        if key != name and key != "".join(c for c in name if c.isalnum()):
            aliases[name].append(key)
    return aliases


class StepSizeListed(ResponseModel):
    """The largest step on devices with at least this much memory."""

    from_gib: float
    max_batched_tokens: int
    offline_max_batched_tokens: int = Field(
        description="Maximum tokens per step of an offline batch job without a server."
    )
    max_sequences: int


class SchedulingListed(ResponseModel):
    """An engine's default scheduling from one version on."""

    since: str | None = Field(description="First version that it applies to; null: every known earlier version.")
    steps: list[StepSizeListed] = Field(description="Step sizes by device memory, smallest first.")
    steps_of: dict[str, list[StepSizeListed]] = Field(description="Step sizes of accelerator families that differ.")
    slots: bool = Field(
        description="True if the engine needs the number of concurrent sequences at start; plans assume more than the "
        "default.",
    )
    policy: PolicyName
    chunked: bool = Field(description="True if a prompt is split to fill a step (chunked prefill).")
    preemption: str = Field(
        description="What happens to a running request if the cache is full; none: its cache is reserved in advance."
    )
    prefix_cache: bool
    kv_block_tokens: int
    receive_interval_steps: int
    batch_wait_steps: int
    batch_wait_share: float
    planning_lag_steps: int
    output_reserve_share: float = Field(description="Share of a request's output whose cache is reserved at its start.")
    graph_tokens: int = Field(description="Most tokens of a step with prompts that captured graphs launch.")
    sources: dict[str, str] = Field(description="Files in the engine's repository, by field.")
    read: str = Field(description="Day on which these files were read.")


class SchedulerListed(ResponseModel):
    """An engine with known scheduler defaults. The service assumes the scheduler of vLLM V1 for engines that are not
    listed.
    """

    engine: str
    also_called: list[str]
    judged_as: str | None = Field(description="The underlying engine whose scheduler it uses.")
    versions: list[SchedulingListed] = Field(description="Scheduling rules by version, oldest first.")


class SchedulerList(ListPage[SchedulerListed]):
    """Engines with known scheduler defaults, by name."""


def schedulers_json(_: CatalogIndex) -> list[dict[str, Any]]:
    """Every engine with known scheduler defaults as JSON, by name."""
    return [
        {
            "engine": name,
            "also_called": list(engine.aliases),
            "judged_as": engine.judged_as,
            "versions": versions_json(engine),
        }
        for name, engine in sorted(ENGINES.items())
        if engine.scheduling.read
    ]


def versions_json(engine: Engine) -> list[dict[str, Any]]:
    """An engine's scheduling rules as JSON by first version, oldest first."""
    if not engine.scheduling_since:
        return [scheduling_json(engine.scheduling, None)]
    since = [None, *(".".join(map(str, first)) for first, _ in engine.scheduling_since[1:])]
    return [scheduling_json(rule, first) for first, (_, rule) in zip(since, engine.scheduling_since, strict=True)]


def scheduling_json(rule: Scheduling, since: str | None) -> dict[str, Any]:
    same = {name: getattr(rule, name) for name in SchedulingListed.model_fields if name != "since"}
    return same | {
        "since": since,
        "steps": sizes_json(rule.steps),
        "steps_of": {family: sizes_json(sizes) for family, sizes in rule.steps_of.items()},
        "sources": dict(rule.sources),
    }


def sizes_json(sizes: Sequence[StepSize]) -> list[dict[str, Any]]:
    return [asdict(size) | {"offline_max_batched_tokens": size.offline_tokens} for size in sizes]
