"""Builds, identifies, stores and reprices answers, and fits them into their size limit."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from itertools import accumulate
from typing import Any

import orjson
from pydantic import ValidationError

from app.api.doubts import input_warnings
from app.api.largest_model import with_largest_model
from app.api.questions import (
    build_estimate_question,
    build_recommend_question,
    capacity_since,
    complete_request,
    index_on_day,
)
from app.api.schemas.answers import NoticeShown
from app.api.schemas.conversion import answer_json, estimate_json, fleet_json
from app.api.schemas.filing import estimate_supply, lots_json, supply_json
from app.api.schemas.repricing import MachinesToday
from app.api.schemas.requests import EstimateRequest, RecommendRequest
from app.catalog.filing import Filing
from app.catalog.holdings import NOTHING_HELD, Holdings
from app.catalog.recommendations import StoredAnswer, TenantAnswers
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.compiled import engine_version
from app.db import PUBLIC
from app.errors import AppError, Unanswerable
from app.export.lines import FILING_FIELDS, MIXED_FLEET, Bill, Settlement, build_bill, option_title
from app.sizing.assumptions import names_in
from app.sizing.decisions.machines import with_relevant_measurements
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.listings import INVENTORY
from app.sizing.inventory import catalog_of_answer
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Answer, Estimate
from app.sizing.snapshot import Catalog
from app.sizing.whatif.mixed import at_share
from app.work import stage

MAX_BYTES = 29_999
# Bytes of the echoed request that count towards MAX_BYTES. A larger request, such as a pasted model configuration, and
# the caller's own labels come on top.
LARGEST_REQUEST_COUNTED = 2_000
DEFAULT_LIMIT: int = RecommendRequest.model_fields["limit"].default
OMITTED_COUNT_BYTES = len(b',"assumptions_omitted":100')
WHOLE_RANKS = 3
REJECTIONS_SHOWN, FEWER_REJECTIONS, FEWEST_REJECTIONS = 12, 10, 8
FEWEST_CHEAPER, MAX_CHEAPER_DROPPED = 2, 6
FAILURE_INTERVALS = 6
COMPARISON_CODES = ("comparison",)
ALWAYS_KEPT_CODES = ("memory", "published_use", *COMPARISON_CODES)
ASSUMPTION_AREAS = ("answer", "day", "hardware", "machine", "serving", "training", "decisions")
# Assumptions that the page offers knobs for; it needs them with their ranges.
PAGE_KNOBS = ("target_utilization", "confidence", "horizon_months", "electricity_usd_per_kwh", "pue")
# Assumptions, least decisive first. GET /catalog/assumptions lists their default values.
ASSUMPTION_ORDER = tuple(
    name for area in ASSUMPTION_AREAS for name in reversed(names_in(area)) if name not in PAGE_KNOBS
)

Document = dict[str, Any]


def json_bytes(document: Any) -> bytes:
    return orjson.dumps(document)


def fit_to_size(document: Document) -> bytes:
    """Returns the answer as JSON within 30 KB, reduced step by step until it fits. A request for more than the default
    number of options has room for as much about each of them, and so has a mixed fleet.
    """
    counted = {name: value for name, value in document["request"].items() if name not in FILING_FIELDS}
    words, rest = len(json_bytes(document["request"])) - len(json_bytes(counted)), len(json_bytes(counted))
    options = max(DEFAULT_LIMIT, document["request"].get("limit", DEFAULT_LIMIT)) + ("mixed_fleet" in document)
    room = MAX_BYTES * options // DEFAULT_LIMIT + words + max(0, rest - LARGEST_REQUEST_COUNTED)
    leaner = list(accumulate(STEPS, lambda found, step: step(found), initial=document))
    first = bisect_left(leaner, -room, key=lambda found: -len(json_bytes(found)))
    document = leaner[min(first, len(leaner) - 1)]
    for step in (
        _drop_entries(_default_assumptions, room),
        *LAST_STEPS,
        _drop_entries(lambda answer: answer["rejected"][::-1], room),
        _for_ranks_after(_keep_comparison_reasons, after=1),
        _for_ranks_after(_without_bill, after=0),
    ):
        body = json_bytes(document)
        if len(body) <= room:
            return body
        document = step(document)
    return json_bytes(document)


def _drop_entries(droppable: Callable[[Document], list[Document]], room: int) -> Callable[[Document], Document]:
    """Returns a step that drops as many entries of a list as necessary."""

    def drop_excess(document: Document) -> Document:
        excess = len(json_bytes(document)) + OMITTED_COUNT_BYTES - room
        drop: set[int] = set()
        for entry in droppable(document):
            if excess <= 0:
                break
            drop.add(id(entry))
            excess -= len(json_bytes(entry)) + 1
        kept = {key: [e for e in document[key] if id(e) not in drop] for key in ("assumptions", "rejected")}
        omitted = len(document["assumptions"]) - len(kept["assumptions"])
        return {**document, **kept, **({"assumptions_omitted": omitted} if omitted else {})}

    return drop_excess


def _default_assumptions(document: Document) -> list[Document]:
    usual = {a["name"]: a for a in document["assumptions"] if not a["asked"]}
    return [usual[name] for name in ASSUMPTION_ORDER if name in usual]


def _for_ranks_after(change: Callable[[Document], Document], *, after: int) -> Callable[[Document], Document]:
    """Returns a step that changes every rank below the first `after` ranks."""

    def change_ranks(document: Document) -> Document:
        ranks = document["recommendations"]
        return {**document, "recommendations": [*ranks[:after], *map(change, ranks[after:])]}

    return change_ranks


def _limit_rejections(most: int) -> Callable[[Document], Document]:
    return lambda document: {**document, "rejected": document["rejected"][:most]}


def _reasons(keeps: Callable[[str], bool]) -> Callable[[Document], Document]:
    """Returns a step that keeps the reasons whose code `keeps` accepts; POST /estimate returns the others."""
    return lambda option: {
        **option,
        "explanation": [reason for reason in option["explanation"] if keeps(reason["code"])],
    }


def _without_measurements(option: Document) -> Document:
    """Removes the published measurements nearest to the option; POST /estimate returns them."""
    return {**option, "nearest_measurements": []}


def _without_bill(option: Document) -> Document:
    """Removes the cost lines; POST /estimate returns them."""
    return {**option, "cost": {**option["cost"], "parts": None}}


def _without_other_levels(option: Document) -> Document:
    """Keeps the requested confidence level only; POST /estimate returns the others."""
    sure = option["confidence"]
    asked = [level for level in sure["by_level"] if level["confidence"] == sure["asked"]]
    return {**option, "confidence": {**sure, "by_level": asked}}


def _without_certainty_bill(option: Document) -> Document:
    """Removes the bill of certainty and its sentence; POST /estimate returns them."""
    reasons = [reason for reason in option["explanation"] if reason["code"] != "bill"]
    sure = {key: value for key, value in option.get("confidence", {}).items() if key != "bill"}
    return {**option, "explanation": reasons, **({"confidence": sure} if sure else {})}


def _without_means(option: Document) -> Document:
    """Removes the intervals of means that accompany those of medians; POST /estimate returns them."""
    speed = option.get("performance", {})
    kept = [i for i in speed.get("intervals", []) if "statistic" in i or not i["quantity"].endswith("_ms")]
    return {**option, "performance": {**speed, "intervals": kept}} if "intervals" in speed else option


def _thin_failure_minutes(parts: int) -> Callable[[Document], Document]:
    """Returns a step that thins each failure to about `parts` intervals with both ends; POST /estimate returns all."""

    def thin_minutes(minutes: list[Document]) -> list[Document]:
        return [*minutes[: -1 : max(1, -(-len(minutes) // parts))], minutes[-1]]

    def thin_failures(option: Document) -> Document:
        day = option.get("day")
        if day is None:
            return option
        losses = [{**loss, "minutes": thin_minutes(loss["minutes"])} for loss in day["failures"]]
        return {**option, "day": {**day, "failures": losses}}

    return thin_failures


def _halve_load_curve(option: Document) -> Document:
    """Keeps every other point of the load curve, including both ends; POST /estimate returns all."""
    speed = option.get("performance", {})
    curve = speed.get("load_curve")
    if not curve:
        return option
    points = curve["points"]
    kept = [*points[:-1:2], points[-1]]
    return {**option, "performance": {**speed, "load_curve": {**curve, "points": kept}}}


def _without(name: str) -> Callable[[Document], Document]:
    """Returns a step that removes a part: the OpenAPI document explains the metrics, NOTICE credits all sources, and
    POST /estimate returns the alternatives.
    """
    return lambda document: {key: value for key, value in document.items() if key != name}


def _without_detail(part: str, name: str) -> Callable[[Document], Document]:
    """Returns a step that removes a member of a part of an option, if it has the part; POST /estimate returns it."""
    return lambda option: {**option, part: _without(name)(option[part])} if option.get(part) else option


_keep_essential_reasons = _reasons(ALWAYS_KEPT_CODES.__contains__)
_keep_comparison_reasons = _reasons(COMPARISON_CODES.__contains__)
_without_placement = _reasons(lambda code: code != "placement")  # the redundancy is the same for all ranks
_without_intervals = _without_detail("performance", "intervals")
_without_scheduler = _without_detail("deployment", "scheduler")  # the defaults of the engine


def _without_assumption_reasons(document: Document) -> Document:
    """Removes the reasons and ranges of assumed values; GET /catalog/assumptions lists them."""

    def shorten(assumed: Document) -> Document:
        if assumed["source"].startswith("assumed"):
            assumed = {**assumed, "source": "assumed"}
        kept = assumed["asked"] or assumed["name"] in PAGE_KNOBS
        return assumed if kept else {name: value for name, value in assumed.items() if name != "range"}

    return {**document, "assumptions": [shorten(each) for each in document["assumptions"]]}


def _without_smallest_saving(document: Document) -> Document:
    """Without the entry of `cheaper_if` that saves least, down to the two that save most."""
    cheaper = document.get("cheaper_if") or []
    if len(cheaper) <= FEWEST_CHEAPER:
        return document
    least = min(cheaper, key=lambda entry: entry["saves_share"])
    return {**document, "cheaper_if": [entry for entry in cheaper if entry is not least]}


def _without_far_sizes(document: Document) -> Document:
    """Without the sizes of a run beyond four times its own and the knee of its scaling curve."""
    scaling = document.get("scaling")
    if scaling is None:
        return document
    own = document["recommendations"][0]["deployment"]["total_accelerators"]
    most = 4 * max(own, scaling["knee_accelerators"])
    points = [point for point in scaling["points"] if point["accelerators"] <= most]
    return {**document, "scaling": {**scaling, "points": points}}


def _without_outcomes(document: Document) -> Document:
    """Without the effects of single benchmark results; what decides stays."""
    verification = document.get("verification")
    return {**document, "verification": {**verification, "after": []}} if verification else document


STEPS: tuple[Callable[[Document], Document], ...] = (
    _for_ranks_after(_thin_failure_minutes(FAILURE_INTERVALS), after=0),
    _limit_rejections(REJECTIONS_SHOWN),
    _for_ranks_after(_without_certainty_bill, after=1),
    _for_ranks_after(_without_measurements, after=WHOLE_RANKS),
    _for_ranks_after(_without("alternatives"), after=WHOLE_RANKS),
    _for_ranks_after(_without_bill, after=WHOLE_RANKS),
    _for_ranks_after(_keep_essential_reasons, after=WHOLE_RANKS + 1),
    _for_ranks_after(_keep_essential_reasons, after=WHOLE_RANKS),
    _for_ranks_after(_without_placement, after=1),
    _for_ranks_after(_without_means, after=1),
    _without("metrics"),
    _limit_rejections(FEWER_REJECTIONS),
    _for_ranks_after(_without_other_levels, after=WHOLE_RANKS),
    _for_ranks_after(_without("alternatives"), after=1),
    _without_assumption_reasons,
    _for_ranks_after(_without_scheduler, after=1),
    _for_ranks_after(_without_measurements, after=1),
    _limit_rejections(FEWEST_REJECTIONS),
    _for_ranks_after(_halve_load_curve, after=0),
    _for_ranks_after(_without_means, after=0),
)
LAST_STEPS = (
    _for_ranks_after(_keep_essential_reasons, after=WHOLE_RANKS - 1),
    _for_ranks_after(_without_bill, after=1),
    _for_ranks_after(_keep_essential_reasons, after=1),
    _for_ranks_after(_without_other_levels, after=1),
    _for_ranks_after(_without_intervals, after=1),
    _for_ranks_after(_thin_failure_minutes(1), after=0),
    _for_ranks_after(_halve_load_curve, after=0),
    _without_far_sizes,
    *[_without_smallest_saving] * MAX_CHEAPER_DROPPED,
    _without_outcomes,
    _for_ranks_after(_without_intervals, after=0),
    _without("licenses"),
)


NOT_STORED = {"Headroom-Stored": "false"}


class UnsupportedStoredRequest(Unanswerable):
    """Raised for a stored request that this version of the service no longer accepts."""

    code = "request-no-longer-taken"


def identify_request(
    request: RecommendRequest, snapshot: str, today: date, holdings: Holdings = NOTHING_HELD
) -> tuple[str, bytes]:
    """Returns the id of a recommendation and the canonical request, as JSON bytes.

    The id is a digest of engine, catalog version, day and canonical request. The canonical request contains the fields
    that differ from their defaults, so a default that is spelled out does not change the id. A figure written in
    another way does change it, because answers echo the request as sent. Labels and references are included: each filed
    answer is approved and ordered on its own, although no figure depends on them. The tenant is included for the same
    reason, and the prices quoted to it because figures depend on them; a stored inventory is part of the request.
    """
    explicit, known = request.model_dump(mode="json", exclude_unset=True), RecommendRequest.model_fields
    changed = {name: value for name, value in explicit.items() if value != known[name].default}
    day = (request.as_of or today).isoformat()
    if request.constraints.available_within_hours is not None:
        day += f" {capacity_since(request, today)}"  # such an answer is good for an hour
    canonical = orjson.dumps(changed, option=orjson.OPT_SORT_KEYS)
    is_public = holdings.tenant == PUBLIC and not holdings.digest
    whose = () if is_public else (holdings.tenant.encode(), holdings.digest.encode())
    digest = hashlib.sha256(b"|".join((engine_version().encode(), snapshot.encode(), day.encode(), canonical, *whose)))
    return f"rec_{digest.hexdigest()[:28]}", canonical


def relevant_identity(
    request: RecommendRequest,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    holdings: Holdings,
) -> str:
    """Returns the identity of the catalog that an answer depends on: its version, and the digest of the tenant's
    measurements that can move a prediction of the answer. Raises the errors of the request if there are any.
    """
    if catalog_index.catalog.measured is None:
        return catalog_index.catalog.identity
    dated = index_on_day(catalog_index, request.as_of, today, holdings)
    question = build_recommend_question(request, dated, catalog_store, today)
    return with_relevant_measurements(question, dated.catalog).identity


def load_stored_request(stored: Mapping[str, Any], **changes: Any) -> RecommendRequest:
    """Returns a stored request with `changes`; None removes a field. Raises UnsupportedStoredRequest."""
    fields = {name: value for name, value in {**stored["request"], **changes}.items() if value is not None}
    try:
        return RecommendRequest.model_validate_json(orjson.dumps(fields), strict=True)
    except ValidationError:
        raise UnsupportedStoredRequest(
            "This version of the service no longer accepts the stored request of this answer."
        ) from None


def find_or_compute_answer(
    request: RecommendRequest,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    answers: TenantAnswers,
    today: date,
    holdings: Holdings = NOTHING_HELD,
    *,
    store: bool = True,
) -> StoredAnswer:
    """Returns the stored answer to a request, or computes a new one and stores it, unless `store` is False."""
    request = complete_request(request, holdings)
    relevant = relevant_identity(request, catalog_index, catalog_store, today, holdings)
    identity, canonical = identify_request(request, relevant, today, holdings)
    known = answers.find_answer(identity)
    if known is not None:
        return StoredAnswer(known, stored=True)

    with stage("read"):
        catalog_index = index_on_day(catalog_index, request.as_of, today, holdings)
        which = "first of your models" if request.models else "largest model"
        request, largest, skipped = with_largest_model(request, catalog_index, catalog_store, today)
        question = build_recommend_question(request, catalog_index, catalog_store, today)

    answer = recommend_hardware(question, with_relevant_measurements(question, catalog_index.catalog))
    answer = replace(answer, warnings=(*skipped, *answer.warnings))
    if largest is not None:
        found = f"The {which} within the limits is {largest.model}."
        answer = replace(answer, maximum=largest, summary=f"{found} {answer.summary}")

    return store_answer(request, identity, canonical, question, answer, catalog_index, answers if store else None)


def store_answer(
    request: RecommendRequest,
    identity: str,
    canonical: bytes,
    question: Question,
    answer: Answer,
    catalog_index: CatalogIndex,
    answers: TenantAnswers | None,
) -> StoredAnswer:
    """Builds a new answer and stores it under its id, together with the data that bills of materials need. With None
    for `answers`, it is only built.
    """
    catalog = catalog_of_answer(question, answer, catalog_index.catalog)
    with stage("words"):
        document = answer_json(
            answer,
            identity=identity,
            created_at=catalog.created_at,
            catalog=catalog_json(catalog),
            as_of=question.today,
            request=request.model_dump(mode="json", exclude_unset=True),
            trace=request.shows_trace,
        )
        document = with_input_warnings(document, request)
        by_default = request.rejected_limit is None and not request.shows_trace
        body = fit_to_size(document) if by_default else json_bytes(document)
        if answers is None:
            return StoredAnswer(body, stored=False)
        supply = supply_json(question, answer, catalog, catalog_index.purchasing)
        if answer.mixed_fleet is not None:
            supply["mixed_fleet"] = fleet_json(question, answer.mixed_fleet, catalog, catalog_index.purchasing)
    filing = Filing(
        label=request.label,
        reference=request.reference,
        cost_centre=request.cost_centre,
        model=question.workload.model.name,
        **_first_rank_summary(supply),
    )
    with stage("store"):
        return answers.store_answer(
            identity, snapshot=catalog.version, request=canonical, body=body, supply=json_bytes(supply), filing=filing
        )


def _first_rank_summary(supply: Document) -> dict[str, str | None]:
    """Returns accelerators and title of the first-ranked option, or of the mixed fleet without one, for the filing
    list; None where no option is feasible.
    """
    fleet = [lot for group in supply.get("mixed_fleet", ()) for lot in group["lots"]]
    lots = supply["ranks"][0] if supply["ranks"] else fleet
    types = dict.fromkeys(lot["accelerator"]["sku"] for lot in lots)
    return {"accelerators": " ".join(types) or None, "option": option_title(lots) or None}


def catalog_json(catalog: Catalog) -> dict[str, str]:
    """Returns the catalog version and price date that an answer is based on."""
    return {"snapshot": catalog.version, "prices_as_of": catalog.prices_as_of}


def with_input_warnings(document: Document, request: RecommendRequest | EstimateRequest) -> Document:
    """Adds the warnings about suspicious input values before all other warnings of an answer."""
    warnings = [NoticeShown.as_json(doubt) for doubt in input_warnings(request)]
    return {**document, "warnings": [*warnings, *document.get("warnings", [])]} if warnings else document


StoredDocument = Mapping[str, Any]
LISTING = ("provider", "region", "instance_type")
MACHINES = ("system", "nodes")


def machines_today(
    stored: StoredDocument, rank: int, catalog_index: CatalogIndex, catalog_store: CatalogStore, today: date
) -> MachinesToday:
    """Returns today's price of the option at `rank`: with its original offer, or without it if the offer has ended."""
    deployment = stored["recommendations"][rank - 1]["deployment"]
    if is_owned(deployment):
        return MachinesToday(None, OWNED_TODAY)
    found = _price_machines(stored, deployment, 1.0, catalog_index, catalog_store, today)
    if isinstance(found, str):
        return MachinesToday(None, found)
    question, result, text = found
    supply = estimate_supply(result, question, catalog_index.catalog, catalog_index.purchasing)
    ranked = [estimate_json(result, trace=False)]
    return MachinesToday(_build_bill(stored, ranked, supply, 1, catalog_index, today), text)


