"""Training search: machines, software, the smallest run that fits and meets the deadline, and its cost.

The answer and /estimate evaluate finalists with the same code, so their figures cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import (
    GIB,
    SECONDS_PER_DAY,
    Codes,
    Column,
    Columns,
    Mask,
    Table,
    column,
    column_names,
    concat_tables,
)
from app.sizing.decisions.cost import Cost, usd_total, within_limits
from app.sizing.decisions.machines import (
    Candidates,
    apply_oversubscription,
    drop_dominated,
    find_candidates,
    within_machine_limits,
)
from app.sizing.decisions.ranking import (
    Measures,
    best_per_accelerator,
    familiar_first,
    familiar_per_accelerator,
    objective_score,
    ranking_key,
)
from app.sizing.decisions.rejections import NullRejections, Rejections, SupportFilter
from app.sizing.decisions.search import Search
from app.sizing.formula import formula
from app.sizing.hardware.achieved import (
    SampleTrainingAchieved,
    TrainingAchieved,
    TrainingMemoryFactors,
    with_training_time_factor,
)
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.parts import LINKS, Link, known_network_bytes_per_s
from app.sizing.hardware.recipes import Recipes, apply_settings, in_16_bit, recipe_of_framework
from app.sizing.hardware.slots import power_limited_share
from app.sizing.hardware.stacks import Trainers, competing_mask, training_work
from app.sizing.hardware.support.records import Work
from app.sizing.measured import MeasuredEffect, Scale, Stack
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.result import FilterStage
from app.sizing.snapshot import Catalog
from app.sizing.training.attempts import Attempts, SizedLayouts, attempt_layouts, degrees_near_size, size_attempts
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import (
    group_rows,
    lower_bound_measures,
    lowest_bounds_per_type,
    machines_able_to_hold,
)
from app.sizing.training.memory import (
    TrainingMemory,
    fit_probability,
    memory_factor,
)
from app.sizing.training.plans import (
    Margins,
    TrainingMachines,
    TrainingPlans,
    TrainingStacks,
    build_margins,
    build_training_plans,
    meets_deadline_at_confidence,
    published_tasks,
    scores_that_tie,
)
from app.sizing.training.recipes import BYTES_32_BIT, PRECISIONS
from app.sizing.training.run import (
    Run,
    host_fits_memory,
    run_at,
    run_cost,
    run_fits_at_confidence,
    units_per_s,
)
from app.sizing.uncertainty import Shape, StackKey, evidence_pool
from app.sizing.words import percent
from app.sizing.workload import Method, TrainingWorkload
from app.work import stage


@formula(unit="1", source="assumed: predictions do not resolve smaller differences")
def pipeline_handicap(pipeline_parallel: Column, assumed: Assumptions) -> Column:
    """Factor on the compared figure of a layout with pipeline parallelism.

    A pipeline must be better by more than a near tie. The model assumes evenly balanced stages, and published
    pipelines train large models.
    Parameters:
        pipeline_parallel: pipeline stages.
    Check: no handicap for one stage, 5 % for a pipeline.
        >>> pipeline_handicap(col(1, 8), Assumptions()).tolist()
        [1.0, 1.05]
    """
    return np.where(pipeline_parallel > 1, 1 + assumed.near_tie_share, 1.0)


def best_row_per_type(accelerator: Codes, score: Column, usd: Column, tie: Column) -> Codes:
    """Return the row with the lowest score of each accelerator type.

    The cheapest of equal rows wins, then the row with the lowest `tie` key.
    """
    order = np.lexsort((tie, ranking_key(usd), ranking_key(score), accelerator))
    return order[np.unique(accelerator[order], return_index=True)[1]]


def reject_untrainable(
    workload: TrainingWorkload,
    accelerator: Codes,
    attempts: Attempts,
    attempt_rows: Codes,
    run: Run,
    run_fits: Mask,
    assumed: Assumptions,
    rejections: Rejections,
) -> None:
    """Reject accelerator types without any layout that divides the batch, fits and meets the deadline.

    `attempt_rows` holds the attempts that the runs in `run` belong to.
    """
    rejections.reject_if_none_left(
        accelerator,
        attempts.layouts.accelerator,
        "no_layout",
        "The global batch cannot be divided evenly over whole machines of {name}.",
    )
    memory = attempts.memory
    needed, hosted = memory.total_bytes, host_fits_memory(attempts.layouts, memory, assumed)
    fitting, likely = attempts.fits_at_confidence & hosted, memory.fits & hosted
    needed[attempt_rows], fitting[attempt_rows], likely[attempt_rows] = run.memory.total_bytes, False, False
    fitting[attempt_rows[run_fits]] = likely[attempt_rows[run_fits]] = True
    _reject_too_large(attempts, needed, fitting, likely, hosted, rejections)
    _reject_too_slow(attempts, fitting, workload.deadline_s, rejections)


def _reject_too_large(
    attempts: Attempts, needed_bytes: Column, fitting: Mask, likely: Mask, hosted: Mask, rejections: Rejections
) -> None:
    """Reject types that do not fit.

    Types that fit by the median prediction (`likely`), or that only lack host memory (not `hosted`), get texts of their
    own.
    """
    layouts, memory, gone = attempts.layouts, attempts.memory, np.ones(len(attempts.layouts), dtype=bool)
    sure = f"({percent(layouts.stack.margins.asked)} confidence). The median prediction fits."
    needs = "{name} needs {needed} of {available} GiB on {each}"
    usable, capacity = memory.usable_bytes, memory.capacity_bytes
    small_host = (needed_bytes <= usable) & ~hosted
    for among, available, text in (
        (likely, capacity, f"{needs} {sure}"),
        (small_host, usable, f"{needs}, but its hosts lack memory for the offloaded states."),
        (gone, usable, "{name} needs {needed} GiB on {each} with the closest layout; {available} GiB are usable."),
    ):
        rows = rejections.rows_of_eliminated_types(layouts.accelerator, fitting, among)
        factor: Column | float = 1.0
        if among is likely:
            factor = memory_factor(layouts.take(rows), memory.take(rows), layouts.stack.margins.asked)
        rejections.reject_with_shortfall(
            layouts.accelerator[rows],
            fitting[rows],
            code="out_of_memory",
            text=text,
            needed=needed_bytes[rows] * factor / GIB,
            available=available[rows] / GIB,
            unit="gib",
            count=attempts.largest_accelerators[rows],
            reached=FilterStage.MEMORY,
            fit_probability=partial(_hosted_fit_probability, layouts, memory, hosted, rows),
        )


def _hosted_fit_probability(
    layouts: TrainingPlans, memory: TrainingMemory, hosted: Mask, rows: Codes, which: Codes
) -> Column:
    """Probability that some of the rows fit in memory; 0 where the host lacks memory."""
    at = rows[which]
    return np.where(hosted[at], fit_probability(layouts.take(at), memory.take(at)), 0.0)


def _reject_too_slow(attempts: Attempts, fitting: Mask, deadline_s: float, rejections: Rejections) -> None:
    """Reject types that miss the deadline; types whose median prediction meets it get a text of their own."""
    layouts, margins, expected_s = attempts.layouts, attempts.layouts.stack.margins, attempts.wall_s
    wall_s, accelerator = expected_s * margins.time_factor, layouts.accelerator
    timely, alone = wall_s <= deadline_s, attempts.largest_accelerators <= layouts.accelerators_per_node
    unclustered = alone & ~layouts.machine.training_class
    unlinked = alone & np.isnan(layouts.node.network_bytes_per_s)
    late, until = "{name} needs at least {needed} on {on}", "the deadline is {available}."
    sure = f"{late} ({percent(margins.asked)} confidence)"
    for rows, text in (
        (fitting & (expected_s <= deadline_s), f"{sure}; {until} The median prediction meets the deadline."),
        (fitting & ~unclustered & ~unlinked, f"{late}; {until}"),
        (fitting & unclustered, f"{late} (not clustered); {until}"),
        (fitting, f"{late} (no network listed); {until}"),
    ):
        unexplained = rejections.rows_of_eliminated_types(accelerator, fitting & timely, rows)
        rejections.reject_with_shortfall(
            accelerator[unexplained],
            timely[unexplained],
            code="too_slow",
            text=text,
            needed=wall_s[unexplained] / SECONDS_PER_DAY,
            available=np.full(len(unexplained), deadline_s / SECONDS_PER_DAY),
            unit="days",
            count=attempts.largest_accelerators[unexplained],
            reached=FilterStage.SPEED,
        )


# Placeholder rate for accelerators without a link, over which nothing is transferred.
NO_LINK_BYTES_PER_S = 1e15


def search_layouts(search: Search[TrainingWorkload]) -> TrainingPlans:
    """Return the layouts that a question allows, on affordable machines that no other machine dominates."""
    constraints, assumed = search.question.constraints, search.question.assumptions
    candidate_query = (search.catalog, constraints, search.question.economics, assumed, search.rejections)
    machines = find_candidates(*candidate_query, ends=True, today=search.question.today)
    machines = apply_oversubscription(drop_dominated(machines, weighs_carbon=constraints.weighs_carbon), assumed)
    return training_layouts(search.workload, search.catalog, machines, constraints, search.rejections, assumed)


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
    version = None if fixed is None else fixed.framework_version
    trainers, measured = _measured_trainers(workload, catalog, _allowed_trainers(catalog, *required, engines), version)
    pairs = list(zip(trainers.family.tolist(), trainers.engine.tolist(), strict=True))
    machines = _training_machines(workload, catalog, offered_machines, constraints, assumed)
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
            measured,
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


def _measured_trainers(
    workload: TrainingWorkload, catalog: Catalog, trainers: Trainers, version: str | None
) -> tuple[Trainers, MeasuredEffect | None]:
    """Return the frameworks with the effect of the user's own measurements on each; None if there are none.

    A framework that a measurement affects gets a row for each accelerator type. The number of accelerators is open
    here, so measurements count at any number.
    """
    if catalog.measured is None or not len(trainers):
        return trainers, None
    rows, types = np.nonzero(trainers.on)
    keys = list(zip(trainers.family.tolist(), trainers.engine.tolist(), strict=True))
    engines = [engine for engine, _ in _coefficient_keys(workload, catalog, keys)]
    rate, method = PRECISIONS[workload.precision].format_class, workload.method.value
    kinds = [catalog.accelerators[code] for code in types.tolist()]
    stacks = [
        Stack(engines[row], kind.family, rate, kind.slug, method)
        for row, kind in zip(rows.tolist(), kinds, strict=True)
    ]
    scale = Scale(float(workload.model.total_params), float(workload.global_batch), workload.units_per_sequence, 1.0)
    any_number = np.full(len(stacks), np.nan)
    effect = catalog.measured.effect(stacks, scale, np.arange(len(stacks)), any_number, version)
    own = np.flatnonzero((effect.step_time != 1) | (effect.step_narrowing != 1))
    separate, pair = trainers.separate_types(rows[own], types[own])
    return separate, concat_tables([effect.take(own), MeasuredEffect.constant(1)]).take(pair)


def _training_machines(
    workload: TrainingWorkload,
    catalog: Catalog,
    offered_machines: Candidates,
    constraints: Constraints,
    assumed: Assumptions,
) -> TrainingMachines:
    """Return the machines on sale with the properties that training needs; BF16 requires hardware support."""
    precision, columns = PRECISIONS[workload.precision], catalog.columns
    node, accelerator = offered_machines.node, offered_machines.node.accelerator
    rate_share = node.share * power_limited_share(columns.rated_power_ratio, assumed)[accelerator]
    peak = columns.matrix_rate(precision.format_class)[accelerator] * rate_share
    wide = columns.bit16[accelerator] * rate_share
    if precision.needs_bf16:
        peak = np.where(columns.has_bf16[accelerator], peak, np.nan)
    whole = precision.weight_bytes == BYTES_32_BIT
    network, link = node.network_bytes_per_s, node.link_bytes_per_s
    joined, training_class, torus = node.connected_accelerators, columns.training_class, columns.torus[accelerator]
    largest = np.ones(len(columns))
    np.maximum.at(largest, accelerator, np.where(within_machine_limits(offered_machines, constraints), joined, 1.0))
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
        largest_scale_up=largest[accelerator],
        torus=torus,
        shape=group_rows(
            node.accelerators_per_node,
            joined,
            largest[accelerator],
            training_class[accelerator],
            np.isnan(network),
            torus,
        )[1],
    )


def _training_stacks(
    workload: TrainingWorkload,
    catalog: Catalog,
    trainers: Trainers,
    pairs: list[tuple[int, int]],
    recipes: Recipes,
    confidence: float,
    assumed: Assumptions,
    measured: MeasuredEffect | None,
) -> TrainingStacks:
    """Return the behavior and achieved rates of each framework on each accelerator family."""
    rate, traits = PRECISIONS[workload.precision].format_class, catalog.frameworks.take(trainers.engine)
    whole, on_one = published_tasks(workload)

    def coefficient_table(table: type[Table], *, read: bool = True) -> Table:
        keys = _coefficient_keys(workload, catalog, pairs) if read else []
        rows = [catalog.coefficients.stack_row(table, family, engine, rate) for engine, family in keys]
        return table(**{name: column([r[name] for r in rows]) for name in column_names(table)})

    token = coefficient_table(TrainingAchieved, read=not workload.in_samples)
    sample = coefficient_table(SampleTrainingAchieved, read=workload.in_samples)
    if measured is not None:
        token = with_training_time_factor(token, measured.step_time)
        sample = with_training_time_factor(sample, measured.step_time)
    published = recipes.published, confidence, assumed
    return TrainingStacks(
        family=trainers.family,
        framework=trainers.engine,
        expected=trainers.expected,
        published_recipes=catalog.published_recipes(whole, trainers.engine, trainers.family),
        unmeasured=catalog.evidence_pools["training"].lacks_results(_coefficient_keys(workload, catalog, pairs)),
        recipes_on_one=catalog.published_recipes(on_one, trainers.engine, trainers.family),
        interleaved_pipeline=traits.splits,
        sequence_parallel=traits.splits,
        recipe=recipes,
        single_accelerator=traits.single_accelerator,
        token_achieved=token,
        sample_achieved=sample,
        memory_factors=coefficient_table(TrainingMemoryFactors),
        margins=_stack_margins(workload, catalog, trainers.expected, pairs, *published, measured),
        measured=measured,
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
    measured: MeasuredEffect | None,
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
    width = np.where(expected, assumed.expected_support_widening, 1.0)
    neighbourhood = replace(neighbourhood, prior_width=width, measured=measured)
    spreads = catalog.spreads
    return build_margins(
        confidence, (spreads.get_spread(time), neighbourhood), spreads.get_spread("training_memory"), recipe_known
    )


@dataclass(frozen=True, slots=True)
class CostedRuns(Columns):
    row: Codes  # row in the table of layouts
    plans: TrainingPlans
    run: Run
    cost: Cost


def smallest_runs(
    workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, question: Question, rejections: Rejections
) -> CostedRuns:
    """Return the smallest runs of every accelerator type.

    Layouts that offload to the host are searched only for types without any other run.
    """
    resort = layouts.last_resort | layouts.optimizer_offload
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
    """Return the given runs plus layouts at sizes near the best run of each type, if they may be better or tie."""
    accelerator, score = costed.plans.accelerator, comparison_score(counts, costed, question)
    first = best_row_per_type(accelerator, score, costed.cost.usd_per_hour, stable_run_key(costed))
    size = np.full(int(attempts.plans.accelerator.max()) + 1, np.nan)
    size[accelerator[first]] = costed.run.accelerators[first]
    best = costed.plans.take(first), score[first]
    near = chosen[bound <= scores_that_tie(*best, attempts.plans.take(chosen), question.assumptions)]
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

    A layout is dropped if its lower bound is worse than a near tie with the best of a few sized layouts of its type.
    """
    plans, assumed = attempts.plans, question.assumptions
    bound = objective_score(question.objective, lower_bound_measures(counts, plans, attempts.parts.time))
    bound = bound * pipeline_handicap(plans.pipeline_parallel, assumed)
    leaders_rows = lowest_bounds_per_type(plans.accelerator, bound)
    sized_layouts, run, fitting = _sized_runs(workload, counts, attempts, leaders_rows, assumed)
    leaders = _with_cost(attempts, sized_layouts.rows[fitting], run.take(fitting), question, NullRejections(()))
    score = comparison_score(counts, leaders, question)
    first = best_row_per_type(leaders.plans.accelerator, score, leaders.cost.usd_per_hour, stable_run_key(leaders))
    return np.flatnonzero(bound <= scores_that_tie(leaders.plans.take(first), score[first], plans, assumed)), bound


