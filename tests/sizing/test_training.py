"""Training: hand-computed memory and traffic, laws that hold for every layout, and what a run loses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.catalog.snapshot import SnapshotStore
from app.errors import Conflict
from app.sizing.assumptions import Assumptions
from app.sizing.decisions.machines import candidates, oversubscribed, undominated
from app.sizing.decisions.rejections import Rejections
from app.sizing.estimate import estimate
from app.sizing.question import Constraints, Deployment, Economics, Question
from app.sizing.recommend import recommend
from app.sizing.result import Estimate
from app.sizing.snapshot import Market
from app.sizing.training.memory import held_bytes, training_memory
from app.sizing.training.plans import TrainingPlans, build_training_plans
from app.sizing.training.ranks import rank_params
from app.sizing.training.run import losses_of, run_at
from app.sizing.training.work import elementwise_bytes_per_token_layer, training_work
from app.sizing.units import GIB
from app.sizing.workload import Method, TrainingWorkload
from tests.examples import LLAMA_8B, LLAMA_70B, PRETRAIN

H100 = "nvidia-h100-sxm5-80gb"
WORKLOAD = replace(PRETRAIN, global_batch=64, deadline_s=1e9)


def plans_of(market: Market, workload: TrainingWorkload, **fixed: object) -> TrainingPlans:
    """All layouts of one accelerator that a deployment leaves open."""
    deployment = Deployment(**{"accelerator": H100, **fixed})  # type: ignore[arg-type]
    rejections = Rejections(market)
    found = candidates(
        market,
        Constraints(accelerators=(deployment.accelerator,)),
        Economics(),
        Assumptions(),
        rejections,
        fixed=deployment,
    )
    best = found.take(
        np.lexsort((-np.nan_to_num(found.node.network_bytes_per_s), -found.node.accelerators_per_node))[:1]
    )
    return build_training_plans(workload, market, best, Constraints(), rejections, fixed=deployment)


def one(market: Market, workload: TrainingWorkload = WORKLOAD, **fixed: object) -> TrainingPlans:
    plans = plans_of(
        market,
        workload,
        **{"framework": "megatron", "micro_batch_sequences": 1, "activation_checkpointing": "none", **fixed},
    )
    assert len(plans) == 1
    return plans


def asked(
    market: Market, workload: TrainingWorkload = WORKLOAD, maximize: str | None = None, **fixed: object
) -> Estimate:
    deployment = Deployment(**{"accelerator": H100, **fixed})  # type: ignore[arg-type]
    return estimate(Question(workload, maximize=maximize), deployment, market)


SINGLE: dict[str, Any] = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1}


@pytest.mark.parametrize(
    ("recipe", "bytes_per_param"),
    [
        ({}, 16.0),
        ({"fp32_gradients": True}, 18.0),
        ({"optimizer": "adamw-8bit"}, 10.03),
        ({"optimizer": "adafactor"}, 8.02),
        ({"optimizer": "lion"}, 12.0),
        ({"optimizer": "muon"}, 12.0),
        ({"optimizer": "sgd"}, 12.0),
        ({"precision": "bf16-true"}, 8.0),
        ({"precision": "fp32"}, 16.0),
    ],
)
def test_states_of_every_recipe(market: Market, recipe: dict[str, object], bytes_per_param: float) -> None:
    """One device, nothing sharded: weights, gradients, master copy and optimizer states, per parameter."""
    names = {k: v for k, v in recipe.items() if k in ("optimizer", "precision")}
    workload = replace(WORKLOAD, **names)  # type: ignore[arg-type]
    plans = one(market, workload, zero_stage=0, **SINGLE, **{k: v for k, v in recipe.items() if k not in names})
    held = held_bytes(workload, plans, np.ones(1))
    total = float((held.weights + held.gradients + held.optimizer)[0])
    assert total == pytest.approx(bytes_per_param * LLAMA_8B.total_params, rel=1e-6)


def test_deepspeed_keeps_twenty_bytes_per_parameter(market: Market) -> None:
    plans = one(market, framework="deepspeed", zero_stage=0, optimizer_offload=False)
    held = held_bytes(WORKLOAD, plans, np.ones(1))
    assert float((held.weights + held.gradients + held.optimizer)[0]) == pytest.approx(20 * LLAMA_8B.total_params)


@pytest.mark.parametrize(("stage", "share"), [(0, 16.0), (1, 4 + 12 / 8), (2, 2 + 14 / 8), (3, 16 / 8)])
def test_zero_stages_share_what_they_say(market: Market, stage: int, share: float) -> None:
    plans = one(market, zero_stage=stage, **SINGLE)
    held = held_bytes(WORKLOAD, plans, np.full(1, 8.0))
    assert float((held.weights + held.gradients + held.optimizer)[0]) == pytest.approx(share * LLAMA_8B.total_params)
    assert (float(held.gathered[0]) > 0) is (stage == 3)


def test_weights_that_are_sharded_and_trained_are_their_own_master_copy(market: Market) -> None:
    """FSDP in mixed precision: 4 bytes of weights, 4 of gradients, 8 of moments, all sharded."""
    plans = one(market, framework="fsdp", zero_stage=3, optimizer_offload=False)
    held = held_bytes(WORKLOAD, plans, np.full(1, 8.0))
    parts = [float(v[0]) * 8 / LLAMA_8B.total_params for v in (held.weights, held.gradients, held.optimizer)]
    assert parts == pytest.approx([4.0, 4.0, 8.0])


def test_qlora_holds_its_base_at_half_a_byte_per_linear_element(market: Market) -> None:
    workload = replace(
        WORKLOAD, model=LLAMA_70B, phase="fine_tuning", method=Method.QLORA, units_per_sequence=512.0, global_batch=2
    )
    plans = one(market, workload, framework="peft+bitsandbytes", zero_stage=0, activation_checkpointing="full")
    held = held_bytes(workload, plans, np.ones(1))
    adapters = LLAMA_70B.lora_params(16, "all-linear")
    rest = LLAMA_70B.total_params - LLAMA_70B.linear_params
    base = 0.515869 * LLAMA_70B.linear_params + 2 * rest
    assert float(held.weights[0]) == pytest.approx(base + 4 * adapters, rel=1e-4)
    assert float(held.optimizer[0]) == pytest.approx(8 * adapters)


def test_activations_by_what_is_recomputed_flash_or_not(market: Market) -> None:
    """8B, 4096 tokens, 32 layers: 139 392 bytes per token and layer whole, 2h recomputed, 5ns more where scores are
    stored.
    """
    tokens, layers = 4096, 32
    whole = held_bytes(WORKLOAD, one(market, zero_stage=1, **SINGLE), np.ones(1))
    assert float(whole.kept[0]) == pytest.approx(tokens * layers * 139_392)
    full = held_bytes(WORKLOAD, one(market, zero_stage=1, activation_checkpointing="full", **SINGLE), np.ones(1))
    assert float(full.kept[0]) == pytest.approx(tokens * layers * 2 * 4096)
    assert float(full.working[0]) == pytest.approx(tokens * 139_392)
    stored = held_bytes(WORKLOAD, one(market, zero_stage=1, flash_attention=False, **SINGLE), np.ones(1))
    assert float(stored.kept[0]) == pytest.approx(tokens * layers * (139_392 + 5 * 32 * 4096))
    split = held_bytes(
        WORKLOAD, one(market, zero_stage=1, tensor_parallel=4, pipeline_parallel=1, context_parallel=2), np.ones(1)
    )
    assert float(split.kept[0]) == pytest.approx(float(whole.kept[0]) / 8)


def test_a_fused_loss_holds_a_chunk_of_the_logits(market: Market) -> None:
    plain = held_bytes(WORKLOAD, one(market, zero_stage=1, **SINGLE), np.ones(1))
    fused = held_bytes(WORKLOAD, one(market, zero_stage=1, fused_cross_entropy=True, **SINGLE), np.ones(1))
    assert float(plain.loss[0]) == pytest.approx(4096 * LLAMA_8B.vocab_size * 10)
    assert float(fused.loss[0]) == 0
    assert float(fused.chunk[0]) == pytest.approx(512 * LLAMA_8B.vocab_size * 10)


def test_the_first_pipeline_stage_holds_as_many_micro_batches_as_there_are_stages(market: Market) -> None:
    plans = one(market, zero_stage=1, tensor_parallel=1, pipeline_parallel=4, context_parallel=1, virtual_pipeline=1)
    held = held_bytes(WORKLOAD, plans, np.ones(1))
    each = 4096 * 8 * 139_392  # eight layers to a stage
    assert float(held.kept[0]) == pytest.approx(
        4 * each * (1 + 3 / 4)
    )  # interleaving of one chunk bounds the schedules
    few = held_bytes(replace(WORKLOAD, global_batch=2), plans, np.ones(1))
    assert float(few.kept[0]) == pytest.approx(2 * each)


def test_memory_parts_sum_and_shrink_with_every_split(market: Market) -> None:
    """More devices of any kind never hold more each; the parts are the total."""
    assumed = Assumptions()
    base = training_memory(WORKLOAD, one(market, zero_stage=1, **SINGLE), np.ones(1), assumed)
    for split in ({"tensor_parallel": 2}, {"pipeline_parallel": 2}, {"context_parallel": 2}):
        memory = training_memory(WORKLOAD, one(market, zero_stage=1, **{**SINGLE, **split}), np.ones(1), assumed)
        parts = (
            memory.weights_bytes
            + memory.gradient_bytes
            + memory.optimizer_bytes
            + memory.activation_bytes
            + memory.overhead_bytes
        )
        assert parts[0] == memory.total_bytes[0]
        assert memory.total_bytes[0] < base.total_bytes[0]


def test_tensor_parallel_traffic_is_two_all_reduces_of_the_hidden_states_per_layer_and_pass(market: Market) -> None:
    plans = one(market, zero_stage=1, tensor_parallel=8, pipeline_parallel=1, context_parallel=1)
    work = training_work(WORKLOAD, plans, np.ones(1))
    message = 4096 * 4096 * 2
    crossed = 4 * 32 * 2 * 7 / 8 * message
    assert float(work.micro.tensor.inside_s[0]) == pytest.approx(crossed / 450e9)
    assert float(work.micro.tensor.across_s[0]) == 0
    assert float(work.micro.tensor.inside_messages[0]) == 4 * 32


def test_gradients_and_weights_cross_the_ring_once_a_step(market: Market) -> None:
    """ZeRO-1 on 16 x 8: 2 bytes of gradients scattered and 2 of weights gathered, over eight cards of 50 GB/s a
    machine.
    """
    plans = one(market, zero_stage=1, **SINGLE)
    state = training_work(replace(WORKLOAD, global_batch=128), plans, np.full(1, 128.0)).state
    crossed = 127 / 128 * LLAMA_8B.total_params * 4
    assert float(state.data.across_s[0]) == pytest.approx(crossed / 400e9)
    assert float(state.shard.across_s[0]) == 0


def test_experts_are_shared_by_their_group_and_their_tokens_exchanged(market: Market, snapshots: SnapshotStore) -> None:
    moe = replace(WORKLOAD, model=snapshots.model("Qwen/Qwen3-30B-A3B"))
    plans = one(market, moe, zero_stage=1, expert_parallel=8, **SINGLE)
    dense, routed = rank_params(moe, plans)
    assert float(routed[0]) == pytest.approx(moe.model.routed_params / 8)
    assert float(dense[0]) == pytest.approx(moe.model.total_params - moe.model.routed_params)
    exchange = training_work(moe, plans, np.full(1, 8.0)).micro.expert
    tokens, layers, each = 4096, 48, 2048 * 2 * 8
    assert float(exchange.inside_s[0]) == pytest.approx(4 * layers * tokens * each * 7 / 8 / 450e9)


def test_fp8_converts_what_it_multiplies(market: Market) -> None:
    wide = elementwise_bytes_per_token_layer(WORKLOAD, one(market, zero_stage=1, **SINGLE))
    fp8 = replace(WORKLOAD, precision="fp8")
    narrow = elementwise_bytes_per_token_layer(fp8, one(market, fp8, zero_stage=1, **SINGLE))
    assert float((narrow - wide)[0]) == 5 * (2 * 4096 + 4096 + 14336)


def test_more_devices_are_faster_and_never_more_than_proportionally(market: Market) -> None:
    plans = one(market, zero_stage=1, **SINGLE)
    walls = [
        float(run_at(replace(WORKLOAD, global_batch=1024), plans, np.full(1, d), market, Assumptions()).step.step_s[0])
        for d in (8.0, 64.0, 512.0)
    ]
    assert walls[0] > walls[1] > walls[2]
    assert walls[0] / walls[1] < 8.001
    assert walls[1] / walls[2] < 8.001


def test_checkpoints_stall_for_the_copy_or_for_the_write(market: Market) -> None:
    """405B: 5.68 TB; 2048 machines write 1.2 GB/s each, storage takes 2 TB/s; the copy is 10 GB/s a device."""
    workload = replace(WORKLOAD, model=LLAMA_8B)
    plans = one(market, workload, zero_stage=1, **SINGLE)
    size = 14 * LLAMA_8B.total_params
    later = losses_of(workload, plans, np.full(1, 64.0), market, Assumptions())
    assert float(later.checkpoint_stall_s[0]) == pytest.approx(size / (64 * 10e9) + 1)
    now = losses_of(replace(workload, synchronous_checkpoints=True), plans, np.full(1, 64.0), market, Assumptions())
    assert float(now.checkpoint_stall_s[0]) == pytest.approx(size / (8 * 1.2e9))
    rate = 64 * 4.74e-4 / 86400
    best = math.sqrt(2 * float(now.checkpoint_stall_s[0]) / rate)
    assert float(now.checkpoint_interval_s[0]) == pytest.approx(min(3600.0, max(120.0, best)))


def test_spot_machines_are_taken_back(market: Market) -> None:
    """The same run on spot capacity is interrupted more, and takes longer, than on demand."""
    sold = Constraints(accelerators=(H100,), pricing_models=("spot",))  # type: ignore[arg-type]
    spot = (
        recommend(Question(replace(WORKLOAD, units=1e12, global_batch=512), sold), market).recommendations[0].estimate
    )
    assert spot.performance is not None
    assert spot.performance.days is not None
    failures = 4.74e-4 * (spot.deployment.accelerators_per_replica or 0) * spot.performance.days
    taken = 0.1 * (spot.deployment.nodes or 0) * spot.performance.days
    assert spot.performance.expected_interruptions == pytest.approx(failures + taken, rel=1e-6)


def test_the_curve_marks_where_more_accelerators_stop_paying(market: Market) -> None:
    found = asked(market, replace(WORKLOAD, units=1e12, global_batch=512), accelerators_per_replica=64)
    curve = found.scaling
    assert curve is not None
    sizes = [p.accelerators for p in curve.points]
    assert sizes == sorted(sizes)
    assert curve.minimum == sizes[0]
    assert curve.knee in sizes
    days = {p.accelerators: p.days for p in curve.points}
    assert days[64] == pytest.approx(found.performance.days, rel=1e-9)  # type: ignore[union-attr]
    after = [s for s in sizes if s > curve.knee]
    if after:
        step = after[0] / curve.knee
        assert days[curve.knee] / days[after[0]] - 1 < 0.7 * (step - 1)
    assert curve.binds


@pytest.mark.parametrize("quantity", ["parameters", "sequence_length", "micro_batch"])
def test_the_maximum_fits_and_the_next_does_not(market: Market, quantity: str) -> None:
    workload = replace(WORKLOAD, phase="fine_tuning", global_batch=16)
    found = asked(market, workload, maximize=quantity, accelerators_per_replica=8)
    assert found.fits
    assert found.maximum is not None
    assert found.memory is not None
    assert found.memory.total_bytes <= found.memory.usable_bytes
    value, more = found.maximum.value, found.maximum.too_large
    assert more > value
    if quantity == "sequence_length":
        longer = replace(workload, units_per_sequence=more)
        assert not asked(market, longer, accelerators_per_replica=8).fits
        assert asked(market, replace(workload, units_per_sequence=value), accelerators_per_replica=8).fits
    if quantity == "parameters":
        assert 2e10 < value < 2e11  # 640 GB of memory, states offloaded or sharded


def test_more_accelerators_take_larger_models(market: Market) -> None:
    sizes = [asked(market, WORKLOAD, maximize="parameters", accelerators_per_replica=n).maximum for n in (1, 8, 64)]
    values = [m.value for m in sizes if m is not None]
    assert values == sorted(values)
    assert values[0] < values[2]


def test_nothing_to_maximize_is_said(market: Market, snapshots: SnapshotStore) -> None:
    with pytest.raises(Conflict, match="samples"):
        resnet = replace(
            WORKLOAD, model=snapshots.model("microsoft/resnet-50"), units_per_sequence=1.0, global_batch=256
        )
        asked(market, resnet, maximize="sequence_length", accelerators_per_replica=8)
    with pytest.raises(Conflict, match="Nothing fits"):
        asked(market, replace(WORKLOAD, model=LLAMA_70B), maximize="micro_batch", accelerators_per_replica=1)


def test_the_cluster_must_bring_what_the_layout_assumes(market: Market) -> None:
    found = asked(market, replace(WORKLOAD, global_batch=512, units=1e12), accelerators_per_replica=64)
    assert found.performance is not None
    needs = found.performance.cluster
    assert needs is not None
    assert needs.network_bytes_per_s_per_node == pytest.approx(400e9)
    assert needs.checkpoint_capacity_bytes == pytest.approx(3 * 14 * LLAMA_8B.total_params)
    assert needs.host_memory_bytes_per_node > 8 * 16 * GIB
    assert needs.cooling_w == pytest.approx(0.3 * needs.power_w)


def test_an_oversubscribed_network_slows_what_crosses_it(market: Market) -> None:
    found = candidates(market, Constraints(accelerators=(H100,)), Economics(), Assumptions(), Rejections(market))
    halved = oversubscribed(found, Assumptions(network_oversubscription=2.0))
    known = ~np.isnan(found.node.network_bytes_per_s)
    assert np.allclose(halved.node.network_bytes_per_s[known] * 2, found.node.network_bytes_per_s[known])
    workload = replace(WORKLOAD, global_batch=512, units=1e12)
    fast, slow = (
        estimate(
            Question(workload, assumptions=a),
            Deployment(H100, accelerators_per_replica=256, framework="fsdp", zero_stage=3),
            market,
        )
        for a in (Assumptions(), Assumptions(network_oversubscription=8.0))
    )
    assert slow.performance.step_time_s > fast.performance.step_time_s  # type: ignore[union-attr, operator]


def test_dropped_machines_are_beaten_in_everything(market: Market) -> None:
    found = candidates(market, Constraints(), Economics(), Assumptions(), Rejections(market))
    kept = undominated(found)
    assert 0 < len(kept) < len(found)
    assert set(kept.node.accelerator.tolist()) == set(found.node.accelerator.tolist())
    cheapest = {
        a: float(found.usd_per_hour[found.node.accelerator == a].min()) for a in set(found.node.accelerator.tolist())
    }
    assert all(float(kept.usd_per_hour[kept.node.accelerator == a].min()) == usd for a, usd in cheapest.items())


def test_neighbouring_layouts_are_turned_down_in_numbers(market: Market) -> None:
    found = asked(market, replace(WORKLOAD, model=LLAMA_70B, global_batch=512), accelerators_per_replica=64)
    words = next(r.text for r in found.explanation if r.code == "alternatives")
    assert any(w in words for w in ("slower", "faster", "GiB"))


def test_a_run_that_may_fit_shows_its_speed(market: Market) -> None:
    """Just beyond the memory: not recommended, but the speed is there, with the reason."""
    workload = replace(WORKLOAD, phase="fine_tuning", global_batch=16)
    most = asked(market, workload, maximize="sequence_length", accelerators_per_replica=8).maximum
    assert most is not None
    near = asked(market, replace(workload, units_per_sequence=most.too_large), accelerators_per_replica=8)
    assert not near.fits
    assert near.performance is not None
    assert "in case it fits" in near.explanation[0].text
    far = asked(market, replace(workload, units_per_sequence=8 * most.too_large), accelerators_per_replica=8)
    assert far.performance is None


def test_unified_memory_is_shared_with_the_system(market: Market) -> None:
    apple = next(
        a.slug for a in market.accelerators if a.family == "apple" and a.memory_bytes and a.memory_bytes >= 64 * GIB
    )
    workload = replace(WORKLOAD, phase="fine_tuning", method=Method.LORA, global_batch=2, units_per_sequence=512.0)
    found = asked(market, workload, accelerator=apple, accelerators_per_replica=1)
    assert found.memory is not None
    assert found.memory.usable_bytes == pytest.approx(0.75 * found.memory.capacity_bytes)
