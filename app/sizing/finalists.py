"""Finds the finalists of one search for a service or a run, and compares the first with its alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.sizing.answer.familiarity import Contenders, explain_published_use
from app.sizing.answer.overkill import CheapestOption
from app.sizing.answer.serving import estimate_deployments, price_deployments
from app.sizing.answer.training import build_training_estimates
from app.sizing.columns import Codes, Column, at
from app.sizing.decisions.ranking import find_runners_up, objective_score
from app.sizing.decisions.search import Search, Workload
from app.sizing.hardware.published_use import use_task
from app.sizing.hardware.support.records import Work
from app.sizing.packing import pack_finalists, with_enough_finalists
from app.sizing.pools.search import better_split
from app.sizing.question import Deployment, Extra, Objective, Question
from app.sizing.result import Cheaper, Effect, Estimate, LevelDeployment, Reason, RunnerUp, ScalingCurve
from app.sizing.serving.choice import or_plans_near_limits, runner_up_engines
from app.sizing.serving.finalists import Finalists, first_replica, ranked_rows, select_finalists
from app.sizing.serving.kinds import serving_backend
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options, check_speculation, measures
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.finalists import assess_finalists
from app.sizing.training.plans import published_tasks
from app.sizing.training.search import CostedRuns, best_runs, run_measures, search_layouts, smallest_runs
from app.sizing.whatif.borderline import (
    BorderlineSearch,
    borderline_run,
    borderline_service,
    cheaper_runs_if_they_fit,
    cheaper_services_if_they_fit,
)
from app.sizing.whatif.cases import (
    best_run_with_larger_batch,
    doubled_accelerators_change,
    find_sensitivity,
    larger_batch_change,
    split_changes,
    volume_changes,
)
from app.sizing.whatif.drafts import cheaper_with_draft
from app.sizing.whatif.prices import RENT_OR_BUY, compare_rent_and_buy, find_cheaper_runs, find_cheaper_services
from app.sizing.workload import InferenceWorkload, Load, TrainingWorkload
from app.work import add_work

# Work of a search besides its plans and simulations, in milliseconds of CPU time, about.
WORK_PER_ANSWERED_SEARCH = 10.0
IN_ONE_POOL = "in one pool: "  # prefix of changes that apply to the best service without separate pools


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Finalists of a search, the best first, with the counts of the search."""

    estimates: tuple[Estimate, ...]
    scores: tuple[float, ...]  # value of the objective of each, less is better
    runners_up: tuple[RunnerUp | None, ...]  # second-best engine of each
    plans: int  # plans evaluated
    feasible_accelerators: int  # accelerator types with a feasible plan
    sensitivity: tuple[Effect, ...] = ()
    scaling: ScalingCurve | None = None  # scaling of the first training run
    cheapest: CheapestOption | None = None  # cheapest feasible option
    cheaper_if: tuple[Cheaper, ...] = ()
    use: Reason | None = None  # what published use has to do with the first place
    borderline: BorderlineSearch | None = None  # finds the cheapest plan that may fit in memory, where nothing does


def find_finalists(search: Search[Workload]) -> SearchResult:
    """Find the finalists for either kind of workload."""
    add_work(WORK_PER_ANSWERED_SEARCH)
    if isinstance(search.question.workload, TrainingWorkload):
        return find_training(search.of(search.question.workload))
    return find_inference(search.of(search.question.workload))