def _sized_runs(
    workload: TrainingWorkload, counts: Counts, attempts: Attempts, chosen: Codes, assumed: Assumptions
) -> tuple[SizedLayouts, Run, Mask]:
    """Return (sized layouts, their runs, whether each run fits at the requested confidence)."""
    if not len(chosen):
        none = SizedLayouts(chosen, attempts.plans.take(chosen), np.zeros(0), attempts.parts.take(chosen))
        return none, attempts.no_run, np.zeros(0, bool)
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
    score = objective_score(question.objective, run_measures(counts, costed))
    compared: Column = score if question.objective is Objective.CARBON else score * handicap
    return compared


def best_runs(counts: Counts, costed: CostedRuns, question: Question) -> tuple[Codes, Column]:
    """Return (row of the best run of each accelerator type, best type first; comparison score of all runs).

    Of near ties, the framework and the type with more published use come first, except for the objective carbon.
    """
    scores, tie = comparison_score(counts, costed, question), stable_run_key(costed)
    accelerator, use = costed.plans.accelerator, costed.plans.use_at(costed.run.accelerators)
    every, assumed = run_measures(counts, costed), question.assumptions
    first = best_row_per_type(accelerator, scores, costed.cost.usd_per_hour, tie)
    if question.objective is not Objective.CARBON:
        first = familiar_per_accelerator(accelerator, first, scores, every, use, assumed, tie=tie)
    measures = run_measures(counts, costed.take(first))
    best = first[best_per_accelerator(accelerator[first], question.objective, measures, tie[first])]
    if question.objective is Objective.CARBON:
        return best, scores
    own = objective_score(question.objective, run_measures(counts, costed.take(best)))
    return best[familiar_first(own, every.usd[best], use.take(best), assumed)], scores


def run_measures(counts: Counts, costed: CostedRuns) -> Measures:
    """Return the measures that rank runs, at the requested confidence."""
    run, cost = costed.run, costed.cost
    factor = costed.plans.stack.margins.time_factor
    wall, rate = run.wall_s * factor, units_per_s(counts, run.batch, run.step.step_s) / factor
    usd = usd_total(cost.usd_per_hour, wall)
    priced = np.where(np.isnan(usd), run.nodes * wall, usd)  # machine-hours rank runs without a price
    energy = cost.power_w * wall / counts.units
    return Measures(priced, wall, rate / run.accelerators, energy, cost.carbon_kg / counts.units)


def stable_run_key(costed: CostedRuns) -> Column:
    """Sort key for otherwise equal runs: fewer accelerators, then less splitting, then smaller micro-batches."""
    plans = costed.plans
    split = plans.pipeline_parallel * 1e4 + plans.tensor_parallel * 100
    return costed.run.accelerators * 1e6 + split + plans.micro_batch_sequences
