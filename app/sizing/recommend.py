"""The path from a workload to an answer, in reading order.

    candidates -> plans -> memory -> speed -> replicas and cost -> best plan per type -> simulation -> text

Closed formulas choose the finalists. Finalists that serve token streams are sized and ranked by a simulation of their
schedulers (`serving.finalists`). Each finalist is then judged as the complete deployment of the answer, by the function
that /estimate uses (`estimate.py`), so a recommendation and its estimate cannot differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from app.sizing.answer.discount import find_leading_discount
from app.sizing.answer.money import compare_hosted_api, mean_usd_per_hour
from app.sizing.answer.overkill import CheapestOption, explain_idle_hardware
from app.sizing.answer.sensitivity import RENT_OR_BUY, find_sensitivity
from app.sizing.answer.serving import estimate_deployments
from app.sizing.answer.summary import add_comparisons, collect_assumptions, write_summary
from app.sizing.answer.training import build_training_estimates, doubled_accelerators_change, larger_batch_change
from app.sizing.answer.verification import choose_verification
from app.sizing.answer.volume import volume_changes
from app.sizing.answer.warnings import find_warnings
from app.sizing.classes import shared_fleet
from app.sizing.columns import Codes, at
from app.sizing.decisions.ranking import find_runners_up, objective_score
from app.sizing.decisions.rejections import Rejections
from app.sizing.packing import pack_finalists, with_enough_finalists
from app.sizing.pools.changes import split_changes
from app.sizing.pools.search import better_split
from app.sizing.question import Question
from app.sizing.relaxations.changes import find_relaxations
from app.sizing.relaxations.cheaper import find_cheaper_runs, find_cheaper_services
from app.sizing.result import Answer, Change, Cheaper, Considered, Estimate, Ranked, RunnerUp, ScalingCurve
from app.sizing.serving.finalists import first_replica, select_finalists
from app.sizing.serving.offload import plans_to_serve
from app.sizing.serving.options import Options, measures
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import search_plans
from app.sizing.snapshot import Catalog
from app.sizing.training.batch import best_run_with_larger_batch
from app.sizing.training.counts import counts_of
from app.sizing.training.finalists import assess_finalists
from app.sizing.training.scaling import scaling_curve
from app.sizing.training.search import best_runs, run_measures, search_layouts, smallest_runs
from app.sizing.workload import InferenceWorkload, TrainingWorkload

IN_ONE_POOL = "in one pool: "  # prefix of changes that apply to the best service without separate pools


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Finalists of a search, the best first, with the counts of the search."""

    estimates: tuple[Estimate, ...]
    scores: tuple[float, ...]  # value of the objective of each, less is better
    runners_up: tuple[RunnerUp | None, ...]  # second-best engine of each
    plans: int  # plans evaluated
    feasible_accelerators: int  # accelerator types with a feasible plan
    sensitivity: tuple[Change, ...] = ()
    scaling: ScalingCurve | None = None  # scaling of the first training run
    cheapest: CheapestOption | None = None  # cheapest feasible option
    cheaper_if: tuple[Cheaper, ...] = ()


def recommend_hardware(question: Question, catalog: Catalog) -> Answer:
    """Rank the hardware that can run a workload, and explain why the rest was rejected."""
    question = replace(question, assumptions=question.assumptions.with_recording())
    rejections = Rejections(catalog.accelerators)
    result = find_finalists(question, catalog, rejections)
    rejected = rejections.closest_first()
    ranked = rank_estimates(result, catalog)
    considered = Considered(len(catalog.accelerators), result.plans, result.feasible_accelerators)
    if question.ranking_only:
        return Answer("", (), (), ranked, (), {}, considered, ())
    sensitivity = (*result.sensitivity, *find_leading_discount(question, ranked))
    if not result.estimates:
        sensitivity = find_relaxations(question, catalog, rejected)
    ranked = add_comparisons(ranked, question, result.feasible_accelerators)
    ranked = explain_idle_hardware(question, ranked, result.cheapest, rejected)
    ranked = add_class_comparison(question, catalog, ranked)
    notices = find_warnings(question, ranked, result.cheapest)
    settled = choose_verification(question, ranked)
    return Answer(
        summary=write_summary(question, ranked, rejected),
        assumptions=collect_assumptions(question),
        warnings=notices,
        recommendations=ranked,
        rejected=tuple(rejected[: question.rejected_limit]),
        rejected_by_code=dict(sorted(Counter(r.code for r in rejected).items())),
        considered=considered,
        sensitivity=sensitivity,
        verification=settled,
        scaling=result.scaling,
        cheaper_if=result.cheaper_if,
        hosted_api=compare_hosted_api(question, catalog, ranked[0].estimate if ranked else None),
    )


