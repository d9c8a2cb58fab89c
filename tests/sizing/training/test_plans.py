"""Margins of time and memory: factors that hold with a confidence, and the probability of a limit. Micro-batches
in flight, as the schedules of Megatron-LM hold them. The candidate table of training: machines, frameworks and
layouts that go together. What one rank holds and works on, worked by hand.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.machines import find_candidates
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.parts import SystemKind
from app.sizing.hardware.recipes import VOCABULARIES, RecipeSettings
from app.sizing.question import Constraints, Economics
from app.sizing.snapshot import Catalog
from app.sizing.training.plans import (
    Margins,
    TrainingPlans,
    accelerators,
    adapter_params_per_rank,
    build_margins,
    data_group,
    deadline_probability,
    dense_params_per_rank,
    expert_group,
    expert_shards,
    held_params,
    meets_deadline_at_confidence,
    memory_neighbourhood,
    micro_batches,
    micro_batches_in_flight,
    routed_params_per_rank,
    sequence_split,
    stage_layers,
    stage_share,
    tokens_per_micro_batch,
    trained_dense_params_per_rank,
    virtual_pipeline,
)
from app.sizing.training.search import training_layouts
from app.sizing.uncertainty import Neighborhood, Spread
from app.sizing.workload import TrainingWorkload
from tests.examples import PRETRAIN, col
from tests.sizing.small import ACCELERATORS, BIG, OFFERS, SMALL, snapshot, system
from tests.sizing.training.counted import COUNTS, layout
from tests.sizing.training.layouts import plans_of

# Nine runs in ten take at most e^0.4 of the time predicted.
TIME = Spread("training", 3.0, 0.0, 0.0, (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6), 60, 9)
MEMORY = Spread("training_memory", 0.0, 1.0, 0.0, (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3), 60, 9)
# Many sources for the first stack, none for the second: the scale is 1 and sqrt(1 + 3) = 2.
AROUND = Neighborhood(col(1e9, 0.0), col(0.0, 0.0), col(0.0, 0.0), col(1.0, 1.0))
KNOWN = np.array([True, False])


def margins(confidence: float) -> Margins:
    return build_margins(confidence, (TIME, AROUND), MEMORY, KNOWN)


def test_factors_grow_with_the_confidence_and_without_measurements() -> None:
    assert margins(0.9).time_factor == pytest.approx([math.exp(0.4), math.exp(0.8)])
    assert margins(0.8).time_factor == pytest.approx([math.exp(0.2), math.exp(0.4)])
    assert margins(0.8).asked == 0.8


def test_predictions_are_taken_at_their_word_at_one_half() -> None:
    assert margins(0.5).time_factor.tolist() == [1.0, 1.0]


def test_a_run_is_in_time_when_it_is_with_its_margin() -> None:
    # e^0.4 is 1.49: 67 of 100 seconds are in time with the first, 44 with the second
    assert meets_deadline_at_confidence(margins(0.9), col(67.0, 67.0), 100.0).tolist() == [True, False]
    assert meets_deadline_at_confidence(margins(0.9), col(67.1, 44.9), 100.0).tolist() == [False, True]


def test_what_holds_with_a_confidence_has_that_probability() -> None:
    for confidence in (0.5, 0.8, 0.9, 0.95):
        sure = margins(confidence)
        assert deadline_probability(sure, 100.0 / sure.time_factor, 100.0) == pytest.approx([confidence] * 2)


def test_a_peak_is_as_far_from_certain_as_the_share_that_comes_and_goes() -> None:
    # 60 of 80 bytes are counted; the recipe of the second is unpublished; the third is all states
    found = memory_neighbourhood(
        col(60.0, 60.0, 80.0), col(80.0, 80.0, 80.0), np.array([True, False, True]), col(1.0, 1.0, 1.5)
    )
    assert found.distance == pytest.approx([2 * 0.25, 2.0, 0.0])
    # squares add: sqrt(1 + 0.5^2), sqrt(1 + 2^2), and what only rules say is half as far off again
    assert MEMORY.relative_spread(found) == pytest.approx([1.25**0.5, 5**0.5, 1.5])


def test_margins_are_a_table() -> None:
    second = margins(0.9).take(np.array([1]))
    assert second.time_factor == pytest.approx([math.exp(0.8)])
    assert (second.time, second.memory, second.asked) == (TIME, MEMORY, 0.9)
    assert second.recipe_known.tolist() == [False]


def simulated(stages: int, chunks: int, place: int, micro_batches: int) -> float:
    """The most chunks that a stage holds while a schedule of one forward, one backward runs, in micro-batches."""
    behind = stages - 1 - place
    forward = 2 * behind + (chunks - 1) * stages if chunks > 1 else behind
    total, held, most = micro_batches * chunks, 0, 0
    warm = min(forward, total)
    for step in range(total + warm):
        held += step < total
        most = max(most, held)
        held -= step >= warm
    return most / chunks


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("micro_batches", [8, 64])
def test_stages_hold_what_the_schedule_has_in_flight(stages: int, chunks: int, micro_batches: int) -> None:
    if stages == 1 and chunks > 1:
        return
    for place in range(stages):
        found = micro_batches_in_flight(col(micro_batches), col(stages), col(chunks), col(place))
        assert found.tolist() == [simulated(stages, chunks, place, micro_batches)]


def test_the_first_stage_holds_the_most_and_never_more_than_a_step_has() -> None:
    held = [micro_batches_in_flight(col(6), col(8), col(1), col(place))[0] for place in range(8)]
    assert held == [6, 6, 6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(("stages", "layers"), [(1, 32), (3, 11), (16, 2), (32, 1)])
def test_a_stage_has_whole_layers(stages: int, layers: int) -> None:
    assert stage_layers(32.0, col(stages)).tolist() == [layers]
    assert stage_share(32.0, col(stages)).tolist() == [layers / 32]


def judged(workload: TrainingWorkload = PRETRAIN, of: Catalog = SMALL) -> tuple[TrainingPlans, dict[str, str]]:
    """Every plan, and types without one and why."""
    rejections = Rejections(of.accelerators)
    found = find_candidates(of, Constraints(), Economics(), Assumptions(), rejections)
    plans = training_layouts(workload, of, found, Constraints(), rejections, Assumptions())
    return plans, {of.accelerators[i].slug: r.code for i, r in rejections.by_accelerator.items()}


def table(**fixed: Any) -> TrainingPlans:
    return plans_of(SMALL, PRETRAIN, accelerator="acme-big", **fixed)


def test_types_that_nothing_trains_on_fall_out_with_that_reason() -> None:
    plans, reasons = judged()
    frameworks = {SMALL.engines[code] for code in plans.framework[plans.accelerator == 0].tolist()}
    assert SMALL.accelerator_index["acme-big"] == 0
    assert frameworks == {"megatron", "fsdp"}  # documented: what only rules say runs does not compete
    assert "acme-big" not in reasons
    plans, reasons = judged(replace(PRETRAIN, precision="mxfp8"))
    assert len(plans) == 0
    assert {reasons[slug] for slug in ("acme-big", "acme-card")} == {"no_framework"}


@pytest.mark.parametrize("lacks", [{"flops_per_s": {"fp16": 1e15}}, {"memory_bytes_per_s": None}])
def test_a_type_without_a_rate_is_not_guessed(lacks: dict[str, Any]) -> None:
    plans, reasons = judged(of=snapshot(accelerators=[replace(BIG, **lacks), *ACCELERATORS[1:]]))
    assert SMALL.accelerator_index["acme-big"] not in plans.accelerator
    assert reasons["acme-big"] == "missing_data"


def test_ranks_are_all_degrees_but_the_data_parallel_one() -> None:
    found = table(framework="megatron")
    assert found.ranks.tolist() == (found.tensor_parallel * found.pipeline_parallel).tolist()
    assert found.ranks.max() == 8 * 16


@pytest.mark.parametrize(("count", "degrees"), [(1, {1}), (2, {1, 2}), (8, {1, 2, 4, 8})])
def test_a_model_is_split_no_further_than_a_machines_links_reach(count: float, degrees: set[float]) -> None:
    # the pipeline alone goes from machine to machine
    own = system("own", SystemKind.CLOUD_INSTANCE, BIG, count, network_bytes_per_s=400e9)
    price = replace(OFFERS[0], system="own", instance_type="own", accelerator_count=count)
    plans, _ = judged(of=snapshot(systems=[own], offers=[price]))
    rented = plans.take(plans.node.accelerators_per_node == count)
    assert set(rented.tensor_parallel.tolist()) == degrees
    assert set(rented.pipeline_parallel.tolist()) == {1, 2, 4, 8, 16}


@pytest.mark.parametrize("wanted", [True, False])
def test_what_a_deployment_says_of_a_framework_replaces_its_habit(wanted: bool) -> None:
    assert set(table(framework="megatron").sequence_parallel.tolist()) == {True}
    assert set(table(framework="megatron", sequence_parallel=wanted).sequence_parallel.tolist()) == {wanted}


@pytest.mark.parametrize("name", ["loss", "kernels", "weights", "gradients", "optimizer_implementation"])
def test_what_a_deployment_says_of_a_recipe_replaces_the_frameworks(name: str) -> None:
    for place, said in enumerate(VOCABULARIES[name]):
        plans = table(framework="megatron", recipe=RecipeSettings(**cast(Any, {name: said})))
        assert set(getattr(plans.stack.recipe, name).tolist()) == {place}


def test_what_is_asked_of_kernels_and_chunks_is_in_every_row() -> None:
    assert table().flash_attention.all()
    assert not table(flash_attention=False).flash_attention.any()
    assert set(table(virtual_pipeline=2).asked_virtual_pipeline.tolist()) == {2}
    assert set(table().asked_virtual_pipeline.tolist()) == {0}


def test_one_framework_is_named_or_those_that_differ_are_judged() -> None:
    engines = [SMALL.engines[i] for i in np.unique(table().framework).tolist()]
    assert engines == ["fsdp", "megatron"]
    assert [SMALL.engines[i] for i in np.unique(table(framework="fsdp").framework).tolist()] == ["fsdp"]


def test_degrees_multiply() -> None:
    assert accelerators(layout(), col(5)).tolist() == [4 * 3 * 2 * 5]
    assert data_group(layout(), col(5)).tolist() == [10]
    assert expert_shards(layout()).tolist() == [8]
    assert expert_shards(layout(expert_parallel=1)).tolist() == [4]  # the tensor group's
    assert expert_group(layout(), col(5), col(8)).tolist() == [5]
    assert expert_group(layout(), col(1), col(64)).tolist() == [1]
    assert sequence_split(layout()).tolist() == [4]
    assert sequence_split(layout(sequence_parallel=False)).tolist() == [1]


def test_a_step_is_divided_over_replicas_and_micro_batches() -> None:
    assert micro_batches(COUNTS, layout(), col(4)).tolist() == [64 / (4 * 2)]
    assert micro_batches(COUNTS, layout(), col(64)).tolist() == [1]
    assert tokens_per_micro_batch(COUNTS, layout()).tolist() == [2 * 1000 / 2]


@pytest.mark.parametrize(
    ("columns", "chunks"),
    [
        ({"pipeline_parallel": 3}, 4),  # twelve layers: four to a stage, a layer to a chunk
        ({"pipeline_parallel": 12}, 1),
        ({"pipeline_parallel": 5}, 2),
        ({"pipeline_parallel": 24}, 1),
        ({"pipeline_parallel": 1}, 1),
        ({"interleaved_pipeline": False}, 1),
        ({"asked_virtual_pipeline": 3}, 3),
        ({"asked_virtual_pipeline": 3, "pipeline_parallel": 1}, 1),
    ],
)
def test_chunks_of_a_stage(columns: dict[str, float], chunks: float) -> None:
    assert virtual_pipeline(COUNTS, layout(**columns)).tolist() == [chunks]


def test_parameters_of_a_rank() -> None:
    """10 M, of which 4 M in experts and 1.2 M at the ends; the first stage has 0.5 M, the last 0.7 M."""
    assert dense_params_per_rank(COUNTS, layout())[0] == pytest.approx(4.8e6 / 12 + 0.7e6 / 4)
    alone = dense_params_per_rank(COUNTS, layout(pipeline_parallel=1))[0]
    assert alone == pytest.approx(4.8e6 / 4 + 1.2e6 / 4)
    larger = replace(COUNTS, embedding_params=0.9e6, head_params=0.3e6)
    assert dense_params_per_rank(larger, layout())[0] == pytest.approx(4.8e6 / 12 + 0.9e6 / 4)
    assert routed_params_per_rank(COUNTS, layout(), col(8)).tolist() == [4e6 / 24]
    assert adapter_params_per_rank(COUNTS, layout())[0] == pytest.approx(0.2e6 / 12)


def test_shards_hold_their_share() -> None:
    found = held_params(col(8, 8), col(6, 6), np.array([True, False]), col(4, 4), col(3, 3))
    assert found.tolist() == [2 + 2, 14]


def test_a_network_that_only_assists_a_denoiser_is_not_trained() -> None:
    frozen = replace(COUNTS, frozen_params=24.0)
    assert trained_dense_params_per_rank(frozen, layout(), col(100)).tolist() == [100 - 24 / 12]
    assert trained_dense_params_per_rank(COUNTS, layout(), col(100)).tolist() == [100]
