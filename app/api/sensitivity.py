"""What changes the first rank of a stored answer: builds the questions, and keeps what was computed for a retry."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import orjson

from app.api.cost import Scope, search_cpu_s
from app.api.merge_patch import apply_merge_patch, combine_merge_patches
from app.api.questions import build_recommend_question
from app.api.schemas.requests import InferenceSpec, RecommendRequest
from app.catalog.snapshot import CatalogIndex, CatalogStore
from app.errors import Unanswerable
from app.recent import RecentlyUsed
from app.sizing.question import Question
from app.sizing.recommend import recommend_hardware
from app.sizing.whatif.breakpoints import RequestProbe, Sensitivity, TopOption, find_breakpoints
from app.sizing.whatif.parameters import Part
from app.work import count_work

MOST_CALL_WORK = 1000.0  # units of work after which a call searches no more, even within a subject
CALL_CPU_S = 1.0  # estimated time after which a call begins no further subject; one takes up to about a second
MAX_KEPT_ANSWERS = 64  # answers whose first options are kept, at most about 80 names each
# `start` and `next` are the number of a subject, plus this many for each call that ended where it started.
MAX_SUBJECTS, MAX_REPEATS = 100, 9

# First options of changed requests by answer and catalog version; a call that ran out of time continues there.
KEPT_OPTIONS: RecentlyUsed[tuple[str, str], dict[str, TopOption]] = RecentlyUsed(MAX_KEPT_ANSWERS)


def find_sensitivity(
    identity: str,
    request: RecommendRequest,
    behind: list[str],
    today: date,
    catalog_index: CatalogIndex,
    catalog_store: CatalogStore,
    start: int,
    maximum: float | None,
) -> Sensitivity:
    """Returns the breakpoints, stable ranges and savings of a request, from the subject in `start` on, as many as
    CALL_CPU_S allows by estimate, and MOST_CALL_WORK as counted; `behind` are the types below the first.

    A call that finds nothing kept, because another process answered before or the cache is full, may do twice the work
    for each earlier call that ended where it started, so that a client that follows `next` comes to an end.

    An answer to `maximize` is examined at the largest load or model, which its changes put in place of `maximize`.

    Parameters:
        maximum: the largest load; None if the request seeks none, or no load meets its limits.
    """
    catalog = catalog_index.catalog
    repeats, subject = divmod(start, MAX_SUBJECTS)
    whole = request.model_dump(mode="json", exclude_unset=True)

    def read_request(patch: Part) -> RecommendRequest:
        return RecommendRequest.model_validate_json(orjson.dumps(apply_merge_patch(whole, patch)), strict=True)

    def read(patch: Part) -> Question:
        fixed = {"limit": 1, "rejected_limit": 0, "trace": False, "as_of": today.isoformat()}
        changed = read_request({**patch, **fixed})
        return build_recommend_question(changed, catalog_index, catalog_store, today)

    base: Part = {}
    if request.maximize is not None:
        base = patch_to_maximum(request, read({}), maximum)
        request = read_request(base)
        whole = request.model_dump(mode="json", exclude_unset=True)
    names = {a.slug: a.name for a in catalog.accelerators}
    runners_up = [(slug, names.get(slug, slug)) for slug in dict.fromkeys(behind)]
    kept = KEPT_OPTIONS.get_or_make((identity, catalog.identity), dict)
    scope = Scope.of(request.constraints.model_dump(exclude_unset=True), options=1, whole=False)
    most = max(1, int(CALL_CPU_S / search_cpu_s(request.workload, scope)))
    with count_work(MOST_CALL_WORK * (1 if kept else 2**repeats)) as account:
        probe = RequestProbe(
            read,
            lambda question: recommend_hardware(question, catalog),
            kept,
            may_go_on=lambda: not account.is_used_up,
        )
        smaller = catalog_store.smaller_model
        found = find_breakpoints(probe, whole, catalog, runners_up, smaller, start=subject, most=most)
    if found.next == subject:
        found = replace(found, next=subject + MAX_SUBJECTS * min(repeats + 1, MAX_REPEATS))
    if not base:
        return found
    flips = [replace(each, request=combine_merge_patches(base, each.request)) for each in found.breakpoints]
    savings = [
        replace(each, pattern=replace(each.pattern, patch=combine_merge_patches(base, each.pattern.patch)))
        for each in found.savings
    ]
    return replace(found, breakpoints=tuple(flips), savings=tuple(savings))


def patch_to_maximum(request: RecommendRequest, question: Question, maximum: float | None) -> Part:
    """Returns the merge patch that puts the largest load of an answer in place of `maximize`. The stored request has
    the largest model already. Raises Unanswerable for a recorded trace, whose times no patch scales.
    """
    sought, workload = question.largest, request.workload
    base: Part = {"maximize": None, "models": None}
    if sought is None or maximum is None:
        return base
    if not isinstance(workload, InferenceSpec):
        return {**base, "workload": {"training_tokens": maximum, "examples": None, "epochs": None}}
    if workload.traffic.to_trace() is not None:
        raise Unanswerable(
            f"The largest load of this answer is {maximum / sought.load:g} times the recorded trace. Scale the trace, "
            "send the request with it and without maximize, and ask for the sensitivity of that answer."
        )
    traffic = workload.with_load(maximum / sought.load).traffic.model_dump(mode="json", exclude_unset=True)
    return {**base, "workload": {"traffic": traffic}}