def add_class_comparison(question: Question, catalog: Catalog, ranked: tuple[Ranked, ...]) -> tuple[Ranked, ...]:
    """Add to the first recommendation the comparison with a separate service per traffic class."""
    if not ranked:
        return ()
    first, *others = ranked
    estimate = replace(first.estimate, shared=shared_fleet(question, catalog, first.estimate))
    return replace(first, estimate=estimate), *others


def rank_estimates(result: SearchResult, catalog: Catalog) -> tuple[Ranked, ...]:
    """The finalists with their rank and score."""
    best = result.scores[0] if result.scores else 0.0
    return tuple(
        Ranked(
            rank=i + 1,
            score=best / score if score > 0 else 1.0,
            estimate=estimate,
            accelerator=catalog.accelerators[catalog.accelerator_index[estimate.deployment.accelerator]],
            runner_up=rival,
            names=catalog.names_in(estimate.deployment),
        )
        for i, (estimate, score, rival) in enumerate(
            zip(result.estimates, result.scores, result.runners_up, strict=True)
        )
    )


def find_finalists(question: Question, catalog: Catalog, rejections: Rejections) -> SearchResult:
    """Find the finalists for either kind of workload."""
    if isinstance(question.workload, TrainingWorkload):
        return find_training(question, question.workload, catalog, rejections)
    return find_inference(question, question.workload, catalog, rejections)


def find_inference(
    question: Question, workload: InferenceWorkload, catalog: Catalog, rejections: Rejections
) -> SearchResult:
    """Judge every serving plan; the best of each accelerator type becomes a finalist."""
    plans = plans_to_serve(question, workload, catalog, rejections)
    options = search_plans(question, workload, plans, catalog, rejections)
    nothing, any_type = SearchResult((), (), (), len(plans), 0), np.zeros(0, np.int64)
    if not len(options):
        return add_pooled_option(question, workload, plans, catalog, nothing, any_type)
    closed_form = objective_score(question.objective, measures(workload, options))
    finalists, types = select_finalists(with_enough_finalists(question), workload, options, catalog, rejections)
    options, chosen = finalists.options, finalists.chosen_options
    if not len(finalists.rows):
        return add_pooled_option(question, workload, plans, catalog, nothing, any_type)
    estimates = estimate_deployments(
        question, workload, chosen.plans, catalog, chosen.settings, simulated_replicas=finalists.runs
    )
    on = chosen.plans, finalists.scores, catalog
    estimates, order, scores = pack_finalists(question, workload, estimates, *on)
    finalists = finalists.take(order, scores).keep_best(question.limit)
    shown = finalists.rows
    engines, formats = options.plans.engine, options.plans.weight_format
    as_known = objective_score(question.objective, measures(workload, options))
    result = SearchResult(
        estimates[: question.limit],
        tuple(finalists.scores.tolist()),
        find_runners_up(question, catalog, options.accelerator, engines, as_known, shown, formats),
        len(plans),
        types,
        cheapest=cheapest_option(options, catalog),
    )
    if not question.ranking_only:
        first = int(shown[0])
        result = replace(
            result,
            sensitivity=volume_changes(question, workload, options)
            if workload.is_finite
            else find_sensitivity(
                question, workload, options, first, estimates[0], catalog, first_replica(finalists.runs)
            ),
            cheaper_if=find_cheaper_services(question, workload, options, first, catalog),
        )
    return add_pooled_option(
        question, workload, plans, catalog, result, options.accelerator[shown], float(closed_form.min())
    )


