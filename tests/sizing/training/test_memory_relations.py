"""What must hold of training memory whatever is asked: random layouts and recipes, one thing changed at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.hardware.recipes import VOCABULARIES, Recipes, TrainingRecipe
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.training.activations import micro_batch_memory
from app.sizing.training.counts import counts_of
from app.sizing.training.layer import framework_bytes
from app.sizing.training.memory import MemoryParts, bytes_at_moments, count_memory_parts
from app.sizing.training.plans import rank_groups, rank_params
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_8B, OPT_13B, PRETRAIN, col, registered, row
from tests.sizing.serving.given import DENSE, MIXTURE

MODELS = (LLAMA_8B, OPT_13B, DENSE, MIXTURE, registered("microsoft/phi-1_5"), registered("deepseek-ai/DeepSeek-V3"))
RECOMPUTED = ("none", "attention", "every_second_layer", "operators", "full")  # of a layer, ever less kept
WIDER_LOSSES = ("compiled", "upcast", "held", "shifted")


class _Plan:
    """One layout; everything a test does not say is one accelerator."""

    zero_stage: Any

    def __init__(self, recipe: TrainingRecipe, recomputation: str, **columns: float) -> None:
        known: dict[str, Any] = {name: col(1.0) for name in ("tensor_parallel", "pipeline_parallel")}
        known |= {name: col(1.0) for name in ("context_parallel", "expert_parallel", "micro_batch_sequences")}
        known |= {"zero_stage": col(0.0), "asked_virtual_pipeline": col(0.0), "accelerators_per_node": col(8.0)}
        known |= {name: col(value) for name, value in columns.items()}
        for name, value in known.items():
            setattr(self, name, value)
        no = np.array([False])
        self.optimizer_offload = self.parameter_offload = self.activation_offload = no
        self.sequence_parallel = self.interleaved_pipeline = no
        self.selective = recomputation not in ("none", "full")
        self.recipe = Recipes.from_recipes(
            [replace(recipe, selective=recomputation if self.selective else "operators")]
        )
        self.stack = row(recipe=self.recipe)
        self.activation_checkpointing = np.array([1 if self.selective else 2 * (recomputation == "full")])

    def __len__(self) -> int:
        return 1

    def kept_bytes(self, counts: Any) -> Any:
        return framework_bytes(counts, self.recipe, self.zero_stage >= 3, self.activation_checkpointing, flash=True)


def held(workload: TrainingWorkload, plan: _Plan, replicas: float = 1.0) -> MemoryParts:
    counts, of = counts_of(workload), plan
    made: Any = of
    rank = rank_params(counts, made)
    micro = micro_batch_memory(counts, made, Assumptions())
    return count_memory_parts(counts, made, rank, rank_groups(counts, made, rank, col(replicas)), micro, Assumptions())


def total(found: MemoryParts) -> float:
    """Everything counted at the highest moment."""
    each = bytes_at_moments(found)
    highest = max(float(getattr(each, name)[0]) for name in each.__slots__)
    return highest + float((found.weights_bytes + found.optimizer_bytes)[0])


@st.composite
def recipes(draw: st.DrawFn) -> TrainingRecipe:
    names = ("loss", "kernels", "weights", "gradients", "adapter_precision")
    words = {name: draw(st.sampled_from(VOCABULARIES[name])) for name in names}
    stepped = draw(st.sampled_from(["fused", "foreach", "in_backward"]))
    flags = {name: draw(st.booleans()) for name in ("adapter_dropout", "kbit_widening")}
    return TrainingRecipe("pytorch", optimizer_implementation=stepped, **words, **flags)  # type: ignore[arg-type]


@st.composite
def workloads(draw: st.DrawFn) -> TrainingWorkload:
    model: ModelArchitecture = draw(st.sampled_from(MODELS))
    return replace(
        PRETRAIN,
        model=model,
        phase="fine_tuning",
        method=draw(st.sampled_from(list(Method))),
        precision=draw(st.sampled_from(["bf16", "bf16-true", "fp8", "fp32"])),
        optimizer=draw(st.sampled_from(["adamw", "adamw-8bit", "adafactor", "sgd"])),
        units_per_sequence=float(draw(st.sampled_from([512, 2048, 8192, 65536]))),
        global_batch=draw(st.sampled_from([1, 4, 64])),
    )


ways = st.sampled_from(VOCABULARIES["recomputation"])
stages = st.sampled_from([0.0, 1.0, 2.0, 3.0])
sizes = st.sampled_from([1.0, 2.0, 8.0])


@given(w=workloads(), recipe=recipes(), way=ways, stage=stages, group=sizes)
def test_more_tokens_never_take_less(
    w: TrainingWorkload, recipe: TrainingRecipe, way: str, stage: float, group: float
) -> None:
    def of(workload: TrainingWorkload, sequences: float) -> float:
        return total(held(workload, _Plan(recipe, way, zero_stage=stage, micro_batch_sequences=sequences), group))

    usual = of(w, 1.0)
    assert of(w, 2.0) * (1 + 1e-12) >= usual or w.global_batch > group  # two at a time may be one step the fewer
    assert of(replace(w, units_per_sequence=2 * w.units_per_sequence), 1.0) * (1 + 1e-12) >= usual


@given(w=workloads(), recipe=recipes(), group=sizes)
def test_recomputing_more_never_keeps_more(w: TrainingWorkload, recipe: TrainingRecipe, group: float) -> None:
    kept = {way: float(held(w, _Plan(recipe, way), group).kept_bytes[0]) for way in RECOMPUTED}
    assert kept["none"] >= kept["attention"] >= kept["full"]
    assert kept["none"] >= kept["every_second_layer"] >= kept["full"]
    if w.method is Method.FULL:
        assert kept["operators"] >= kept["full"]


@given(w=workloads(), recipe=recipes(), way=ways, stage=st.sampled_from([1.0, 2.0, 3.0]))
def test_more_shards_never_hold_more(w: TrainingWorkload, recipe: TrainingRecipe, way: str, stage: float) -> None:
    def states(group: float) -> float:
        found = held(w, _Plan(recipe, way, zero_stage=stage), group)
        return float((found.weights_bytes + found.optimizer_bytes)[0])

    each = [states(group) for group in (1.0, 2.0, 8.0, 64.0)]
    assert each == sorted(each, reverse=True)
    whole = [
        total(held(replace(w, global_batch=512), _Plan(recipe, way, zero_stage=stage), g)) for g in (2.0, 8.0, 64.0)
    ]
    assert whole == sorted(whole, reverse=True)


@given(w=workloads(), recipe=recipes(), way=ways, stage=stages)
def test_a_wider_loss_never_takes_less(w: TrainingWorkload, recipe: TrainingRecipe, way: str, stage: float) -> None:
    each = [total(held(w, _Plan(replace(recipe, loss=kind), way, zero_stage=stage))) for kind in WIDER_LOSSES]
    assert all(less <= more * (1 + 1e-12) for less, more in pairwise(each))
    chunked, upcast = (
        float(held(w, _Plan(replace(recipe, loss=kind), way)).logits_bytes[0]) for kind in ("chunked", "upcast")
    )
    heads = 3 * 4 * counts_of(w).head_matmul_params  # a loss in chunks sums the head's gradient in copies
    assert chunked <= upcast + heads


@given(w=workloads(), recipe=recipes(), way=ways, stage=stages)
def test_stepping_all_at_once_takes_most(w: TrainingWorkload, recipe: TrainingRecipe, way: str, stage: float) -> None:
    def of(stepped: str) -> MemoryParts:
        return held(w, _Plan(replace(recipe, optimizer_implementation=stepped), way, zero_stage=stage))

    assert total(of("in_backward")) <= total(of("fused")) * (1 + 1e-12)
    assert total(of("fused")) <= total(of("foreach")) * (1 + 1e-12)
    assert of("in_backward").gradient_bytes[0] == 0 <= of("fused").gradient_bytes[0]
    assert of("in_backward").update_bytes[0] == 0


@given(w=workloads(), recipe=recipes(), way=ways, stage=stages, group=sizes)
def test_nothing_held_is_negative(
    w: TrainingWorkload, recipe: TrainingRecipe, way: str, stage: float, group: float
) -> None:
    found = held(w, _Plan(recipe, way, zero_stage=stage), group)
    for name in found.__slots__:
        assert float(getattr(found, name)[0]) >= 0, name
