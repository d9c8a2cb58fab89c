"""Training search: machines, layouts, the smallest run that fits and meets the deadline, and its cost.

The answer and /estimate evaluate finalists with the same code, so their figures cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, Table, column, column_names, concat_tables
from app.sizing.decisions.cost import Cost, usd_total, within_limits
from app.sizing.decisions.machines import Candidates, apply_oversubscription, drop_dominated, find_candidates
from app.sizing.decisions.ranking import Measures, best_per_accelerator, objective_score
from app.sizing.decisions.rejections import NullRejections, Rejections
from app.sizing.decisions.unsupported import SupportFilter
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.links import LINKS, known_network_bytes_per_s
from app.sizing.hardware.parts import Link
from app.sizing.hardware.recipes import Recipes, apply_settings, in_16_bit, recipe_of_framework
from app.sizing.hardware.stacks import competing_mask
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.trainers import Trainers, training_work
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Catalog
from app.sizing.surroundings import Shape, StackKey, evidence_pool
from app.sizing.training.around import degrees_near_size
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import group_rows
from app.sizing.training.least import lower_bound_measures, lowest_bounds_per_type
from app.sizing.training.margins import Margins, build_margins, meets_deadline_at_confidence
from app.sizing.training.outcome import units_per_s
from app.sizing.training.plans import TrainingMachines, TrainingPlans, TrainingStacks, build_training_plans
from app.sizing.training.preference import best_row_per_type, pipeline_handicap
from app.sizing.training.reach import machines_able_to_hold
from app.sizing.training.recipes import BYTES_32_BIT, PRECISIONS
from app.sizing.training.run import Run, run_at, run_cost, run_fits_at_confidence
from app.sizing.training.shortfalls import reject_untrainable
from app.sizing.training.smallest import Attempts, SizedLayouts, attempt_layouts, size_attempts
from app.sizing.workload import Method, TrainingWorkload
from app.work import stage

# Placeholder rate for accelerators without a link, over which nothing is transferred.
NO_LINK_BYTES_PER_S = 1e15


def search_layouts(
    question: Question, workload: TrainingWorkload, catalog: Catalog, rejections: Rejections
) -> TrainingPlans:
    """Return the layouts that a question allows, on affordable machines that no other machine dominates."""
    constraints, assumed = question.constraints, question.assumptions
    candidate_query = (catalog, constraints, question.economics, assumed, rejections)
    machines = find_candidates(*candidate_query, ends=True, today=question.today)
    machines = apply_oversubscription(drop_dominated(machines), assumed)
    return training_layouts(workload, catalog, machines, constraints, rejections, assumed)


def training_layouts(
    workload: TrainingWorkload,
    catalog: Catalog,
    offered_machines: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    assumed: Assumptions,
    *,
    fixed: Deployment | None = None,
) -> TrainingPlans:
    """Return the layouts on every machine that may hold the model, for the catalog's or the requested framework."""
    engines = (fixed.framework,) if fixed is not None and fixed.framework is not None else constraints.engines
    required = training_work(workload.phase, workload.method.value, workload.precision, workload.model.task)
    trainers = _allowed_trainers(catalog, *required, engines)
    pairs = list(zip(trainers.family.tolist(), trainers.engine.tolist(), strict=True))
    machines = _training_machines(workload, catalog, offered_machines, assumed)
    return build_training_plans(
        workload,
        machines if fixed else machines_able_to_hold(workload, machines),
        _training_stacks(
            workload,
            catalog,
            trainers,
            pairs,
            _framework_recipes(workload, catalog, trainers, fixed),
            constraints.confidence,
            assumed,
        ),
        [engine_named(catalog.engines[engine]).framework for _, engine in pairs],
        trainers.on,
        rejections,
        SupportFilter(catalog, engines, frozenset({required[0]}), required[1]),
        fixed=fixed,
    )


