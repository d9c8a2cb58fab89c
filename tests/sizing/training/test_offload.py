"""The contents of host memory, the contents of accelerator memory, and the PCIe traffic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, Mask
from app.sizing.estimate import estimate_deployment
from app.sizing.hardware.engines import ENGINES
from app.sizing.question import Constraints, Deployment, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.snapshot import Catalog
from app.sizing.training.counts import counts_of
from app.sizing.training.memory import TrainingMemory
from app.sizing.training.offload import (
    activations_on_host_bytes,
    host_bytes_per_machine,
    offloaded_bytes,
    parameter_copy_s,
    shard_copy_s,
)
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_8B, col, row
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, asked, memory, one, plans_of, work

YES, NO = np.array([True]), np.array([False])
ADAPTED = replace(WORKLOAD, phase="fine_tuning", method=Method.LORA)
FSDP: dict[str, Any] = {
    "optimizer_offload": False,
    "framework": "fsdp",
    "zero_stage": 3,
    "activation_checkpointing": "full",
}
STATES: dict[str, Any] = {"optimizer_offload": True}
PARAMETERS: dict[str, Any] = {"optimizer_offload": True, "parameter_offload": True}


def at_eight(catalog: Catalog, workload: TrainingWorkload = WORKLOAD, **fixed: Any) -> TrainingMemory:
    return memory(workload, one(catalog, workload, **{**FSDP, **fixed}), col(8))


def test_states_leave_with_their_gradients_where_these_are_sharded() -> None:
    held: Any = row(updated_params=col(10))
    for stage, left in ((0, 0.0), (1, 0.0), (2, 40.0), (3, 40.0)):
        plans: Any = row(optimizer_offload=YES, parameter_offload=NO, zero_stage=col(stage))
        moved = offloaded_bytes(plans, col(20), col(40), col(120), held, NO)
        assert (moved.host_weights_bytes[0], moved.gradient_bytes[0], moved.state_bytes[0]) == (0, left, 120)
        assert host_bytes_per_machine(moved, col(5), col(16), col(8), 7.0).tolist() == [(120 + 40 + 5 + 7) * 8]
        both = offloaded_bytes(plans, col(20), col(40), col(120), held, YES)
        assert host_bytes_per_machine(both, col(5), col(16), col(8), 0.0).tolist() == [(120 + 40 + left + 5) * 8]


def test_a_host_without_offloaded_data_needs_nothing_for_it() -> None:
    plans: Any = row(optimizer_offload=NO, parameter_offload=NO, zero_stage=col(3))
    held: Any = row(updated_params=col(10))
    none = offloaded_bytes(plans, col(20), col(40), col(120), held, YES)
    assert host_bytes_per_machine(none, col(0), col(16), col(8), 7.0).tolist() == [0]


@pytest.mark.parametrize(("framework", "bytes_per_param"), [("deepspeed", 20.0), ("fsdp", 16.0)])
def test_the_host_holds_what_the_step_there_needs(catalog: Catalog, framework: str, bytes_per_param: float) -> None:
    # DeepSpeed: 16-bit weights and gradients, 12 of states, 32-bit gradients; FSDP: 32-bit weights, states, gradients.
    found = at_eight(catalog, framework=framework, recipe=None, **PARAMETERS)
    params = counts_of(WORKLOAD).total_params
    processes = 8 * Assumptions().host_process_gib * GIB
    assert found.host_bytes[0] == pytest.approx(bytes_per_param * params + processes, rel=0.01)


def test_activations_stay_for_layers_on_their_way() -> None:
    moved: Any = row(activation_offload=YES)
    assert activations_on_host_bytes(moved, col(100), col(10), Assumptions()).tolist() == [80]
    assert activations_on_host_bytes(moved, col(100), col(1), Assumptions()).tolist() == [0]


def test_weights_come_twice_and_gradients_leave_once() -> None:
    recipe: Any = row(gathered_bytes_per_param=2.0)
    assert shard_copy_s(YES, col(16e9), col(8e9), recipe).tolist() == [(2 * 32 + 32) / 32]


def test_what_moves_is_found_again_in_the_host(catalog: Catalog) -> None:
    whole, states = at_eight(catalog), at_eight(catalog, **STATES)
    assert states.optimizer_bytes.tolist() == [0]
    assert states.weights_bytes.tolist() == whole.weights_bytes.tolist()
    both = at_eight(catalog, **PARAMETERS)
    assert both.weights_bytes.tolist() == [0]
    grown = both.host_bytes - states.host_bytes
    assert grown.tolist() == pytest.approx((8 * whole.weights_bytes).tolist())
    assert both.total_bytes[0] < states.total_bytes[0] < whole.total_bytes[0]


def test_offloaded_checkpoints_leave_two_layers(catalog: Catalog) -> None:
    whole, moved = at_eight(catalog, ADAPTED), at_eight(catalog, ADAPTED, activation_offload=True)
    kept = 4096 * 2 * 4096 * 32  # tokens, bytes and width, layers
    process = Assumptions().host_process_gib * GIB
    assert moved.host_bytes.tolist() == pytest.approx([8 * (kept * 30 / 32 + process)])
    assert moved.total_bytes[0] < whole.total_bytes[0]


def test_frozen_weights_leave_alone_and_adapters_stay(catalog: Catalog) -> None:
    whole, moved = at_eight(catalog, ADAPTED), at_eight(catalog, ADAPTED, parameter_offload=True)
    assert 0 < moved.weights_bytes[0] < 0.1 * whole.weights_bytes[0]
    assert moved.optimizer_bytes.tolist() == whole.optimizer_bytes.tolist()


def test_copies_take_time_behind_computation(catalog: Catalog) -> None:
    fixed = {**FSDP, "total_accelerators": 8, "micro_batch_sequences": 1}
    seconds = []
    for moved in (STATES, PARAMETERS, {**PARAMETERS, "activation_offload": True}):
        performance = asked(catalog, **{**fixed, **moved}).performance
        assert performance is not None and performance.step_time_s is not None
        seconds.append(performance.step_time_s)
    assert seconds[1] != seconds[0]  # weights come with every micro-batch, not once
    assert seconds[2] >= seconds[1]
    plans = one(catalog, **{**FSDP, **PARAMETERS, "activation_offload": True})
    found = work(WORKLOAD, plans, col(8))
    assert found.micro.copied_s[0] > 0
    assert found.state.copied_s[0] > 0
    assert found.state.offload_s[0] == 0


def test_a_last_resort_is_taken_only_where_nothing_else_fits(catalog: Catalog) -> None:
    """A card that holds half of the weights trains adapters with the rest in its host; one that holds them does not."""
    named = Constraints(
        accelerators=("nvidia-rtx-4090", "nvidia-h100-sxm5-80gb"), engines=("fsdp", "peft+bitsandbytes"), confidence=0.5
    )
    long = replace(ADAPTED, units_per_sequence=32768.0, global_batch=8, units=1e7)
    found = recommend_hardware(Question(long, named), catalog).recommendations
    taken = {r.estimate.deployment.accelerator: r.estimate.deployment for r in found}
    assert taken["nvidia-h100-sxm5-80gb"].activation_offload is None
    assert taken["nvidia-h100-sxm5-80gb"].parameter_offload is None
    for deployment in taken.values():
        moved = replace(deployment, activation_offload=None, parameter_offload=None)
        without = replace(moved, activation_offload=False, parameter_offload=False)
        asked_again = estimate_deployment(Question(long, named), without, catalog)
        moves = bool(deployment.activation_offload or deployment.parameter_offload)
        assert asked_again.fits is not moves


@pytest.mark.parametrize(("stage", "params"), [(2, 8e9), (3, 1e9)])
def test_a_shard_is_copied_where_weights_are_sharded(stage: int, params: float) -> None:
    """Of 8e9 parameters over eight ranks: twice in 16 bit each way and the gradients in 32 bit, at 32 GB/s."""
    rank: Any = row(dense=col(6e9), routed=col(2e9))
    spread: Any = row(data_group=col(8), expert_group=col(8))
    for frozen, per_parameter in ((False, 8), (True, 4)):
        recipe: Any = row(frozen=frozen, gathered_bytes_per_param=2.0)
        found = parameter_copy_s(by_hand(stage, YES), rank, spread, recipe)
        assert found.tolist() == pytest.approx([params * per_parameter / 32e9])
        assert parameter_copy_s(by_hand(stage, NO), rank, spread, recipe).tolist() == [0]


def by_hand(stage: int, moved: Mask) -> Any:
    """A layout of one row."""

    class OneRow:
        zero_stage, parameter_offload = col(stage), moved

        def __len__(self) -> int:
            return 1

    return OneRow()


def test_unsharded_weights_stay_where_only_states_are_asked_to_leave() -> None:
    on: dict[str, Any] = {"accelerator": "acme-big", "framework": "deepspeed"}
    found = plans_of(SMALL, WORKLOAD, **on, optimizer_offload=True, zero_stage=2)
    assert len(found) and found.optimizer_offload.all() and not found.parameter_offload.any()
    assert set(found.zero_stage.tolist()) == {2}
    sharded = plans_of(SMALL, WORKLOAD, **on, zero_stage=3)
    assert sharded.parameter_offload.any() and not sharded.parameter_offload.all()


def test_layouts_offload_only_what_their_framework_can() -> None:
    for part in ("parameters", "activations"):
        fixed: dict[str, Any] = {f"{part.removesuffix('s')}_offload": True}
        found = plans_of(SMALL, WORKLOAD, accelerator="acme-big", **fixed)
        frameworks = {SMALL.engines[e] for e in found.framework.tolist()}
        assert frameworks and all(part in ENGINES[name].framework.offloads for name in frameworks)


OFFLOADS = ("optimizer_offload", "parameter_offload", "activation_offload")


@given(
    st.sampled_from(["deepspeed", "fsdp", "torchtune", "megatron", "torchtitan", "maxtext", None]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["none", "selective", "full", None]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([None, *OFFLOADS]),
)
def test_an_estimate_offloads_only_what_the_deployment_requests(
    catalog: Catalog, framework: str | None, micro_batch: int, checkpointing: str | None, size: int, part: str | None
) -> None:
    requested: dict[str, Any] = {} if part is None else {part: True}
    deployment = Deployment(
        "nvidia-h100-sxm5-80gb",
        total_accelerators=size,
        micro_batch_sequences=micro_batch,
        activation_checkpointing=checkpointing,
        framework=framework,
        **requested,
    )
    workload = replace(WORKLOAD, model=LLAMA_8B, global_batch=64)
    try:
        found = estimate_deployment(Question(workload), deployment, catalog)
    except Conflict:
        return
    allowed = {part, "optimizer_offload"} if part == "parameter_offload" else {part}
    if found.memory is not None:
        assert {name for name in OFFLOADS if getattr(found.deployment, name)} <= allowed
        assert checkpointing in (None, found.deployment.activation_checkpointing)


def test_a_run_slightly_too_large_keeps_its_method_and_is_a_probability(catalog: Catalog) -> None:
    """Activation offload would make it fit and more than five times slower."""
    workload = replace(WORKLOAD, model=LLAMA_8B, global_batch=128, units=1e10)
    asked = Deployment(
        "nvidia-h100-sxm5-80gb",
        total_accelerators=8,
        micro_batch_sequences=2,
        activation_checkpointing="none",
        framework="deepspeed",
    )
    found = estimate_deployment(Question(workload), asked, catalog)
    moved = estimate_deployment(Question(workload), replace(asked, activation_offload=True), catalog)
    assert not found.fits and moved.fits
    assert found.performance is not None and moved.performance is not None
    assert found.assurance is not None and 0.1 < (found.assurance.fits or 0) < 0.5
    assert (moved.performance.step_time_s or 0) > 5 * (found.performance.step_time_s or 0)
    assert found.summary is not None and "borderline" in found.summary and "likely to fit" in found.summary


def test_a_recommendation_names_offload_first_and_how_near_the_run_is_without(catalog: Catalog) -> None:
    named = Constraints(accelerators=("nvidia-h100-sxm5-80gb",), max_accelerators=1, engines=("fsdp",))
    tuned = replace(WORKLOAD, model=LLAMA_8B, phase="fine_tuning", units=2e8, global_batch=32)
    answer = recommend_hardware(Question(tuned, named), catalog)
    best = answer.recommendations[0].estimate
    assert best.deployment.optimizer_offload
    reason = next(r for r in best.explanation if r.code == "offload")
    assert ". Recommended: offload to host memory. " + reason.text in answer.summary
    back = replace(
        best.deployment, activation_offload=None, parameter_offload=None, optimizer_offload=None, recipe=None
    )
    near = estimate_deployment(Question(tuned, named), back, catalog)
    assert not near.fits and near.memory is not None
    assert f"{near.memory.total_bytes / GIB:,.1f} of {near.memory.usable_bytes / GIB:,.1f} GiB" in reason.text
    assert near.assurance is not None and near.assurance.fits == pytest.approx(reason.value)
    alternatives = next(r.text for r in best.explanation if r.code == "alternatives")
    assert "no offload (" in alternatives


def test_a_run_without_offload_says_nothing_about_it(catalog: Catalog) -> None:
    found = asked(catalog, accelerators_per_replica=8)
    assert "offload" not in {reason.code for reason in found.explanation}
    assert "no offload" not in " ".join(reason.text for reason in found.explanation)


def test_a_search_offloads_only_where_nothing_else_fits(catalog: Catalog) -> None:
    tuned = replace(WORKLOAD, model=LLAMA_8B, phase="fine_tuning", units=2e8, global_batch=32, deadline_s=20 * 86400.0)
    for most, offloads in ((1, True), (None, False)):
        limits = Constraints(accelerators=("nvidia-h100-sxm5-80gb", "nvidia-a100-sxm4-80gb"), max_accelerators=most)
        found = recommend_hardware(Question(tuned, limits), catalog).recommendations
        assert len(found) == 2
        for ranked in found:
            assert any(getattr(ranked.estimate.deployment, name) for name in OFFLOADS) is offloads