def fleet_today(
    stored: StoredDocument,
    supply: StoredDocument,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
) -> MachinesToday:
    """Returns today's price of the mixed fleet, whose owned groups keep their cost."""
    groups, texts = list[dict[str, Any]](), list[str]()
    for group in supply["mixed_fleet"]:
        if group["owned"]:
            groups.append(group)
            continue
        deployment, share = group["option"]["deployment"], group["share"]
        found = _price_machines(stored, deployment, share, catalog_index, catalog_store, today)
        if isinstance(found, str):
            return MachinesToday(None, found)
        question, result, text = found
        option = estimate_json(result, trace=False, neighbours=0, simulated=False)
        lots = lots_json(result, question, catalog_index.catalog, catalog_index.purchasing)
        groups.append({**group, "option": option, "lots": lots})
        texts += [text] if text else []
    if all(group["owned"] for group in groups):
        return MachinesToday(None, OWNED_TODAY)
    bill = _build_bill(stored, [], {**supply, "mixed_fleet": groups}, MIXED_FLEET, catalog_index, today)
    return MachinesToday(bill, " ".join(texts))


OWNED_TODAY = "These machines are yours: the prices of today do not change what they cost."


def is_owned(deployment: StoredDocument) -> bool:
    """Returns whether a plan runs on machines that the caller owns, which no seller can withdraw."""
    parts = (deployment, *(deployment.get("pools") or {}).values())
    return any((part.get("offer") or {}).get("provider") == INVENTORY for part in parts)


