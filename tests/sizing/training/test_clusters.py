"""Clusters of any size: relations that hold of whatever run is asked of the real catalogue."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.estimate import estimate_deployment
from app.sizing.question import Constraints, Deployment, Objective, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_8B, LLAMA_70B, PRETRAIN, registered

NEAR_TIE = Assumptions.default_value("near_tie_share")
MIXTURE = registered("Qwen/Qwen3-30B-A3B")
TYPES = ("nvidia-h100-sxm5-80gb", "nvidia-a100-sxm4-80gb", "amd-mi300x", "nvidia-gb200-186gb", "google-tpu-v5e")
RUNS = st.builds(
    lambda model, method, units, batch, days: replace(
        PRETRAIN,
        model=model,
        phase="training" if method is Method.FULL else "fine_tuning",
        method=method,
        lora_rank=0 if method is Method.FULL else 16,
        units=units,
        global_batch=batch,
        deadline_s=days * 86400.0,
    ),
    st.sampled_from([LLAMA_8B, LLAMA_70B, MIXTURE]),
    st.sampled_from([Method.FULL, Method.FULL, Method.LORA]),
    st.floats(1e8, 3e11),
    st.sampled_from([16, 100, 512, 1000, 3000]),
    st.floats(0.3, 200),
)


def usd(e: Estimate) -> float:
    assert e.cost is not None and e.cost.usd_total is not None
    return e.cost.usd_total


@given(RUNS, st.sampled_from(TYPES), st.integers(1, 64), st.sampled_from([1, 2, 4, 8]))
def test_every_number_of_machines_is_answered(
    catalog: Catalog, w: TrainingWorkload, name: str, machines: int, each: int
) -> None:
    """With a batch of whole micro-batches, near the one asked where anything that fits is."""
    found = estimate_deployment(Question(w), Deployment(name, total_accelerators=machines * each), catalog)
    d = found.deployment
    assert d.accelerators_per_replica == machines * each
    assert d.data_parallel and d.micro_batch_sequences
    share = d.data_parallel * d.micro_batch_sequences
    used = max(1, int(w.global_batch / share + 0.5)) * share
    batches = [r.value for r in found.explanation if r.code == "batch"]
    if found.fits:
        assert batches == ([] if used == w.global_batch else [used])


@given(RUNS, st.sampled_from(TYPES), st.sampled_from(Objective), st.sampled_from([0.5, 0.8, 0.95]))
def test_a_recommendation_is_the_best_on_its_own_hardware_and_on_its_curve(
    catalog: Catalog, w: TrainingWorkload, name: str, objective: Objective, confidence: float
) -> None:
    question = Question(w, Constraints(accelerators=(name,), confidence=confidence), objective=objective)
    answer = recommend_hardware(question, catalog)
    if not answer.recommendations:
        return
    best, curve = answer.recommendations[0].estimate, answer.scaling
    assert curve is not None and best.performance is not None and best.performance.days is not None
    efficiency = [p.efficiency for p in curve.points]
    assert max(efficiency) <= 1
    assert all(later <= before for before, later in pairwise(efficiency))
    size = best.deployment.accelerators_per_replica
    if size is None or size > w.global_batch:
        return  # a search tries no more replicas than there are sequences in a step; a size that is given may have more
    assert [p.days for p in curve.points if p.accelerators == size] == pytest.approx([best.performance.days])
    asked = replace(question, constraints=Constraints(confidence=confidence))
    same = estimate_deployment(asked, Deployment(name, accelerators_per_replica=size), catalog)

    assert (same.deployment, same.performance) == (best.deployment, best.performance)
    again = estimate_deployment(asked, best.deployment, catalog)
    assert (again.deployment, again.performance, again.cost) == (best.deployment, best.performance, best.cost)


@given(RUNS, st.sampled_from(TYPES), st.floats(1.05, 4), st.integers(1, 64))
def test_more_time_or_more_accelerators_allowed_never_cost_more(
    catalog: Catalog, w: TrainingWorkload, name: str, longer: float, most: int
) -> None:
    """But for near ties, of which the one without a pipeline is taken."""

    def cost(workload: TrainingWorkload, accelerators: int | None) -> float:
        limits = Constraints(accelerators=(name,), max_accelerators=accelerators)
        ranked = recommend_hardware(Question(workload, limits, limit=1), catalog).recommendations
        return usd(ranked[0].estimate) if ranked else float("inf")

    now = cost(w, 8 * most)
    assert cost(replace(w, deadline_s=w.deadline_s * longer), 8 * most) <= now * (1 + NEAR_TIE)
    assert cost(w, 16 * most) <= now * (1 + NEAR_TIE)


@given(
    RUNS,
    st.sampled_from(TYPES),
    st.sampled_from([4, 8, 16, 24, 64]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
)
def test_what_is_left_open_is_never_worse_than_a_layout_given_by_hand(
    catalog: Catalog, w: TrainingWorkload, name: str, size: int, tensor: int, pipeline: int
) -> None:
    question = Question(replace(w, deadline_s=1e12))
    given = Deployment(name, total_accelerators=size)
    free = estimate_deployment(question, given, catalog)
    if size % (tensor * pipeline):
        return
    by_hand = estimate_deployment(question, replace(given, tensor_parallel=tensor, pipeline_parallel=pipeline), catalog)
    if not by_hand.fits or by_hand.assurance is None or by_hand.assurance.fits < question.constraints.confidence:
        return
    if any(r.code == "batch" for r in (*by_hand.explanation, *free.explanation)):
        return
    assert usd(free) <= usd(by_hand) * (1 + NEAR_TIE)
