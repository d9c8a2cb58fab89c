"""What would change of the best split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.answer.sensitivity import State
from app.sizing.decisions.search import Search
from app.sizing.pools.changes import combined_state, scale_state, split_changes
from app.sizing.pools.search import SimulatedPair, better_split
from app.sizing.question import Objective, Question
from app.sizing.result import Change, Estimate
from app.sizing.serving.search import enumerate_allowed_plans
from app.sizing.workload import InferenceWorkload, Lengths, Slo
from tests.sizing.pools.given import at_rate
from tests.sizing.small import SMALL

BUSY = at_rate(
    1500.0,
    input_tokens=Lengths(2000.0),
    output_tokens=Lengths(100.0),
    max_context_tokens=2100.0,
    slo=Slo(0.5, 0.02, None, 95),
)


def best_of(workload: InferenceWorkload, objective: Objective = Objective.COST) -> tuple[Estimate, SimulatedPair]:
    question = Question(workload, objective=objective)
    plans = enumerate_allowed_plans(Search.start(question, SMALL).of(workload))
    found = better_split(Search.start(question, SMALL).of(workload), plans, np.zeros(0, np.int64))
    assert found is not None
    return found


def changes(workload: InferenceWorkload, objective: Objective = Objective.COST) -> list[Change]:
    question = Question(workload, objective=objective)
    answer, pair = best_of(workload, objective)
    return list(split_changes(Search.start(question, SMALL).of(workload), answer, pair))


def replicas(pair: SimulatedPair) -> list[float]:
    return [float(pool.options.fleet.replicas[0]) for pool in (pair.reads, pair.writes)]


def test_twice_the_load_is_shown_in_replicas_and_money_of_both_pools() -> None:
    whole, pair = best_of(BUSY)
    found = list(split_changes(Search.start(Question(BUSY), SMALL).of(BUSY), whole, pair))
    assert [change.change for change in found] == [
        "twice the peak load",
        "redundancy n+1",
        "with 50 % instead of 30 % reserve",
    ]
    reads, writes = replicas(pair)
    assert f"(replicas: prefill {reads:.0f} -> " in found[0].effect
    assert f"decode {writes:.0f} -> " in found[0].effect
    assert "USD/h" in found[0].effect or "same hardware" in found[0].effect


def test_half_the_load_asked_about_at_twice_takes_what_the_whole_does() -> None:
    half = replace(BUSY, peak_per_s=750.0, average_per_s=375.0)
    (_, before), (twice, *_) = best_of(half), changes(half)
    _, whole = best_of(BUSY)
    after = [int(part.split(" -> ")[1].rstrip(")")) for part in twice.effect.split("(replicas: ")[1].split(", ")]
    assert all(a >= b for a, b in zip(after, replicas(before), strict=True)) and after != replicas(before)
    sizes = [
        [p.options.plans.accelerators_per_replica[0] for p in (pair.reads, pair.writes)] for pair in (before, whole)
    ]
    assert sizes[0] == sizes[1]
    assert after == pytest.approx(replicas(whole), abs=1)


def test_a_case_with_nothing_changed_is_the_answer() -> None:
    _, pair = best_of(BUSY)
    same = combined_state(BUSY, (pair.reads, pair.writes))
    state = State(8, 2.0, 0.5, 10.0, 1.0, 3.0, 0.2)
    scaled = scale_state(state, same, same)
    assert (scaled.utilization, scaled.e2e_s, scaled.per_accelerator_per_s, scaled.kwh_per_million) == pytest.approx(
        (0.5, 1.0, 3.0, 0.2)
    )


@pytest.mark.parametrize("objective", [Objective.ENERGY, Objective.THROUGHPUT])
def test_the_shown_value_is_the_ranked_one(objective: Objective) -> None:
    twice = changes(BUSY, objective)[0].effect
    assert {Objective.ENERGY: "kWh", Objective.THROUGHPUT: "per accelerator"}[objective] in twice
