"""Suggests which limits to relax when no option is feasible, and by how little: single changes first, pairs only where
no single change is enough.

Every search drops the limits on accelerators, money and power. The results are compared with these limits afterwards,
so one search answers for each of them, alone or combined with another change. Where schedulers are simulated, no value
is stated before the changed question itself was found feasible.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from app.sizing.answer.money import format_usd
from app.sizing.columns import SECONDS_PER_DAY, SECONDS_PER_HOUR, Codes, Column, Columns, one
from app.sizing.decisions.cost import (
    MAX_ACCELERATORS_LIMIT,
    RESOURCE_LIMITS,
    Cost,
    ResourceLimit,
    accelerators_in_stock,
    meets_limits,
    usd_total,
)
from app.sizing.decisions.prices import WITHOUT_COMMITMENT, run_pricing
from app.sizing.decisions.rejections import is_at_most
from app.sizing.decisions.search import Search
from app.sizing.hardware.parts import KINDS, SEGMENTS, PricingModel
from app.sizing.model.formats import WEIGHT_FORMATS, FormatUse
from app.sizing.question import MEDIAN_CONFIDENCE, Constraints, Objective, Question, find_within_longer_limits
from app.sizing.result import Effect, FilterStage, Rejection
from app.sizing.serving.choice import best_single_service
from app.sizing.serving.load_curves import is_simulated
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options, measures
from app.sizing.serving.plans import default_weight_formats
from app.sizing.serving.search import may_be_feasible, search_plans
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.search import all_smallest_runs, search_layouts
from app.sizing.whatif.change import Change, Knob, find_threshold, probe
from app.sizing.words import format_count, format_duration, format_number, percent, round_up_to_digits
from app.sizing.workload import InferenceWorkload, TrainingWorkload, with_class_limit
from app.work import Work, add_shared_work, count_work, is_work_left

NOT_FEASIBLE = "still not feasible"
UNTRIED_CHANGES = "further changes of its limits were not examined"
ACCURACY = "; check accuracy on your own task"
EIGHT_BIT_CACHES = ("fp8", "int8")
# Factor by which a type may miss its limit and still be worth another try: 8-bit caches or no confidence margin save at
# most half, 4-bit weights at most three quarters.
MAX_MISS, MAX_MISS_4_BIT = 2.0, 4.0
# The search for a feasible time limit goes up to MAX_LIMIT_FACTOR times the requested one. It then bisects up to
# HALVINGS times, or until both ends are as close as CLOSENESS.
MAX_LIMIT_FACTOR, HALVINGS, CLOSENESS = 16.0, 7, 0.02
# Multiples of the value that the formulas give, tried in turn.
TRIAL_FACTORS = (1.0, 1.03, 1.1, 1.2, 1.4, 2.0, 4.0)
MAX_TYPES_TRIED = 3  # accelerator types tried per change without a value


@dataclass(frozen=True, slots=True)
class FeasiblePlans(Columns):
    """Plans that fit and meet the time limits, whatever accelerators, money and power they take."""

    accelerator: Codes  # index of the accelerator type
    accelerators: Column  # accelerators paid for
    cost: Cost
    usd_total: Column  # cost of work with an end, USD; NaN for a service

    @property
    def price(self) -> Column:
        """Price that plans are ranked by: USD in total for work with an end, else USD per hour."""
        return np.where(np.isnan(self.usd_total), self.cost.usd_per_hour, self.usd_total)

    def within(self, limits: Constraints, resources: Sequence[ResourceLimit] = RESOURCE_LIMITS) -> FeasiblePlans:
        """The plans within those of these limits on accelerators, money and power that are set."""
        return self.take(meets_limits(resources, limits, self.accelerators, self.cost))

    def cheapest(self) -> FeasiblePlans:
        """The cheapest plan; among equals the one with the fewest accelerators."""
        return self.take(np.lexsort((self.accelerators, self.price))[:1])

    def types(self, catalog: Catalog) -> tuple[str, ...]:
        """Slugs of the accelerator types."""
        return tuple(catalog.accelerators[i].slug for i in np.unique(self.accelerator).tolist())

    def describe(self, catalog: Catalog) -> str:
        """The cheapest plan as text: "8 × NVIDIA H100 SXM5 80GB (15.7 USD/h)"."""
        best = self.cheapest()
        name = catalog.accelerators[int(best.accelerator[0])].name
        total, bought = one(best.usd_total), one(best.cost.purchase_usd)
        price = f"{format_usd(one(best.cost.usd_per_hour))}/h" if math.isnan(total) else f"{format_usd(total)} in total"
        upfront = f", {format_usd(bought)} purchase price" if bought > 0 else ""
        return f"{one(best.accelerators):,.0f} × {name} ({price}{upfront})"


def find_relaxations(question: Question, catalog: Catalog, rejected: Sequence[Rejection]) -> tuple[Effect, ...]:
    """Changes that would make an infeasible question feasible, each with the smallest sufficient value, as far as the
    work of one answer reaches.
    """
    judged = [r for r in rejected if r.stage is not FilterStage.EXCLUDED]
    helped = types_helped_by_resources(question.constraints, judged)
    resourceful = find_feasible_plans(question, catalog, helped)
    enough = relax_each_resource(question, resourceful, catalog)
    single = [Effect(name, effect or NOT_FEASIBLE) for name, effect in enough.items()]
    single += relax_time_limits(question, catalog, judged)
    beyond: list[tuple[Change, Question, FeasiblePlans]] = []
    limited = not limits_no_resource(question.constraints)
    for change in list_alternatives(question, judged):
        if not is_work_left(UNTRIED_CHANGES):
            return tuple(single)
        asked = change.apply(question)
        if limited and not has_feasible(single):  # pairs of changes may follow, which raise these limits
            every = find_feasible_plans(asked, catalog)
            beyond.append((change, asked, every))
            ways = every.within(question.constraints)
        else:
            ways = find_plans_within_limits(asked, catalog)
        confirmed = describe_confirmed(asked, catalog, ways)
        if not confirmed and asked.constraints.accelerators:  # named hardware may be owned: slower is better than none
            confirmed = describe_within_longer_limits(asked, catalog)
        if confirmed:
            single.append(Effect(change.name, f"feasible with {confirmed}{change.words}"))
    if has_feasible(single) or not is_work_left(UNTRIED_CHANGES):
        return tuple(single)
    pairs = list(relax_resource_pairs(question, resourceful, catalog))
    for change, asked, ways in beyond:
        enough = relax_each_resource(asked, ways, catalog)
        pairs += [
            Effect(f"{change.name}, {name}", f"{effect}{change.words}") for name, effect in enough.items() if effect
        ]
    return (*single, *(pairs or relax_all_limits(question, catalog)))


def has_feasible(effects: Sequence[Effect]) -> bool:
    """Whether some of these changes is feasible."""
    return any(effect.effect != NOT_FEASIBLE for effect in effects)


def describe_confirmed(question: Question, catalog: Catalog, ways: FeasiblePlans) -> str:
    """The cheapest confirmed plan as text; empty if there is none."""
    confirmed = cheapest_confirmed(question, catalog, ways)
    return "" if confirmed is None else confirmed.describe(catalog)


def describe_within_longer_limits(question: Question, catalog: Catalog) -> str:
    """The cheapest confirmed plan within longer limits than usual as text, where the request leaves its limits open;
    empty if there is none.
    """

    def describe(asked: Question) -> str:
        ways, runs = find_plans_within_limits(asked, catalog), isinstance(asked.workload, TrainingWorkload)
        text = describe_confirmed(asked, catalog, ways)
        times = f"{asked.workload.assumed_times:g} times the usual {'deadline' if runs else 'latency limits'}"
        return f"{text} within {times}" if text else ""

    return find_within_longer_limits(question, describe, bool) or ""


def closest_option(rejected: Sequence[Rejection], effects: Sequence[Effect]) -> Rejection | None:
    """The rejection to state as the closest option: the first one, unless confirmed changes reach another one instead.

    Where the first one misses a limit that no confirmed change raises, this is the first whose limit one raises. Where
    it has a reason without a number, such as a missing rate, this is the first type with which a change is feasible.
    """
    enough = [effect for effect in effects if effect.effect != NOT_FEASIBLE]
    first = rejected[0] if rejected else None
    if first is None:
        return None
    if first.needed is None:
        usable = (r for r in rejected if any(_uses(effect, r) for effect in enough))
        return next(usable, first)
    if not any(True for _ in _missed_limits(first)):
        return first
    raised = (r for r in rejected if any(_raises(effect, name) for name, _ in _missed_limits(r) for effect in enough))
    return next(raised, first)


def _uses(effect: Effect, rejection: Rejection) -> bool:
    """Whether a change is feasible with a type that the request does not exclude."""
    return rejection.stage is not FilterStage.EXCLUDED and f" × {rejection.name} (" in effect.effect


def _raises(effect: Effect, name: str) -> bool:
    """Whether a change raises one limit alone."""
    return f"{name} (" in effect.change and ", raise" not in effect.change


def note_on_closest(closest: Rejection, effects: Sequence[Effect]) -> str:
    """What the confirmed changes say about the limit that the closest option misses, where the text of its rejection,
    which rests on formulas and on one limit, would suggest another value; empty where both agree. Where it misses no
    limit in numbers, the change with which its type is feasible.
    """
    enough = [effect for effect in effects if effect.effect != NOT_FEASIBLE]
    if closest.needed is None:
        usable = (f" Confirmed: {effect.change}; {effect.effect}." for effect in enough if _uses(effect, closest))
        return next(usable, "")
    for name, stated in _missed_limits(closest):
        own = [effect for effect in enough if _raises(effect, name)]
        if not enough or any(effect.effect.startswith(f"feasible at {stated}:") for effect in own):
            return ""
        first = (own or enough)[0]
        alone = "" if own else " No value of this limit alone was confirmed to be enough."
        return f"{alone} Confirmed: {first.change}; {first.effect}."
    return ""


def _missed_limits(rejection: Rejection) -> Iterator[tuple[str, str]]:
    """Name of the limit that a rejection states, as changes name it, and the needed value as text."""
    if rejection.needed is None:
        return
    for limit in RESOURCE_LIMITS:
        if (limit.code, limit.unit) == (rejection.code, rejection.unit):
            yield limit.name, _format_amount(limit.symbol, rejection.needed)
    for field, (shown, code, _) in LATENCIES.items():
        if (code, "ms") == (rejection.code, rejection.unit):
            yield f"{field.removesuffix('_s')}_ms", _format_milliseconds(shown, rejection.needed / 1e3)


def relax_all_limits(question: Question, catalog: Catalog) -> list[Effect]:
    """Last resort where two changes are not enough: remove every latency limit, then also relax one resource limit, or
    all.
    """
    question, removed = without_latencies(question), "remove every latency limit"
    ways = find_feasible_plans(question, catalog)
    if not len(ways):
        return []
    confirmed = cheapest_confirmed(question, catalog, ways.within(question.constraints))
    if confirmed is not None:
        return [Effect(removed, f"feasible with {confirmed.describe(catalog)}")]
    enough = relax_each_resource(question, ways, catalog)
    pairs = [Effect(f"{removed}, {name}", effect) for name, effect in enough.items() if effect]
    label = "remove every limit on latency, accelerators, money and power"
    return pairs or [Effect(label, f"feasible with {ways.describe(catalog)}")]


def without_resource_limits(question: Question) -> Question:
    """The question without limits on accelerators, money and power. Purchases stay allowed where they were."""
    limits = question.constraints
    free: Any = {limit.field: None for limit in RESOURCE_LIMITS}
    free["max_purchase_usd"] = None if limits.max_purchase_usd is None else math.inf
    return replace(question, constraints=replace(limits, **free), objective=Objective.COST, trace=False)


def find_feasible_plans(question: Question, catalog: Catalog, types: tuple[str, ...] | None = None) -> FeasiblePlans:
    """Every plan that fits and meets the time limits by formulas, optionally only of some accelerator types."""
    return _find_plans(without_resource_limits(question), catalog, types)


def find_plans_within_limits(
    question: Question, catalog: Catalog, types: tuple[str, ...] | None = None
) -> FeasiblePlans:
    """Every plan that meets all limits of a question by formulas, optionally only of some accelerator types.

    Unlike `find_feasible_plans`, it does not evaluate serving plans whose smallest deployment exceeds the limits.
    """
    if isinstance(question.workload, TrainingWorkload):
        return find_feasible_plans(question, catalog, types).within(question.constraints)
    return _find_plans(replace(question, objective=Objective.COST, trace=False), catalog, types)


def _find_plans(question: Question, catalog: Catalog, types: tuple[str, ...] | None) -> FeasiblePlans:
    if types is not None:
        if not types:
            return empty_plans()
        question = restrict_to_types(question, types)
    return shared_plans(list_feasible_plans, question, catalog)


def list_feasible_plans(question: Question, catalog: Catalog) -> FeasiblePlans:
    """Every plan that fits and meets the limits of a question by formulas."""
    search, workload = Search.start(question, catalog), question.workload
    if isinstance(workload, InferenceWorkload):
        service = search.of(workload)
        plans = plans_to_serve(service)
        plans = plans.take(may_be_feasible(service, plans))
        if not len(plans):
            return empty_plans()
        found = plans_from_options(workload, search_plans(service, plans, breaks_ties=False))
        return within_stock(found, question.constraints)
    layouts = search_layouts(search.of(workload))
    runs = all_smallest_runs(workload, counts_of(workload), layouts, question)
    total = usd_total(runs.cost.usd_per_hour, runs.run.wall_s * runs.plans.stack.margins.time_factor)
    paid = runs.run.nodes * runs.plans.accelerators_per_node
    found = FeasiblePlans(runs.plans.accelerator, paid, runs.cost, total)
    return within_stock(found, question.constraints)


def within_stock(found: FeasiblePlans, limits: Constraints) -> FeasiblePlans:
    """The plans that the inventory has enough accelerators for; all plans without an inventory."""
    if not limits.stock:
        return found
    return found.take(found.accelerators <= accelerators_in_stock(limits, found.accelerator))


def plans_from_options(workload: InferenceWorkload, options: Options) -> FeasiblePlans:
    """Resources of serving options."""
    total = np.full(len(options), np.nan)
    if workload.volume_requests is not None:
        total = measures(workload, options).usd
    return FeasiblePlans(options.accelerator, options.fleet.accelerators, options.cost, total)


def empty_plans() -> FeasiblePlans:
    """An empty table of plans."""
    none = np.zeros(0)
    return FeasiblePlans(np.zeros(0, np.int64), none, Cost(none, none, none, none, none, none), none)


def restrict_to_types(question: Question, types: tuple[str, ...]) -> Question:
    """The question restricted to these accelerator types."""
    limits = question.constraints
    unnamed = tuple(name for name in types if name not in limits.named_accelerators)
    limits = replace(limits, accelerators=types, by_pattern=unnamed, vendors=(), exclude_accelerators=())
    return replace(question, constraints=limits)


Find = Callable[[Question, Catalog], FeasiblePlans]
_shared: ContextVar[dict[tuple[Find, Question], tuple[FeasiblePlans, frozenset[str], list[Work]]] | None] = ContextVar(
    "shared_plans", default=None
)


@contextmanager
def share_relaxed_plans() -> Iterator[None]:
    """Finds equal relaxed questions of several questions about one catalog once: options of a comparison often differ
    in a limit that the relaxed question no longer has.
    """
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def shared_plans(find: Find, question: Question, catalog: Catalog) -> FeasiblePlans:
    """The plans that `find` returns for a question. The assumptions that it reads count as read either way."""
    known = _shared.get()
    if known is None:
        return find(question, catalog)
    values = question.assumptions.without_recording
    key = find, replace(question, assumptions=values)
    try:
        kept = known.get(key)
    except TypeError:  # a question with values that have no hash
        return find(question, catalog)
    if kept is None:
        recording = values.with_recording()
        with count_work(math.inf) as account:
            plans = find(replace(question, assumptions=recording), catalog)
        kept = known[key] = plans, recording.read_names, account.entries
    else:
        add_shared_work(kept[2])
    for name in kept[1]:
        getattr(question.assumptions, name)
    return kept[0]


def needs_simulation(question: Question) -> bool:
    """Whether a simulation decides, rather than the closed formulas alone."""
    return isinstance(question.workload, InferenceWorkload) and is_simulated(question.workload)


def decide_for_types(question: Question, catalog: Catalog, types: tuple[str, ...]) -> FeasiblePlans:
    """The recommendation among some accelerator types, as a table of one plan; empty where it is infeasible."""
    return shared_plans(decide, restrict_to_types(question, types), catalog)


def decide(asked: Question, catalog: Catalog) -> FeasiblePlans:
    """The recommendation of a question, as a table of one plan; empty where it is infeasible."""
    assert isinstance(asked.workload, InferenceWorkload)
    best = best_single_service(Search.start(replace(asked, cost_only=True), catalog).of(asked.workload))
    return empty_plans() if best is None else plans_from_options(asked.workload, best)


def decide_for_type(question: Question, catalog: Catalog, slug: str) -> FeasiblePlans:
    """The cheapest plan of one accelerator type; an empty table where it is infeasible."""
    return decide_for_types(replace(question, objective=Objective.COST), catalog, (slug,))


def cheapest_confirmed(question: Question, catalog: Catalog, ways: FeasiblePlans) -> FeasiblePlans | None:
    """The cheapest plan that is confirmed feasible, trying the cheapest accelerator types in turn; None if none is."""
    if not len(ways):
        return None
    if not needs_simulation(question):
        return ways.cheapest()
    order = np.lexsort((ways.accelerators, ways.price))
    _, first = np.unique(ways.accelerator[order], return_index=True)
    for row in order[np.sort(first)[:MAX_TYPES_TRIED]].tolist():
        found = decide_for_type(question, catalog, catalog.accelerators[int(ways.accelerator[row])].slug)
        if len(found):
            return found
    return None


def confirm_value(
    question: Question,
    catalog: Catalog,
    knob: Knob,
    value: float,
    best: FeasiblePlans,
    types_at: Callable[[float], tuple[str, ...]],
    need_of: Callable[[FeasiblePlans], Column] | None = None,
) -> tuple[float, FeasiblePlans] | None:
    """Smallest value of a limit that is confirmed feasible, starting at the value of the formulas, with a plan for it.

    The value rises by TRIAL_FACTORS. Where the plan that is then found needs less, that need is tried first. Any value
    that is returned was asked among every type that the formulas find feasible; if the answer then needs less, that
    need is returned. None where every step fails.

    Parameters:
        value: value that the formulas give.
        best: the plan that needs it, one row; its accelerator type is tried first.
        types_at: types with a feasible plan at a value, by formulas.
        need_of: need of plans in units of the limit, for limits that a plan may undercut.
    """
    if not needs_simulation(question):
        return value, best
    slug = catalog.accelerators[int(best.accelerator[0])].slug
    rounded: Callable[[float], float] = math.ceil if float(value).is_integer() else round_up_to_digits

    def ask(least: float) -> FeasiblePlans:
        types = types_at(least)
        return decide_for_types(knob.set_value(question, least), catalog, types) if types else empty_plans()

    def answer_at(least: float, found: FeasiblePlans) -> FeasiblePlans:
        same = types_at(least) == (slug,) and question.objective is Objective.COST
        return found if same else ask(least)

    def need(plan: FeasiblePlans) -> float:
        return math.inf if need_of is None else rounded(one(need_of(plan)))

    for least in dict.fromkeys(rounded(value * factor) for factor in TRIAL_FACTORS):
        found = probe(partial(decide_for_type, catalog=catalog, slug=slug), question, knob.change_to(least))
        if not len(found):
            continue
        exact = min(least, need(found))
        if exact < least and slug in types_at(exact):
            fewer = probe(partial(decide_for_type, catalog=catalog, slug=slug), question, knob.change_to(exact))
            if len(fewer) and len(answer := answer_at(exact, fewer)):
                return smaller_need(exact, fewer, answer, need, ask)
        if len(answer := answer_at(least, found)):
            return smaller_need(least, found, answer, need, ask)
    return None


def smaller_need(
    value: float,
    plan: FeasiblePlans,
    answer: FeasiblePlans,
    need: Callable[[FeasiblePlans], float],
    ask: Callable[[float], FeasiblePlans],
) -> tuple[float, FeasiblePlans]:
    """A confirmed value and its plan, or those of the answer at that value where it needs less and is confirmed too.

    Parameters:
        answer: recommendation at `value` among all types.
        need: value of the limit that a plan needs.
        ask: recommendation among all types at another value.
    """
    less = need(answer)
    if answer is plan or less >= value:
        return value, plan
    confirmed = ask(less)
    return (less, confirmed) if len(confirmed) else (value, plan)


def _format_amount(symbol: str, value: float) -> str:
    return f"{format_number(round_up_to_digits(value))} {symbol}" if symbol else format_count(value, "accelerator")


def resource_knobs(limits: Constraints) -> Iterator[tuple[ResourceLimit, Knob]]:
    """The limits on accelerators, money and power that the request sets."""

    def set_value(limit: ResourceLimit, question: Question, value: float) -> Question:
        changed: Any = {limit.field: int(value) if limit is MAX_ACCELERATORS_LIMIT else value * limit.per_unit}
        return replace(question, constraints=replace(question.constraints, **changed))

    for limit in RESOURCE_LIMITS:
        now = limit.requested(limits)
        if now is not None:
            name = f"raise {limit.name} (now {format_number(now)})"
            yield limit, Knob(name, now, partial(set_value, limit), partial(_format_amount, limit.symbol))


def relax_each_resource(question: Question, ways: FeasiblePlans, catalog: Catalog) -> dict[str, str]:
    """For each resource limit, the smallest value that is enough alone and the plan that uses it, as text; empty where
    it is not enough.
    """
    effects: dict[str, str] = {}
    for limit, knob in resource_knobs(question.constraints):
        rest = ways.within(question.constraints, [other for other in RESOURCE_LIMITS if other is not limit])
        confirmed = least_sufficient(question, catalog, limit, knob, rest) if len(rest) else None
        effects[knob.name] = ""
        if confirmed is not None:
            effects[knob.name] = f"feasible at {knob.format_value(confirmed[0])}: {confirmed[1].describe(catalog)}"
    return effects


def relax_resource_pairs(question: Question, ways: FeasiblePlans, catalog: Catalog) -> Iterator[Effect]:
    """For each pair of resource limits, the smallest values that are enough together, where one alone is not."""
    for pair in itertools.combinations(resource_knobs(question.constraints), 2):
        limits, knobs = [limit for limit, _ in pair], [knob for _, knob in pair]
        rest = ways.within(question.constraints, [other for other in RESOURCE_LIMITS if other not in limits])
        confirmed = least_sufficient_pair(question, catalog, limits, knobs, rest) if len(rest) else None
        if confirmed is not None:
            values, best = confirmed
            named = " and ".join(knob.format_value(value) for knob, value in zip(knobs, values, strict=True))
            yield Effect(", ".join(knob.name for knob in knobs), f"feasible at {named}: {best.describe(catalog)}")


def least_sufficient_pair(
    question: Question,
    catalog: Catalog,
    limits: Sequence[ResourceLimit],
    knobs: Sequence[Knob],
    ways: FeasiblePlans,
) -> tuple[list[float], FeasiblePlans] | None:
    """Confirmed values of two resource limits, with a plan for them, whose excesses have the smallest product.

    `ways` meet every other limit. The accelerator types with the smallest products by formulas are tried.
    """

    def excess_of(plans: FeasiblePlans) -> Column:
        first, second = (
            np.maximum(limit.needed(plans.accelerators, plans.cost) / knob.now, 1.0)
            for limit, knob in zip(limits, knobs, strict=True)
        )
        return first * second

    order = np.lexsort((ways.price, excess_of(ways)))
    _, first = np.unique(ways.accelerator[order], return_index=True)
    confirmed = [
        pair
        for row in order[np.sort(first)[:MAX_TYPES_TRIED]]
        if (pair := confirm_pair(question, catalog, limits, knobs, ways.take(np.array([row])))) is not None
    ]
    return min(confirmed, key=lambda pair: one(excess_of(pair[1])), default=None)


def confirm_pair(
    question: Question,
    catalog: Catalog,
    limits: Sequence[ResourceLimit],
    knobs: Sequence[Knob],
    best: FeasiblePlans,
) -> tuple[list[float], FeasiblePlans] | None:
    """Smallest values of two limits that are confirmed feasible for the accelerator type of `best`, one row; see
    `confirm_value`.
    """
    slug = catalog.accelerators[int(best.accelerator[0])].slug

    def decide(values: list[float]) -> FeasiblePlans:
        asked = question
        for knob, value in zip(knobs, values, strict=True):
            asked = knob.set_value(asked, max(value, knob.now))
        return decide_for_type(asked, catalog, slug)

    def needed_by(plans: FeasiblePlans, factor: float = 1.0) -> list[float]:
        exact = [one(limit.needed(plans.accelerators, plans.cost)) * factor for limit in limits]
        return [
            math.ceil(need) if limit is MAX_ACCELERATORS_LIMIT else round_up_to_digits(need)
            for limit, need in zip(limits, exact, strict=True)
        ]

    if not needs_simulation(question):
        return needed_by(best), best
    for factor in TRIAL_FACTORS:
        values = needed_by(best, factor)
        if len(found := decide(values)):
            exact = needed_by(found)
            return (exact, fewer) if len(fewer := decide(exact)) else (values, found)
    return None


def least_sufficient(
    question: Question, catalog: Catalog, limit: ResourceLimit, knob: Knob, ways: FeasiblePlans
) -> tuple[float, FeasiblePlans] | None:
    """Smallest confirmed value of one resource limit, with a plan for it; `ways` meet every other limit."""

    def need_of(plans: FeasiblePlans) -> Column:
        return limit.needed(plans.accelerators, plans.cost)

    best = ways.take(np.lexsort((ways.price, need_of(ways)))[:1])

    def types_at(value: float) -> tuple[str, ...]:
        return ways.take(is_at_most(need_of(ways), value)).types(catalog)

    return confirm_value(question, catalog, knob, one(need_of(best)), best, types_at, need_of)


def types_helped_by_resources(limits: Constraints, judged: Sequence[Rejection]) -> tuple[str, ...]:
    """Accelerator types that more accelerators, money or power may help.

    With a limit on accelerators or purchase price, some machines and layouts are not evaluated at all, so types that
    failed earlier count too.
    """
    if limits.max_accelerators is None and limits.max_purchase_usd is None:
        return tuple(r.accelerator for r in judged if r.stage is FilterStage.LIMITS)
    return tuple(
        r.accelerator for r in judged if r.stage >= FilterStage.MEMORY or r.code in ("no_layout", "over_budget")
    )


# By field of an Slo: its name as text, the rejection code of types that miss it, and other codes that a wider limit may
# help.
LATENCIES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "ttft_s": ("TTFT", "too_slow_to_first_token", ()),
    "tpot_s": ("TPOT", "too_slow_per_token", ("too_slow_to_first_token",)),
    "e2e_s": ("end-to-end latency", "too_slow", ("too_slow_per_token", "too_slow_to_first_token")),
}


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """A latency limit or a deadline, in seconds."""

    knob: Knob
    known_need_s: float  # smallest value known to be needed; infinite where unknown
    types: tuple[str, ...]  # accelerator types that a wider limit may help


def requested_time_limits(question: Question, judged: Sequence[Rejection]) -> Iterator[TimeLimit]:
    """Latency limits or the deadline of the request that some types miss, or that let other types need fewer
    resources.
    """
    workload = question.workload

    def helped_types(*codes: str) -> tuple[str, ...]:
        return tuple(r.accelerator for r in judged if r.stage is FilterStage.LIMITS or r.code in codes)

    def known_need_s(code: str, each_s: float) -> float:
        return min((r.needed * each_s for r in judged if r.code == code and r.needed), default=math.inf)

    if workload.deadline_s is not None:
        each_s = SECONDS_PER_DAY if isinstance(workload, TrainingWorkload) else SECONDS_PER_HOUR
        name = f"extend the deadline (now {_format_days(workload.deadline_s)})"
        knob = Knob(name, workload.deadline_s, _with_deadline, _format_days)
        yield TimeLimit(knob, known_need_s("too_slow", each_s), helped_types("too_slow"))
    if isinstance(workload, TrainingWorkload) or workload.is_finite:
        return
    for whose, slo in [(c.name, c.slo) for c in workload.classes] or [("", workload.slo)]:
        for field, (shown, code, others) in LATENCIES.items():
            now = getattr(slo, field)
            if now is not None:
                of = f"{whose} " if whose else ""
                name = f"raise {of}{field.removesuffix('_s')}_ms (now {format_number(now * 1e3)})"
                knob = Knob(name, now, partial(_with_latency, field, whose), partial(_format_milliseconds, shown))
                need_s = math.inf if whose else known_need_s(code, 1e-3)  # rejections do not name the traffic class
                yield TimeLimit(knob, need_s, helped_types(code, *others))


def _format_days(seconds: float) -> str:
    return format_duration(seconds / SECONDS_PER_DAY)


def _format_milliseconds(name: str, seconds: float) -> str:
    return f"{name} {format_number(seconds * 1e3)} ms"


def _with_deadline(question: Question, seconds: float) -> Question:
    return replace(question, workload=replace(question.workload, deadline_s=seconds))


def _with_latency(field: str, whose: str, question: Question, seconds: float | None) -> Question:
    workload, changed = question.workload, {field: seconds}
    assert isinstance(workload, InferenceWorkload)
    if whose:
        return replace(question, workload=with_class_limit(workload, whose, field, seconds))
    return replace(question, workload=replace(workload, slo=replace(workload.slo, **changed)))  # type: ignore[arg-type]


def without_latencies(question: Question) -> Question:
    """The question without latency limits."""
    if isinstance(question.workload, InferenceWorkload):
        for whose in [c.name for c in question.workload.classes] or [""]:
            for field in LATENCIES:
                question = _with_latency(field, whose, question, None)
    return question


def relax_time_limits(question: Question, catalog: Catalog, judged: Sequence[Rejection]) -> Iterator[Effect]:
    """Latency limits and deadlines that are enough to relax alone, each with its smallest feasible value.

    With resource limits in the request, only types that meet them under much wider time limits are searched.
    """
    times = list(requested_time_limits(question, judged))
    types = tuple(dict.fromkeys(name for time in times for name in time.types))
    if not limits_no_resource(question.constraints):
        wide = question
        for time in times:
            wide = time.knob.set_value(wide, time.knob.now * MAX_LIMIT_FACTOR)
        types = find_plans_within_limits(wide, catalog, types).types(catalog)
    for time in times if times and is_work_left(UNTRIED_CHANGES) else ():
        effect = relax_time(question, time, tuple(t for t in time.types if t in types), catalog)
        if effect is not None:
            yield effect


def relax_time(question: Question, time: TimeLimit, types: tuple[str, ...], catalog: Catalog) -> Effect | None:
    """The smallest feasible value of one time limit as an effect; None if relaxing it alone is not enough."""
    enough = min_feasible_time(question, time, types, catalog)
    if enough is None:
        return None
    value, ways = enough
    confirmed = confirm_value(question, catalog, time.knob, value, ways.cheapest(), lambda _: types)
    if confirmed is None:
        return None
    effect = f"feasible at {time.knob.format_value(confirmed[0])}: {confirmed[1].describe(catalog)}"
    return Effect(time.knob.name, effect)


def min_feasible_time(
    question: Question, time: TimeLimit, types: tuple[str, ...], catalog: Catalog
) -> tuple[float, FeasiblePlans] | None:
    """Smallest feasible value of a time limit in seconds, and the plans that meet it.

    The value is the known need of the nearest rejected plan, or the result of a bisection.
    """
    found: dict[float, FeasiblePlans] = {}
    limits = question.constraints

    def is_feasible(seconds: float) -> bool:
        if seconds not in found:  # a tighter limit helps no type that misses a wider one
            among = next((ways.types(catalog) for at_s, ways in sorted(found.items()) if at_s > seconds), types)
            found[seconds] = find_plans_within_limits(time.knob.set_value(question, seconds), catalog, among)
        return len(found[seconds]) > 0

    low = time.knob.now
    if time.known_need_s < math.inf and limits_no_resource(limits):
        low = round_up_to_digits(time.known_need_s)
        if is_feasible(low):
            return low, found[low]
    found[low] = empty_plans()
    high = round_up_to_digits(low * MAX_LIMIT_FACTOR)
    turn = find_threshold(is_feasible, low, (high,), CLOSENESS, rounded=round_up_to_digits, halvings=HALVINGS)
    return None if turn is None else (turn.value, found[turn.value])


def limits_no_resource(limits: Constraints) -> bool:
    """Whether no limit on accelerators, money or power is set."""
    return not any(True for _ in resource_knobs(limits))


def list_alternatives(question: Question, judged: Sequence[Rejection]) -> Iterator[Change]:
    """Changes that drop one requirement each, restricted to the accelerator types that they can help."""
    limits = question.constraints
    if limits.accelerators or limits.vendors or limits.segments:
        yield _allow("allow other accelerators", accelerators=(), vendors=(), segments=())
    if limits.exclude_accelerators:
        yield _allow("allow the excluded accelerators", exclude_accelerators=())
    if limits.environments or limits.providers or limits.names_places or limits.pricing_models:
        label = "allow every environment, provider, region and pricing model"
        yield _allow(label, environments=(), providers=(), regions=(), countries=(), pricing_models=())
    if ends(question.workload) and not limits.pricing_models and PricingModel.OWNED not in run_pricing(limits):
        yield _allow("allow purchase", "; the machines outlast the work", pricing_models=WITHOUT_COMMITMENT)
    if limits.jurisdictions:
        yield _allow("allow providers with their seat in any country", jurisdictions=())
    if not limits.price_kinds:
        yield allow_other_prices(limits)
    if limits.price_kinds or limits.max_price_age_days is not None:
        label = "allow prices of every kind and age"
        yield _allow(label, price_kinds=KINDS, max_price_age_days=None, outdated_prices=True)
    if not limits.segments:
        risk = "; no data-center support, usually no ECC memory"
        yield _allow("allow consumer and edge hardware", risk, segments=SEGMENTS)
    if limits.engines:
        yield _allow("allow other engines", engines=())
    over = tuple(r.accelerator for r in judged if r.stage is FilterStage.LIMITS)
    if over and limits.max_usd_per_hour is not None and not limits.pricing_models:
        label = "allow spot capacity, which the provider can reclaim"
        yield _allow(label, among=over, pricing_models=(PricingModel.SPOT,))
    if isinstance(question.workload, InferenceWorkload):
        yield from _format_alternatives(question.workload, limits, judged)
        if over and question.workload.redundancy.label != "none":
            yield Change("no redundancy", lambda asked: without_redundancy(restrict_to_types(asked, over)))
    near = types_in_reach(judged, MAX_MISS)
    if limits.confidence > MEDIAN_CONFIDENCE and near:
        label = f"lower the confidence to {percent(MEDIAN_CONFIDENCE)}"
        risk = "; such a plan meets every limit in one case out of two"
        yield _allow(label, risk, among=near, confidence=MEDIAN_CONFIDENCE)


def ends(workload: InferenceWorkload | TrainingWorkload) -> bool:
    """Whether the work ends, so that only rented machines count unless the request asks for others."""
    return isinstance(workload, TrainingWorkload) or workload.is_finite


def _allow(name: str, words: str = "", *, among: tuple[str, ...] = (), **changes: Any) -> Change:
    """Change of some constraints, restricted to some types if they are given."""

    def apply(question: Question) -> Question:
        question = restrict_to_types(question, among) if among else question
        return replace(question, constraints=replace(question.constraints, **changes))

    return Change(name, apply, words)


def allow_other_prices(limits: Constraints) -> Change:
    """Prices that are no offers count as well, and outdated ones unless the request limits their age."""
    old = ", outdated" if limits.max_price_age_days is None else ""
    label = f"allow broker{old} and estimated prices"
    return _allow(label, "; request a quote before deciding", price_kinds=KINDS, outdated_prices=True)


def without_redundancy(question: Question) -> Question:
    """The question without spare replicas."""
    workload = question.workload
    assert isinstance(workload, InferenceWorkload)
    return replace(question, workload=replace(workload, redundancy=workload.redundancy.with_spare(0)))


def types_in_reach(judged: Sequence[Rejection], most: float) -> tuple[str, ...]:
    """Accelerator types with an evaluated plan that misses its limit by at most this factor."""
    return tuple(r.accelerator for r in judged if r.stage >= FilterStage.MEMORY and r.shortfall_ratio <= most)


def narrower_formats(workload: InferenceWorkload) -> tuple[str, ...]:
    """4-bit weight formats that a request without formats does not consider, because they may lose accuracy."""
    usual = default_weight_formats(workload.model, personal=workload.is_personal)
    return tuple(sorted({f.name for f in WEIGHT_FORMATS.values() if f.default_use is FormatUse.PERSONAL} - usual))


def _format_alternatives(
    workload: InferenceWorkload, limits: Constraints, judged: Sequence[Rejection]
) -> Iterator[Change]:
    """Weight and cache formats with fewer bits where the request names none, else the formats that it does not name."""
    usual, narrow = default_weight_formats(workload.model, personal=workload.is_personal), narrower_formats(workload)
    untried = tuple(r.accelerator for r in judged if r.code in ("no_layout", "over_budget"))
    reached = tuple(dict.fromkeys((*types_in_reach(judged, MAX_MISS_4_BIT), *untried)))
    rest = tuple(sorted({*usual, *narrow} - set(limits.weight_formats)))
    if limits.weight_formats and rest:
        yield _allow("allow other weight formats", ACCURACY, weight_formats=rest)
    elif narrow and reached and not limits.weight_formats:
        yield _allow("allow 4-bit weights", ACCURACY, among=reached, weight_formats=narrow)
    if narrow and not limits.weight_formats and not limits.price_kinds:
        label, owed = "allow 4-bit weights, broker and estimated prices", f"{ACCURACY}, and request a quote"
        yield _allow(label, owed, weight_formats=narrow, price_kinds=KINDS)
    near = types_in_reach(judged, MAX_MISS)
    if limits.kv_formats:
        yield _allow("allow other KV cache formats", kv_formats=())
    elif near and workload.model.attention and not workload.single_pass:
        yield _allow("allow an 8-bit KV cache", ACCURACY, among=near, kv_formats=EIGHT_BIT_CACHES)