def _allowed_trainers(catalog: Catalog, weight_format: str, work: Work, engines: tuple[str, ...]) -> Trainers:
    """Return the allowed frameworks for this kind of training, on the accelerators where each competes."""
    supported = catalog.software.trainers(weight_format, work)
    if not engines:
        on = competing_mask(supported.on, supported.expected, supported.named_only)
        return replace(supported, on=on).take(np.flatnonzero(on.any(axis=1)))
    return supported.take(np.array([name in engines for name in catalog.engines], dtype=bool)[supported.engine])


def _training_machines(
    workload: TrainingWorkload, catalog: Catalog, offered_machines: Candidates, assumed: Assumptions
) -> TrainingMachines:
    """Return the machines on sale with the properties that training needs; BF16 requires hardware support."""
    precision, columns = PRECISIONS[workload.precision], catalog.columns
    node, accelerator = offered_machines.node, offered_machines.node.accelerator
    peak, wide = (
        columns.matrix_rate(precision.format_class)[accelerator] * node.share,
        columns.bit16[accelerator] * node.share,
    )
    if precision.needs_bf16:
        peak = np.where(columns.has_bf16[accelerator], peak, np.nan)
    whole = precision.weight_bytes == BYTES_32_BIT
    network, link = node.network_bytes_per_s, node.link_bytes_per_s
    joined, training_class = np.maximum(node.accelerators_per_node, node.scale_up_domain), columns.training_class
    return TrainingMachines(
        offered=offered_machines,
        family=catalog.family_of[accelerator],
        spot=offered_machines.spot,
        training_class=training_class[accelerator],
        unified_memory=columns.unified[accelerator],
        peak_flops_per_s=peak,
        unquantised_flops_per_s=peak if whole else np.where(np.isnan(wide), peak, wide),
        memory_bytes_per_s=columns.bytes_per_s[accelerator] * node.share,
        pcie=node.link == LINKS.index(Link.PCIE),
        scale_up_bytes_per_s=np.where(link > 0, link, NO_LINK_BYTES_PER_S),
        network_bytes_per_s=known_network_bytes_per_s(network, assumed),
        scale_up_accelerators=joined,
        shape=group_rows(node.accelerators_per_node, joined, training_class[accelerator], np.isnan(network))[1],
    )


def _training_stacks(
    workload: TrainingWorkload,
    catalog: Catalog,
    trainers: Trainers,
    pairs: list[tuple[int, int]],
    recipes: Recipes,
    confidence: float,
    assumed: Assumptions,
) -> TrainingStacks:
    """Return the behavior and achieved rates of each framework on each accelerator family."""
    rate, traits = PRECISIONS[workload.precision].format_class, catalog.frameworks.take(trainers.engine)

    def coefficient_table(table: type[Table], *, read: bool = True) -> Table:
        keys = _coefficient_keys(workload, catalog, pairs) if read else []
        rows = [catalog.coefficients.stack_row(table, family, engine, rate) for engine, family in keys]
        return table(**{name: column([r[name] for r in rows]) for name in column_names(table)})

    return TrainingStacks(
        family=trainers.family,
        framework=trainers.engine,
        expected=trainers.expected,
        interleaved_pipeline=traits.splits,
        sequence_parallel=traits.splits,
        recipe=recipes,
        single_accelerator=traits.single_accelerator,
        token_achieved=coefficient_table(TrainingAchieved, read=not workload.in_samples),
        sample_achieved=coefficient_table(SampleTrainingAchieved, read=workload.in_samples),
        memory_factors=coefficient_table(TrainingMemoryFactors),
        margins=_stack_margins(workload, catalog, trainers.expected, pairs, recipes.published, confidence, assumed),
    )


def _framework_recipes(
    workload: TrainingWorkload, catalog: Catalog, trainers: Trainers, fixed: Deployment | None
) -> Recipes:
    """Return the memory recipe of each framework, with a deployment's version, overrides and precision."""
    method = workload.method.value
    if fixed is None or (fixed.recipe is None and fixed.framework_version is None):
        recipes = catalog.recipes[method].take(trainers.engine)
    else:
        names = [catalog.engines[engine] for engine in trainers.engine.tolist()]
        requested_recipes = [recipe_of_framework(name, fixed.framework_version, method) for name in names]
        recipes = Recipes.from_recipes([apply_settings(recipe, fixed.recipe) for recipe in requested_recipes])
    return in_16_bit(recipes) if PRECISIONS[workload.precision].only_16_bit else recipes


