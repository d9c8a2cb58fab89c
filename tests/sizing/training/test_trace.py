"""Every line of a training trace can be recomputed from what it shows, and the last lines are the answer's numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.snapshot import CatalogStore
from app.errors import AppError
from app.sizing.estimate import estimate_deployment
from app.sizing.formula import Step
from app.sizing.hardware.recipes import RecipeSettings
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.result import Estimate
from app.sizing.snapshot import Catalog
from app.sizing.training.recipes import OPTIMIZERS, PRECISIONS
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import PRETRAIN
from tests.sizing.tracing import check as chained

MODELS = ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "resnet50")
TRACED = {
    "dense_params_per_rank",
    "held_params (weights)",
    "compute_s",
    "exposed_communication_s",
    "pipeline_bubble_s",
    "step_time_s",
    "units_per_s",
    "mfu",
    "weights_bytes",
    "overhead_bytes",
    "memory_bytes_per_accelerator",
    "checkpoint_bytes",
    "checkpoint_interval_s",
    "expected_interruptions",
    "lost_share",
    "wall_s",
    "accelerator_hours",
    "scaling_efficiency",
}


def lines(estimate: Estimate) -> dict[str, Step]:
    return {s.name: s for s in estimate.trace}


def check(found: Estimate) -> None:
    """Each line gives its value, and the answer shows the values of the last ones."""
    traced = lines(found)
    samples = found.performance is not None and found.performance.samples_per_s is not None
    assert set(traced) >= TRACED - ({"pipeline_bubble_s"} if samples else set())
    chained(found.trace)
    performance, memory = found.performance, found.memory
    assert performance is not None
    assert memory is not None
    shown = {
        "step_time_s": performance.step_time_s,
        "units_per_s": performance.tokens_per_s or performance.samples_per_s,
        "mfu": performance.mfu,
        "days": performance.days,
        "accelerator_hours": performance.accelerator_hours,
        "scaling_efficiency": performance.scaling_efficiency,
        "checkpoint_bytes": performance.checkpoint_bytes,
        "checkpoint_interval_s": performance.checkpoint_interval_s,
        "checkpoint_stall_s": performance.checkpoint_stall_s,
        "expected_interruptions": performance.expected_interruptions,
        "storage_bytes_per_s": performance.required_storage_bytes_per_s,
        "ingest_bytes_per_s": performance.required_ingest_bytes_per_s,
        "memory_bytes_per_accelerator": memory.total_bytes,
        "weights_bytes": memory.weights_bytes,
        "overhead_bytes": memory.overhead_bytes,
        "usable_bytes": memory.usable_bytes,
        "accelerators": float(found.deployment.accelerators_per_replica or 0),
        "nodes": float(found.deployment.nodes or 0),
    }
    if found.cost is not None and found.cost.usd_total is not None:
        shown["usd_total"] = found.cost.usd_total
    for name, value in shown.items():
        assert traced[name].value == pytest.approx(value, rel=1e-12), name


@st.composite
def workloads(draw: st.DrawFn, catalog_store: CatalogStore) -> TrainingWorkload:
    """Random runs: models on tokens and on samples, methods, precisions, optimizers, batches, lengths."""
    model = catalog_store.find_model(draw(st.sampled_from(MODELS)))
    samples = model.sample is not None
    method = Method.FULL if samples else draw(st.sampled_from(list(Method)))
    tuned = method is not Method.FULL or draw(st.booleans())
    return replace(
        PRETRAIN,
        model=model,
        method=method,
        phase="fine_tuning" if tuned else "training",
        precision=draw(st.sampled_from(sorted(PRECISIONS))),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        units=draw(st.sampled_from([1e6, 1e8, 1e10])),
        units_per_sequence=1.0 if samples else draw(st.sampled_from([512.0, 4096.0, 32768.0])),
        global_batch=draw(st.sampled_from([8, 64, 512, 1536])),
        deadline_s=draw(st.sampled_from([86400.0, 30 * 86400.0])),
        experiment_overhead=draw(st.sampled_from([0.0, 0.2])),
        synchronous_checkpoints=draw(st.booleans()),
        checkpoint_interval_s=draw(st.sampled_from([None, 900.0])),
        dataset_bytes=draw(st.sampled_from([None, 1e12])),
        lora_rank=draw(st.sampled_from([8, 64])),
    )


@pytest.mark.slow
@given(data=st.data())
def test_lines_of_recommended_runs(catalog: Catalog, catalog_store: CatalogStore, data: st.DataObject) -> None:
    workload = data.draw(workloads(catalog_store))
    pricing = data.draw(st.sampled_from([(), ("spot",), ("owned",)]))
    question = Question(workload, Constraints(pricing_models=pricing), trace=True, limit=3)  # type: ignore[arg-type]
    for ranked in recommend_hardware(question, catalog).recommendations:
        check(ranked.estimate)


@given(data=st.data())
def test_lines_of_estimated_runs(catalog: Catalog, catalog_store: CatalogStore, data: st.DataObject) -> None:
    workload = data.draw(workloads(catalog_store))
    deployment = Deployment(
        data.draw(st.sampled_from(["nvidia-h100-sxm5-80gb", "nvidia-a100-sxm4-80gb", "amd-mi300x"])),
        accelerators_per_replica=data.draw(st.sampled_from([None, 1, 8, 64])),
        tensor_parallel=data.draw(st.sampled_from([None, None, 2, 8])),
        zero_stage=data.draw(st.sampled_from([None, 0, 1, 2, 3])),
        activation_checkpointing=data.draw(st.sampled_from([None, "none", "selective", "full"])),
        optimizer_offload=data.draw(st.sampled_from([None, None, True])),
        flash_attention=data.draw(st.sampled_from([None, False])),
        recipe=data.draw(st.sampled_from([None, RecipeSettings(gradients="32bit"), RecipeSettings(loss="fused")])),
    )
    try:
        found = estimate_deployment(Question(workload, trace=True), deployment, catalog)
    except AppError:
        return
    if found.fits:
        check(found)


def test_the_trace_shows_spot_capacity_and_lost_time(catalog: Catalog) -> None:
    sold = Constraints(accelerators=("nvidia-h100-sxm5-80gb",), pricing_models=("spot",))  # type: ignore[arg-type]
    found = recommend_hardware(Question(PRETRAIN, sold, trace=True), catalog).recommendations[0].estimate
    traced = lines(found)
    assert traced["spot_reclaims_per_day"].inputs["spot"] == 1
    assert traced["interruptions_per_s"].inputs["spot_reclaims_per_day"] == traced["spot_reclaims_per_day"].value > 0
    assert traced["lost_share"].value > 0
    assert math.isfinite(traced["usd_total"].value)
