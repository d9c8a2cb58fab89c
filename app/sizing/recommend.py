"""The path from a workload to an answer, in reading order.

    candidates -> plans -> memory -> speed -> replicas and cost -> best plan per type -> simulation -> text

Closed formulas choose the finalists. Finalists that serve token streams are sized and ranked by a simulation of their
schedulers (`serving.finalists`). Each finalist is then judged as the complete deployment of the answer, by the function
that /estimate uses (`estimate.py`), so a recommendation and its estimate cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.sizing.answer.decision_value import choose_verification
from app.sizing.answer.money import compare_hosted_api, format_usd, with_carbon_reasons
from app.sizing.answer.overkill import (
    CheapestOption,
    cheaper_is_enough,
    describe_low_use,
    explain_idle_hardware,
    limits_types,
)
from app.sizing.answer.summary import add_comparisons, collect_assumptions, describe_workload, write_summary
from app.sizing.answer.warnings import assumed_limits_missed, find_warnings, unsuited_for_training
from app.sizing.classes import shared_fleet
from app.sizing.decisions.cost import RESOURCE_LIMITS
from app.sizing.decisions.prices import PRICE_TOO_OLD, quotes_of_other_quantities
from app.sizing.decisions.ranking import objective_score
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search, Workload
from app.sizing.finalists import (
    SearchResult,
    cheapest_option,
    estimate_usd_per_hour,
    find_finalists,
    level_deployment,
    with_cheaper_levels,
)
from app.sizing.formula import suspend_recording
from app.sizing.hardware.licenses import find_licenses
from app.sizing.hardware.parts import Accelerator, PricingModel
from app.sizing.inventory import (
    describe_use,
    explain_exclusion,
    list_additions,
    refuse_exclusion,
    restrict_to_inventory,
    stocked_catalog,
    with_simulated_needs,
)
from app.sizing.pools.search import least_usd_per_hour
from app.sizing.question import (
    Constraints,
    Deployment,
    Extra,
    LoadUnit,
    Objective,
    Question,
    find_within_longer_limits,
    list_with_fewer_hits,
    list_without_drafts,
)
from app.sizing.result import (
    Answer,
    Considered,
    Effect,
    Estimate,
    FilterStage,
    FleetGroup,
    HostedApi,
    LargestLoad,
    Level,
    MixedFleet,
    Notice,
    Ranked,
    Rejection,
    Verification,
)
from app.sizing.serving.finalists import COUNTED_OBJECTIVES, is_decided_by_load, plans_of_types_that_may_win
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import WORKSTATION_FLEET, measures
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.whatif.borderline import feasible_if_it_fits
from app.sizing.whatif.cases import few_bits_trade, find_at_usual_limits
from app.sizing.whatif.largest import at_largest_load, describe_largest
from app.sizing.whatif.limits import closest_option, find_plans_within_limits, find_relaxations, note_on_closest
from app.sizing.whatif.mixed import at_share, complete_groups, find_owned_groups, limits_left, mixed_fleet, share_left
from app.sizing.whatif.prices import cheaper_types, find_leading_discount
from app.sizing.words import format_count, join_words, percent
from app.sizing.workload import InferenceWorkload
from app.work import count_work, is_work_left

MOST_WORK = 850.0  # work of one answer after which optional work is left out, in milliseconds of CPU time, about
UNSEARCHED_ADDITIONS = "some additions to your hardware were not searched"


def recommend_hardware(question: Question, catalog: Catalog) -> Answer:
    """Rank the hardware that can run a workload, and explain why the rest was rejected.

    What the caller owns is ranked alone if it can run the workload; otherwise, the hardware for sale is ranked, unless
    only the inventory counts. Groups of replicas that use the inventory together are added where they cost less.

    An answer that reaches the limit of work leaves out optional searches, and says which.
    """
    with count_work(MOST_WORK) as account:
        answer = recommend_owned_or_sold(question, catalog)
    if not account.left_out:
        return answer
    text = f"This request takes more work than one answer may: {join_words([*account.left_out])}."
    return replace(answer, warnings=(*answer.warnings, Notice("work_limit", text)))


def recommend_owned_or_sold(question: Question, catalog: Catalog) -> Answer:
    """Rank the hardware of the caller, or hardware for sale, that can run a workload."""
    if not question.inventory:
        return recommend_from(question, catalog)
    own = restrict_to_inventory(question, catalog)
    if own is None:
        refuse_exclusion(question, catalog)
        reason = f"Your inventory is left out: {explain_exclusion(question, catalog)}"
        return with_reason(recommend_for_sale(question, catalog), reason)
    stocked = stocked_catalog(catalog, question.inventory, question.today)
    found = recommend_from_inventory(question, own, stocked)
    if found.recommendations:
        found = maximize_together(question, own, stocked, found) or found
        return replace(found, rejected=found.rejected[: question.rejected_limit])
    only = question.constraints.inventory_only
    sold = None if only else recommend_for_sale(question, catalog)
    groups = find_owned_groups(question, own, stocked, first_option)
    fleet = complete_groups(question, groups, catalog, first_option)
    mixed, addition = mixed_fleet(fleet, None if sold is None else next(iter(sold.recommendations), None)), ""
    if mixed is None:
        addition, needed = describe_addition(question, own, groups, stocked, catalog)
        found = with_simulated_needs(found, needed)
    answer = found if sold is None else sold
    if mixed is not None:
        apart = f"{describe_workload(question.workload)}." if only else f"Without your inventory: {answer.summary}"
        verified = verify_fleet(mixed, question, own, stocked, catalog)
        answer = replace(answer, mixed_fleet=mixed, summary=f"{mixed.text} {apart}", verification=verified)
    if only:
        notices = (Notice("inventory", addition),) if addition else ()
        rejected = found.rejected[: question.rejected_limit]
        return replace(answer, rejected=rejected, warnings=(*notices, *found.warnings))
    alone = " in one deployment" if mixed is not None and mixed.groups[-1].owned else " alone" if mixed else ""
    reason = f"Your inventory cannot run this{alone}. {' '.join(r.text for r in found.rejected)} {addition}".rstrip()
    return with_reason(answer, reason)


def maximize_together(question: Question, own: Question, stocked: Catalog, alone: Answer) -> Answer | None:
    """The answer about the largest load that the types of an inventory carry together; None if the request seeks no
    load, or if one type carries it all.

    Parameters:
        own: the question restricted to its inventory.
        alone: the answer about the type that carries the largest load alone.
    """
    sought, most, types = question.largest, alone.maximum, len(own.constraints.accelerators)
    if sought is None or most is None or types < 2:
        return None
    beyond = most.times * types  # as each type carries at most as much as the best one
    asked, mine = (replace(each, workload=sought.workload_at(beyond), largest=None) for each in (question, own))
    groups = find_owned_groups(asked, mine, stocked, first_option)
    carried = sum(group.share for group in groups)
    fleet = None
    if len(groups) > 1:
        fleet = mixed_fleet([replace(group, share=group.share / carried) for group in groups], None)
    if fleet is None:
        return None
    times = beyond * carried
    load = float(int(sought.load * times)) if sought.unit is LoadUnit.USERS else sought.load * times
    largest = LargestLoad(sought.unit.value, load, times)
    mine = replace(mine, workload=sought.workload_at(times))
    verified = verify_fleet(fleet, mine, mine, stocked, stocked)
    summary = f"{describe_largest(largest)}{fleet.text} {describe_workload(mine.workload)}."
    return replace(
        recommend_from_inventory(replace(question, largest=None), mine, stocked),
        maximum=largest,
        mixed_fleet=fleet,
        summary=summary,
        verification=verified,
    )


def verify_fleet(
    fleet: MixedFleet, question: Question, own: Question, stocked: Catalog, catalog: Catalog
) -> Verification | None:
    """The benchmark of the group with the largest share, with what that group needs after each outcome; None without a
    command.
    """
    group = max(fleet.groups, key=lambda group: group.share)
    asked, sold = (own, stocked) if group.owned else (question, catalog)
    return choose_verification(at_share(asked, group.share), (group.first,), sold.host_counts)


def recommend_for_sale(question: Question, catalog: Catalog) -> Answer:
    """The answer about hardware for sale alone."""
    largest = question.largest if is_limited(question.constraints) else None
    return recommend_from(replace(question, inventory=(), largest=largest), catalog)


def is_limited(constraints: Constraints) -> bool:
    """Whether constraints limit accelerators, money, power or carbon."""
    return any(limit.requested(constraints) is not None for limit in RESOURCE_LIMITS)


def with_reason(answer: Answer, reason: str) -> Answer:
    """An answer about hardware for sale, with the reason why it is not about the inventory as its first warning."""
    which = "recommendations are" if answer.mixed_fleet is not None else "answer is"
    notice = Notice("inventory", f"{reason} The {which} about hardware for sale.")
    return replace(answer, warnings=(notice, *answer.warnings))


def describe_addition(
    question: Question, own: Question, groups: Sequence[FleetGroup], stocked: Catalog, catalog: Catalog
) -> tuple[str, Mapping[str, int]]:
    """What to add to an inventory that cannot run a workload, as sentences: the cheapest addition of an owned type, the
    machines for sale or more of those that are owned, and another type that costs less. Empty if no number is enough,
    if the question leaves out the sensitivity, or if several models share the machines. And the accelerators that owned
    types need by their simulation.

    Parameters:
        own: the question restricted to its inventory.
        groups: groups of owned replicas that carry a part of the load.
        stocked: the catalog with the machines of the inventory alone.
    """
    if not question.includes(Extra.SENSITIVITY) or question.first_only or question.companions:
        return "", {}
    owned = {one.accelerator: one.count for one in question.inventory}
    limits = replace(own.constraints, price_kinds=question.constraints.price_kinds, stock=())
    asked = replace(
        question, inventory=(), limit=len(owned), largest=None, extras=frozenset(), objective=Objective.COST
    )
    bought = replace(asked, constraints=limits)
    same = replace(bought, constraints=replace(own.constraints, stock=()))
    with suspend_recording():
        for_sale = search_within_limits(bought, catalog)[2].estimates
        of_own_kind = search_within_limits(same, stocked)[2].estimates if for_sale else ()
    prices = {
        each.deployment.accelerator: each.cost.purchase_usd / (each.deployment.total_accelerators or 1)
        for each in for_sale
        if each.cost is not None and each.cost.purchase_usd is not None
    }
    additions = list_additions((*for_sale, *of_own_kind), owned, prices)
    cheapest = min(additions, key=lambda addition: addition[0], default=None)
    other = describe_other_type(replace(asked, limit=ADDITIONS_COMPARED), groups, cheapest and cheapest[0], catalog)
    fleets = [each.deployment for each in (*for_sale, *of_own_kind)]  # a type's own machines come last
    needed = {d.accelerator: d.total_accelerators for d in fleets if d.total_accelerators and d.pools is None}
    if cheapest is None:
        return other, needed
    usd, more, fleet = cheapest
    part = catalog.accelerators[catalog.accelerator_index[fleet.accelerator]]
    machines, each = format_count(fleet.nodes or 1, "machine"), (fleet.total_accelerators or 0) // (fleet.nodes or 1)
    size = next(one.per_machine for one in question.inventory if one.accelerator == fleet.accelerator)
    machines += "" if each == size else f" of {each} instead of {size}"
    text = (
        f"Cheapest addition of a type that you own: {more} × {part.name}, about {format_usd(usd)} at the price of "
        f"machines for sale, so that you have {fleet.total_accelerators} in {machines}. {other}"
    )
    return text.rstrip(), needed


def describe_other_type(
    question: Question, groups: Sequence[FleetGroup], most_usd: float | None, catalog: Catalog
) -> str:
    """The machines for sale with the lowest purchase price that carry the load that owned replicas leave, or all of it,
    as a sentence; empty if the constraints allow no purchase, or if none costs less than another addition.

    Parameters:
        most_usd: price of the other addition; None if there is none.
    """
    limits = question.constraints
    if limits.pricing_models and PricingModel.OWNED not in limits.pricing_models:
        return ""
    budget = min((usd for usd in (limits.max_purchase_usd, most_usd) if usd is not None), default=None)
    best: tuple[float, float, Deployment] | None = None
    for carried in ((), groups) if groups else ((),):
        left, share = limits_left(question, carried), share_left(carried)
        if left is None or not share:
            continue
        asked = at_share(question, share) if carried else question
        asked = replace(asked, constraints=replace(left, pricing_models=(PricingModel.OWNED,)))
        while is_work_left(UNSEARCHED_ADDITIONS) and (priced := list_purchases(asked, budget, catalog)):
            usd, fleet = min(priced, key=lambda each: each[0])
            best, budget = (usd, share, fleet), usd * (1 - question.assumptions.near_tie_share)
    if best is None:
        return ""
    usd, share, d = best
    name = f"{d.total_accelerators} × {catalog.accelerators[catalog.accelerator_index[d.accelerator]].name}"
    if share < 1:
        use = f"for {percent(share)} of the requests, next to your machines"
    else:
        use = "enough for all of it, so that your machines stay free"
    return f"{'Cheapest addition' if most_usd is None else 'Cheaper'}: {name}, about {format_usd(usd)}, {use}."


def list_purchases(question: Question, most_usd: float | None, catalog: Catalog) -> list[tuple[float, Deployment]]:
    """Purchase prices of the best fleets within a budget, USD, with the fleets; none needs longer limits than usual."""
    asked = replace(question, constraints=replace(question.constraints, max_purchase_usd=most_usd))
    with suspend_recording():
        estimates = search_current_prices(asked, catalog)[2].estimates
    return [
        (each.cost.purchase_usd, each.deployment)
        for each in estimates
        if each.cost is not None and each.cost.purchase_usd and each.deployment.pools is None
    ]


def recommend_from_inventory(question: Question, own: Question, stocked: Catalog) -> Answer:
    """The answer to `own`, the question restricted to its inventory: it counts and rejects owned types only."""
    found = recommend_from(own, stocked)
    owned = {one.accelerator for one in question.inventory}
    rejected = tuple(r for r in found.rejected if r.accelerator in owned)
    first = found.recommendations[:1]
    return replace(
        found,
        warnings=(*(describe_use(question, r.estimate.deployment, stocked) for r in first), *found.warnings),
        rejected=rejected,
        rejected_by_code=dict(sorted(Counter(r.code for r in rejected).items())),
        considered=replace(found.considered, accelerators=len(owned)),
    )


def recommend_from(question: Question, catalog: Catalog) -> Answer:
    """Rank the hardware of a catalog that can run a workload, and explain why the rest was rejected."""
    question, largest = at_largest_load(question, catalog, lambda asked: has_hardware(asked, catalog))
    question = replace(question, assumptions=question.assumptions.with_recording())
    asked, (search, rejections, result) = question, search_within_limits(question, catalog)
    question, rejected = search.question, rejections.closest_first()
    ranked = rank_estimates(result, catalog)
    considered = Considered(len(catalog.accelerators), result.plans, result.feasible_accelerators)
    if question.first_only:
        missed = assumed_limits_missed(question)
        return Answer("", (), () if missed is None else (missed,), ranked, (), {}, considered, ())
    sensitivity, note = tuple[Effect, ...](), ""
    if question.includes(Extra.SENSITIVITY):
        sensitivity = (*result.sensitivity, *find_leading_discount(question, ranked))
        sensitivity += tuple(few_bits_trade(asked, question, ranked, catalog, search_within_limits))
        sensitivity += tuple(find_at_usual_limits(asked, question, catalog))
        if not result.estimates:
            sensitivity = find_relaxations(question, catalog, rejected)
    closest = closest_option(rejected, sensitivity)
    if question.includes(Extra.SENSITIVITY) and closest is not None:
        note = note_on_closest(closest, sensitivity)
    if question.includes(Extra.SENSITIVITY) and not result.estimates:  # after the changes that are certain to be enough
        sensitivity = (*sensitivity, *feasible_if_it_fits(result.borderline, rejections))
    ranked = add_comparisons(ranked, question, result.feasible_accelerators, result.use)
    cheapest = cheapest_for_warning(search, ranked, result.cheapest)
    ranked = explain_idle_hardware(question, ranked, cheapest, rejected)
    ranked = add_class_comparison(search, ranked)
    ranked = tuple(replace(r, estimate=with_carbon_reasons(question, r.estimate)) for r in ranked)
    ranked = with_searched_level(question, catalog, ranked)
    notices = (*left_out_drafts(asked, question), *find_warnings(question, ranked, cheapest))
    if cheapest is None or not cheapest.beyond_limits:  # or the warnings name it
        notices = (*notices, *far_cheaper_types(search, ranked))
    if not ranked and (unsuited := unsuited_for_training(question, allowed_types(question, catalog))) is not None:
        notices = (*notices, unsuited)
    settled = choose_verification(question, ranked, catalog.host_counts)
    ranked = with_cheaper_lower_levels(question, ranked)
    hosted = compare_hosted_api(question, catalog, ranked[0].estimate if ranked else None)
    return Answer(
        summary=describe_largest(largest) + write_summary(question, ranked, closest, note),
        assumptions=collect_assumptions(question),
        warnings=notices,
        recommendations=tuple(without_extras(each, question) for each in ranked),
        rejected=tuple(rejected[: question.rejected_limit]),
        rejected_by_code=dict(sorted(Counter(r.code for r in rejected).items())),
        considered=considered,
        sensitivity=sensitivity,
        verification=settled,
        scaling=result.scaling,
        cheaper_if=result.cheaper_if,
        hosted_api=hosted,
        maximum=largest,
        licenses=find_licenses(list_sources(question, ranked, hosted)),
    )


def left_out_drafts(asked: Question, answered: Question) -> Iterator[Notice]:
    """Say that an answer does without the speculative decoding that the request asks for."""
    if asked.constraints.speculative is not None and answered.constraints.speculative is None:
        text = (
            "Speculative decoding is left out: no option with the requested method and acceptance rate is better than "
            "those without it. `/estimate` judges a deployment with it."
        )
        yield Notice("speculation_left_out", text)


def list_sources(question: Question, ranked: Sequence[Ranked], hosted: HostedApi | None) -> Iterator[str]:
    """References of the prices, grids and published results that an answer shows."""
    if question.economics.country_price is not None:
        yield question.economics.country_price.source
    for cost in () if hosted is None else hosted.hosts:
        yield cost.price.source
    for estimate in (each.estimate for each in ranked):
        yield from (neighbor.compared.reference for neighbor in estimate.nearest[:1])
        if estimate.cost is not None and estimate.cost.price is not None:
            yield estimate.cost.price.terms.source
        if estimate.cost is not None and estimate.cost.carbon is not None:
            yield from (grid.source for grid in estimate.cost.carbon.grids)


def first_option(question: Question, catalog: Catalog) -> Ranked | None:
    """The first recommendation at current prices; None if no hardware meets the limits of a question."""
    result = search_current_prices(replace(question, first_only=True), catalog)[2]
    return next(iter(rank_estimates(result, catalog)), None)


def has_hardware(question: Question, catalog: Catalog) -> bool:
    """Whether some hardware meets the limits of a question at current prices."""
    return bool(search_current_prices(replace(question, first_only=True, cost_only=True), catalog)[2].estimates)


def is_likely_feasible(
    question: Question, catalog: Catalog, stocked: Catalog, types: tuple[str, ...] | None = None
) -> bool:
    """Whether formulas find hardware within the limits of a question: that of its inventory or, unless only that
    counts, hardware for sale within limits on accelerators, money and power.

    Parameters:
        stocked: the catalog with the machines of the inventory alone.
        types: accelerator types for sale to consider; None: all.
    """
    limits, sale = question.constraints, replace(question, inventory=())
    own = restrict_to_inventory(question, catalog) if question.inventory else None
    if own is not None and len(find_plans_within_limits(own, stocked)):
        return True
    if limits.inventory_only or not is_limited(limits):
        return False
    return len(find_plans_within_limits(sale, catalog, types)) > 0


def is_feasible(question: Question, catalog: Catalog, stocked: Catalog) -> bool:
    """Whether hardware within the limits of a question, as in `is_likely_feasible`, meets them when simulated."""
    limits, sale = question.constraints, replace(question, inventory=())
    own = restrict_to_inventory(question, catalog) if question.inventory else None
    if own is not None and has_hardware(own, stocked):
        return True
    return not limits.inventory_only and is_limited(limits) and has_hardware(sale, catalog)


def search_within_limits(question: Question, catalog: Catalog) -> tuple[Search[Workload], Rejections, SearchResult]:
    """The finalists within the limits. Limits that the request leaves open are longer where nothing meets the usual
    ones: an assumed limit ranks, and only those of the request reject.
    """
    found = search_current_prices(question, catalog)
    _, rejections, result = found
    if result.estimates or not any(map(misses_time_limit, rejections.by_accelerator.values())):
        return found
    at_usual: dict[float | None, tuple[Search[Workload], Rejections, SearchResult]] = {}

    def usual(asked: Question) -> tuple[Search[Workload], Rejections, SearchResult]:
        times = asked.workload.assumed_times
        if times not in at_usual:
            at_usual[times] = search_for_quantities(asked, catalog)
        return at_usual[times]

    def others(asked: Question) -> tuple[Search[Workload], Rejections, SearchResult]:
        return with_other_machines(usual(asked), catalog)

    for search in (usual, others):
        relaxed = find_within_longer_limits(question, search, lambda other: bool(other[2].estimates))
        if relaxed is not None:
            return relaxed
    return found


def misses_time_limit(rejection: Rejection) -> bool:
    """Whether a type may be rejected for a latency or a deadline, or for the hardware or money that meets it."""
    return rejection.unit == "ms" or rejection.code == "too_slow" or rejection.stage is FilterStage.LIMITS


def search_current_prices(question: Question, catalog: Catalog) -> tuple[Search[Workload], Rejections, SearchResult]:
    """The finalists at current prices. If there are none, the search with fleets of workstations, and then at outdated
    prices too, whose rejections say what else is missing: neither ever ranks before usual machines at current prices.
    """
    return with_other_machines(search_for_quantities(question, catalog), catalog)


def with_other_machines(
    found: tuple[Search[Workload], Rejections, SearchResult], catalog: Catalog
) -> tuple[Search[Workload], Rejections, SearchResult]:
    """What a search at current prices found, or else the searches with other machines and prices."""
    for code in (WORKSTATION_FLEET, PRICE_TOO_OLD):
        search, rejections, result = found
        limits = search.question.constraints
        is_dated = code == PRICE_TOO_OLD and limits.max_price_age_days is not None
        if result.estimates or is_dated or all(r.code != code for r in rejections.by_accelerator.values()):
            continue
        if code == WORKSTATION_FLEET:
            limits = replace(limits, workstation_fleets=True)
        else:
            limits = replace(limits, outdated_prices=True)
        found = search_for_quantities(replace(search.question, constraints=limits), catalog)
    return found


def search_for_quantities(question: Question, catalog: Catalog) -> tuple[Search[Workload], Rejections, SearchResult]:
    """The finalists, without quotes for other quantities than the finalists need: those are left out, and the search
    is repeated with the other prices.
    """
    while True:
        rejections = Rejections(catalog.accelerators)
        search, result = find_with_fewer_options(Search.start(question, catalog, rejections))
        wrong = quotes_of_other_quantities(result.estimates, catalog)
        if not wrong:
            return search, search.rejections, result
        excluded = (*question.constraints.excluded_listings, *wrong)
        question = replace(question, constraints=replace(question.constraints, excluded_listings=excluded))


def find_with_fewer_options(search: Search[Workload]) -> tuple[Search[Workload], SearchResult]:
    """The finalists of a search, or of one with fewer hits of prefix caches or without speculative decoding where these
    cost less.
    """
    result = find_finalists(search)
    for question in list_with_fewer_hits(search.question):
        search, result = better_search(search, result, question, by_formulas=True)
    for question in list_without_drafts(search.question) if result.plans else ():  # or no engine drafts so
        search, result = better_search(search, result, question)
    return search, result


def better_search(
    search: Search[Workload], result: SearchResult, question: Question, *, by_formulas: bool = False
) -> tuple[Search[Workload], SearchResult]:
    """A search with its result, or that of another question about a service where this ranks an option better. Where
    some hardware serves, only objectives for which fewer replicas are always better compare questions.

    Parameters:
        by_formulas: whether formulas must find a better option first.
    """
    best, other = min(result.scores, default=np.inf), search.ask(question)
    if best < np.inf and question.objective not in COUNTED_OBJECTIVES:
        return search, result
    assert isinstance(other.workload, InferenceWorkload)
    if by_formulas and not may_score_below(other.of(other.workload).unrecorded(), best):
        return search, result
    other = replace(other, rejections=Rejections(search.catalog.accelerators))
    found = find_finalists(other)
    return (other, found) if min(found.scores, default=np.inf) < best else (search, result)


def may_score_below(search: Search[InferenceWorkload], score: float) -> bool:
    """Whether formulas find a deployment of a service that scores below this, or one simulation of some layout at the
    load that decides does.
    """
    workload = search.workload
    with suspend_recording():
        plans = plans_to_serve(search)
        if search.question.objective is Objective.COST and not workload.is_finite:
            plans = plans.take(np.flatnonzero(least_usd_per_hour(workload, plans) < score))
        options = search_plans(search, plans, breaks_ties=False)
    scores = objective_score(search.question.objective, measures(workload, options))
    if not len(options) or float(np.min(scores)) < score or not is_decided_by_load(search):
        return float(np.min(scores, initial=np.inf)) < score
    return len(plans_of_types_that_may_win(search, options, score)) > 0


def without_extras(ranked: Ranked, question: Question) -> Ranked:
    """A recommendation without the parts that the question leaves out."""
    estimate, changes = ranked.estimate, dict[str, Any]()
    if not question.includes(Extra.ALTERNATIVES):
        changes["alternatives"] = ()
    if not question.includes(Extra.DAY):
        changes["day"] = None
    if not question.includes(Extra.LOAD_CURVE) and estimate.performance is not None:
        changes["performance"] = replace(estimate.performance, load_curve=None)
    return replace(ranked, estimate=replace(estimate, **changes)) if changes else ranked


def add_class_comparison(search: Search[Workload], ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Add to the first recommendation the comparison with a separate service per traffic class."""
    if not ranked:
        return ()
    first, *others = ranked
    estimate = replace(first.estimate, shared=shared_fleet(search, first.estimate))
    return replace(first, estimate=estimate), *others