def find_inference(search: Search[InferenceWorkload]) -> SearchResult:
    """Judge every serving plan; the best of each accelerator type becomes a finalist."""
    check_speculation(search.question.constraints.speculative, search.workload)
    plans, borderline = plans_to_serve(search), list[Options]()
    options = by_formulas = or_plans_near_limits(search, plans, search_plans(search, plans, borderline=borderline))
    nothing = SearchResult((), (), (), len(plans), 0, borderline=partial(borderline_service, search, borderline))
    if not len(options):
        return add_pooled_option(search, plans, nothing, np.zeros(0, np.int64))
    closed_form = objective_score(search.question.objective, measures(search.workload, options))
    finalists, types = select_finalists(replace(search, question=with_enough_finalists(search.question)), options)
    options = finalists.options
    if not len(finalists.rows):
        return add_pooled_option(search, plans, nothing, np.zeros(0, np.int64))
    ranked, _ = ranked_rows(search.question, search.workload, options)
    # Pools are of the same types whatever `limit` is: the ranked ones, then the others by formulas.
    types_of = options.accelerator[np.concatenate([finalists.rows, ranked])].tolist()
    leading = np.array([*dict.fromkeys(types_of)], np.int64)
    alone = search.question.first_only and not search.question.companions
    finalists = finalists.keep_best(1) if alone else finalists
    chosen = finalists.chosen_options
    if alone and search.question.cost_only and finalists.runs is not None:
        estimates = price_deployments(search, chosen, finalists.runs)
    else:
        # Only the first option shows its load curve; packing and the objective carbon may change which that is.
        # Curves of requests in flight have no other end at which every confidence level is known.
        keeps_order = not search.question.companions and search.question.objective is not Objective.CARBON
        rows = 1 if keeps_order and search.workload.load is Load.OPEN else None
        finalists = finalists.with_whole_curves(search.question, search.workload, rows)
        estimates = estimate_deployments(search, chosen.plans, chosen.settings, simulated_replicas=finalists.runs)
    estimates, order, scores = pack_finalists(search, estimates, chosen.plans, finalists.scores)
    if search.question.objective is Objective.COST:
        estimates = with_cheaper_levels(estimates, below=False)
    if search.question.objective is Objective.CARBON:
        estimates, order, scores = least_carbon_first(search.question, estimates, order)
    finalists = finalists.take(order, scores).keep_best(search.question.limit)
    shown = finalists.rows
    every = measures(search.workload, options)
    as_known = finalists.all_scores(search.question, search.workload)
    result = SearchResult(
        estimates[: search.question.limit],
        tuple(finalists.scores.tolist()),
        runner_up_engines(search, options.plans, as_known, every.latency_s, shown),
        len(plans),
        types,
        cheapest=cheapest_option(options, search.catalog),
        use=service_use(search, finalists, as_known),
    )
    if search.question.includes(Extra.SENSITIVITY):
        result = replace(result, sensitivity=tuple(service_changes(search, finalists, result.estimates)))
    if search.question.includes(Extra.CHEAPER_IF):
        of_first = search.question, search.workload, options, int(shown[0]), search.catalog
        cheaper = *find_cheaper_services(*of_first), *cheaper_with_draft(*of_first, by_formulas)
        fitting = cheaper_services_if_they_fit(search, borderline, options, int(shown[0]), by_formulas)
        result = replace(result, cheaper_if=(*cheaper, *fitting))
    return add_pooled_option(search, plans, result, leading, float(closed_form.min()))


def with_cheaper_levels(estimates: tuple[Estimate, ...], *, below: bool) -> tuple[Estimate, ...]:
    """The estimates, best first, the first one with other deployments at the levels below or above the requested
    confidence that these serve at less cost.
    """
    first = estimates[0]
    if first.assurance is None or not all(e.assurance and e.fits for e in estimates):
        return estimates
    sure, levels = first.assurance, list(first.assurance.by_level)
    for other in estimates[1:]:
        assert other.assurance is not None
        others = {level.confidence: level for level in other.assurance.by_level}
        for i, own in enumerate(levels):
            its = others.get(own.confidence, own)
            other_level = own.confidence < sure.asked if below else own.confidence > sure.asked
            if other_level and its.cost < own.cost:
                levels[i] = replace(its, deployment=level_deployment(other.deployment))
    return (replace(first, assurance=replace(sure, by_level=tuple(levels))), *estimates[1:])


def level_deployment(d: Deployment) -> LevelDeployment:
    """Type and layout of a deployment, as a level of confidence names them."""
    layout = d.accelerators_per_replica, d.tensor_parallel, d.pipeline_parallel, d.data_parallel
    return LevelDeployment(d.accelerator, *layout, d.weight_format, d.engine)


def service_use(search: Search[InferenceWorkload], finalists: Finalists, score: Column) -> Reason | None:
    """What published use has to do with the first place of a service."""
    contenders = Contenders.of(search, finalists.options.plans, score)
    work = Work(serving_backend(search.workload).phase, task=search.workload.model.task)
    return explain_published_use(search, use_task(work), contenders, int(finalists.rows[0]), finalists.passed)


def run_use(search: Search[TrainingWorkload], runs: CostedRuns, best: Codes, score: Column) -> Reason | None:
    """What published use has to do with the first place of a training run."""
    plans, workload = runs.plans, search.workload
    use, first = plans.use_at(runs.run.accelerators), int(best[0])
    contenders = Contenders(plans.accelerator, plans.framework, use, score)
    task = published_tasks(workload)[int(runs.run.accelerators[first] == 1)]
    return explain_published_use(search, task, contenders, first, int(best[1]) if len(best) > 1 else None)


def service_changes(
    search: Search[InferenceWorkload], finalists: Finalists, estimates: Sequence[Estimate]
) -> Iterator[Effect]:
    """What would change the first of the ranked recommendations."""
    options = finalists.options
    if search.workload.is_finite:
        yield from volume_changes(search, options)
        return
    yield from find_sensitivity(search, options, finalists.rows, estimates[0], first_replica(finalists.runs))
    yield from compare_rent_and_buy(search, options, estimates, finalists.scores)


