"""The largest language model that the limits of a request can serve or train, in a stated order of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from app.api.deps import resolve_model
from app.api.questions import build_recommend_question
from app.api.schemas.requests import RecommendRequest
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError
from app.sizing.inventory import stocked_catalog
from app.sizing.question import LARGEST_MODEL, Question
from app.sizing.recommend import is_feasible
from app.sizing.result import LargestLoad
from app.sizing.whatif.limits import find_feasible_plans

LANGUAGE_MODELS = ("text", "vision-language")  # modalities of models that generate text
RECENT = timedelta(days=730)  # smaller models of today are better than the largest ones from before
UNRELEASED = ("not released", "closed (paper only)")  # licenses of models without public weights


def list_language_models(catalog_store: CatalogStore) -> list[Mapping[str, Any]]:
    """Returns the registry entries of language models with public weights, those with the most parameters first."""
    entries = catalog_store.model_entries()
    known = [f for f in entries if f["modality"] in LANGUAGE_MODELS and f.get("licence") not in UNRELEASED]
    return sorted(known, key=lambda facts: (-facts["total_params"], facts["hf_id"]))


def with_largest_model(
    request: RecommendRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> tuple[RecommendRequest, LargestLoad | None]:
    """Returns the request about the first model in order that the limits allow, and that model; itself and None if the
    request does not ask for it or no model meets the limits. Sent again, the changed request is about the same model.

    Raises UnknownModel for a model of the request's own list.
    """
    if request.maximize != LARGEST_MODEL:
        return request, None
    own = build_recommend_question(request, catalog_index, catalog_store, today)  # raises the errors of the request
    for i, name in enumerate(request.models):
        resolve_model(name, catalog_store, own.assumptions, pointer=f"#/models/{i}")
    oldest = (date.fromisoformat(own.today) - RECENT).isoformat()
    recent = (f["hf_id"] for f in list_language_models(catalog_store) if f["release_date"] >= oldest)
    names = request.models or [*recent]
    asked = {name: _about_model(request, name) for name in names}
    catalog = catalog_index.catalog
    stocked = stocked_catalog(catalog, own.inventory, own.today) if own.inventory else catalog
    types: tuple[str, ...] | None = None
    if not request.models and not own.inventory:
        # What the smallest model needs is least: types beyond the limits for it are beyond them for every other one.
        smallest = next(_questions([*asked.values()][::-1], catalog_index, catalog_store, today), None)
        found = None if smallest is None else find_feasible_plans(smallest[1], catalog)
        types = () if found is None else found.within(own.constraints).types(catalog)
    for changed, question in _questions([*asked.values()], catalog_index, catalog_store, today):
        if is_feasible(question, catalog, stocked, types):
            model = question.workload.model
            times = model.total_params / own.workload.model.total_params
            return changed, LargestLoad(LARGEST_MODEL, float(model.total_params), times, model.name)
    return request, None


def _about_model(request: RecommendRequest, name: str) -> RecommendRequest:
    workload = request.workload.model_copy(update={"model": name})
    return request.model_copy(update={"workload": workload, "models": [name]})


def _questions(
    requests: list[RecommendRequest], catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> Iterator[tuple[RecommendRequest, Question]]:
    """Yields each request with its question, without models that have no such use or take no sequence of the length."""
    for request in requests:
        try:
            yield request, build_recommend_question(request, catalog_index, catalog_store, today)
        except AppError:
            continue
