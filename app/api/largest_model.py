"""The largest language model that the limits of a request can serve or train, in a stated order of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from typing import Any

from app.api.cost import Scope, search_cpu_s
from app.api.deps import resolve_model
from app.api.questions import build_recommend_question
from app.api.schemas.requests import RecommendRequest
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import AppError
from app.sizing.inventory import stocked_catalog
from app.sizing.question import LARGEST_MODEL, Question
from app.sizing.recommend import is_feasible, is_likely_feasible
from app.sizing.result import LargestLoad, Notice
from app.sizing.whatif.limits import find_feasible_plans
from app.sizing.words import format_count

LANGUAGE_MODELS = ("text", "vision-language")  # modalities of models that generate text
RECENT = timedelta(days=730)  # smaller models of today are better than the largest ones from before
UNRELEASED = ("not released", "closed (paper only)")  # licenses of models without public weights


def list_language_models(catalog_store: CatalogStore) -> list[Mapping[str, Any]]:
    """Returns the registry entries of language models with public weights, those with the most parameters first."""
    entries = catalog_store.model_entries()
    known = [f for f in entries if f["modality"] in LANGUAGE_MODELS and f.get("licence") not in UNRELEASED]
    return sorted(known, key=lambda facts: (-facts["total_params"], facts["hf_id"]))


# CPU seconds on the machine that measured docs/held.md: of a search by formulas for one class of traffic, and of all
# searches together with the answer. A simulation takes about as long as CONFIRMED searches by formulas.
SEARCH_S, MOST_S, CONFIRMED = 0.011, 1.45, 10
LEAST_SEARCHES, FURTHER_SEARCHES = 8, 15  # in order, and among models up to the likely size
MOST_CONFIRMED = 3  # of the latter models, those that are simulated


def with_largest_model(
    request: RecommendRequest, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> tuple[RecommendRequest, LargestLoad | None, tuple[Notice, ...]]:
    """Returns the request about the first model in order that the limits allow, that model, and which models were left
    out; itself and None if the request does not ask for it or no model meets the limits. Sent again, the changed
    request is about the same model.

    Raises UnknownModel for a model of the request's own list.
    """
    if request.maximize != LARGEST_MODEL:
        return request, None, ()
    own = build_recommend_question(request, catalog_index, catalog_store, today)  # raises the errors of the request
    oldest = (date.fromisoformat(own.today) - RECENT).isoformat()
    sizes = {
        name: resolve_model(name, catalog_store, own.assumptions, pointer=f"#/models/{i}").active_params
        for i, name in enumerate(request.models)
    } or {f["hf_id"]: f["active_params"] for f in list_language_models(catalog_store) if f["release_date"] >= oldest}
    asked = [_about_model(request, name) for name in sizes]
    catalog = catalog_index.catalog
    stocked = stocked_catalog(catalog, own.inventory, own.today) if own.inventory else catalog

    @cache
    def question_about(place: int) -> Question | None:
        """Returns the question, unless the model has no such use or takes no sequence of the length."""
        try:
            return build_recommend_question(asked[place], catalog_index, catalog_store, today)
        except AppError:
            return None

    types: tuple[str, ...] | None = None
    if not request.models and not own.inventory:
        # What the smallest model needs is least: types beyond the limits for it are beyond them for every other one.
        smallest = next(filter(None, map(question_about, reversed(range(len(asked))))), None)
        found = None if smallest is None else find_feasible_plans(smallest, catalog)
        types = () if found is None else found.within(own.constraints).types(catalog)

    def is_likely(place: int) -> bool | None:
        question = question_about(place)
        return None if question is None else is_likely_feasible(question, catalog, stocked, types)

    def is_met(place: int) -> bool:
        question = question_about(place)
        return question is not None and is_feasible(question, catalog, stocked)

    place, judged = find_first([*sizes.values()], is_likely, is_met, searches_allowed(request))
    skipped = [each for i, each in enumerate(sizes) if i not in judged and (place is None or i < place)]
    notices = (_notice_of_skipped(skipped),) if skipped else ()
    question = None if place is None else question_about(place)
    if place is None or question is None:
        return request, None, notices
    model = question.workload.model
    times = model.total_params / own.workload.model.total_params
    return asked[place], LargestLoad(LARGEST_MODEL, float(model.total_params), times, model.name), notices


def searches_allowed(request: RecommendRequest) -> int:
    """Returns how many models are searched in order, as long as the rest of the answer leaves time."""
    traffic = getattr(request.workload, "traffic", None)
    classes = len((traffic.classes if traffic else None) or (0,))
    scope = Scope.of({}, options=request.limit, trace=request.shows_trace)
    return max(LEAST_SEARCHES, int((MOST_S - search_cpu_s(request.workload, scope)) / (SEARCH_S * classes)))


def find_first(
    sizes: Sequence[float], is_likely: Callable[[int], bool | None], is_met: Callable[[int], bool], searches: int
) -> tuple[int | None, set[int]]:
    """Returns the first place that meets a condition, None if none does, and the places that were judged.

    The first places are judged in order. In the others, the largest likely size is found by halves, as if every
    smaller one were likely too, and places up to that size are judged in order.

    Parameters:
        is_likely: whether a place may meet the condition, None if it is to be left out; takes one search.
        is_met: whether it does; takes CONFIRMED searches.
        searches: those that are made in order.
    """
    likely = cache(is_likely)
    judged, place = set[int](), 0
    while place < len(sizes) and searches > 0:
        judged.add(place)
        if likely(place) and is_met(place):
            return place, judged
        searches -= 1 + (CONFIRMED if likely(place) else 0)
        place += 1
    left = sorted(range(place, len(sizes)), key=lambda each: -sizes[each])
    low, high = 0, len(left)
    while low < high:
        middle = (low + high) // 2
        judged.add(left[middle])
        answer = likely(left[middle])
        if answer is None:
            del left[middle]
            high -= 1
        else:
            low, high = (low, middle) if answer else (middle + 1, high)
    met = cache(is_met)
    for place in dict.fromkeys([*sorted(left[low:])[:FURTHER_SEARCHES], *left[low : low + 1]]):
        judged.add(place)
        if likely(place) and met.cache_info().misses < MOST_CONFIRMED and met(place):
            return place, judged
    return None, judged


def _notice_of_skipped(names: Sequence[str]) -> Notice:
    text = (
        f"{format_count(len(names), 'model')} were not searched, {names[0]} first, because each search of this request "
        "takes long. List fewer `models` to search all of them."
    )
    return Notice("models_not_searched", text)


def _about_model(request: RecommendRequest, name: str) -> RecommendRequest:
    workload = request.workload.model_copy(update={"model": name})
    return request.model_copy(update={"workload": workload, "models": [name]})
