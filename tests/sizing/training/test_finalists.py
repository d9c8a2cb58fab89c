"""Why a layout and not its neighbours. What each confidence takes of a run, against trying every size by hand.
Runs that are shown: judged once more they are the same, and noted where the arithmetic is wanted.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, column_names
from app.sizing.question import Economics, Question
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.degrees import LegalDegrees, legal_degrees
from app.sizing.training.finalists import (
    Finalists,
    RunAssurance,
    assess_finalists,
    neighboring_layouts,
)
from app.sizing.training.memory import MemoryParts, estimate_training_memory
from app.sizing.training.plans import TrainingPlans, virtual_pipeline
from app.sizing.training.run import run_at, run_cost
from tests.examples import LLAMA_70B, present
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, asked, plans_of


def test_neighbouring_layouts_are_turned_down_in_numbers(catalog: Catalog) -> None:
    found = asked(catalog, replace(WORKLOAD, model=LLAMA_70B, global_batch=512), accelerators_per_replica=64)
    words = next(r.text for r in found.explanation if r.code == "alternatives")
    assert any(w in words for w in ("slower", "faster", "GiB"))


def test_a_single_replica_has_no_other_way_to_shard() -> None:
    found = plans_of(SMALL, WORKLOAD, accelerator="acme-big", zero_stage=3)
    words = {degree: [text for text, *_ in neighboring_layouts(found, 0, degree)] for degree in (1.0, 8.0)}
    assert "unsharded states (ZeRO-0)" in words[8.0]
    assert words[1.0] == [text for text in words[8.0] if "ZeRO" not in text]


COUNTS, ASSUMED, ECONOMICS = counts_of(WORKLOAD), Assumptions(), Economics()
FOUND = plans_of(SMALL, WORKLOAD, 0.8, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
PLANS = FOUND.take(np.array([0, 20, 40]))
RUN = run_at(COUNTS, PLANS, np.full(3, 8.0), ASSUMED)


def split(plans: TrainingPlans, row: int) -> tuple[float, ...]:
    """What stays of a layout: its degrees of parallelism and offloading."""
    degrees = (plans.tensor_parallel, plans.pipeline_parallel, plans.context_parallel, plans.optimizer_offload)
    return tuple(float(d[row]) for d in degrees)


def holds_less(plans: TrainingPlans, other: int, row: int) -> bool:
    """Whether a layout recomputes at least as much as one of those that are judged, and shards as it does, or at all
    where that shards nothing.
    """
    recomputed = plans.activation_checkpointing[other] >= PLANS.activation_checkpointing[row]
    stage = PLANS.zero_stage[row]
    return bool(recomputed and (stage == 0 or plans.zero_stage[other] == stage))


def every(degrees: LegalDegrees, row: int) -> Column:
    number = int(degrees.degrees_per_row()[row])
    return degrees.degree_at(np.full(number, row), np.arange(number))


def sure(deadline_s: float) -> RunAssurance:
    return assess_finalists(COUNTS, PLANS, RUN, deadline_s, Question(WORKLOAD)).assurance


def test_every_level_is_the_cheapest_size_that_holds_with_it_or_from_the_asked_one_on_the_run_itself() -> None:
    deadline_s = float(RUN.wall_s.max())
    found = sure(deadline_s)
    assert found.levels == (0.5, 0.8, 0.9, 0.95)
    degrees = legal_degrees(COUNTS, FOUND)
    for row in range(len(PLANS)):
        like = [i for i in range(len(FOUND)) if split(FOUND, i) == split(PLANS, row) and holds_less(FOUND, i, row)]
        rows = np.repeat(like, degrees.degrees_per_row()[like])
        plans = FOUND.take(rows)
        run = run_at(COUNTS, plans, np.concatenate([every(degrees, i) for i in like]), ASSUMED)
        usd = run_cost(plans, run, ASSUMED, ECONOMICS).usd_per_hour * run.wall_s / 3600
        for i, (level, worse) in enumerate(zip(found.levels, (0.0, 0.45, 0.7, 0.9), strict=True)):
            # nothing was ever compared in the small catalogue: e^0.45 at 80 %, e^0.7 at 90, e^0.9 at 95
            factor = np.exp(worse)
            good = run.memory.fits & (run.memory.total_bytes * factor <= run.memory.capacity_bytes)
            good &= run.wall_s * factor <= deadline_s
            own = RUN.memory.fits[row] & (RUN.memory.total_bytes[row] * factor <= RUN.memory.capacity_bytes[row])
            if level >= 0.8 and own and RUN.wall_s[row] * factor <= deadline_s:
                assert found.accelerators[row, i] == RUN.accelerators[row], level
            elif good.any():
                assert found.usd_total[row, i] == pytest.approx(usd[good].min() * factor), level
            else:
                assert np.isnan(found.accelerators[row, i]), level


def test_more_confidence_never_costs_less() -> None:
    for share in (0.1, 0.5, 1.0, 3.0):
        usd = np.nan_to_num(sure(float(RUN.wall_s.max()) * share).usd_total, nan=np.inf)
        assert (usd[:, 1:] >= usd[:, :-1]).all()


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0, 3.0])
def test_a_faster_benchmark_result_never_needs_more_accelerators_or_money(share: float) -> None:
    found = sure(float(RUN.wall_s.max()) * share)
    assert [round(level, 2) for level in found.after] == [0.9, 0.61, 0.24]
    usd = np.nan_to_num(found.usd_total_after, nan=np.inf)
    assert (usd[:, :-1] >= usd[:, 1:]).all()
    slower, same, faster = np.nan_to_num(found.accelerators_after, nan=np.inf).T
    asked = np.nan_to_num(found.accelerators[:, 1], nan=np.inf)
    assert (slower >= np.where(np.isinf(asked), 0, asked)).all()
    assert (same <= asked).all()
    assert (faster <= asked).all()
    if share == 1.0:
        assert (slower != faster).any()


def test_more_confidence_never_needs_fewer_accelerators() -> None:
    for share in (0.1, 0.5, 1.0, 3.0):
        counts = sure(float(RUN.wall_s.max()) * share).accelerators
        for row in counts:
            known = row[~np.isnan(row)]
            assert (np.diff(known) >= 0).all()
            assert not np.isnan(row[: len(known)]).any()  # what holds at a level holds at every lower one


def test_a_deadline_met_twice_over_is_nearly_sure_and_one_missed_by_half_is_not() -> None:
    assert sure(float(RUN.wall_s.max()) * 4).meets_deadline.min() > 0.98
    assert sure(float(RUN.wall_s.min()) / 4).meets_deadline.max() < 0.02


def test_nothing_is_in_time_where_no_size_is() -> None:
    never = sure(1.0)
    assert np.isnan(never.accelerators).all()
    assert np.isnan(never.usd_total).all()


def test_time_with_the_confidence_asked_is_the_margin_over_what_is_expected() -> None:
    assert sure(1e9).wall_s == pytest.approx(RUN.wall_s * np.exp(0.45))


FINALISTS_COUNTS = counts_of(WORKLOAD)
FINALISTS_ALL = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
FINALISTS_PLANS = FINALISTS_ALL.take(np.array([0, 20, 40]))
FINALISTS_RUN = run_at(FINALISTS_COUNTS, FINALISTS_PLANS, np.full(3, 8.0), Assumptions())


def judged(*, trace: bool) -> Finalists:
    return assess_finalists(
        FINALISTS_COUNTS, FINALISTS_PLANS, FINALISTS_RUN, WORKLOAD.deadline_s, Question(WORKLOAD, trace=trace)
    )


def test_judging_once_more_changes_no_number() -> None:
    plain, traced = judged(trace=False), judged(trace=True)
    assert len(plain) == len(traced) == 3
    for name in ("units_per_s", "days", "usd_total", "mfu"):
        assert getattr(plain.outcome, name).tolist() == getattr(traced.outcome, name).tolist()
    assert plain.fits.tolist() == traced.fits.tolist()
    assert plain.run.wall_s.tolist() == traced.run.wall_s.tolist() == FINALISTS_RUN.wall_s.tolist()


def test_arithmetic_is_noted_where_it_is_wanted() -> None:
    assert judged(trace=False).trace.row_steps(0) == ()
    lines = {line.name: line.value for line in judged(trace=True).trace.row_steps(1)}
    assert lines["wall_s"] == pytest.approx(float(FINALISTS_RUN.wall_s[1]))
    assert lines["accelerators"] == float(FINALISTS_PLANS.ranks[1]) * 8
    # neighbours are judged too, and leave no line
    names = [line.name for line in judged(trace=True).trace.row_steps(1)]
    assert names.count("step_time_s") == names.count("wall_s") == 1


def test_finalists_come_with_neighbours_and_chunks() -> None:
    found = judged(trace=False)
    assert len(found.comparisons.alternatives) == len(found.assurance) == 3
    assert found.virtual_pipeline.tolist() == virtual_pipeline(FINALISTS_COUNTS, FINALISTS_PLANS).tolist()
    # whole machines for the whole run
    hours = found.outcome.days * 24
    assert found.outcome.usd_total == pytest.approx(found.cost.usd_per_hour * hours, nan_ok=True)


def test_the_memory_shown_by_kind_is_that_of_the_runs_themselves() -> None:
    """It is counted together with the runs to compare with, some of which keep less."""
    found, (alone, _) = (
        judged(trace=False),
        estimate_training_memory(FINALISTS_COUNTS, FINALISTS_PLANS, FINALISTS_RUN.data_parallel, Assumptions()),
    )
    for name in column_names(MemoryParts):
        assert getattr(found.memory_by_kind, name).tolist() == getattr(alone, name).tolist(), name


def test_a_scaling_curve_comes_with_the_layouts_that_it_needs() -> None:
    assert judged(trace=False).scaling is None
    asked_for = FINALISTS_COUNTS, FINALISTS_PLANS, FINALISTS_RUN, WORKLOAD.deadline_s, Question(WORKLOAD), FINALISTS_ALL
    curve = present(assess_finalists(*asked_for).scaling)
    assert len(curve.points) > 5
