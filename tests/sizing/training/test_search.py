"""The search over runs: what is judged, what is chosen, and why types fall out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.rejections import Rejections
from app.sizing.question import Constraints, Deployment, Economics, Question
from app.sizing.training.counts import counts_of
from app.sizing.training.run import fits
from app.sizing.training.search import any_fits, chosen_run, run_measures, size_asked, smallest_runs
from tests.examples import LLAMA_70B
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of

COUNTS, ASSUMED = counts_of(WORKLOAD), Assumptions()
LAYOUTS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", micro_batch_sequences=1)


def test_the_size_a_caller_fixed() -> None:
    assert size_asked(Deployment("x")) is None
    assert size_asked(Deployment("x", total_accelerators=64)) == 64
    assert size_asked(Deployment("x", accelerators_per_replica=16, total_accelerators=64)) == 16


def chosen(**fixed: Any) -> tuple[float, float, float]:
    """(accelerators, seconds, USD) of what is chosen."""
    found = chosen_run(WORKLOAD, COUNTS, LAYOUTS, Deployment("acme-big", **fixed), ASSUMED, Economics())
    assert found is not None
    plans, run = found
    assert fits(plans, run, ASSUMED).all()
    return float(run.accelerators[0]), float(run.wall_s[0]), float(run.nodes[0])


def test_a_size_asked_for_is_kept_and_the_fastest_layout_taken() -> None:
    sizes = [8, 16, 64]
    found = [chosen(accelerators_per_replica=size) for size in sizes]
    assert [accelerators for accelerators, _, _ in found] == sizes
    assert [nodes for _, _, nodes in found] == [1, 2, 8]
    seconds = [wall for _, wall, _ in found]
    assert seconds == sorted(seconds, reverse=True)


def test_a_degree_asked_for_is_the_degree() -> None:
    found = chosen_run(WORKLOAD, COUNTS, LAYOUTS, Deployment("acme-big", data_parallel=4), ASSUMED, Economics())
    assert found is not None
    assert found[1].data_parallel.tolist() == [4]


def test_nothing_is_chosen_where_nothing_can_be_laid_out() -> None:
    # seven accelerators divide neither the batch nor the heads
    asked = Deployment("acme-big", accelerators_per_replica=7)
    assert chosen_run(WORKLOAD, COUNTS, LAYOUTS, asked, ASSUMED, Economics()) is None


def test_a_larger_model_stops_fitting() -> None:
    one = Deployment("acme-big", accelerators_per_replica=1)
    large = replace(WORKLOAD, model=LLAMA_70B)
    layouts = plans_of(SMALL, large, accelerator="acme-big", micro_batch_sequences=1)
    assert not any_fits(large, counts_of(large), layouts, one, ASSUMED)
    assert any_fits(WORKLOAD, COUNTS, LAYOUTS, Deployment("acme-big", accelerators_per_replica=8), ASSUMED)


def turned_down(deadline_s: float, **limits: Any) -> tuple[int, list[str]]:
    workload = replace(WORKLOAD, deadline_s=deadline_s)
    rejections = Rejections(SMALL.accelerators)
    question = Question(workload, Constraints(**limits))
    found = smallest_runs(workload, counts_of(workload), LAYOUTS, question, rejections)
    if len(found):
        assert (found.run.wall_s <= deadline_s).all()
        assert len(run_measures(COUNTS, found).usd) == len(found)
    return len(found), [r.code for r in rejections.by_accelerator.values()]


def test_runs_are_in_time_or_fall_out_as_too_slow() -> None:
    found, codes = turned_down(1e9)
    assert found > 0
    assert codes == []
    assert turned_down(60.0) == (0, ["too_slow"])