def rank_estimates(result: SearchResult, catalog: Catalog) -> tuple[Ranked, ...]:
    """The finalists with their rank and score."""
    best = min(result.scores, default=0.0)
    return tuple(
        Ranked(
            rank=i + 1,
            score=best / score if score > 0 else 1.0,
            estimate=estimate,
            accelerator=catalog.accelerators[catalog.accelerator_index[estimate.deployment.accelerator]],
            runner_up=rival,
            names=catalog.names_in(estimate.deployment),
            hosts=catalog.other_hosts_in(estimate.deployment),
        )
        for i, (estimate, score, rival) in enumerate(
            zip(result.estimates, result.scores, result.runners_up, strict=True)
        )
    )


MAX_LEVEL_RATIO = 2.0  # ratio of the costs of a higher level and the first option from which the level is searched


def with_searched_level(question: Question, catalog: Catalog, ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Ranked services, the first one with what a search finds for the next higher confidence, where its own layout
    costs far more at that level or does not reach it; unless the question leaves out alternatives.
    """
    if not question.includes(Extra.ALTERNATIVES):
        return ranked
    sure = ranked[0].estimate.assurance if ranked else None
    if sure is None or question.objective is not Objective.COST or not isinstance(question.workload, InferenceWorkload):
        return ranked
    own = next((level.cost for level in sure.by_level if level.confidence == sure.asked), np.inf)
    row = next((i for i, level in enumerate(sure.by_level) if level.confidence > sure.asked), None)
    if row is None or not MAX_LEVEL_RATIO * own < sure.by_level[row].cost or question.companions:
        return ranked
    level = sure.by_level[row]
    limits = replace(question.constraints, confidence=level.confidence)
    asked = replace(question, constraints=limits, first_only=True)
    with suspend_recording():
        found = search_current_prices(asked, catalog)[2].estimates
    usd = found[0].cost.usd_per_hour if found and found[0].cost is not None else None
    if usd is None or usd >= level.cost:
        return ranked
    d = found[0].deployment
    levels = list(sure.by_level)
    levels[row] = Level(level.confidence, d.total_accelerators, usd, deployment=level_deployment(d))
    sure = replace(sure, by_level=tuple(levels))
    return (replace(ranked[0], estimate=replace(ranked[0].estimate, assurance=sure)), *ranked[1:])


def with_cheaper_lower_levels(question: Question, ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Ranked services, the first one with other ranked deployments at lower confidences that these serve at less cost.

    The benchmark is chosen before: it measures the first deployment as it is.
    """
    if not ranked or question.objective is not Objective.COST or not isinstance(question.workload, InferenceWorkload):
        return ranked
    first, *_ = with_cheaper_levels(tuple(each.estimate for each in ranked), below=True)
    return (replace(ranked[0], estimate=first), *ranked[1:])


ADDITIONS_COMPARED = 5  # types for sale whose purchase prices are compared


def allowed_types(question: Question, catalog: Catalog) -> list[Accelerator]:
    """The accelerator types that a request names; empty if it names none."""
    rows = (catalog.accelerator_index.get(slug) for slug in question.constraints.accelerators)
    return [catalog.accelerators[row] for row in rows if row is not None]


def cheapest_for_warning(
    search: Search[Workload], ranked: tuple[Ranked, ...], cheapest: CheapestOption | None
) -> CheapestOption | None:
    """The cheapest option with which mostly idle hardware is compared.

    Where the request limits accelerator types, a few cheaper types beyond those limits are compared too, by formulas.
    """
    workload, question = search.workload, search.question
    if not ranked or cheapest is None or not limits_types(question) or describe_low_use(question, ranked[0]) is None:
        return cheapest
    if cheaper_is_enough(question, ranked[0], cheapest) or not isinstance(workload, InferenceWorkload):
        return cheapest
    other = cheapest_beyond_limits(search.of(workload), ranked[0].estimate, cheapest.usd_per_hour)
    return cheapest if other is None or not cheaper_is_enough(question, ranked[0], other) else other


def cheapest_beyond_limits(
    search: Search[InferenceWorkload], first: Estimate, usd_per_hour: float
) -> CheapestOption | None:
    """The cheapest option by formulas of a few types that the request excludes; None if there is none.

    Parameters:
        first: the first recommendation.
        usd_per_hour: hourly cost that one accelerator must stay below, USD/h.
    """
    question = search.question
    types = cheaper_types(question, search.catalog, first, usd_per_hour)
    constraints = replace(
        question.constraints, accelerators=types, by_pattern=types, exclude_accelerators=(), vendors=(), segments=()
    )
    asked = replace(question, constraints=constraints, companions=(), limit=1)
    found = search.ask(asked).of(search.workload).unrecorded()
    with suspend_recording():
        options = search_plans(found, plans_to_serve(found)) if types else None
    if options is None or not len(options):
        return None
    return replace(cheapest_option(options, search.catalog), beyond_limits=True)


FAR_CHEAPER = 0.5  # share of the cost below which an option beyond the limits on types is named


def far_cheaper_types(search: Search[Workload], ranked: tuple[Ranked, ...]) -> Iterator[Notice]:
    """Say how much less types cost that a request excludes, where only longer latency limits left it an option."""
    workload, question = search.workload, search.question
    if not ranked or not isinstance(workload, InferenceWorkload) or not limits_types(question):
        return
    usd = estimate_usd_per_hour(ranked[0].estimate)
    if (workload.assumed_times or 1.0) <= 1 or question.companions or not usd:
        return
    other = cheapest_beyond_limits(search.of(workload), ranked[0].estimate, usd)
    if other is not None and other.usd_per_hour < FAR_CHEAPER * usd:
        text = (
            f"Without the limits on accelerators, {other.accelerators:,} × {other.name} would cost about "
            f"{format_usd(other.usd_per_hour)}/h instead of {format_usd(usd)}/h."
        )
        yield Notice("far_cheaper_types", text)