def add_pooled_option(
    question: Question,
    workload: InferenceWorkload,
    plans: Plans,
    catalog: Catalog,
    result: SearchResult,
    types: Codes,
    expected_at: float = np.inf,
) -> SearchResult:
    """The search result, preceded by separate prefill and decode pools of these types where they are better."""
    ranked_at = min(result.scores, default=np.inf)
    split = better_split(
        question, workload, plans, catalog, types, simulated_score=ranked_at, expected_score=expected_at
    )
    if split is None:
        return result
    pooled, pair = split
    own, before = estimate_usd_per_hour(pooled), estimate_usd_per_hour(result.estimates[0]) if result.estimates else 0.0
    changes = () if question.ranking_only else split_changes(question, workload, pooled, pair, catalog)
    return replace(
        result,
        sensitivity=(
            *changes,
            *(replace(c, change=f"{IN_ONE_POOL}{c.change}") for c in result.sensitivity if c.change == RENT_OR_BUY),
        ),
        cheaper_if=tuple(
            replace(c, saves_share=1 - (1 - c.saves_share) * before / own)
            for c in result.cheaper_if
            if (1 - c.saves_share) * before < own * (1 - question.assumptions.near_tie_share)
        ),
        estimates=(pooled, *(replace(e, day=None, packing=None) for e in result.estimates))[: question.limit],
        scores=(pair.score, *result.scores)[: question.limit],
        runners_up=(None, *result.runners_up)[: question.limit],
        feasible_accelerators=max(1, result.feasible_accelerators),
    )


def estimate_usd_per_hour(estimate: Estimate) -> float:
    """Mean cost of an estimate over a day, USD/h; 0 where the price is unknown."""
    return mean_usd_per_hour(estimate.cost) or 0.0


def cheapest_option(options: Options, catalog: Catalog) -> CheapestOption:
    """The feasible option with the lowest mean cost per hour over a day."""
    row = int(np.argmin(options.daily_usd_per_hour))
    name = catalog.accelerators[int(options.accelerator[row])].name
    return CheapestOption(name, int(at(options.fleet.accelerators, row)), at(options.daily_usd_per_hour, row))


def find_training(
    question: Question, workload: TrainingWorkload, catalog: Catalog, rejections: Rejections
) -> SearchResult:
    """Judge every layout at the smallest size that fits and meets the deadline."""
    counts = counts_of(workload)
    layouts = search_layouts(question, workload, catalog, rejections)
    runs = smallest_runs(workload, counts, layouts, question, rejections)
    if not len(runs):
        return SearchResult((), (), (), len(layouts), 0)
    best, compared = best_runs(counts, runs, question)
    shown = best[: question.limit]
    chosen = runs.take(shown)
    judged = assess_finalists(counts, chosen.plans, chosen.run, workload.deadline_s, question)
    estimates = build_training_estimates(workload, judged, catalog, question)
    result = SearchResult(
        estimates,
        tuple(objective_score(question.objective, run_measures(counts, chosen)).tolist()),
        find_runners_up(question, catalog, runs.plans.accelerator, runs.plans.framework, compared, shown),
        len(layouts),
        len(best),
    )
    if question.ranking_only:
        return result
    curve = scaling_curve(counts, layouts, chosen, question)
    larger = None if workload.batch_requested else best_run_with_larger_batch(workload, layouts, chosen, question)
    return replace(
        result,
        sensitivity=(
            *doubled_accelerators_change(estimates[0], curve),
            *larger_batch_change(workload, estimates[0], larger),
        ),
        scaling=curve,
        cheaper_if=find_cheaper_runs(question, counts, workload.deadline_s, chosen, catalog),
    )
