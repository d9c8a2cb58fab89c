"""Finalists: sized and ranked by simulation, in the same way for a recommendation and an estimate. The simulated
layouts: alternatives of a type whose best failed, and layouts that may be far better.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column
from app.sizing.decisions.cost import MAX_ACCELERATORS
from app.sizing.decisions.ranking import objective_score
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.search import Search
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.serving import finalists as finalists_module
from app.sizing.serving.curve_ends import Extent
from app.sizing.serving.finalists import (
    MAX_CAPACITY_RATIO,
    MAX_FAILED,
    MAX_IN_FLIGHT_RATIO,
    SimulatedReplicas,
    SimulationQueue,
    SimulationResults,
    apply_simulation_ratio,
    first_replica,
    load_per_replica,
    most_winning_replicas,
    next_challengers,
    select_finalists,
    simulate_replicas,
    simulated_slack,
    size_fleet,
    used_capacity_share,
    with_carrying_replicas,
    with_expected_performance,
)
from app.sizing.serving.interfaces import Settings
from app.sizing.serving.load_curves import MAX_POOLED, curves_of_replicas
from app.sizing.serving.margins import Margins
from app.sizing.serving.options import Options, layout_keys, measures, requested_settings
from app.sizing.serving.plans import Plans
from app.sizing.serving.search import required_replicas, search_plans, with_replica_count
from app.sizing.workload import InferenceWorkload, Lengths, Load, Slo
from tests.examples import col
from tests.sizing.serving.given import planned, varied
from tests.sizing.serving.test_load_curves import curve
from tests.sizing.small import SMALL

FEW = replace(Assumptions(), simulated_requests=1000.0)
BUSY = varied(
    peak_per_s=300.0,
    average_per_s=100.0,
    input_tokens=Lengths(800.0, 1600.0),
    output_tokens=Lengths(200.0, 400.0),
    slo=Slo(0.5, 0.03, None, 95.0),
    target_utilization=0.7,
)
LIMITS = Constraints(weight_formats=("bf16",), confidence=0.8)


def asked(workload: InferenceWorkload, **limits: Any) -> Question:
    return Question(workload, replace(LIMITS, **limits), assumptions=FEW)


def options_of(question: Question, workload: InferenceWorkload) -> Options:
    rejections = Rejections(SMALL.accelerators)
    return search_plans(
        Search.start(question, SMALL, rejections).of(workload),
        planned(workload.model, constraints=question.constraints),
    )


def found(workload: InferenceWorkload = BUSY, **limits: Any) -> Any:
    question = asked(workload, **limits)
    return select_finalists(
        Search.start(question, SMALL, Rejections(SMALL.accelerators)).of(workload), options_of(question, workload)
    )


def run(**changes: Any) -> SimulatedReplicas:
    return SimulatedReplicas((curve(**changes),), col(100), Margins.without_margin(1), np.ones(1, np.int64))


def carried_by(workload: InferenceWorkload, plans: Plans, runs: SimulatedReplicas) -> Column:
    """Replicas that carry a load by what was simulated."""
    capacity, held = runs.planned_capacity(workload)
    return required_replicas(asked(workload), workload, plans, capacity, held, Settings())


def test_replicas_are_those_that_the_simulation_says_carry_the_peak() -> None:
    finalists, types = found()
    assert types >= len(finalists.rows) > 0
    chosen, runs = finalists.chosen_options, finalists.runs
    capacity, _ = runs.planned_capacity(BUSY)
    needed = np.maximum(runs.pooled, np.ceil(BUSY.peak_per_s / capacity - 1e-9))
    assert chosen.fleet.replicas.tolist() == needed.tolist()
    assert chosen.capacity_per_s.tolist() == capacity.tolist()
    assert (np.diff(finalists.scores) >= 0).all()


def test_pools_are_simulated_from_the_replicas_that_their_stable_rate_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(asked(BUSY), BUSY).take(np.zeros(1, np.int64))
    one = replace(options.settings, replicas=col(1.0))

    def simulated(workload: InferenceWorkload) -> SimulatedReplicas:
        search = Search.start(asked(workload), SMALL, Rejections(SMALL.accelerators)).of(workload)
        runs = simulate_replicas(search, options.plans, one, extent=Extent.PLANNED)
        assert runs is not None
        return runs

    light = simulated(replace(BUSY, peak_per_s=1.0))
    stable = light.curves[0].stable_below / float(light.margins.rate[0])
    tried: list[int] = []
    most_counted: list[float] = []

    def recording(*args: Any, **options: Any) -> Any:
        tried.extend(args[3].tolist())
        most_counted.extend(end.most_replicas for end in args[6])
        return curves_of_replicas(*args, **options)

    monkeypatch.setattr(finalists_module, "curves_of_replicas", recording)
    busy = simulated(replace(BUSY, peak_per_s=3.5 * BUSY.target_utilization * stable))
    assert tried[0] == 4 <= busy.pooled[0]
    assert min(tried) == 4  # no smaller pool is simulated: its queues would exceed the planned share of the stable rate
    # What a replica is planned to carry is known in the pool that fits; in others, only that they do not fit.
    assert tried[-1] == busy.pooled[0] and most_counted == [MAX_POOLED] * (len(tried) - 1) + [np.inf]


def test_what_was_sized_is_written_among_all_that_was_found() -> None:
    finalists, _ = found()
    for row, whole in zip(finalists.rows.tolist(), finalists.chosen_options.fleet.accelerators.tolist(), strict=True):
        assert finalists.options.fleet.accelerators[row] == whole
        assert finalists.options.settings.replicas is not None


def test_more_load_and_more_confidence_never_take_fewer_replicas_of_a_plan() -> None:
    finalists, _ = found()
    plans, runs = finalists.chosen_options.plans, finalists.runs
    loads = [replace(BUSY, peak_per_s=times * BUSY.peak_per_s) for times in (0.1, 0.5, 1.0, 1.1, 3.0)]
    counts = [carried_by(load, plans, runs) for load in loads]
    assert all((less <= more).all() for less, more in pairwise(counts))
    waits = [runs.curves[0].wait_s("ttft", "p95", load) for load in np.linspace(0.1, 60, 50)]
    assert (np.diff(waits) >= 0).all() or np.isinf(waits[-1])
    assert (runs.capacity_at_confidence(BUSY)[0] <= runs.expected_capacity(BUSY)[0]).all()


def test_a_looser_limit_never_takes_more_replicas_of_a_plan() -> None:
    finalists, _ = found()
    plans, runs = finalists.chosen_options.plans, finalists.runs
    limits = [Slo(0.3, 0.02, None, 95.0), Slo(0.5, 0.03, None, 95.0), Slo(5.0, 0.3, None, 95.0)]
    counts = [carried_by(w, plans, runs) for w in (replace(BUSY, slo=slo) for slo in limits)]
    assert all((tight >= loose).all() for tight, loose in pairwise(counts))


def test_what_meets_no_limit_however_light_the_load_is_turned_down() -> None:
    question = asked(replace(BUSY, slo=Slo(0.011, None, None, 95.0)))
    rejections = Rejections(SMALL.accelerators)
    workload: Any = question.workload
    finalists, _ = select_finalists(
        Search.start(question, SMALL, rejections).of(workload), options_of(asked(BUSY), BUSY)
    )
    assert not len(finalists.rows)
    assert {r.code for r in rejections.by_accelerator.values()} == {"too_slow"}
    assert all("even at the lightest load" in r.text for r in rejections.by_accelerator.values())


def test_how_many_are_shown_does_not_change_the_first() -> None:
    options = options_of(asked(BUSY), BUSY)
    firsts = {
        int(
            select_finalists(
                Search.start(replace(asked(BUSY), limit=n), SMALL, Rejections(SMALL.accelerators)).of(BUSY), options
            )[0].rows[0]
        )
        for n in (1, 2, 5)
    }
    assert len(firsts) == 1


def test_work_that_is_not_simulated_keeps_its_order() -> None:
    offline = varied(load=Load.OFFLINE, peak_per_s=0.0, average_per_s=0.0)
    finalists, types = found(offline)
    assert finalists.runs is None
    assert len(finalists.rows) == min(types, 5)
    question, chosen = asked(offline), finalists.chosen_options
    assert simulate_replicas(Search.start(question, SMALL).of(offline), chosen.plans, chosen.settings) is None
    assert first_replica(None) is None


def test_what_is_left_open_is_sized_and_what_is_fixed_stays() -> None:
    finalists, _ = found()
    chosen = finalists.chosen_options.take(np.array([0]))
    runs = finalists.runs.take(np.array([0]))
    name = SMALL.accelerators[int(chosen.accelerator[0])].slug

    def sized(**fixed: Any) -> Any:
        settings = requested_settings(Deployment(name, **fixed), chosen.plans, BUSY.redundancy)
        return with_carrying_replicas(asked(BUSY), BUSY, chosen.plans, chosen.settings, settings, runs)

    assert sized().replicas.tolist() == chosen.fleet.replicas.tolist()
    assert sized(replicas=2) is chosen.settings


def test_each_replica_gets_its_part_of_the_load() -> None:
    assert load_per_replica(BUSY, col(4)).tolist() == [75]
    assert load_per_replica(varied(load=Load.CLOSED, in_flight=9.0), col(4)).tolist() == [3]


def test_other_loads_are_read_from_the_same_curve() -> None:
    finalists, _ = found()
    first = finalists.chosen_options.take(np.array([0]))
    runs = first_replica(finalists.runs)
    assert runs is not None
    twice = replace(BUSY, peak_per_s=2 * BUSY.peak_per_s)
    now, then = with_expected_performance(BUSY, first, runs), with_expected_performance(twice, first, runs)
    assert then.e2e_p50_s[0] >= now.e2e_p50_s[0]
    assert now.capacity_per_s[0] == runs.expected_capacity(BUSY)[0][0]


def test_in_flight_is_held_up_to_a_limit() -> None:
    closed = varied(load=Load.CLOSED, in_flight=50.0, slo=Slo(0.4, None, None, 95.0))
    one = run(closed=True, stable_below=np.inf)
    rate, held = one.capacity_at_confidence(closed)
    assert held.tolist() == [2]
    assert rate[0] == pytest.approx(2.0)


def trial_of(options: Options, *best: int) -> SimulationQueue:
    """A trial by cost that has rows wait."""
    score = objective_score(Objective.COST, measures(BUSY, options))
    return SimulationQueue(options, score, np.array(best), Assumptions())


def test_in_the_place_of_a_layout_that_failed_another_of_its_type_is_tried() -> None:
    """Every layout of the type is tried once, those with more accelerators per replica first."""
    options = options_of(asked(BUSY), BUSY)
    sizes = options.plans.accelerators_per_replica
    for first in range(len(options)):
        trial = trial_of(options, first)
        of_type = np.flatnonzero(options.accelerator == options.accelerator[first])
        seen: list[int] = []
        while len(rows := trial.next_rows(1)):
            left = of_type[trial.untried[of_type]]
            assert not seen or sizes[rows[0]] > sizes[seen[-1]] or sizes[left].max(initial=0) <= sizes[seen[-1]]
            seen.append(int(rows[0]))
            trial.record_scores(rows, np.array([np.inf]))
        tried = trial.layouts[seen].tolist()
        assert sorted(tried) == np.unique(trial.layouts[of_type]).tolist()
        assert trial.feasible_types == set()
    assert len(seen) > 1


def test_a_layout_that_holds_more_replaces_one_that_failed_if_none_is_larger() -> None:
    """A larger batch helps if a layout failed at a batch that others share."""
    options = options_of(asked(BUSY), BUSY)
    plain, sizes = trial_of(options), options.plans.accelerators_per_replica
    of_type = np.flatnonzero(options.accelerator == options.accelerator[np.argmax(plain.layouts)])
    _, firsts = np.unique(plain.layouts[of_type], return_index=True)
    first = int(of_type[np.argmax(sizes[of_type])])
    others = [row for row in of_type[firsts].tolist() if plain.layouts[row] != plain.layouts[first]]
    dearest = max(others, key=plain.score.__getitem__)
    assert len(others) > 1
    held = np.where(plain.layouts == plain.layouts[dearest], 9.0, 1.0)
    trial = trial_of(replace(options, slo_batch=held), first)
    trial.record_scores(trial.next_rows(1), np.array([np.inf]))
    (row,) = trial.next_rows(1)
    assert trial.layouts[row] == trial.layouts[dearest]


def test_a_layout_far_worse_than_another_is_challenged_by_that_one() -> None:
    """One that is hardly better by formulas does not challenge it."""
    options = options_of(asked(BUSY), BUSY)
    layouts = trial_of(options).layouts
    of_type = np.flatnonzero(options.accelerator == options.accelerator[np.argmax(layouts)])
    first = int(of_type[0])
    others = of_type[layouts[of_type] != layouts[first]]
    best = trial_of(options).score[others].min()
    for turned_out, tried in ((1.05, []), (1.12, [best])):
        trial = trial_of(options, first)
        trial.record_scores(trial.next_rows(1), np.array([turned_out * best]))
        extra = trial.challengers()
        assert trial.score[extra].tolist()[:1] == tried
        trial.record_scores(extra, np.full(len(extra), np.inf))
        assert not len(trial.challengers())
        assert len(trial.feasible_types) == 1


def test_challengers_are_one_row_of_each_layout_and_few_of_each_type() -> None:
    options = options_of(asked(BUSY), BUSY)
    kinds = np.unique(options.accelerator, return_index=True)[1]
    trial = trial_of(options, *kinds.tolist())
    trial.record_scores(trial.next_rows(len(kinds)), np.full(len(kinds), np.inf))
    assert not len(trial.challengers())
    trial = trial_of(options, *kinds.tolist())
    trial.record_scores(trial.next_rows(len(kinds)), np.full(len(kinds), 1e9))
    rows = trial.challengers()
    seen = list(zip(options.accelerator[rows].tolist(), trial.layouts[rows].tolist(), strict=True))
    assert len(set(seen)) == len(seen) > 2
    assert (np.diff(trial.score[rows]) >= 0).all()
    picked = trial.pick_challengers(rows, 1)
    assert len(picked) == len(np.unique(options.accelerator[rows]))
    assert picked[0] == rows[0]
    trial.challenger_budget = 1
    assert len(trial.pick_challengers(rows, 9)) == 1


def test_a_layout_is_checked_at_the_load_that_its_score_needs() -> None:
    """What cannot carry the load on so few replicas that it would win is rejected; what can, is not."""
    question, options = asked(BUSY), options_of(asked(BUSY), BUSY)
    search = Search.start(question, SMALL).of(BUSY)
    finalists, _ = found()
    chosen = finalists.chosen_options
    own = objective_score(question.objective, measures(BUSY, chosen))
    rows = options.take(finalists.rows)
    enough = most_winning_replicas(search, rows, own * 1.05)
    assert (enough >= chosen.fleet.replicas).all()
    assert (simulated_slack(search, rows, enough, None) > 1).all()
    assert most_winning_replicas(search, rows, own * 0.1).tolist() == [0] * len(rows)
    fewer = most_winning_replicas(search, rows, own * 0.7)
    assert (fewer >= 1).any() and (fewer < chosen.fleet.replicas).all()
    assert (simulated_slack(search, rows, np.ones(len(rows)), None) < 1).any()


def test_a_layout_passes_the_check_at_its_own_size_however_wide_its_margins_are() -> None:
    workload = replace(BUSY, slo=Slo(0.2, 0.015, None, 95.0), target_utilization=1.0, peak_per_s=3000.0)
    question = asked(workload, confidence=0.99)
    options, search = options_of(question, workload), Search.start(question, SMALL).of(workload)
    finalists, _ = select_finalists(search, options)
    replicas = finalists.chosen_options.fleet.replicas
    assert len(replicas) and (simulated_slack(search, options.take(finalists.rows), replicas, None) >= 1).all()


def test_a_layout_may_carry_as_much_more_than_formulas_say_as_a_simulated_one_does() -> None:
    question, options = asked(BUSY), options_of(asked(BUSY), BUSY)
    results = SimulationResults(Search.start(question, SMALL).of(BUSY), options, None)
    assert results.max_capacity_ratio() == 0.0
    results.simulate(np.arange(1))
    (sized,) = results.tables
    assert results.max_capacity_ratio() == pytest.approx(sized.capacity_per_s[0] / options.capacity_per_s[0])
    few = np.ones(len(options))
    usual, more = (used_capacity_share(BUSY, options, few, ratio) for ratio in (0.25, 0.5))
    assert (more <= usual).all() and (more < usual).any() and (more >= usual / 2 * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    "workload",
    [
        replace(BUSY, peak_per_s=6000.0, average_per_s=2000.0, target_utilization=1.0),
        varied(load=Load.CLOSED, in_flight=300.0, slo=Slo(0.5, 0.03, None, 95.0)),
    ],
)
@pytest.mark.parametrize("cheaper", [0.9, 1.0, 1.3])
def test_a_layout_challenges_as_long_as_it_may_carry_the_load_with_fewer_replicas(
    workload: InferenceWorkload, cheaper: float
) -> None:
    """Neither a tie by formulas nor a slightly worse score rules out a layout that simulations may find better."""
    question = asked(workload)
    options, search = options_of(question, workload), Search.start(question, SMALL).of(workload)
    score = objective_score(question.objective, measures(workload, options))
    layouts = layout_keys(options.plans)
    first = int(np.flatnonzero(options.accelerator == options.accelerator[np.argmax(layouts)])[0])
    others = np.flatnonzero((options.accelerator == options.accelerator[first]) & (layouts != layouts[first]))
    best = int(others[np.argmin(score[others])])
    trial = SimulationQueue(options, score, np.array([first]), Assumptions())
    trial.record_scores(trial.next_rows(1), np.array([cheaper * score[best]]))
    rows, replicas = next_challengers(search, trial)
    each = with_replica_count(question, workload, options.take(rows), replicas)
    assert (objective_score(question.objective, measures(workload, each)) < 1.1 * cheaper * score[best]).all()
    needed = options.fleet.replicas[rows]
    if workload.load is Load.OPEN:
        assert best in rows
        assert (replicas * MAX_CAPACITY_RATIO >= needed - 1).all()
    else:
        assert (np.ceil(workload.in_flight / replicas) <= MAX_IN_FLIGHT_RATIO * options.slo_batch[rows]).all()
        assert best in rows or cheaper <= 1.0


def test_a_type_with_failed_challengers_is_challenged_no_more() -> None:
    options = options_of(asked(BUSY), BUSY)
    layouts = trial_of(options).layouts
    first = int(np.flatnonzero(options.accelerator == options.accelerator[np.argmax(layouts)])[0])
    trial = trial_of(options, first)
    trial.record_scores(trial.next_rows(1), np.array([10 * trial.score.max()]))
    rows = trial.challengers()
    assert len(rows) > 1
    trial.mark_failed(rows[:1])
    assert rows[1] in trial.challengers() and rows[0] not in trial.challengers()
    plans, failed = options.plans, rows[0]
    same = (options.accelerator == options.accelerator[failed]) & np.logical_and.reduce(
        [
            values == values[failed]
            for values in (plans.accelerators_per_replica, plans.tensor_parallel, plans.pipeline_parallel)
        ]
    )
    assert (trial.failed_degrees == same).all() and same.sum() > 1  # other engines and formats with these degrees
    trial.failed[int(options.accelerator[first])] = MAX_FAILED
    assert not len(trial.challengers())


def test_more_is_simulated_while_what_waits_would_cost_less() -> None:
    options = options_of(asked(BUSY), BUSY)
    kinds = np.unique(options.accelerator, return_index=True)[1].tolist()
    score = trial_of(options).score
    best, other = sorted(kinds, key=score.__getitem__)[:2]
    for turned_out, more in ((0.99, False), (1.01, True)):
        trial = trial_of(options, best, other)
        assert not trial.may_beat()
        trial.record_scores(trial.next_rows(1), np.array([turned_out * score[other]]))
        assert trial.may_beat() is more
    trial.next_rows(1)
    assert not trial.may_beat()


def test_rates_with_margins_are_slower_by_the_margin() -> None:
    surer = Margins(col(1.25), col(1.1), col(1.2), col(0.0))
    closed = varied(load=Load.CLOSED, in_flight=50.0)
    plain = run(closed=True, stable_below=np.inf)
    slower = replace(plain, margins=surer)
    for load in (closed, replace(closed, slo=Slo(9.0, None, None, 95.0))):
        (fast, held), (slow, as_many) = plain.capacity_at_confidence(load), slower.capacity_at_confidence(load)
        assert as_many.tolist() == held.tolist() and slow[0] == pytest.approx(fast[0] / 1.25)
    first = options_of(asked(BUSY), BUSY).take(np.array([0]))
    open_run = run()
    rates = [size_fleet(asked(BUSY), BUSY, first, r) for r in (open_run, replace(open_run, margins=surer))]
    for sized, by in zip(rates, (1.0, 1.25), strict=True):
        each = load_per_replica(BUSY, sized.fleet.replicas)
        assert sized.rate_per_s[0] == pytest.approx(open_run.completed_per_s(each)[0] / by)
    assert rates[1].fleet.replicas[0] >= rates[0].fleet.replicas[0]


def test_formulas_are_lowered_to_what_simulations_say_and_never_raised() -> None:
    question, options = asked(BUSY), options_of(asked(BUSY), BUSY)
    rows = np.arange(3)
    for times, applied in ((0.5, 0.5), (1.0, 1.0), (2.0, 1.0)):
        table = options.take(rows)
        tables = [replace(table, capacity_per_s=table.capacity_per_s * times, slo_batch=table.slo_batch * times)]
        found = apply_simulation_ratio(question, BUSY, options, rows, tables)
        assert found.capacity_per_s == pytest.approx(options.capacity_per_s * applied)
        assert (found.slo_batch <= options.slo_batch).all()


def test_no_fleet_is_larger_than_all_accelerators_that_exist() -> None:
    chosen = options_of(asked(BUSY), BUSY).take(np.array([0]))
    crowd = replace(BUSY, peak_per_s=1e12, average_per_s=1e12)
    name = SMALL.accelerators[int(chosen.accelerator[0])].slug
    settings = requested_settings(Deployment(name), chosen.plans, BUSY.redundancy)
    found = with_carrying_replicas(asked(crowd), crowd, chosen.plans, chosen.settings, settings, run())
    assert found.replicas is not None
    assert 1 <= found.replicas[0] * chosen.plans.accelerators_per_node[0] <= MAX_ACCELERATORS
