"""Plans that fit and meet the time limits at any size, and how far they miss a limit on accelerators, money or
power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from app.sizing.answer.money import format_usd
from app.sizing.columns import Codes, Column, Columns, Mask, one
from app.sizing.decisions.cost import usd_total
from app.sizing.decisions.rejections import is_at_most
from app.sizing.decisions.search import Search
from app.sizing.question import Constraints, Objective, Question
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options, measures
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.search import all_smallest_runs, search_layouts
from app.sizing.words import format_count, format_number, round_up_to_digits
from app.sizing.workload import InferenceWorkload, TrainingWorkload


@dataclass(frozen=True, slots=True)
class FeasiblePlans(Columns):
    """Plans that fit and meet the time limits, whatever accelerators, money and power they take."""

    accelerator: Codes  # index of the accelerator type
    accelerators: Column  # accelerators paid for
    usd_per_hour: Column  # USD/h
    purchase_usd: Column  # purchase price, USD; NaN for rented machines
    rated_w: Column  # rated power, W
    usd_total: Column  # cost of work with an end, USD; NaN for a service

    @property
    def price(self) -> Column:
        """Price that plans are ranked by: USD in total for work with an end, else USD per hour."""
        return np.where(np.isnan(self.usd_total), self.usd_per_hour, self.usd_total)


@dataclass(frozen=True, slots=True)
class ResourceLimit:
    """A limit on accelerators, money or power, and how plans count against it."""

    name: str  # field of the request
    limit: float  # requested value, in the unit of the request
    needed: Callable[[FeasiblePlans], Column]  # what each plan needs, in the same unit
    format_value: Callable[[float], str]  # a value as text with its unit
    field: str  # field of Constraints
    per_unit: float = 1.0  # units of that field per unit of the request

    @property
    def label(self) -> str:
        """The change as text: "raise max_usd_per_hour (now 1)"."""
        return f"raise {self.name} (now {format_number(self.limit)})"

    def least_demanding(self, ways: FeasiblePlans) -> FeasiblePlans:
        """The plan that needs the least of this resource; among equals the cheapest."""
        return ways.take(np.lexsort((ways.price, self.needed(ways)))[:1])

    def with_value(self, question: Question, value: float) -> Question:
        """The question with another value of this limit."""
        changed: Any = {self.field: int(value) if self.field == "max_accelerators" else value * self.per_unit}
        return replace(question, constraints=replace(question.constraints, **changed))


def requested_limits(limits: Constraints) -> list[ResourceLimit]:
    """The limits on accelerators, money and power that the request sets."""
    power_kw = None if limits.max_power_w is None else limits.max_power_w / 1e3
    kinds: tuple[tuple[str, float | None, Callable[[FeasiblePlans], Column], str], ...] = (
        ("max_usd_per_hour", limits.max_usd_per_hour, lambda w: w.usd_per_hour, "USD/h"),
        ("max_purchase_usd", limits.max_purchase_usd, lambda w: np.nan_to_num(w.purchase_usd, nan=0.0), "USD"),
    )
    found: list[ResourceLimit] = []
    if limits.max_accelerators is not None:
        number, name = float(limits.max_accelerators), "max_accelerators"
        found.append(
            ResourceLimit(name, number, lambda w: w.accelerators, lambda v: format_count(v, "accelerator"), name)
        )
    found += [
        ResourceLimit(n, of, needed, partial(_format_amount, unit), n)
        for n, of, needed, unit in kinds
        if of is not None
    ]
    if power_kw is not None:
        kw = partial(_format_amount, "kW")
        found.append(ResourceLimit("max_power_kw", power_kw, lambda w: w.rated_w / 1e3, kw, "max_power_w", 1e3))
    return found


def _format_amount(unit: str, value: float) -> str:
    return f"{format_number(round_up_to_digits(value))} {unit}"


def without_resource_limits(question: Question) -> Question:
    """The question without limits on accelerators, money and power. Purchases stay allowed where they were."""
    limits = question.constraints
    free = replace(
        limits,
        max_accelerators=None,
        max_usd_per_hour=None,
        max_purchase_usd=None if limits.max_purchase_usd is None else math.inf,
        max_power_w=None,
    )
    return replace(question, constraints=free, objective=Objective.COST, trace=False)


def find_feasible_plans(question: Question, catalog: Catalog, types: tuple[str, ...] | None = None) -> FeasiblePlans:
    """Every plan that fits and meets the time limits, optionally only of some accelerator types."""
    question = without_resource_limits(question)
    if types is not None:
        if not types:
            return empty_plans()
        question = replace(question, constraints=restrict_to_types(question.constraints, types))
    if isinstance(question.workload, TrainingWorkload):
        return _feasible_runs(question, question.workload, catalog)
    return _feasible_services(question, question.workload, catalog)


def empty_plans() -> FeasiblePlans:
    """An empty table of plans."""
    none = np.zeros(0)
    return FeasiblePlans(np.zeros(0, np.int64), none, none, none, none, none)


def restrict_to_types(limits: Constraints, types: tuple[str, ...]) -> Constraints:
    """The constraints restricted to these accelerator types."""
    unnamed = tuple(name for name in types if name not in limits.named_accelerators)
    return replace(limits, accelerators=types, by_pattern=unnamed, vendors=(), exclude_accelerators=())


def _feasible_services(question: Question, workload: InferenceWorkload, catalog: Catalog) -> FeasiblePlans:
    """Every serving plan that meets the latency limits."""
    search = Search.start(question, catalog).of(workload)
    return plans_from_options(workload, search_plans(search, plans_to_serve(search)))


def plans_from_options(workload: InferenceWorkload, options: Options) -> FeasiblePlans:
    """Resources of serving options."""
    cost, total = options.cost, np.full(len(options), np.nan)
    if workload.volume_requests is not None:
        total = measures(workload, options).usd
    fleet = options.fleet.accelerators
    return FeasiblePlans(options.accelerator, fleet, cost.usd_per_hour, cost.purchase_usd, cost.rated_w, total)


def _feasible_runs(question: Question, workload: TrainingWorkload, catalog: Catalog) -> FeasiblePlans:
    """Every training layout at the smallest size that meets the deadline."""
    layouts = search_layouts(Search.start(question, catalog).of(workload))
    runs = all_smallest_runs(workload, counts_of(workload), layouts, question)
    cost, plans = runs.cost, runs.plans
    total = usd_total(cost.usd_per_hour, runs.run.wall_s * plans.stack.margins.time_factor)
    paid = runs.run.nodes * plans.accelerators_per_node
    return FeasiblePlans(plans.accelerator, paid, cost.usd_per_hour, cost.purchase_usd, cost.rated_w, total)


def meets_resource_limits(sizes: Sequence[ResourceLimit], ways: FeasiblePlans) -> Mask:
    """Mask of plans within the given resource limits."""
    within: Mask = np.ones(len(ways), bool)
    for size in sizes:
        within &= is_at_most(size.needed(ways), size.limit)
    return within


def cheapest_plan(ways: FeasiblePlans) -> FeasiblePlans:
    """The cheapest plan; among equals the one with the fewest accelerators."""
    return ways.take(np.lexsort((ways.accelerators, ways.price))[:1])


def describe_cheapest(ways: FeasiblePlans, catalog: Catalog) -> str:
    """The cheapest plan as text: "8 × NVIDIA H100 SXM5 80GB (15.7 USD/h)"."""
    best = cheapest_plan(ways)
    name = catalog.accelerators[int(best.accelerator[0])].name
    total, bought = one(best.usd_total), one(best.purchase_usd)
    price = f"{format_usd(one(best.usd_per_hour))}/h" if math.isnan(total) else f"{format_usd(total)} in total"
    upfront = "" if math.isnan(bought) else f", {format_usd(bought)} purchase price"
    return f"{one(best.accelerators):,.0f} × {name} ({price}{upfront})"


def accelerator_types(ways: FeasiblePlans, catalog: Catalog) -> tuple[str, ...]:
    """Slugs of the accelerator types in a table of plans."""
    return tuple(catalog.accelerators[i].slug for i in np.unique(ways.accelerator).tolist())