def _coefficient_keys(
    workload: TrainingWorkload, catalog: Catalog, pairs: list[tuple[int, int]]
) -> list[tuple[str, str]]:
    """Return (framework whose coefficients apply, accelerator family) of each stack."""
    adapts = workload.method is not Method.FULL
    return [(engine_named(catalog.engines[e]).base_engine(adapts=adapts), catalog.families[f]) for f, e in pairs]


def _stack_margins(
    workload: TrainingWorkload,
    catalog: Catalog,
    expected: Mask,
    pairs: list[tuple[int, int]],
    recipe_known: Mask,
    confidence: float,
    assumed: Assumptions,
) -> Margins:
    """Return the uncertainty of each stack.

    Time uncertainty follows from published results near each framework and family; memory uncertainty follows from
    whether the recipe is published.
    """
    rate = PRECISIONS[workload.precision].format_class
    keys = [StackKey(engine, family, rate) for engine, family in _coefficient_keys(workload, catalog, pairs)]
    shape = Shape(float(workload.model.total_params), workload.units_per_sequence, 1.0)

    time = "training_samples" if workload.in_samples else "training"
    neighbourhood = catalog.evidence_pools[evidence_pool(time)].index_stacks(keys).neighborhood(shape)
    neighbourhood = replace(neighbourhood, prior_width=np.where(expected, assumed.expected_support_widening, 1.0))
    spreads = catalog.spreads
    return build_margins(
        confidence, (spreads.get_spread(time), neighbourhood), spreads.get_spread("training_memory"), recipe_known
    )


@dataclass(frozen=True, slots=True)
class CostedRuns(Columns):
    """Runs with their cost."""

    row: Codes  # row in the table of layouts
    plans: TrainingPlans
    run: Run
    cost: Cost


def smallest_runs(
    workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, question: Question, rejections: Rejections
) -> CostedRuns:
    """Return the smallest runs of every accelerator type.

    Last-resort layouts, which offload more to the host, are searched only for types without any other run.
    """
    resort = layouts.last_resort
    if not resort.any():
        return _find_smallest_runs(workload, counts, layouts, question, rejections)
    usual = _find_smallest_runs(workload, counts, layouts, question, rejections, ~resort)
    served = np.zeros(int(layouts.accelerator.max()) + 1, dtype=bool)
    served[usual.plans.accelerator] = True
    remaining = np.flatnonzero(resort & ~served[layouts.accelerator])
    if not len(remaining):
        return usual
    last_resort_rejections = rejections.empty_copy()
    last_resort_runs = _last_resort_runs(workload, counts, layouts.take(remaining), question, last_resort_rejections)
    rejections.merge_alternative(last_resort_rejections, last_resort_runs.plans.accelerator)
    if not len(last_resort_runs):
        return usual
    row = np.concatenate([usual.row, remaining[last_resort_runs.row]])
    return CostedRuns(
        row,
        layouts.take(row),
        concat_tables([usual.run, last_resort_runs.run]),
        concat_tables([usual.cost, last_resort_runs.cost]),
    )


def _last_resort_runs(
    workload: TrainingWorkload,
    counts: Counts,
    layouts: TrainingPlans,
    question: Question,
    rejections: Rejections,
) -> CostedRuns:
    """Return the smallest runs of all given layouts; the rest are rejected with their shortfall."""
    assumed = question.assumptions
    attempts = attempt_layouts(counts, layouts, workload.deadline_s, assumed)
    sized_layouts, run, fitting = _sized_runs(
        workload, counts, attempts, np.arange(len(attempts.feasible_rows)), assumed
    )
    reject_untrainable(workload, layouts.accelerator, attempts, sized_layouts.rows, run, fitting, assumed, rejections)
    costed = _with_cost(attempts, sized_layouts.rows[fitting], run.take(fitting), question, rejections)
    return replace(costed, row=attempts.rows[costed.row])


