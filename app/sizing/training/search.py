"""Sizes training: machines, layouts, the smallest run that fits and is in time, cost; or the deployment asked for.

The figures of a finalist come from judging it once more, which is also what /estimate does: the two cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask, Table, column, names_of, stacked
from app.sizing.decisions.cost import Cost, usd_total, within_limits
from app.sizing.decisions.machines import Candidates, candidates, oversubscribed, undominated
from app.sizing.decisions.ranking import Measures, best_per_accelerator, score_of
from app.sizing.decisions.rejections import Rejections, Unread
from app.sizing.decisions.unsupported import Unsupported
from app.sizing.hardware.achieved import SampleTrainingAchieved, TrainingAchieved, TrainingMemoryFactors
from app.sizing.hardware.engines import engine_named
from app.sizing.hardware.links import LINKS, known_network_bytes_per_s
from app.sizing.hardware.parts import Link
from app.sizing.hardware.recipes import Recipes, as_said, in_16_bit, recipe_of_framework
from app.sizing.hardware.stacks import competing
from app.sizing.hardware.support.records import Work
from app.sizing.hardware.trainers import Trainers, training_work
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.snapshot import Snapshot
from app.sizing.surroundings import Shape, StackKey, pool_of
from app.sizing.training.around import around
from app.sizing.training.counts import Counts
from app.sizing.training.degrees import kinds
from app.sizing.training.least import least_measures, least_of_each
from app.sizing.training.margins import Margins, margins_of, surely_in_time
from app.sizing.training.outcome import units_per_s
from app.sizing.training.plans import TrainingMachines, TrainingPlans, TrainingStacks, build_training_plans
from app.sizing.training.preference import pipeline_handicap, preferred
from app.sizing.training.reach import within_reach
from app.sizing.training.recipes import BYTES_32_BIT, PRECISIONS
from app.sizing.training.run import Run, run_at, run_cost, surely_fits
from app.sizing.training.shortfalls import turn_down
from app.sizing.training.smallest import Attempts, Sized, attempted, sized
from app.sizing.workload import Method, TrainingWorkload
from app.work import stage

# Where accelerators have no link nothing crosses it; any rate does.
NO_LINK_BYTES_PER_S = 1e15


def layouts_sought(
    question: Question, workload: TrainingWorkload, market: Snapshot, rejections: Rejections
) -> TrainingPlans:
    """Every layout that a question allows, on the machines that it may be paid for and that no other makes needless."""
    constraints, assumed = question.constraints, question.assumptions
    sought = (market, constraints, question.economics, assumed, rejections)
    machines = candidates(*sought, ends=True, today=question.today)
    machines = oversubscribed(undominated(machines), assumed)
    return layouts_for(workload, market, machines, constraints, rejections, assumed)


def layouts_for(
    workload: TrainingWorkload,
    snapshot: Snapshot,
    found: Candidates,
    constraints: Constraints,
    rejections: Rejections,
    assumed: Assumptions,
    *,
    fixed: Deployment | None = None,
) -> TrainingPlans:
    """Every layout on every machine that may hold the model, of the catalogue's frameworks or the one asked for."""
    engines = (fixed.framework,) if fixed is not None and fixed.framework is not None else constraints.engines
    asked = training_work(workload.phase, workload.method.value, workload.precision, workload.model.task)
    trainers = _trainers(snapshot, *asked, engines)
    pairs = list(zip(trainers.family.tolist(), trainers.engine.tolist(), strict=True))
    machines = _machines(workload, snapshot, found, assumed)
    return build_training_plans(
        workload,
        machines if fixed else within_reach(workload, machines),
        _stacks(
            workload,
            snapshot,
            trainers,
            pairs,
            _recipes(workload, snapshot, trainers, fixed),
            constraints.confidence,
            assumed,
        ),
        [engine_named(snapshot.engines[engine]).framework for _, engine in pairs],
        trainers.on,
        rejections,
        Unsupported(snapshot, engines, frozenset({asked[0]}), asked[1]),
        fixed=fixed,
    )


def _trainers(snapshot: Snapshot, weight_format: str, work: Work, engines: tuple[str, ...]) -> Trainers:
    """Who trains this way and is allowed, on the accelerators where each competes."""
    able = snapshot.software.trainers(weight_format, work)
    if not engines:
        on = competing(able.on, able.expected, able.named_only)
        return replace(able, on=on).take(np.flatnonzero(on.any(axis=1)))
    return able.take(np.array([name in engines for name in snapshot.engines], dtype=bool)[able.engine])


