"""Turns requests into questions for the sizing core: resolves names, checks fields, applies merge patches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.checks import check_constraints, check_deployment, check_phase, check_recipe, check_scheduler, check_units
from app.api.deps import resolve_model
from app.api.merge_patch import Part, apply_merge_patch
from app.api.naming import resolve_estimate_names, resolve_recommend_names
from app.api.problems import UNKNOWN_FIELD, validation_errors
from app.api.schemas.compare import CompareRequest
from app.api.schemas.inventory import InventorySpec
from app.api.schemas.model import ConfigModel
from app.api.schemas.private import StoredHardware
from app.api.schemas.requests import EstimateRequest, InferenceSpec, RecommendRequest, requested_assumptions
from app.catalog.holdings import NOTHING_HELD, Holdings
from app.catalog.names import engine_slug, formats_in_name, quantization_in_name, quote_name
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError, Unanswerable, moved_pointers
from app.export.lines import FILING_FIELDS
from app.sizing.assumptions import Assumptions
from app.sizing.hardware.checkpoints import WIDE_CACHE
from app.sizing.hardware.support.builds import BUILDS
from app.sizing.model.architecture import ModelArchitecture, ModelKind
from app.sizing.model.formats import SIXTEEN_BIT
from app.sizing.outcomes import Option
from app.sizing.question import LARGEST_MODEL, Deployment, LoadUnit, Question, SoughtLoad
from app.sizing.words import format_name
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload
from app.sizing.workload.inference import Companion


def index_on_day(
    catalog_index: CatalogIndex, as_of: date | None, today: date, holdings: Holdings = NOTHING_HELD
) -> CatalogIndex:
    """Returns the catalog with the prices of a request's day and tenant. Raises Unanswerable before the oldest rent."""
    day = (as_of or today).isoformat()
    try:
        return catalog_index.on_day(day).with_holdings(holdings, day)
    except Unanswerable as error:
        error.facts["errors"] = [{"pointer": "#/as_of", "detail": error.detail}]
        raise


SERVERS, TRAINERS = (
    frozenset(name for name, builds in BUILDS.items() if any(getattr(build, does) for build in builds))
    for does in ("serves", "trains")
)


def complete_request(request: RecommendRequest, holdings: Holdings) -> RecommendRequest:
    """Returns the request with the stored inventory, and without rents where no limit would bound them. Raises
    Unanswerable if only an inventory counts and there is none.
    """
    request = with_stored_inventory(request, holdings)
    if request.constraints.inventory == "only" and not request.inventory:
        detail = (
            "constraints.inventory is only, but inventory lists no hardware: list or store yours, or set it to first."
        )
        raise Unanswerable(detail, errors=[{"pointer": "#/constraints/inventory", "detail": detail}])
    return request if request.maximize is None else with_limited_rents(request)


def with_limited_rents(request: RecommendRequest) -> RecommendRequest:
    """Returns the request with purchases alone if a purchase budget is its only limit: with rents, there would be no
    largest load. Raises Unanswerable if the request allows only rents.
    """
    asked = request.constraints
    if not asked.limits_purchases_alone:
        return request
    if (asked.pricing_models and "owned" not in asked.pricing_models) or asked.environments == ["cloud"]:
        detail = "max_purchase_usd does not limit rents. Set max_usd_per_hour, or allow purchases."
        raise Unanswerable(detail, errors=[{"pointer": "#/constraints/max_purchase_usd", "detail": detail}])
    bought = asked.model_copy(update={"pricing_models": ["owned"], "commitment": "none"})
    return request.model_copy(update={"constraints": bought})


def with_stored_inventory(request: RecommendRequest, holdings: Holdings) -> RecommendRequest:
    """Returns the request with the free hardware that its tenant has stored, unless it has an inventory of its own or
    ignores the stored one. So the stored answer and its id contain the inventory that was used. Machines whose engines
    do no work of this phase are left out, and limit nothing.
    """
    if not holdings.inventory or request.inventory or request.constraints.inventory == "ignore":
        return request
    wanted = {engine_slug(name) for name in request.constraints.engines}
    bodies = map(orjson.dumps, holdings.inventory.values())
    records = [StoredHardware.model_validate_json(body, strict=True) for body in bodies]
    able = wanted or (SERVERS if request.workload.phase == "inference" else TRAINERS)
    usable = [record for record in records if not record.engines or able & {*record.engines}]
    entries = [InventorySpec(**entry) for record in usable if (entry := record.to_request()) is not None]
    changes: dict[str, Any] = {"inventory": entries}
    limited = [{*record.engines} for record in usable if record.engines and record.free != 0]
    if limited and not wanted:
        shared = sorted(set.intersection(*limited))
        if not shared:
            detail = "Your stored machines may run different engines. Name the engines that you want to use."
            raise Unanswerable(detail, errors=[{"pointer": "#/constraints/engines", "detail": detail}])
        changes["constraints"] = request.constraints.model_copy(update={"engines": shared})
    return request.model_copy(update=changes) if entries else request