@stage("search")
def _find_smallest_runs(
    workload: TrainingWorkload,
    counts: Counts,
    layouts: TrainingPlans,
    question: Question,
    rejections: Rejections,
    among: Mask | None = None,
) -> CostedRuns:
    """Return the smallest runs that fit, meet the deadline at the requested confidence and stay within the limits.

    The result includes sizes near the best run of each type. Other layouts are rejected with their shortfall, or
    skipped because another layout of their type is better by more than a near tie.
    """
    assumed = question.assumptions
    attempts = attempt_layouts(counts, layouts, workload.deadline_s, assumed, among)
    chosen, bound = _select_promising(workload, counts, attempts, question)
    sized_layouts, run, fitting = _sized_runs(workload, counts, attempts, chosen, assumed)
    reject_untrainable(workload, layouts.accelerator, attempts, sized_layouts.rows, run, fitting, assumed, rejections)
    costed = _with_cost(attempts, sized_layouts.rows[fitting], run.take(fitting), question, rejections)
    if len(costed):
        costed = _with_sizes_around(workload, counts, attempts, chosen, bound[chosen], costed, question)
    return replace(costed, row=attempts.rows[costed.row])


@stage("search")
def all_smallest_runs(
    workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, question: Question
) -> CostedRuns:
    """Return every layout at the smallest sizes that fit and meet the deadline at confidence, without cost limits."""
    attempts = attempt_layouts(counts, layouts, workload.deadline_s, question.assumptions)
    sized_layouts, run, fitting = _sized_runs(
        workload, counts, attempts, np.arange(len(attempts.feasible_rows)), question.assumptions
    )
    unlimited = replace(question, constraints=Constraints())
    return _with_cost(attempts, sized_layouts.rows[fitting], run.take(fitting), unlimited, NullRejections(()))


def _with_sizes_around(
    workload: TrainingWorkload,
    counts: Counts,
    attempts: Attempts,
    chosen: Codes,
    bound: Column,
    costed: CostedRuns,
    question: Question,
) -> CostedRuns:
    """Return the given runs plus every possibly better layout at sizes near the best run of each type."""
    accelerator, score = costed.plans.accelerator, comparison_score(counts, costed, question)
    first = best_row_per_type(accelerator, score, costed.cost.usd_per_hour, stable_run_key(costed))
    best, size = np.full((2, int(attempts.plans.accelerator.max()) + 1), np.nan)
    best[accelerator[first]], size[accelerator[first]] = score[first], costed.run.accelerators[first]
    of_type = attempts.plans.accelerator[chosen]
    near = chosen[bound <= best[of_type]]
    plans = attempts.plans.take(near)
    rows, degrees = degrees_near_size(counts, plans, size[plans.accelerator])
    plans, parts = plans.take(rows), attempts.parts.take(near[rows])
    run = run_at(counts, plans, degrees, question.assumptions, parts)
    good = run_fits_at_confidence(plans, run, question.assumptions)
    good &= meets_deadline_at_confidence(plans.stack.margins, run.wall_s, workload.deadline_s)
    nearby_runs = _with_cost(
        attempts, attempts.feasible_rows[near[rows[good]]], run.take(good), question, NullRejections(())
    )
    row = np.concatenate([costed.row, nearby_runs.row])
    return CostedRuns(
        row,
        attempts.layouts.take(row),
        concat_tables([costed.run, nearby_runs.run]),
        concat_tables([costed.cost, nearby_runs.cost]),
    )


