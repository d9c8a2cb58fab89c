"""What dividing a run does to an accelerator's memory, whatever the model and the layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.memory import TrainingMemory, estimate_training_memory
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_70B, PRETRAIN, col, registered
from tests.sizing.training.layouts import IN_PLACE, WORKLOAD, one, plans_of

MIXTURE = registered("Qwen/Qwen3-30B-A3B")
MODELS = (PRETRAIN.model, LLAMA_70B, MIXTURE)
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
WORKLOADS = st.builds(
    lambda model, length, precision: replace(
        WORKLOAD, model=model, units_per_sequence=float(length), precision=precision, global_batch=256
    ),
    st.sampled_from(MODELS),
    st.sampled_from([2048, 8192, 32768]),
    st.sampled_from(["bf16", "fp8"]),
)
LAYOUTS = st.fixed_dictionaries(
    {
        "tensor_parallel": st.sampled_from([1, 2, 4]),
        "pipeline_parallel": st.sampled_from([1, 2, 4]),
        "context_parallel": st.sampled_from([1, 2]),
        "expert_parallel": st.sampled_from([1, 2, 4]),
        "activation_checkpointing": st.sampled_from(["none", "selective", "full"]),
        "micro_batch_sequences": st.sampled_from([1, 2]),
        "sequence_parallel": st.sampled_from([True, False]),
        "framework": st.sampled_from(["megatron", "torchtitan", "maxtext"]),
    }
)
DATA = st.sampled_from([4, 16])


def held(catalog: Catalog, workload: TrainingWorkload, layout: dict[str, Any], degree: int) -> TrainingMemory:
    """An accelerator's memory; the pipeline is not interleaved."""
    experts = layout["expert_parallel"] if workload.model.is_moe else 1
    fixed = {**layout, **IN_PLACE, "expert_parallel": experts, "optimizer_offload": False}
    plans = plans_of(catalog, workload, virtual_pipeline=1, **fixed).take(np.arange(1))
    return estimate_training_memory(counts_of(workload), plans, col(degree), Assumptions())[1]


@given(w=WORKLOADS, layout=LAYOUTS, degree=DATA, name=st.sampled_from(DEGREES))
def test_no_degree_raises_what_an_accelerator_holds(
    catalog: Catalog, w: TrainingWorkload, layout: dict[str, Any], degree: int, name: str
) -> None:
    """Twice as many ranks of any kind hold no more each: whole layers to a stage may keep it as it was. Experts without
    expert parallelism are split over the tensor group, so that fewer expert ranks than these would gather more.
    """
    if name == "expert_parallel":
        layout = {**layout, name: max(layout[name], layout["tensor_parallel"])}
    before, after = held(catalog, w, layout, degree), held(catalog, w, {**layout, name: 2 * layout[name]}, degree)
    assert after.total_bytes[0] <= before.total_bytes[0] * (1 + 1e-9), (w.model.name, w.units_per_sequence, layout)


@given(w=WORKLOADS, layout=LAYOUTS, degree=DATA, stage=st.sampled_from([0, 1, 2, 3]))
def test_more_replicas_never_hold_more_each(
    catalog: Catalog, w: TrainingWorkload, layout: dict[str, Any], degree: int, stage: int
) -> None:
    layout = {**layout, "zero_stage": stage}
    before, after = held(catalog, w, layout, degree), held(catalog, w, layout, 2 * degree)
    assert after.total_bytes[0] <= before.total_bytes[0] * (1 + 1e-9)


@given(w=WORKLOADS, layout=LAYOUTS, degree=DATA, stage=st.sampled_from([0, 1, 2, 3]))
def test_all_ranks_together_hold_the_model(
    catalog: Catalog, w: TrainingWorkload, layout: dict[str, Any], degree: int, stage: int
) -> None:
    """Weights, and twelve bytes a parameter of master copy and moments, are nowhere else."""
    found = held(catalog, w, {**layout, "zero_stage": stage}, degree)
    ranks = degree * np.prod([layout[n] for n in DEGREES[:3]])
    whole = (found.weights_bytes + found.optimizer_bytes)[0] * ranks
    assert whole >= 12 * w.model.total_params * (1 - 1e-9)


@given(length=st.sampled_from([2048, 16384]), replicas=st.sampled_from([1, 8]), stage=st.sampled_from([0, 3]))
def test_what_moves_to_the_host_leaves_the_accelerator(
    catalog: Catalog, length: int, replicas: int, stage: int
) -> None:
    w = replace(WORKLOAD, units_per_sequence=float(length), method=Method.LORA, phase="fine_tuning")
    fixed = {"framework": "fsdp", "zero_stage": stage, "activation_checkpointing": "full", "parameter_offload": False}
    plans = [one(catalog, w, **fixed, activation_offload=moved) for moved in (False, True)]
    whole, less = (estimate_training_memory(counts_of(w), p, col(replicas), Assumptions())[1] for p in plans)
    assert less.total_bytes[0] < whole.total_bytes[0]
    assert less.host_bytes[0] > whole.host_bytes[0]