def _price_machines(
    stored: StoredDocument,
    deployment: StoredDocument,
    share: float,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
) -> tuple[Question, Estimate, str] | str:
    """Returns the question and today's estimate of machines at a share of the load, and a note if their offer has
    ended; or why they have no price.
    """
    refused = ""
    for which, listing in enumerate(relaxed_deployments(deployment)):
        try:
            question, result = estimate_today(stored, listing, catalog_index, catalog_store, today, share)
        except AppError as error:
            refused = refused or error.detail
            continue
        if result.cost is not None and result.cost.usd_per_hour is not None:
            text = "" if which == 0 else "The original offer has ended. These are the cheapest equivalent machines."
            return question, result, text
    return refused or "No current price exists for these machines."


def relaxed_deployments(deployment: StoredDocument) -> Iterator[dict[str, Any]]:
    """Yields a deployment with its original offer, then with any provider, then with any pricing model."""
    yield {**deployment}
    yield drop_offer_fields(deployment, LISTING)
    yield drop_offer_fields(deployment, (*LISTING, "pricing_model"))


def drop_offer_fields(deployment: StoredDocument, of_offer: tuple[str, ...]) -> dict[str, Any]:
    """Returns a deployment, including its pools, without the given offer fields and without its system."""
    kept = {name: value for name, value in deployment.items() if name not in MACHINES}
    if deployment.get("offer") is not None:
        kept["offer"] = {name: value for name, value in deployment["offer"].items() if name not in of_offer}
    if deployment.get("pools") is not None:
        kept["pools"] = {name: drop_offer_fields(pool, of_offer) for name, pool in deployment["pools"].items()}
    return kept