def _select_promising(
    workload: TrainingWorkload, counts: Counts, attempts: Attempts, question: Question
) -> tuple[Codes, Column]:
    """Return (feasible attempts that may be best of their type or tie with it, lower bounds of all feasible attempts).

    A layout is dropped if its lower bound is worse than the best of a few sized layouts of its type by more than a
    near tie.
    """
    plans, assumed = attempts.plans, question.assumptions
    bound = objective_score(question.objective, lower_bound_measures(counts, plans, attempts.parts.time))
    bound = bound * pipeline_handicap(plans.pipeline_parallel, assumed)
    leaders_rows = lowest_bounds_per_type(plans.accelerator, bound)
    sized_layouts, run, fitting = _sized_runs(workload, counts, attempts, leaders_rows, assumed)
    leaders = _with_cost(attempts, sized_layouts.rows[fitting], run.take(fitting), question, NullRejections(()))
    best = np.full(int(plans.accelerator.max(initial=-1)) + 1, np.inf)
    np.minimum.at(best, leaders.plans.accelerator, comparison_score(counts, leaders, question))
    threshold = best[plans.accelerator] * (1 + assumed.near_tie_share)
    return np.flatnonzero(bound <= threshold), bound


def _sized_runs(
    workload: TrainingWorkload, counts: Counts, attempts: Attempts, chosen: Codes, assumed: Assumptions
) -> tuple[SizedLayouts, Run, Mask]:
    """Return (sized layouts, their runs, whether each run fits at the requested confidence)."""
    sized_layouts = size_attempts(counts, attempts, chosen, workload.deadline_s, assumed)
    run = run_at(counts, sized_layouts.plans, sized_layouts.data_parallel, assumed, sized_layouts.parts)
    return sized_layouts, run, run_fits_at_confidence(sized_layouts.plans, run, assumed)


def _with_cost(attempts: Attempts, row: Codes, run: Run, question: Question, rejections: Rejections) -> CostedRuns:
    """Return the given runs with their cost, without those that exceed the limits."""
    plans = attempts.layouts.take(row)
    costed = CostedRuns(row, plans, run, run_cost(plans, run, question.assumptions, question.economics))
    paid = run.nodes * plans.accelerators_per_node
    return costed.take(
        np.flatnonzero(within_limits(plans.accelerator, paid, costed.cost, question.constraints, rejections))
    )


def comparison_score(counts: Counts, costed: CostedRuns, question: Question) -> Column:
    """Return the score that compares runs: the objective's figure times the pipeline handicap. Lower is better."""
    handicap = pipeline_handicap(costed.plans.pipeline_parallel, question.assumptions)
    compared: Column = objective_score(question.objective, run_measures(counts, costed)) * handicap
    return compared


def best_runs(counts: Counts, costed: CostedRuns, question: Question) -> tuple[Codes, Column]:
    """Return (row of the best run of each accelerator type, best type first; comparison score of all runs)."""
    scores, tie = comparison_score(counts, costed, question), stable_run_key(costed)
    first = best_row_per_type(costed.plans.accelerator, scores, costed.cost.usd_per_hour, tie)
    measures = run_measures(counts, costed.take(first))
    return first[
        best_per_accelerator(costed.plans.accelerator[first], question.objective, measures, tie[first])
    ], scores


def run_measures(counts: Counts, costed: CostedRuns) -> Measures:
    """Return the measures that rank runs, at the requested confidence."""
    run, cost = costed.run, costed.cost
    factor = costed.plans.stack.margins.time_factor
    wall, rate = run.wall_s * factor, units_per_s(counts, run.batch, run.step.step_s) / factor
    usd = usd_total(cost.usd_per_hour, wall)
    priced = np.where(np.isnan(usd), run.nodes * wall, usd)  # machine-hours rank runs without a price
    return Measures(priced, wall, rate / run.accelerators, cost.power_w * wall / counts.units)


def stable_run_key(costed: CostedRuns) -> Column:
    """Sort key for otherwise equal runs: fewer accelerators, then less splitting, then smaller micro-batches."""
    plans = costed.plans
    split = plans.pipeline_parallel * 1e4 + plans.tensor_parallel * 100
    return costed.run.accelerators * 1e6 + split + plans.micro_batch_sequences