def capacity_since(request: RecommendRequest, today: date) -> str | None:
    """Returns the moment since which rents must have been seen with capacity; None if the request does not limit that.
    Moments count from the current hour, or from the end of a fixed day.

    Raises Unanswerable for a past day, whose capacity is not kept.
    """
    hours = request.constraints.available_within_hours
    if hours is None:
        return None
    if request.as_of is not None and request.as_of < today:
        raise refuse_capacity("available_within_hours is about capacity now. Omit it, or omit as_of.")
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    if now.date() != today:
        now = datetime(today.year, today.month, today.day, tzinfo=UTC) + timedelta(days=1)
    return (now - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def refuse_capacity(detail: str) -> Unanswerable:
    """Returns the error for a request for capacity that cannot be judged."""
    pointer = {"pointer": "#/constraints/available_within_hours", "detail": detail}
    return Unanswerable(detail, errors=[pointer])


def build_recommend_question(
    request: RecommendRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> Question:
    """Returns the question of a recommend request with catalog names. Raises every error of the request."""
    check_phase(request)
    named, by_pattern, inventory = resolve_recommend_names(request, catalog_index)
    check_constraints(named.constraints, request.constraints, by_pattern, catalog_index)
    assumed = requested_assumptions(named)
    model = resolve_model(named.workload.model, catalog_store, assumed)
    check_units(named.workload, model)
    question = named.to_question(model, assumed, today)
    named_countries = (catalog_index.find_countries(name) for name in request.constraints.regions)
    countries = tuple(sorted(frozenset[str]().union(*named_countries)))
    since = capacity_since(request, today)
    if since is not None and catalog_index.catalog.capacity is None and not inventory:
        raise refuse_capacity(
            "No price feed has reported capacity, so available_within_hours would exclude every offer. Omit it, or "
            "sync a feed that reports capacity: docs/prices.md lists them."
        )
    limits = replace(question.constraints, by_pattern=by_pattern, countries=countries, available_since=since)
    question = replace(question, constraints=limits, inventory=inventory)
    question = replace(question, companions=resolve_companions(request, catalog_store, assumed))
    question = replace(question, largest=sought_load(named, question, model))
    return with_own_format(question, named)


def sought_load(request: RecommendRequest, question: Question, model: ModelArchitecture) -> SoughtLoad | None:
    """Returns the load to maximize, with the load of the request that is scaled; None if the request seeks no load.
    Raises Unanswerable if the request has no such load or no limit.
    """
    if request.maximize is None:
        return None
    seeks_model = request.maximize == LARGEST_MODEL
    load = None if seeks_model else requested_load(request, question)
    detail = ""
    if load is None and not seeks_model:
        unit = LoadUnit(request.maximize)
        needed = {
            LoadUnit.REQUESTS: "traffic with a rate, users or classes",
            LoadUnit.USERS: "traffic.users, or traffic.concurrent_requests without traffic.requests",
            LoadUnit.TOKENS: "phase training or fine_tuning, in tokens",
        }
        detail = f"maximize {unit.value} requires {needed[unit]}."
    elif not request.is_limited:
        sought = "model" if seeks_model else "load"
        detail = (
            f"Without a limit there is no largest {sought}. Set max_usd_per_hour, max_purchase_usd, max_power_kw, "
            "max_carbon_kg or max_accelerators in constraints, or an inventory."
        )
    if detail:
        raise Unanswerable(detail, errors=[{"pointer": "#/maximize", "detail": detail}])
    if load is None:
        return None
    asked, spec = question.workload, request.workload

    def workload_at(times: float) -> InferenceWorkload | TrainingWorkload:
        if isinstance(asked, TrainingWorkload):
            return replace(asked, units=asked.units * times)
        if asked.trace is not None or not isinstance(spec, InferenceSpec):
            return asked.scale_load(times)
        return replace(spec.with_load(times).to_workload(model, question.assumptions), model=asked.model)

    return SoughtLoad(LoadUnit(request.maximize), load, workload_at)


def requested_load(request: RecommendRequest, question: Question) -> float | None:
    """Returns the load of a request in the unit that it maximizes; None if it has no such load."""
    unit, workload, spec = request.maximize, question.workload, request.workload
    if isinstance(workload, TrainingWorkload):
        return workload.units if unit == LoadUnit.TOKENS and not workload.in_samples else None
    if not isinstance(spec, InferenceSpec):
        return None
    if unit == LoadUnit.USERS and spec.traffic.users is not None:
        return spec.traffic.users.count
    if unit == LoadUnit.USERS and workload.load is Load.CLOSED and workload.requests is None:
        return workload.in_flight
    return workload.peak_per_s if unit == LoadUnit.REQUESTS and workload.load is Load.OPEN else None


def build_estimate_question(
    request: EstimateRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> tuple[Question, Deployment]:
    """Returns question and deployment of an estimate request with catalog names. Raises all errors of the request."""
    check_phase(request)
    check_recipe(request)
    check_scheduler(request)
    named = resolve_estimate_names(request, catalog_index)
    check_deployment(named.deployment, catalog_index)
    assumed = requested_assumptions(named)
    model = resolve_model(named.workload.model, catalog_store, assumed)
    check_units(named.workload, model, named.deployment)
    question = with_own_format(named.to_question(model, assumed, today), named)
    question = replace(question, companions=resolve_companions(request, catalog_store, assumed))
    return question, named.deployment.to_deployment()


def resolve_companions(
    request: RecommendRequest | EstimateRequest, catalog_store: CatalogStore, assumed: Assumptions
) -> tuple[Companion, ...]:
    """Returns the models that share the accelerators with the main model, under unique names."""
    if not isinstance(request.workload, InferenceSpec):
        return ()
    companions: dict[str, Companion] = {}
    for i, spec in enumerate(request.workload.companions):
        pointer = f"#/workload/companions/{i}"
        model = resolve_model(spec.model, catalog_store, assumed, pointer=f"{pointer}/model")
        check_units(spec.to_inference_spec, model, at=pointer)
        name = spec.name or model.name
        if name in companions:
            detail = f"Two companions have the name {quote_name(name)}. Give each a unique name."
            raise Unanswerable(detail, errors=[{"pointer": f"{pointer}/name", "detail": detail}])
        with moved_pointers("#/workload/", f"{pointer}/"):
            companions[name] = Companion(name, spec.to_inference_spec.to_workload(model, assumed))
    return tuple(companions.values())


FP8_CACHE_OWNER, FP8_CACHE_FORMATS = "nvidia/", ("fp8", "nvfp4")


def states_fp8_cache(name: str, formats: tuple[str, ...]) -> bool:
    """Returns whether a checkpoint of this name and weight format states an FP8 cache.

    NVIDIA publishes its FP8 and NVFP4 checkpoints with ModelOpt's `kv_cache_quant_algo`. Those of compressed-tensors
    with a `kv_cache_scheme` are named FP8-KV; those of Quark with that name need the engine's option.

    Source: NVIDIA/Model-Optimizer@a2fbac7b:examples/hf_ptq/hf_ptq.py, --kv_cache_qformat is fp8_cast by default,
    2026-11-26.
    """
    typed = name.lower()
    named = typed.startswith(FP8_CACHE_OWNER) and typed not in WIDE_CACHE
    states = named or (typed.endswith("fp8-kv") and not typed.startswith("amd/"))
    return states and formats[0] in FP8_CACHE_FORMATS


def with_own_format(question: Question, request: RecommendRequest | EstimateRequest) -> Question:
    """Returns the question with the weight format of the checkpoint, unless the request sets one: the format that the
    model's name implies, or that of a pasted quantized configuration.

    "TheBloke/Llama-2-70B-AWQ" is served in int4-awq.
    """
    reference, workload = request.workload.model, question.workload
    if not isinstance(workload, InferenceWorkload) or workload.model.kind is ModelKind.SAMPLES:
        return question
    if question.constraints.weight_formats or (
        isinstance(request, EstimateRequest) and request.deployment.weight_format is not None
    ):
        return question
    formats: tuple[str, ...] = ()
    origin = ""
    if isinstance(reference, str):
        own = (workload.model.native_format,) if quantization_in_name(reference) else ()
        formats, origin = formats_in_name(reference) or own, "the model name"
    elif isinstance(reference, ConfigModel) and workload.model.native_format not in SIXTEEN_BIT:
        formats, origin = (workload.model.native_format,), "the pasted configuration"
    if not formats:
        return question
    if states_fp8_cache(reference if isinstance(reference, str) else workload.model.name, formats):
        workload = replace(workload, model=replace(workload.model, cache_format="fp8"))
    note = f"weight format {' or '.join(map(format_name, formats))} taken from {origin}"
    updated = replace(workload, model=replace(workload.model, assumed=(*workload.model.assumed, note)))
    return replace(question, workload=updated, constraints=replace(question.constraints, weight_formats=formats))


SHARED_FIELDS = ("economics", "assumptions", "as_of")
PHASES, WORKLOAD = "#/phases/", "/workload"


@dataclass(frozen=True, slots=True)
class RequestedOption:
    """One option of a comparison: its JSON pointer, its own fields, the full request and the core's question."""

    pointer: str
    own: Mapping[str, Any]
    request: RecommendRequest | EstimateRequest
    option: Option


def build_options(
    document: Part,
    request: CompareRequest,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    holdings: Holdings = NOTHING_HELD,
) -> list[RequestedOption]:
    """Returns every option as a complete question. Errors carry the pointer into the compare request."""
    options = []
    for pointer, name, own, body in _option_bodies(document, request):
        model = EstimateRequest if "deployment" in body else RecommendRequest
        try:
            whole = model.model_validate_json(orjson.dumps(body), strict=True)
            if isinstance(whole, EstimateRequest):
                option = Option(name, *build_estimate_question(whole, catalog_index, catalog_store, today))
            else:
                whole = complete_request(whole, holdings)
                option = Option(name, build_recommend_question(whole, catalog_index, catalog_store, today))
        except ValidationError as error:
            errors = relocate_errors(validation_errors(error.errors(include_url=False), body, model), pointer, own)
            detail = f"{quote_name(name)}: {errors[0]['detail']}"
            raise Unanswerable(detail, errors=errors) from None
        except AppError as error:
            raise option_error(error, name, pointer, own) from None
        options.append(RequestedOption(pointer, own, whole, option))
    return options


def _option_bodies(document: Part, request: CompareRequest) -> Iterator[tuple[str, str, Part, Part]]:
    """Yields pointer, name, own fields and complete request body of each option."""
    shared = {name: document[name] for name in SHARED_FIELDS if name in document}
    limits = document.get("constraints", {})
    of_best = {"objective": document.get("objective", "cost")}
    of_best |= {name: document[name] for name in (*FILING_FIELDS, "include") if name in document}
    if request.phases is not None:
        for phase, part in document["phases"].items():
            if part is not None:
                body = {**shared, **of_best, "constraints": limits}
                yield (
                    f"#/phases/{phase}",
                    phase,
                    {"workload": part},
                    {
                        **body,
                        "workload": {**part, "phase": phase, "model": document["model"]},
                    },
                )
        return
    for i, own in enumerate(document["options"]):
        workload = apply_merge_patch(document["workload"], own.get("workload", {}))
        if own.get("deployment") is None:
            body = {**of_best, "constraints": apply_merge_patch(limits, own.get("constraints", {}))}
            body |= {"objective": own["objective"]} if own.get("objective") else {}
        else:
            sure = {name: limits[name] for name in ("confidence",) if name in limits}
            body = {"constraints": apply_merge_patch(sure, own.get("constraints", {})), "deployment": own["deployment"]}
        yield f"#/options/{i}", own["name"], own, {**shared, **body, "workload": workload}


def option_error(error: AppError, name: str, pointer: str, own: Mapping[str, Any]) -> AppError:
    """Returns an error of one option with its pointers rewritten to the compare request."""
    errors = relocate_errors(error.facts.get("errors", []), pointer, own) or [
        {"pointer": pointer, "detail": error.detail}
    ]
    return type(error)(f"{quote_name(name)}: {error.detail}", **{**error.facts, "errors": errors})


def relocate_errors(errors: list[dict[str, str]], pointer: str, own: Mapping[str, Any]) -> list[dict[str, str]]:
    """Rewrites error locations to where the caller wrote the value: in the option itself, or in the shared part."""
    moved = [(e, _relocate_pointer(e["pointer"], pointer, own)) for e in errors]
    return [
        {
            **e,
            "pointer": place,
            "detail": e["detail"].replace(f"{UNKNOWN_FIELD} {e['pointer']}", f"{UNKNOWN_FIELD} {place}"),
        }
        for e, place in moved
    ]


def _relocate_pointer(where: str, pointer: str, own: Mapping[str, Any]) -> str:
    """Returns the pointer in the compare request that corresponds to a pointer in one option's question."""
    path = where.removeprefix("#")
    if pointer.startswith(PHASES):
        return f"{pointer}{path.removeprefix(WORKLOAD)}" if path.startswith(WORKLOAD) else where
    return f"{pointer}{path}" if _has_path(own, path) else where


def _has_path(own: Mapping[str, Any], path: str) -> bool:
    """True if the option itself contains the value at `path`."""
    node: Any = own
    for step in path.split("/")[1:]:
        if isinstance(node, list) and step.isdigit() and int(step) < len(node):
            node = node[int(step)]
        elif isinstance(node, dict) and step in node:
            node = node[step]
        else:
            return False
    return True