def estimate_today(
    stored: StoredDocument,
    deployment: StoredDocument,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    today: date,
    share: float = 1.0,
) -> tuple[Question, Estimate]:
    """Returns a deployment judged for a share of the load of the stored request at today's prices, and its question."""
    stored_request = stored["request"]
    body = {name: stored_request[name] for name in ("workload", "economics", "assumptions") if name in stored_request}
    sure = {name: value for name, value in stored_request.get("constraints", {}).items() if name == "confidence"}
    try:
        whole = {**body, "deployment": deployment, "constraints": sure}
        request = EstimateRequest.model_validate_json(orjson.dumps(whole), strict=True)
    except ValidationError:
        raise UnsupportedStoredRequest("This version of the service no longer accepts the stored deployment.") from None
    question, named = build_estimate_question(request, catalog_index, catalog_store, today)
    question = question if share == 1.0 else at_share(question, share)
    return question, estimate_deployment(question, named, catalog_index.catalog)


def _build_bill(
    stored: StoredDocument,
    ranked: list[Document],
    supply: Document,
    rank: int,
    catalog_index: CatalogIndex,
    today: date,
) -> Bill:
    """Returns the bill of a deployment or of a mixed fleet as today's answer would show it."""
    catalog = catalog_index.catalog
    document = {
        "id": stored["id"],
        "created_at": catalog.created_at,
        "as_of": today.isoformat(),
        "catalog": catalog_json(catalog),
        "request": stored["request"],
        "recommendations": ranked,
    }
    return build_bill(document, orjson.loads(orjson.dumps(supply)), rank, Settlement())
