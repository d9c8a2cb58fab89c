"""Borderline plans: those that may fit in memory, although not at the requested confidence.

They are never ranked. The cheapest one is named with its probability of fitting where it costs less than the first
option, or where nothing else is feasible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from app.sizing.answer.money import format_usd
from app.sizing.answer.training import OFFLOADED_PARTS
from app.sizing.columns import GIB, Column, Indexed, at, concat_tables, lazy_rows
from app.sizing.decisions.acquisition import SoldMachine, describe_sold_machines
from app.sizing.decisions.cost import usd_total
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.formula import suspend_recording
from app.sizing.hardware.tables import FORMATS
from app.sizing.result import BORDERLINE_PROBABILITY, Cheaper, Effect, FilterStage
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.options import Options, measures
from app.sizing.serving.search import confidence_margins, memory_left
from app.sizing.serving.search import fit_probability as serving_fit_probability
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import ACTIVATION_CHECKPOINTING
from app.sizing.training.memory import fit_probability, memory_factor
from app.sizing.training.plans import TrainingPlans, TrainingStacks
from app.sizing.training.run import run_fits_at_confidence
from app.sizing.training.search import CostedRuns, run_measures, smallest_runs
from app.sizing.words import format_distinct_numbers, format_name, percent, product_name
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload

SERVICE_RISK = "start the engine and read the memory that it reports; sized by formulas, not simulated"
RUN_RISK = "train a few steps and read the peak memory"
PROBABILITY_DIGITS = 6  # probabilities that differ less are equal


@dataclass(frozen=True, slots=True)
class BorderlinePlan:
    """A plan that may fit in memory, with its cost if it does."""

    at_sale: SoldMachine
    layout: str  # software and split of the model
    accelerators: float  # accelerators paid for
    usd_per_hour: float  # USD/h
    usd_total: float | None  # cost of work with an end, USD
    usd: float  # cost that plans are compared by, USD or USD/h
    probability: float  # probability of fitting in memory
    needed_bytes: float  # memory needed on the fullest device, as the rejection of a type states it, B
    available_bytes: float  # memory that may be used there, B
    risk: str  # what to check first

    def describe(self) -> str:
        """The plan in words, with its probability of fitting and its near miss."""
        needed, available = format_distinct_numbers(self.needed_bytes / GIB, self.available_bytes / GIB)
        return (
            f"a plan that is {percent(self.probability)} likely to fit in memory "
            f"({self.layout}; it needs {needed} of {available} GiB)"
        )


BorderlineSearch = Callable[[], BorderlinePlan | None]


def cheaper_services_if_they_fit(
    search: Search[InferenceWorkload], borderline: list[Options], options: Options, best: int, by_formulas: Options
) -> tuple[Cheaper, ...]:
    """The cheapest borderline plan of a service; empty where none costs less than the first option by more than a near
    tie.

    Work without a rate needs no least number of replicas. Only replicas smaller than every replica of their type that
    fits can then cost less: a smaller batch lowers the rate of the others.

    Parameters:
        borderline: tables of options that may fit in memory.
        options: options of the search, of which the finalists are sized by their simulation.
        best: row of the first option.
        by_formulas: the same options before any simulation: no borderline plan is offered that they undercut.
    """
    with suspend_recording():
        usd = at(measures(search.workload, options).usd, best)
        least = min(usd, float(measures(search.workload, by_formulas).usd.min()))
        if search.workload.is_finite or search.workload.load is Load.OFFLINE:
            smallest = np.full(len(search.catalog.accelerators), np.inf)
            np.minimum.at(smallest, by_formulas.accelerator, by_formulas.plans.accelerators_per_replica)
            borderline = [
                each.take(each.plans.accelerators_per_replica < smallest[each.accelerator]) for each in borderline
            ]
        found = borderline_service(search, borderline, least * (1 - search.question.assumptions.near_tie_share))
    return () if found is None else (offer(found, usd),)


def cheaper_runs_if_they_fit(
    search: Search[TrainingWorkload], counts: Counts, layouts: TrainingPlans, chosen: CostedRuns
) -> tuple[Cheaper, ...]:
    """The cheapest borderline run of a type that is rejected for its memory; empty where none costs less than the first
    of the chosen runs by more than a near tie.
    """
    with suspend_recording():
        usd = at(run_measures(counts, chosen).usd, 0)
        found = borderline_run(search, counts, layouts, usd * (1 - search.question.assumptions.near_tie_share))
    return () if found is None else (offer(found, usd),)


def offer(plan: BorderlinePlan, usd: float) -> Cheaper:
    """A borderline plan as an option that costs less than the first one, which costs `usd`."""
    price = plan.at_sale.price
    assert price is not None and plan.at_sale.provider is not None
    return Cheaper(
        accepting=plan.describe(),
        accelerator=plan.at_sale.accelerator.slug,
        total_accelerators=int(plan.accelerators),
        provider=plan.at_sale.provider,
        usd_per_hour=plan.usd_per_hour,
        usd_total=plan.usd_total,
        saves_share=1 - plan.usd / usd,
        kind=price.terms.kind,
        observed=price.terms.observed,
        risk=plan.risk,
    )


def feasible_if_it_fits(find: BorderlineSearch | None, rejections: Rejections) -> tuple[Effect, ...]:
    """The cheapest borderline plan of a search that found nothing; empty if there is none.

    Types that lack memory, accelerators or money may have one: of the latter, only larger deployments fit.
    """
    reasons = rejections.by_accelerator.values()
    likely = any(r.fit_probability >= BORDERLINE_PROBABILITY or r.stage is FilterStage.LIMITS for r in reasons)
    plan = find() if find is not None and likely else None
    if plan is None:
        return ()
    cost = f"{format_usd(plan.usd_per_hour)}/h"
    if plan.usd_total is not None:
        cost = f"{format_usd(plan.usd_total)} in total"
    hardware = f"{plan.accelerators:,.0f} × {plan.at_sale.accelerator.name}"
    return (Effect(f"accept {plan.describe()}", f"feasible with {hardware} at {cost} if it fits: {plan.risk}"),)


def rejected_at_the_border(rejections: Rejections) -> dict[float, list[int]]:
    """Accelerator types of which the nearest plan is borderline, by its probability of fitting."""
    types = dict[float, list[int]]()
    for i, reason in rejections.by_accelerator.items():
        if reason.fit_probability >= BORDERLINE_PROBABILITY:
            types.setdefault(round(reason.fit_probability, PROBABILITY_DIGITS), []).append(i)
    return types


def borderline_service(
    search: Search[InferenceWorkload], borderline: list[Options], to_beat: float = np.inf
) -> BorderlinePlan | None:
    """The cheapest of the options that may fit in memory below a cost; of near ties, the one that is most likely to
    fit. None if there is none.
    """
    question, workload = search.question, search.workload
    if not borderline:
        return None
    options = concat_tables(borderline)
    usd = measures(workload, options).usd
    least = np.fmin.reduce(usd, initial=np.inf)
    options = options.take(usd < min(to_beat, least * (1 + question.assumptions.near_tie_share)))
    if not len(options):
        return None
    margins, kind = confidence_margins(search, options.plans), serving_backend(workload)
    memory = kind.estimate_memory(workload, options.plans, question.assumptions, Settings(), margins)
    likely = serving_fit_probability(memory_left(memory, margins), question.constraints.confidence)
    usd = measures(workload, options).usd
    row = int(np.lexsort((usd, -likely))[0])
    chosen = options.plans.take(np.array([row]))
    degrees = chosen.tensor_parallel, chosen.pipeline_parallel, chosen.data_parallel
    stored = format_name(FORMATS[int(chosen.weight_format[0])])
    engine = product_name(search.catalog.engines[int(chosen.engine[0])])
    (at_sale,) = describe_sold_machines(search.catalog, chosen.offered, question.today, question.economics.discounts)
    if at_sale.price is None or at_sale.provider is None:
        return None
    return BorderlinePlan(
        at_sale=at_sale,
        layout=f"{engine}, {stored}, {describe_degrees(*degrees)}",
        accelerators=at(options.fleet.accelerators, row),
        usd_per_hour=at(options.daily_usd_per_hour, row),
        usd_total=at(usd, row) if workload.is_finite else None,
        usd=at(usd, row),
        probability=at(likely, row),
        needed_bytes=at(memory.needed_bytes, row),
        available_bytes=at(memory.usable_bytes, row),
        risk=SERVICE_RISK,
    )


def describe_degrees(tensor: Column, pipeline: Column, data: Column) -> str:
    """Degrees of parallelism of one plan in words; those of one device are left out."""
    degrees = (("tensor", tensor), ("pipeline", pipeline), ("data", data))
    split = [f"{name} parallel {at(degree, 0):.0f}" for name, degree in degrees if at(degree, 0) > 1]
    return ", ".join(split) or "not split"


def borderline_run(
    search: Search[TrainingWorkload], counts: Counts, layouts: TrainingPlans, to_beat: float = np.inf
) -> BorderlinePlan | None:
    """The cheapest borderline run below a cost, of types that are rejected for their memory; of near ties, the one that
    is most likely to fit. None if there is none.

    The run is at least as likely to fit as the plan that the rejection of its type names. The time margin is that of
    the requested confidence. Layouts that offload to the host are slow: they are considered without a cost to beat.
    """
    usual = ~(layouts.last_resort | layouts.optimizer_offload) | np.isinf(to_beat)
    found = list[BorderlinePlan]()
    for likely, types in rejected_at_the_border(search.rejections).items():
        rows = np.flatnonzero(np.isin(layouts.accelerator, types) & usual)
        plan = likely_run(search, counts, layouts.take(rows), likely, to_beat) if len(rows) else None
        found += [] if plan is None else [plan]
    most = min((plan.usd for plan in found), default=0.0) * (1 + search.question.assumptions.near_tie_share)
    return max((plan for plan in found if plan.usd <= most), key=lambda plan: plan.probability, default=None)


def likely_run(
    search: Search[TrainingWorkload], counts: Counts, layouts: TrainingPlans, likely: float, to_beat: float
) -> BorderlinePlan | None:
    """The cheapest run below a cost that fits in memory with at least a probability, but not at the requested
    confidence; of near ties, the one that is most likely to fit. None if there is none.
    """
    question, workload = search.question, search.workload
    asked = layouts.stack.margins.asked
    at_border = with_memory_confidence(layouts, likely - 10**-PROBABILITY_DIGITS)
    runs = smallest_runs(workload, counts, at_border, question, search.unrecorded().rejections)
    usd = run_measures(counts, runs).usd
    known = ~np.isnan(runs.cost.usd_per_hour)
    as_asked = with_memory_confidence(runs.plans, asked)
    runs = runs.take(known & (usd < to_beat) & ~run_fits_at_confidence(as_asked, runs.run, question.assumptions))
    if not len(runs):
        return None
    usd = run_measures(counts, runs).usd
    runs = runs.take(usd <= usd.min() * (1 + question.assumptions.near_tie_share))
    usd, fits = run_measures(counts, runs).usd, fit_probability(runs.plans, runs.run.memory)
    row = int(np.lexsort((usd, -fits))[0])
    chosen, run = runs.plans.take(np.array([row])), runs.run.take(np.array([row]))
    (at_sale,) = describe_sold_machines(search.catalog, chosen.offered, question.today, question.economics.discounts)
    if at_sale.price is None or at_sale.provider is None:
        return None
    needed, available = at(run.memory.total_bytes, 0), at(run.memory.usable_bytes, 0)
    if needed <= available:  # the median prediction fits
        needed *= at(memory_factor(chosen, run.memory, asked), 0)
        available = at(run.memory.capacity_bytes, 0)
    framework = product_name(search.catalog.engines[int(chosen.framework[0])])
    degrees = describe_degrees(chosen.tensor_parallel, chosen.pipeline_parallel, run.data_parallel)
    kept = ACTIVATION_CHECKPOINTING[int(chosen.activation_checkpointing[0])]
    moved = " and ".join(text for name, text in OFFLOADED_PARTS.items() if getattr(chosen, name)[0])
    return BorderlinePlan(
        at_sale=at_sale,
        layout=f"{framework}, {degrees}, activation checkpointing {kept}{moved and f', {moved} in host memory'}",
        accelerators=at(run.nodes * chosen.accelerators_per_node, 0),
        usd_per_hour=at(runs.cost.usd_per_hour, row),
        usd_total=at(usd_total(runs.cost.usd_per_hour, runs.run.wall_s), row),
        usd=at(usd, row),
        probability=at(fits, row),
        needed_bytes=needed,
        available_bytes=available,
        risk=RUN_RISK,
    )


def with_memory_confidence(plans: TrainingPlans, confidence: float) -> TrainingPlans:
    """Plans whose memory has to fit at another confidence; their time margins stay."""
    stack = cast(Indexed[TrainingStacks], plans.stack)
    table = replace(stack.table, margins=replace(stack.table.margins, asked=confidence))
    return replace(plans, stack=lazy_rows(table, stack.rows))