def _machines(
    workload: TrainingWorkload, snapshot: Snapshot, found: Candidates, assumed: Assumptions
) -> TrainingMachines:
    """Machines on sale with what training reads of them; BF16 needs hardware that has it."""
    precision, columns = PRECISIONS[workload.precision], snapshot.columns
    node, accelerator = found.node, found.node.accelerator
    peak, wide = columns.rate(precision.format_class)[accelerator] * node.share, columns.bit16[accelerator] * node.share
    if precision.needs_bf16:
        peak = np.where(columns.has_bf16[accelerator], peak, np.nan)
    whole = precision.weight_bytes == BYTES_32_BIT
    network, link = node.network_bytes_per_s, node.link_bytes_per_s
    joined, training_class = np.maximum(node.accelerators_per_node, node.scale_up_domain), columns.training_class
    return TrainingMachines(
        offered=found,
        family=snapshot.family_of[accelerator],
        spot=found.spot,
        training_class=training_class[accelerator],
        unified_memory=columns.unified[accelerator],
        peak_flops_per_s=peak,
        unquantised_flops_per_s=peak if whole else np.where(np.isnan(wide), peak, wide),
        memory_bytes_per_s=columns.bytes_per_s[accelerator] * node.share,
        pcie=node.link == LINKS.index(Link.PCIE),
        scale_up_bytes_per_s=np.where(link > 0, link, NO_LINK_BYTES_PER_S),
        network_bytes_per_s=known_network_bytes_per_s(network, assumed),
        scale_up_accelerators=joined,
        shape=kinds(node.accelerators_per_node, joined, training_class[accelerator], np.isnan(network))[1],
    )


def _stacks(
    workload: TrainingWorkload,
    snapshot: Snapshot,
    trainers: Trainers,
    pairs: list[tuple[int, int]],
    recipes: Recipes,
    confidence: float,
    assumed: Assumptions,
) -> TrainingStacks:
    """What frameworks do and achieve on each family."""
    rate, traits = PRECISIONS[workload.precision].format_class, snapshot.frameworks.take(trainers.engine)

    def coefficients(table: type[Table], *, read: bool = True) -> Table:
        of = _underneath(workload, snapshot, pairs) if read else []
        rows = [snapshot.coefficients.row_of(table, family, engine, rate) for engine, family in of]
        return table(**{name: column([r[name] for r in rows]) for name in names_of(table)})

    return TrainingStacks(
        family=trainers.family,
        framework=trainers.engine,
        expected=trainers.expected,
        interleaved_pipeline=traits.splits,
        sequence_parallel=traits.splits,
        recipe=recipes,
        single_accelerator=traits.single_accelerator,
        token_achieved=coefficients(TrainingAchieved, read=not workload.in_samples),
        sample_achieved=coefficients(SampleTrainingAchieved, read=workload.in_samples),
        memory_factors=coefficients(TrainingMemoryFactors),
        margins=_margins(workload, snapshot, trainers.expected, pairs, recipes.published, confidence, assumed),
    )


def _recipes(workload: TrainingWorkload, snapshot: Snapshot, trainers: Trainers, fixed: Deployment | None) -> Recipes:
    """What each framework does with memory, at the version and with the changes that a deployment says, in the
    precision asked for.
    """
    method = workload.method.value
    if fixed is None or (fixed.recipe is None and fixed.framework_version is None):
        found = snapshot.recipes[method].take(trainers.engine)
    else:
        names = [snapshot.engines[engine] for engine in trainers.engine.tolist()]
        own = [recipe_of_framework(name, fixed.framework_version, method) for name in names]
        found = Recipes.of([as_said(recipe, fixed.recipe) for recipe in own])
    return in_16_bit(found) if PRECISIONS[workload.precision].only_16_bit else found


def _underneath(workload: TrainingWorkload, snapshot: Snapshot, pairs: list[tuple[int, int]]) -> list[tuple[str, str]]:
    """Whose coefficients each framework has, and its family."""
    adapts = workload.method is not Method.FULL
    return [(engine_named(snapshot.engines[e]).underneath(adapts=adapts), snapshot.families[f]) for f, e in pairs]


def _margins(
    workload: TrainingWorkload,
    snapshot: Snapshot,
    expected: Mask,
    pairs: list[tuple[int, int]],
    recipe_known: Mask,
    confidence: float,
    assumed: Assumptions,
) -> Margins:
    """How far time may be off, by what was published around each framework on each family, and memory, by whether its
    recipe was.
    """
    rate = PRECISIONS[workload.precision].format_class
    keys = [StackKey(engine, family, rate) for engine, family in _underneath(workload, snapshot, pairs)]
    shape = Shape(float(workload.model.total_params), workload.units_per_sequence, 1.0)

    time = "training_samples" if workload.in_samples else "training"
    around = snapshot.surroundings[pool_of(time)].beside(keys).around(shape)
    around = replace(around, widened=np.where(expected, assumed.expected_support_widening, 1.0))
    spreads = snapshot.spreads
    return margins_of(confidence, (spreads.of(time), around), spreads.of("training_memory"), recipe_known)