def add_pooled_option(
    search: Search[InferenceWorkload],
    plans: Plans,
    result: SearchResult,
    types: Codes,
    expected_at: float = np.inf,
) -> SearchResult:
    """The search result, preceded by separate prefill and decode pools of these types where they are better."""
    ranked_at = min(result.scores, default=np.inf)
    split = better_split(search, plans, types, simulated_score=ranked_at, expected_score=expected_at)
    if split is None:
        return result
    pooled, pair = split
    own, before = estimate_usd_per_hour(pooled), estimate_usd_per_hour(result.estimates[0]) if result.estimates else 0.0
    changes = split_changes(search, pooled, pair) if search.question.includes(Extra.SENSITIVITY) else ()
    return replace(
        result,
        sensitivity=(
            *changes,
            *(replace(c, change=f"{IN_ONE_POOL}{c.change}") for c in result.sensitivity if c.change == RENT_OR_BUY),
        ),
        cheaper_if=tuple(
            replace(c, saves_share=1 - (1 - c.saves_share) * before / own)
            for c in result.cheaper_if
            if (1 - c.saves_share) * before < own * (1 - search.question.assumptions.near_tie_share)
        ),
        estimates=(pooled, *(replace(e, day=None, packing=None) for e in result.estimates))[: search.question.limit],
        scores=(pair.score, *result.scores)[: search.question.limit],
        runners_up=(None, *result.runners_up)[: search.question.limit],
        feasible_accelerators=max(1, result.feasible_accelerators),
        use=None,
    )


def estimate_usd_per_hour(estimate: Estimate) -> float:
    """Mean cost of an estimate over a day, USD/h; 0 where the price is unknown."""
    return (None if estimate.cost is None else estimate.cost.usd_per_hour) or 0.0


def cheapest_option(options: Options, catalog: Catalog) -> CheapestOption:
    """The feasible option with the lowest mean cost per hour over a day."""
    row = int(np.argmin(options.daily_usd_per_hour))
    name = catalog.accelerators[int(options.accelerator[row])].name
    return CheapestOption(name, int(at(options.fleet.accelerators, row)), at(options.daily_usd_per_hour, row))


def least_carbon_first(
    question: Question, estimates: Sequence[Estimate], order: Codes
) -> tuple[tuple[Estimate, ...], Codes, Column]:
    """Estimates by the greenhouse gases that they show, with their order and ranking values: judged by themselves,
    deployments of work with a volume may last longer or shorter than in the search.
    """
    carbon = (None if e.cost is None or e.cost.carbon is None else e.cost.carbon.kg_per_million for e in estimates)
    scores = np.array([np.inf if kg is None else kg / 1e6 / question.economics.pue for kg in carbon])
    rows = np.argsort(scores, kind="stable")
    return tuple(estimates[row] for row in rows.tolist()), order[rows], scores[rows]


def find_training(search: Search[TrainingWorkload]) -> SearchResult:
    """Judge every layout at the smallest size that fits and meets the deadline."""
    counts = counts_of(search.workload)
    layouts = search_layouts(search)
    runs = smallest_runs(search.workload, counts, layouts, search.question, search.rejections)
    if not len(runs):
        return SearchResult((), (), (), len(layouts), 0, borderline=partial(borderline_run, search, counts, layouts))
    best, compared = best_runs(counts, runs, search.question)
    shown = best[: 1 if search.question.first_only else search.question.limit]
    chosen = runs.take(shown)
    scaled = None if search.question.first_only else layouts
    judged = assess_finalists(counts, chosen.plans, chosen.run, search.workload.deadline_s, search.question, scaled)
    estimates = build_training_estimates(search, judged)
    result = SearchResult(
        estimates,
        tuple(objective_score(search.question.objective, run_measures(counts, chosen)).tolist()),
        find_runners_up(search, runs.plans.accelerator, runs.plans.framework, compared, runs.run.wall_s, shown),
        len(layouts),
        len(best),
        use=run_use(search, runs, best, compared),
    )
    if search.question.first_only:
        return result
    larger = (
        None
        if search.workload.batch_requested or not search.question.includes(Extra.SENSITIVITY)
        else best_run_with_larger_batch(search.workload, layouts, chosen, search.question)
    )
    cheaper = tuple[Cheaper, ...]()
    if search.question.includes(Extra.CHEAPER_IF):
        cheaper = find_cheaper_runs(search.question, counts, search.workload.deadline_s, chosen, search.catalog)
        cheaper = (*cheaper, *cheaper_runs_if_they_fit(search, counts, layouts, chosen))
    return replace(
        result,
        sensitivity=(
            *doubled_accelerators_change(estimates[0], judged.scaling),
            *larger_batch_change(search.workload, estimates[0], larger),
        ),
        scaling=judged.scaling,
        cheaper_if=cheaper,
    )
