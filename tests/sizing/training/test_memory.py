"""Memory of a training device, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.snapshot import Catalog
from app.sizing.units import GIB
from app.sizing.workload import Method
from tests.examples import LLAMA_8B, LLAMA_70B
from tests.sizing.training.layouts import SINGLE, WORKLOAD, asked, held, memory, one


@pytest.mark.parametrize(
    ("recipe", "bytes_per_param"),
    [
        ({}, 16.0),
        ({"recipe": RecipeSettings(gradients="32bit")}, 18.0),
        ({"optimizer": "adamw-8bit"}, 10.03),
        ({"optimizer": "adafactor"}, 8.02),
        ({"optimizer": "lion"}, 12.0),
        ({"optimizer": "muon"}, 12.0),
        ({"optimizer": "sgd"}, 12.0),
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
