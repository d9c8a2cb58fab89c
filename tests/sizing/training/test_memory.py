"""How far the memory of plans may be off: from nothing, if all is counted, to everything, if nothing is known.
Weights gathered from other ranks and 16-bit copies of those in 32 bit, worked by hand. Memory of a training
device, worked by hand. The four moments of a step, and what there is at the highest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB
from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.layouts import FULL
from app.sizing.training.loss import CHUNKED, FUSED
from app.sizing.training.memory import (
    BACKWARD,
    GRADIENTS,
    LOSS,
    MOMENTS,
    UPDATE,
    MemoryParts,
    TrainingMemory,
    activation_parts_at,
    allowed_bytes,
    bytes_at_moments,
    cast_bytes,
    end_params_per_rank,
    estimate_training_memory,
    find_peak,
    fit_probability,
    fits_at_confidence,
    gathered_bytes,
    head_cast_bytes,
    last_gradients_bytes,
    layer_params_per_rank,
    memory_factor,
    memory_scale,
)
from app.sizing.training.plans import memory_neighbourhood
from app.sizing.uncertainty import Spread
from app.sizing.workload import Method
from tests.examples import LLAMA_8B, LLAMA_70B, col, row
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import SINGLE, WORKLOAD, asked, held, memory, one, plans_of

# A peak counted to the byte is off by e^0.1 at 80 %; with all of it open, sqrt(1 + 4) times as far.
PEAKS = Spread("training_memory", 0.0, 1.0, 0.0, (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3), 60, 9)


def judged(*, known: bool, confidence: float = 0.8) -> tuple[Any, TrainingMemory]:
    plans = plans_of(SMALL, WORKLOAD, confidence, accelerator="acme-big", framework="megatron")
    number = len(plans)
    margins = row(asked=confidence, memory=PEAKS, recipe_known=np.full(number, known), widened=np.ones(number))
    _, memory = estimate_training_memory(counts_of(WORKLOAD), plans, np.full(number, 8.0), Assumptions())
    return row(stack=row(margins=margins)), memory


def test_the_more_of_a_peak_comes_and_goes_the_further_it_may_be_off() -> None:
    plans, memory = judged(known=True)
    moving = (memory.activation_bytes + memory.overhead_bytes) / memory.total_bytes
    assert memory_scale(plans, memory) == pytest.approx(np.sqrt(1 + (2 * moving) ** 2))
    assert moving.min() < 0.3 < moving.max()


def test_an_unpublished_recipe_makes_the_whole_memory_uncertain() -> None:
    plans, memory = judged(known=False)
    assert memory_scale(plans, memory) == pytest.approx(np.full(len(memory), 5**0.5))
    assert (memory_factor(plans, memory, 0.8) > memory_factor(*judged(known=True), 0.8)).all()


def test_what_surely_fits_fits_with_the_probability_asked() -> None:
    for known in (True, False):
        plans, memory = judged(known=known, confidence=0.9)
        surely = fits_at_confidence(plans, memory)
        assert surely.any() and not surely.all()
        assert (fit_probability(plans, memory)[surely] >= 0.9).all()
        tight = memory.total_bytes > 0.999 * memory.capacity_bytes / memory_factor(plans, memory, 0.9)
        assert (fit_probability(plans, memory)[tight] < 0.91).all()


def test_doubt_counts_against_the_device_and_never_on_top_of_the_reserve() -> None:
    plans, memory = judged(known=True)
    allowed = allowed_bytes(plans, memory)
    assert (allowed <= memory.usable_bytes).all()
    doubted = memory.capacity_bytes / memory_factor(plans, memory, 0.8)
    assert allowed == pytest.approx(np.minimum(memory.usable_bytes, doubted))


def test_a_reserve_never_asks_for_more_as_states_are_sharded_further() -> None:
    # What a run needs with its doubt falls with its states, or bisection over replicas would not find the smallest.
    states = np.linspace(0.0, 200.0, 400)
    for moving in (1.0, 10.0, 50.0):
        total = states + moving
        scale = PEAKS.relative_spread(memory_neighbourhood(states, total, np.full(400, True), np.ones(400)))
        assert (np.diff(total * PEAKS.error_factor(0.95, scale)) >= 0).all()


# Eight layers of 10 dense and 40 routed parameters, four of them with experts; an embedding of 6, a head of 4.
COUNTS: Any = row(
    embedding_params=6.0,
    head_params=4.0,
    total_params=250.0,
    routed_params=160.0,
    routing_layers=4.0,
    weight_layers=8.0,
    linear_params=240.0,
    head_matmul_params=4.0,
)


def test_a_layer_on_a_rank_has_its_share_of_experts() -> None:
    plans: Any = row(tensor_parallel=col(1, 2))
    assert layer_params_per_rank(COUNTS, plans, col(1, 8)).tolist() == [10 + 40, 5 + 5]


def test_stages_have_one_end_each() -> None:
    plans: Any = row(pipeline_parallel=col(1, 2, 1), tensor_parallel=col(1, 1, 2))
    assert end_params_per_rank(COUNTS, plans).tolist() == [10, 6, 5]


@pytest.mark.parametrize("units", [1.0, 2.0, 3.0])
def test_ends_and_units_in_use_are_gathered(units: float) -> None:
    params: Any = row(ends=4.0, gathered=2.0)
    found = gathered_bytes(np.array([True, False]), col(10, 10), col(50, 50), col(units, units), params)
    assert found.tolist() == [4 * 10 + units * 2 * 50, 0]


def test_autocast_keeps_copies_of_layers_that_are_whole_and_not_recomputed() -> None:
    plans: Any = row(
        activation_checkpointing=np.array([0, FULL, 0, 0]),
        zero_stage=col(0, 0, 3, 1),
        pipeline_parallel=col(1, 1, 1, 2),
        tensor_parallel=col(1, 1, 1, 3),
    )
    params: Any = row(casts=2.0)
    assert cast_bytes(COUNTS, plans, params).tolist() == [480, 0, 0, 80]


@pytest.mark.parametrize(
    ("frozen", "loss", "copies"), [(True, CHUNKED, 8), (True, FUSED, 1), (False, CHUNKED, 1), (False, FUSED, 1)]
)
def test_a_frozen_head_is_copied_for_each_chunk_of_a_loss(frozen: bool, loss: int, copies: int) -> None:
    plans, framework, params = row(tensor_parallel=col(2)), row(loss=col(loss), loss_chunks=col(8)), row(head_casts=2.0)
    said: Any = (COUNTS, plans, framework, params, row(frozen=frozen))
    assert head_cast_bytes(*said).tolist() == [copies * 4]


@pytest.mark.parametrize(
    ("recipe", "bytes_per_param"),
    [
        ({}, 16.0),
        ({"recipe": RecipeSettings(gradients="32bit")}, 18.0),
        ({"optimizer": "adamw-8bit"}, 10.03),
        ({"optimizer": "adamw-4bit"}, 9.06),
        ({"optimizer": "ademamix"}, 20.0),
        ({"optimizer": "adafactor"}, 8.02),
        ({"optimizer": "lion"}, 12.0),
        ({"optimizer": "lion-8bit"}, 9.02),
        ({"optimizer": "muon"}, 12.0),
        ({"optimizer": "sgd"}, 12.0),
        ({"optimizer": "grokadamw"}, 20.0),
        ({"optimizer": "rmsprop-8bit"}, 9.02),
        ({"optimizer": "lomo"}, 6.0),  # weights and master copy: each gradient is applied as soon as it is known
        ({"optimizer": "adalomo"}, 6.02),
        ({"precision": "bf16-true", "framework": "fsdp", "recipe": None}, 8.0),
        ({"precision": "fp32"}, 16.0),
    ],
)
def test_states_of_every_recipe(catalog: Catalog, recipe: dict[str, object], bytes_per_param: float) -> None:
    """One device, nothing sharded: weights, gradients, master copy and optimizer states, per parameter."""
    names = {k: v for k, v in recipe.items() if k in ("optimizer", "precision")}
    workload = replace(WORKLOAD, **names)  # type: ignore[arg-type]
    plans = one(catalog, workload, zero_stage=0, **SINGLE, **{k: v for k, v in recipe.items() if k not in names})
    found = held(workload, plans, np.ones(1))
    total = float((found.weights_bytes + found.gradient_bytes + found.optimizer_bytes)[0])
    assert total == pytest.approx(bytes_per_param * LLAMA_8B.total_params, rel=1e-6)


def test_deepspeed_holds_twenty_bytes_per_parameter_while_it_steps(catalog: Catalog) -> None:
    plans = one(catalog, framework="deepspeed", zero_stage=0, optimizer_offload=False, recipe=None)
    found = held(WORKLOAD, plans, np.ones(1))
    states = found.weights_bytes + found.gradient_bytes + found.optimizer_bytes
    assert float(states[0]) == pytest.approx(16 * LLAMA_8B.total_params)
    assert float((states + found.update_bytes)[0]) == pytest.approx(20 * LLAMA_8B.total_params)


@pytest.mark.parametrize(("stage", "share"), [(0, 16.0), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_zero_stages_share_what_they_say(catalog: Catalog, stage: int, share: float) -> None:
    plans = one(catalog, zero_stage=stage, **SINGLE)
    found = held(WORKLOAD, plans, np.full(1, 8.0))
    assert float((found.weights_bytes + found.gradient_bytes + found.optimizer_bytes)[0]) == pytest.approx(
        share * LLAMA_8B.total_params
    )
    assert (float(found.loss_gathered_bytes[0]) > 0) is (stage == 3)


def test_weights_that_are_sharded_and_trained_are_their_own_master_copy(catalog: Catalog) -> None:
    """FSDP in mixed precision: 4 bytes of weights, 4 of gradients, 8 of moments, all sharded."""
    plans = one(catalog, framework="fsdp", zero_stage=3, optimizer_offload=False)
    found = held(WORKLOAD, plans, np.full(1, 8.0))
    parts = [
        float(v[0]) * 8 / LLAMA_8B.total_params
        for v in (found.weights_bytes, found.gradient_bytes, found.optimizer_bytes)
    ]
    assert parts == pytest.approx([4.0, 4.0, 8.0])


def test_qlora_holds_its_base_at_half_a_byte_per_linear_element(catalog: Catalog) -> None:
    workload = replace(
        WORKLOAD, model=LLAMA_70B, phase="fine_tuning", method=Method.QLORA, units_per_sequence=512.0, global_batch=2
    )
    plans = one(catalog, workload, framework="peft+bitsandbytes", zero_stage=0, activation_checkpointing="full")
    found = held(workload, plans, np.ones(1))
    adapters = LLAMA_70B.lora_params(16, "all-linear")
    rest = LLAMA_70B.total_params - LLAMA_70B.linear_params
    base = 0.515869 * LLAMA_70B.linear_params + 4 * rest  # which k-bit preparation widens
    assert float(found.weights_bytes[0]) == pytest.approx(base + 4 * adapters, rel=1e-4)
    assert float(found.optimizer_bytes[0]) == pytest.approx(8 * adapters)


def test_activations_by_what_is_recomputed_flash_or_not(catalog: Catalog) -> None:
    """8B, 4096 tokens, 32 layers: 139 400 bytes per token and layer whole, 2h recomputed; 6ns in place of 4n, and keys
    and values of every head, where scores are stored.
    """
    tokens, layers = 4096, 32
    whole = held(WORKLOAD, one(catalog, zero_stage=1, **SINGLE), np.ones(1))
    assert float(whole.kept_bytes[0]) == pytest.approx(tokens * layers * 139_400)
    assert float(whole.working_bytes[0]) == pytest.approx(tokens * 4 * 14336)
    full = held(WORKLOAD, one(catalog, zero_stage=1, activation_checkpointing="full", **SINGLE), np.ones(1))
    assert float(full.kept_bytes[0]) == pytest.approx(tokens * layers * 2 * 4096)
    assert float(full.working_bytes[0]) == pytest.approx(tokens * (139_400 + 4 * 14336))
    stored = held(WORKLOAD, one(catalog, zero_stage=1, flash_attention=False, **SINGLE), np.ones(1))
    more = 6 * 32 * 4096 - 4 * 32 + 4 * 3072
    assert float(stored.kept_bytes[0]) == pytest.approx(tokens * layers * (139_400 + more))
    split = held(
        WORKLOAD, one(catalog, zero_stage=1, tensor_parallel=4, pipeline_parallel=1, context_parallel=2), np.ones(1)
    )
    assert float(split.kept_bytes[0]) == pytest.approx(float(whole.kept_bytes[0]) / 8)


def test_a_loss_holds_what_its_recipe_says(catalog: Catalog) -> None:
    def logits(loss: str) -> float:
        found = held(WORKLOAD, one(catalog, zero_stage=1, recipe=RecipeSettings(loss=loss), **SINGLE), np.ones(1))
        return float(found.logits_bytes[0])

    each, head = 4096 * LLAMA_8B.vocab_size, 2 * LLAMA_8B.head_matmul_params
    assert [logits(loss) / each for loss in ("shifted", "held", "upcast")] == [
        18,
        14,
        12,
    ]  # of a single sequence, whose shifted copy is none
    # of as many tokens as the model is wide the head's own gradient is as large as theirs
    assert logits("compiled") == 2 * each + head + 2 * 4096 * 4096
    assert logits("chunked") == pytest.approx(2 * each * 6 / 8 + 3 * head + 2 * 4096 * 4096)
    assert logits("fused") == pytest.approx(12 * 256 * LLAMA_8B.vocab_size + head + 2 * 4096 * 4096)


def test_the_first_pipeline_stage_holds_as_many_micro_batches_as_there_are_stages(catalog: Catalog) -> None:
    plans = one(catalog, zero_stage=1, tensor_parallel=1, pipeline_parallel=4, context_parallel=1, virtual_pipeline=1)
    found = held(WORKLOAD, plans, np.ones(1))
    each = 4096 * 8 * 139_400  # eight layers to a stage
    assert float(found.kept_bytes[0]) == pytest.approx(4 * each)
    two = one(catalog, zero_stage=1, tensor_parallel=1, pipeline_parallel=4, context_parallel=1, virtual_pipeline=2)
    interleaved = held(WORKLOAD, two, np.ones(1))
    assert float(interleaved.kept_bytes[0]) == pytest.approx(4 * each * (1 + 3 / 8))
    few = held(replace(WORKLOAD, global_batch=2), plans, np.ones(1))
    assert float(few.kept_bytes[0]) == pytest.approx(2 * each)


def test_memory_parts_sum_and_shrink_with_every_split(catalog: Catalog) -> None:
    """More devices of any kind never hold more each; the parts are the total."""
    base = memory(WORKLOAD, one(catalog, zero_stage=1, **SINGLE), np.ones(1))
    for split in ({"tensor_parallel": 2}, {"pipeline_parallel": 2}, {"context_parallel": 2}):
        found = memory(WORKLOAD, one(catalog, zero_stage=1, **{**SINGLE, **split}), np.ones(1))
        parts = (
            found.weights_bytes
            + found.gradient_bytes
            + found.optimizer_bytes
            + found.activation_bytes
            + found.overhead_bytes
        )
        assert parts[0] == found.total_bytes[0]
        assert found.total_bytes[0] < base.total_bytes[0]


def test_unified_memory_is_shared_with_the_system(catalog: Catalog) -> None:
    apple = next(
        a.slug for a in catalog.accelerators if a.family == "apple" and a.memory_bytes and a.memory_bytes >= 64 * GIB
    )
    workload = replace(WORKLOAD, phase="fine_tuning", method=Method.LORA, global_batch=2, units_per_sequence=512.0)
    found = asked(catalog, workload, accelerator=apple, accelerators_per_replica=1)
    assert found.memory is not None
    assert found.memory.usable_bytes == pytest.approx(0.75 * found.memory.capacity_bytes)


FACTORS: Any = row(
    training_fragmentation_fraction=col(0.1), training_collective_bytes=col(7), training_context_bytes=col(11)
)


def moments_held(**changed: Any) -> MemoryParts:
    """Numbers that tell the parts apart; a test says what differs."""
    columns: dict[str, Any] = {
        "weights_bytes": col(1000),
        "optimizer_bytes": col(500),
        "host_bytes": col(0),
        "gradient_bytes": col(200),
        "lasting_gradient_bytes": col(0),
        "head_gradient_bytes": col(2),
        "kept_bytes": col(150),
        "logits_bytes": col(80),
        "last_norm_bytes": col(6),
        "working_bytes": col(60),
        "last_bytes": col(9),
        "loss_gathered_bytes": col(4),
        "backward_gathered_bytes": col(5),
        "update_bytes": col(8),
        "communicators": col(2),
    }
    return MemoryParts(**columns | changed)


@pytest.mark.parametrize(
    ("changed", "moment", "gradients", "activations"),
    [
        ({}, LOSS, 0, 150 + 80 + 6 + 4),
        ({"lasting_gradient_bytes": col(200)}, LOSS, 200, 240),  # summed over micro-batches: there already
        ({"working_bytes": col(90)}, BACKWARD, 2, 150 + 90 + 5),
        ({"logits_bytes": col(10)}, BACKWARD, 2, 150 + 60 + 5),
        ({"last_bytes": col(50)}, GRADIENTS, 200, 50),
        ({"update_bytes": col(50)}, UPDATE, 200, 50),
    ],
)
def test_the_peak_is_the_highest_of_four(
    changed: dict[str, Any], moment: int, gradients: float, activations: float
) -> None:
    found = find_peak(moments_held(**changed), FACTORS)
    assert MOMENTS[int(found.moment[0])] == MOMENTS[moment]
    assert (found.gradient_bytes[0], found.activation_bytes[0]) == (gradients, activations)
    parts = activation_parts_at(moments_held(**changed), found.moment)
    each = (parts.kept_bytes, parts.working_bytes, parts.logits_bytes, parts.gathered_bytes, parts.update_bytes)
    assert sum(float(p[0]) for p in each) == activations
    assert found.overhead_bytes[0] == pytest.approx(11 + 2 * 7 + 0.1 * (gradients + activations))
    alone = find_peak(moments_held(**changed, communicators=col(0)), FACTORS)
    assert alone.overhead_bytes[0] == pytest.approx(found.overhead_bytes[0] - 14)


def test_every_moment_is_reported() -> None:
    found = bytes_at_moments(moments_held())
    each = (found.loss_bytes, found.backward_bytes, found.gradients_bytes, found.update_bytes)
    assert [float(m[0]) for m in each] == [240, 217, 209, 208]


@pytest.mark.parametrize("tied", [0.0, 3e6])
def test_the_last_gradient_is_that_of_the_embedding(tied: float) -> None:
    """5e6 parameters of an embedding over two ranks, of four bytes an element; the ends are 8e6, a layer 2e6."""
    counts: Any = row(embedding_params=5e6, tied_params=tied)
    plans: Any = row(tensor_parallel=col(2))

    def found(
        *, gathers: bool = False, accumulates: bool = False, in_backward: bool = False, frozen: bool = False
    ) -> float:
        params: Any = row(in_backward=np.array([in_backward]), gradients=2.0, ends=1.0)
        recipe: Any = row(element_bytes=4.0, weight_bytes_per_param=2.0, frozen=frozen)
        masks = np.array([gathers]), np.array([accumulates])
        sizes = col(8e6), col(2e6), col(7e6), col(4), col(100)
        return float(last_gradients_bytes(counts, plans, *masks, *sizes, params, recipe)[0]) - 100

    both = 2 * 4 * tied / 2
    assert found() == both  # a tied embedding's gradient comes in three parts
    assert found(accumulates=True) == 4 * 5e6 / 2  # and a second one of the sum
    assert found(in_backward=True) == found(in_backward=True, accumulates=True) == 8e6 * 2 + both
    assert found(frozen=True) == found(frozen=True, accumulates=True) == 0
    reduced = 8e6 * (1 + 4)
    for adds in (False, True):
        shared = 7e6 + 1.5 * both - (0 if adds else 8e6 * 2 / 4) if tied else 0
        assert found(gathers=True, accumulates=adds) == max(reduced, shared)


@pytest.mark.parametrize(("framework", "whole"), [("torchtitan", True), ("maxtext", False)])
def test_a_pipeline_keeps_sharded_weights_and_gradients_whole(catalog: Catalog, framework: str, whole: bool) -> None:
    """A stage is gathered once per step, and its gradients are reduced after the last micro-batch."""
    found = [
        memory(
            WORKLOAD,
            plans_of(
                catalog,
                WORKLOAD,
                **{**SINGLE, "framework": framework, "pipeline_parallel": 4, "virtual_pipeline": 1},
                zero_stage=3,
                micro_batch_sequences=1,
                activation_checkpointing="full",
                optimizer_offload=False,
            ).take(np.zeros(1, dtype=np.int64)),
            col(ranks),
        )
        for ranks in (2, 16)
    ]
    held = [f.gradient_bytes[0] + f.activation_bytes[0] for f in found]
    stage = counts_of(WORKLOAD).total_params / 4
    assert (held[1] > stage * (2 + 4)) == whole