@dataclass(frozen=True, slots=True)
class Judged(Columns):
    """Runs with what they cost."""

    row: Codes  # of the layouts judged
    plans: TrainingPlans
    run: Run
    cost: Cost


def smallest_runs(
    workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, question: Question, rejections: Rejections
) -> Judged:
    """Smallest runs of every type; of types that have none those that move more to the host, which are judged as a last
    resort.
    """
    resort = layouts.last_resort
    if not resort.any():
        return _smallest_runs(workload, counts, layouts, question, rejections)
    found = _smallest_runs(workload, counts, layouts, question, rejections, ~resort)
    served = np.zeros(int(layouts.accelerator.max()) + 1, dtype=bool)
    served[found.plans.accelerator] = True
    left = np.flatnonzero(resort & ~served[layouts.accelerator])
    if not len(left):
        return found
    beside = rejections.apart()
    more = _last_runs(workload, counts, layouts.take(left), question, beside)
    rejections.joined(beside, more.plans.accelerator)
    if not len(more):
        return found
    row = np.concatenate([found.row, left[more.row]])
    return Judged(row, layouts.take(row), stacked([found.run, more.run]), stacked([found.cost, more.cost]))


def _last_runs(
    workload: TrainingWorkload,
    counts: Counts,
    layouts: TrainingPlans,
    question: Question,
    rejections: Rejections,
) -> Judged:
    """Smallest runs of a few layouts, whichever they are; the rest fall out with their shortfall."""
    assumed = question.assumptions
    tried = attempted(counts, layouts, workload.deadline_s, assumed)
    found, run, holds = _sized_runs(workload, counts, tried, np.arange(len(tried.able)), assumed)
    turn_down(workload, layouts.accelerator, tried, found.rows, run, holds, assumed, rejections)
    judged = _paid(tried, found.rows[holds], run.take(holds), question, rejections)
    return replace(judged, row=tried.rows[judged.row])


@stage("search")
def _smallest_runs(
    workload: TrainingWorkload,
    counts: Counts,
    layouts: TrainingPlans,
    question: Question,
    rejections: Rejections,
    among: Mask | None = None,
) -> Judged:
    """Smallest runs that fit and meet the deadline with the confidence asked and stay within the limits, and those of
    sizes around the best of each type; the rest fall out with their shortfall, or because another of their type is
    known to be better by more than a near tie.
    """
    assumed = question.assumptions
    tried = attempted(counts, layouts, workload.deadline_s, assumed, among)
    chosen, bound = _promising(workload, counts, tried, question)
    found, run, holds = _sized_runs(workload, counts, tried, chosen, assumed)
    turn_down(workload, layouts.accelerator, tried, found.rows, run, holds, assumed, rejections)
    judged = _paid(tried, found.rows[holds], run.take(holds), question, rejections)
    if len(judged):
        judged = _with_sizes_around(workload, counts, tried, chosen, bound[chosen], judged, question)
    return replace(judged, row=tried.rows[judged.row])


@stage("search")
def every_run(workload: TrainingWorkload, counts: Counts, layouts: TrainingPlans, question: Question) -> Judged:
    """Every layout at the smallest sizes that surely fit and meet the deadline, whatever they take."""
    tried = attempted(counts, layouts, workload.deadline_s, question.assumptions)
    found, run, holds = _sized_runs(workload, counts, tried, np.arange(len(tried.able)), question.assumptions)
    unlimited = replace(question, constraints=Constraints())
    return _paid(tried, found.rows[holds], run.take(holds), unlimited, Unread(()))


