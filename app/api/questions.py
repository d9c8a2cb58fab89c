"""Turns a request into a question for the sizing core: resolves names, checks contradictions, reads the model and its
format.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from app.api.contradictions import check_constraints, check_deployment
from app.api.deps import resolve_model
from app.api.naming import resolve_estimate_names, resolve_recommend_names
from app.api.phases import check_phase, check_units
from app.api.recipes import check_recipe
from app.api.schedulers import check_scheduler
from app.api.schemas.requests import EstimateRequest, RecommendRequest, requested_assumptions
from app.api.schemas.workload import InferenceSpec
from app.catalog.directory import CatalogIndex
from app.catalog.names import formats_in_name, quote_name
from app.catalog.snapshot import CatalogStore
from app.errors import Unanswerable
from app.sizing.assumptions import Assumptions
from app.sizing.model.architecture import ModelKind
from app.sizing.product_names import format_name
from app.sizing.question import Deployment, Question
from app.sizing.workload import InferenceWorkload
from app.sizing.workload.companions import Companion


def build_recommend_question(
    request: RecommendRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> Question:
    """Returns the question of a recommend request with catalog names. Raises every error of the request."""
    check_phase(request)
    named, by_pattern = resolve_recommend_names(request, catalog_index)
    check_constraints(named.constraints, request.constraints, by_pattern, catalog_index)
    assumed = requested_assumptions(named)
    model = resolve_model(named.workload.model, catalog_store, assumed)
    check_units(named.workload, model)
    question = named.to_question(model, assumed, today)
    question = replace(question, constraints=replace(question.constraints, by_pattern=by_pattern))
    question = replace(question, companions=resolve_companions(request, catalog_store, assumed))
    return with_format_from_name(question, named)


def build_estimate_question(
    request: EstimateRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> tuple[Question, Deployment]:
    """Returns the question and the deployment of an estimate request with catalog names. Raises every error of the
    request.
    """
    check_phase(request)
    check_recipe(request)
    check_scheduler(request)
    named = resolve_estimate_names(request, catalog_index)
    check_deployment(named.deployment, catalog_index)
    assumed = requested_assumptions(named)
    model = resolve_model(named.workload.model, catalog_store, assumed)
    check_units(named.workload, model, named.deployment)
    question = with_format_from_name(named.to_question(model, assumed, today), named)
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
        companions[name] = Companion(name, spec.to_inference_spec.to_workload(model, assumed))
    return tuple(companions.values())


def with_format_from_name(question: Question, request: RecommendRequest | EstimateRequest) -> Question:
    """Returns the question with the weight format that the model's name implies, unless the request sets one.

    "TheBloke/Llama-2-70B-AWQ" is served in int4-awq.
    """
    name, workload = request.workload.model, question.workload
    if not isinstance(name, str) or not isinstance(workload, InferenceWorkload):
        return question
    named = question.constraints.weight_formats or (
        isinstance(request, EstimateRequest) and request.deployment.weight_format is not None
    )
    if named or workload.model.kind is ModelKind.SAMPLES:
        return question
    formats = formats_in_name(name)
    if not formats:
        return question
    note = f"weight format {' or '.join(map(format_name, formats))} taken from the model name"
    updated = replace(workload, model=replace(workload.model, assumed=(*workload.model.assumed, note)))
    return replace(question, workload=updated, constraints=replace(question.constraints, weight_formats=formats))
