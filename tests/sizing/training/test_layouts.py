"""Layouts worth judging: what a framework can do, what a model's shape allows, what a caller fixed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.errors import Conflict
from app.sizing.columns import Column
from app.sizing.hardware.engines import Framework
from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.model.counting.read import read_architecture
from app.sizing.question import Deployment
from app.sizing.training.layouts import LAYOUT_COLUMNS, candidate_layouts, check_layout
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_8B_CONFIG, LLAMA_70B, PRETRAIN, registered

SPLITS = Framework(splits=True, shards=False)
SHARDS = Framework(shards=True, offloads=("optimizer",))
MIXTURE = registered("Qwen/Qwen3-30B-A3B")


def values(name: str, framework: Framework = SPLITS, workload: TrainingWorkload = PRETRAIN, **fixed: Any) -> set[float]:
    """What a column of the layouts takes."""
    found = candidate_layouts(workload, framework, Deployment("any", **fixed) if fixed else None)
    return set(found[:, LAYOUT_COLUMNS.index(name)].tolist())


def rows(framework: Framework, workload: TrainingWorkload = PRETRAIN, **fixed: Any) -> Column:
    return candidate_layouts(workload, framework, Deployment("any", **fixed) if fixed else None)


def test_a_framework_that_splits_takes_degrees_and_one_that_shards_takes_stages() -> None:
    assert values("tensor_parallel") == {1, 2, 4, 8}
    assert values("pipeline_parallel") == {1, 2, 4, 8, 16}
    assert values("zero_stage") == {1}
    assert values("tensor_parallel", SHARDS) == values("pipeline_parallel", SHARDS) == {1}
    assert values("zero_stage", SHARDS) == {0, 1, 2, 3}
    assert values("activation_checkpointing") == {0, 1, 2}


def test_selective_is_a_layout_only_where_a_framework_has_a_way_of_it() -> None:
    kept = LAYOUT_COLUMNS.index("activation_checkpointing")
    assert set(candidate_layouts(PRETRAIN, SHARDS, None, selective=False)[:, kept].tolist()) == {0, 2}
    asked = Deployment("any", activation_checkpointing="selective")
    assert not len(candidate_layouts(PRETRAIN, SHARDS, asked, selective=False))


def test_selective_recomputation_is_refused_where_there_is_no_way_of_it() -> None:
    asked = Deployment("any", framework="deepspeed", activation_checkpointing="selective")
    with pytest.raises(Conflict, match="Use none or full"):
        check_layout(PRETRAIN, asked)
    check_layout(PRETRAIN, replace(asked, recipe=RecipeSettings(recomputation="operators")))
    check_layout(PRETRAIN, replace(asked, framework="torchtitan"))


def test_heads_split_evenly_and_every_stage_has_a_layer() -> None:
    shape = {"num_attention_heads": 12, "num_key_value_heads": 6, "num_hidden_layers": 6}
    odd = replace(PRETRAIN, model=read_architecture({**LLAMA_8B_CONFIG, **shape}, name="odd"))
    # 12 query heads over 8 do not go; 6 key heads over 4 neither
    assert values("tensor_parallel", workload=odd) == {1, 2}
    assert values("pipeline_parallel", workload=odd) == {1, 2, 4}


def test_long_sequences_are_split_too_where_they_divide() -> None:
    assert values("context_parallel") == {1}
    assert values("context_parallel", workload=replace(PRETRAIN, units_per_sequence=65_536.0)) == {1, 2, 4, 8, 16}
    assert values("context_parallel", workload=replace(PRETRAIN, units_per_sequence=16_388.0)) == {1, 2, 4}


def test_expert_degrees_divide_the_experts() -> None:
    assert values("expert_parallel") == {1}
    assert values("expert_parallel", workload=replace(PRETRAIN, model=MIXTURE)) == {1, 8, 16, 32, 64}
    few = replace(PRETRAIN, model=replace(MIXTURE, num_experts=24))
    assert values("expert_parallel", workload=few) == {1, 8}


@pytest.mark.parametrize(("batch", "sizes"), [(512, {1, 2, 4}), (6, {1, 2}), (7, {1}), (1953, {1, 2, 4})])
def test_micro_batches_divide_the_batch_or_change_it_by_one_percent_at_most(batch: int, sizes: set[float]) -> None:
    assert values("micro_batch_sequences", workload=replace(PRETRAIN, global_batch=batch)) == sizes


def test_large_models_take_small_micro_batches_and_unsplit_ones_larger() -> None:
    assert values("micro_batch_sequences", workload=replace(PRETRAIN, model=LLAMA_70B)) == {1, 2}
    assert values("micro_batch_sequences", SHARDS) == {1, 2, 4, 8, 16}


def test_offloaded_states_are_sharded_recomputed_and_in_small_micro_batches() -> None:
    found = rows(SHARDS)
    offloaded = found[found[:, LAYOUT_COLUMNS.index("optimizer_offload")] > 0]
    of = {name: set(offloaded[:, i].tolist()) for i, name in enumerate(LAYOUT_COLUMNS)}
    assert (of["zero_stage"], of["activation_checkpointing"]) == ({3}, {2})
    assert of["micro_batch_sequences"] == {1, 2, 4, 8}
    assert values("optimizer_offload", SHARDS, replace(PRETRAIN, method=Method.LORA)) == {0}
    assert values("optimizer_offload", SHARDS, optimizer_offload=False) == {0}
    assert values("optimizer_offload", SHARDS, optimizer_offload=True) == {1}


@pytest.mark.parametrize(
    ("name", "value"),
    [("tensor_parallel", 4), ("pipeline_parallel", 2), ("micro_batch_sequences", 8), ("zero_stage", 2)],
)
def test_what_a_caller_fixed_replaces_what_would_be_judged(name: str, value: int) -> None:
    fixed: dict[str, Any] = {name: value}
    assert values(name, **fixed) == {value}


def test_a_framework_that_cannot_split_has_no_row_for_a_split() -> None:
    assert len(rows(SHARDS, tensor_parallel=2)) == 0
    assert len(rows(SPLITS, replace(PRETRAIN, method=Method.QLORA))) == 0
    assert values("activation_checkpointing", activation_checkpointing="selective") == {1}


def test_samples_are_not_split_or_recomputed() -> None:
    vit = replace(PRETRAIN, model=registered("google/vit-base-patch16-224"), units_per_sequence=1.0)
    both = Framework(splits=True, shards=True)
    assert values("activation_checkpointing", both, vit) == values("optimizer_offload", both, vit) == {0}
    assert values("micro_batch_sequences", both, vit) == {1, 2, 8, 32, 64, 128, 256}
    found = rows(both, vit)
    assert np.unique(found[:, :4]).tolist() == [1]


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({"tensor_parallel": 3}, "must divide the 32 attention heads"),
        ({"context_parallel": 3}, "must divide the sequence of 4,096 tokens"),
        ({"expert_parallel": 2}, "Llama-3.1-8B has no experts"),
        ({"pipeline_parallel": 16, "virtual_pipeline": 4}, "is 64, but Llama-3.1-8B has 32 layers"),
    ],
)
def test_a_layout_that_the_model_cannot_take_is_refused_with_what_it_could(fixed: dict[str, Any], words: str) -> None:
    with pytest.raises(Conflict, match=words):
        check_layout(PRETRAIN, Deployment("any", **fixed))


def test_a_layout_that_it_can_take_is_not() -> None:
    check_layout(PRETRAIN, Deployment("any", tensor_parallel=8, pipeline_parallel=16, virtual_pipeline=2))
    check_layout(replace(PRETRAIN, model=MIXTURE), Deployment("any", expert_parallel=64))
    with pytest.raises(Conflict, match="expert_parallel 3 must divide the 128 experts"):
        check_layout(replace(PRETRAIN, model=MIXTURE), Deployment("any", expert_parallel=3))