def _with_sizes_around(
    workload: TrainingWorkload,
    counts: Counts,
    tried: Attempts,
    chosen: Codes,
    bound: Column,
    judged: Judged,
    question: Question,
) -> Judged:
    """Those runs, and at sizes around the best of each type every layout that may be better."""
    accelerator, score = judged.plans.accelerator, compared_by(counts, judged, question)
    first = preferred(accelerator, score, judged.cost.usd_per_hour, stable_run_key(judged))
    best, size = np.full((2, int(tried.plans.accelerator.max()) + 1), np.nan)
    best[accelerator[first]], size[accelerator[first]] = score[first], judged.run.accelerators[first]
    of_type = tried.plans.accelerator[chosen]
    near = chosen[bound <= best[of_type]]
    plans = tried.plans.take(near)
    rows, degrees = around(counts, plans, size[plans.accelerator])
    plans, parts = plans.take(rows), tried.parts.take(near[rows])
    run = run_at(counts, plans, degrees, question.assumptions, parts)
    good = surely_fits(plans, run, question.assumptions)
    good &= surely_in_time(plans.stack.margins, run.wall_s, workload.deadline_s)
    more = _paid(tried, tried.able[near[rows[good]]], run.take(good), question, Unread(()))
    row = np.concatenate([judged.row, more.row])
    return Judged(row, tried.layouts.take(row), stacked([judged.run, more.run]), stacked([judged.cost, more.cost]))


def _promising(workload: TrainingWorkload, counts: Counts, tried: Attempts, question: Question) -> tuple[Codes, Column]:
    """(which of the attempts that do may still be best of their type, or tie with it: those that would not be worse at
    the least than the best of a few comes to; what each comes to at the least).
    """
    plans, assumed = tried.plans, question.assumptions
    bound = score_of(question.objective, least_measures(counts, plans, tried.parts.time))
    bound = bound * pipeline_handicap(plans.pipeline_parallel, assumed)
    few = least_of_each(plans.accelerator, bound)
    found, run, holds = _sized_runs(workload, counts, tried, few, assumed)
    leaders = _paid(tried, found.rows[holds], run.take(holds), question, Unread(()))
    best = np.full(int(plans.accelerator.max(initial=-1)) + 1, np.inf)
    np.minimum.at(best, leaders.plans.accelerator, compared_by(counts, leaders, question))
    most = best[plans.accelerator] * (1 + assumed.near_tie_share)
    return np.flatnonzero(bound <= most), bound


def _sized_runs(
    workload: TrainingWorkload, counts: Counts, tried: Attempts, chosen: Codes, assumed: Assumptions
) -> tuple[Sized, Run, Mask]:
    """Some of the attempts at the sizes worth paying for, their runs, and which of these surely fit."""
    found = sized(counts, tried, chosen, workload.deadline_s, assumed)
    run = run_at(counts, found.plans, found.data_parallel, assumed, found.parts)
    return found, run, surely_fits(found.plans, run, assumed)


def _paid(tried: Attempts, row: Codes, run: Run, question: Question, rejections: Rejections) -> Judged:
    """Runs that fit with what they cost, within the limits."""
    plans = tried.layouts.take(row)
    judged = Judged(row, plans, run, run_cost(plans, run, question.assumptions, question.economics))
    paid = run.nodes * plans.accelerators_per_node
    return judged.take(
        np.flatnonzero(within_limits(plans.accelerator, paid, judged.cost, question.constraints, rejections))
    )


def compared_by(counts: Counts, judged: Judged, question: Question) -> Column:
    """What runs are compared by: the objective's figure, of one with a pipeline a near tie worse."""
    handicap = pipeline_handicap(judged.plans.pipeline_parallel, question.assumptions)
    compared: Column = score_of(question.objective, run_measures(counts, judged)) * handicap
    return compared


def best_runs(counts: Counts, judged: Judged, question: Question) -> tuple[Codes, Column]:
    """(row of the best run of each accelerator type, best type first; what all runs are compared by)."""
    compared, tie = compared_by(counts, judged, question), stable_run_key(judged)
    first = preferred(judged.plans.accelerator, compared, judged.cost.usd_per_hour, tie)
    merit = run_measures(counts, judged.take(first))
    return first[best_per_accelerator(judged.plans.accelerator[first], question.objective, merit, tie[first])], compared


def run_measures(counts: Counts, judged: Judged) -> Measures:
    """What runs are ranked by: figures that hold with the confidence asked."""
    run, cost = judged.run, judged.cost
    factor = judged.plans.stack.margins.time_factor
    wall, rate = run.wall_s * factor, units_per_s(counts, run.batch, run.step.step_s) / factor
    usd = usd_total(cost.usd_per_hour, wall)
    priced = np.where(np.isnan(usd), run.nodes * wall, usd)  # machine-hours rank what nobody names a price of
    return Measures(priced, wall, rate / run.accelerators, cost.power_w * wall / counts.units)


def stable_run_key(judged: Judged) -> Column:
    """Orders runs that are equal in everything that matters: fewer accelerators, then less split, then smaller
    micro-batches.
    """
    plans = judged.plans
    split = plans.pipeline_parallel * 1e4 + plans.tensor_parallel * 100
    return judged.run.accelerators * 1e6 + split + plans.micro_batch_sequences
