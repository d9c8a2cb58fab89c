"""Memory of one device while it trains: what it holds by part, and the moment at which that is most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware.achieved import TrainingMemoryFactors
from app.sizing.model.formats import NF4_DOUBLE_QUANTISED_BITS
from app.sizing.training.plans import FULL, SELECTIVE, TrainingPlans
from app.sizing.training.ranks import (
    data_group,
    held_params,
    interleave,
    rank_params,
    tokens_per_micro_batch,
    trained_rank_params,
)
from app.sizing.workload import Method, TrainingWorkload

# Bytes of optimizer states per parameter. Adafactor keeps a row and a column; eight-bit moments carry a scale per
# block.
OPTIMIZER_STATE_BYTES = {"adamw": 8.0, "adamw-8bit": 2.03, "adafactor": 0.02, "lion": 4.0, "muon": 4.0, "sgd": 4.0}
# Logits in 16 bit, widened for the softmax, and their gradient: what an unfused loss holds at once. Eager modules
# also hold the shifted copy and its gradient.
LOSS_BYTES_PER_LOGIT, EAGER_LOSS_BYTES_PER_LOGIT = 10.0, 16.0
# A fused or chunked loss forms the logits of this many tokens at a time.
LOSS_CHUNK_TOKENS = 512.0
# Share of offloaded states that stays pinned in the host beside the states themselves: gradients on their way.
HOST_COPY_FACTOR = 1.33


@dataclass(frozen=True, slots=True)
class TrainingMemory(Columns):
    """Bytes on the fullest device at its peak moment. The parts sum to `total_bytes`."""

    weights_bytes: Column
    gradient_bytes: Column
    optimizer_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    capacity_bytes: Column
    usable_bytes: Column
    host_bytes: Column  # offloaded states in host memory, per machine
    peaks_in_update: Mask  # in the optimizer's step; else at the end of forward

    @property
    def total_bytes(self) -> Column:
        return (
            self.weights_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.activation_bytes
            + self.overhead_bytes
        )

    @property
    def fits(self) -> Mask:
        return self.total_bytes <= self.usable_bytes


@dataclass(frozen=True, slots=True)
class HeldBytes(Columns):
    """What one device holds, counted; nothing here depends on a fitted factor."""

    weights: Column
    gathered: Column  # of ZeRO-3: the layer in use and the one fetched ahead
    gradients: Column
    gradients_late: Mask  # allocated in backward, not kept from step to step
    optimizer: Column
    on_host: Column
    kept: Column  # activations of all micro-batches in flight
    working: Column  # of the layer that is being recomputed
    loss: Column  # where it is not fused
    chunk: Column  # of the logits at a time, where it is
    update: Column  # temporaries of the optimizer's step
    several: Mask  # devices talk to one another


def recipe_bytes(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[float, Column, float]:
    """(weights, gradients, master copy and optimizer states) in bytes per trained parameter.

    Mixed precision keeps 16-bit weights beside a master copy in 32 bit; gradients are 32 bit in Megatron
    and where they follow sharded 32-bit weights, 16 bit elsewhere. `bf16-true` keeps everything in 16 bit.
    Frameworks that copy the gradients of their shard into 32 bit keep 4 bytes more (`held_bytes`).
    Check: AdamW in BF16 is 16 bytes with 16-bit gradients, 18 with 32-bit ones, 20 with a copy, 8 in bf16-true.
    """
    states = OPTIMIZER_STATE_BYTES[workload.optimizer]
    if workload.precision in ("fp32", "tf32"):
        return 4.0, np.full(len(plans), 4.0), states
    if workload.precision == "bf16-true":
        return 2.0, np.full(len(plans), 2.0), states / (1 if workload.optimizer in ("adamw-8bit", "adafactor") else 2)
    return 2.0, np.where(plans.wide_gradients, 4.0, 2.0), 4.0 + states


def activation_bytes_per_token_layer(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Bytes kept for backward per token and mean layer, by what is recomputed, of the whole tensor group.

    Kept whole: 16h + 8f + 4(n + m)d + 4n + 8 in eager modules, 8h + 4(n + m)d + 6f + 4n with fused kernels;
    FP8 keeps the inputs of matrices in 8 bit; stored attention scores add 5ns (softmax, its mask and
    output); selective drops the gate's products and the scores; full keeps the layer's input, 2h.
    Adapters keep their inputs in 32 bit where the modules are eager.
    Source: Korthikanti et al. 2022 (arXiv:2205.05198), re-derived for gated MLPs and flash attention.
    Check: Llama-3.1-8B fused is 139 392 bytes, eager 200 840.
    """
    model = workload.model
    h, f, n = model.hidden_size, model.mlp_width, model.num_heads
    whole, scores = whole_bytes_per_token_layer(workload, plans)
    whole = whole - np.where(plans.narrow, 2 * h + n * model.head_dim + f, 0.0)
    if workload.method is not Method.FULL:
        whole = whole + np.where(plans.fused_modules, 0.0, 4.0 * (2 * h + f))
    selective = whole - (4 * f if model.is_gated else 2 * f)
    return np.choose(plans.checkpointing, [whole + scores, selective, np.full(len(plans), 2.0 * h)])


def whole_bytes_per_token_layer(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Column]:
    """(activations, stored attention scores) of a token in a mean layer in 16 bit, when everything is kept."""
    model = workload.model
    whole = np.where(
        plans.fused_modules, model.activation_bytes_per_layer(), model.activation_bytes_per_layer(fused=False)
    )
    return whole, np.where(plans.fused_attention, 0.0, 5.0 * model.num_heads * workload.units_per_sequence)


def held_bytes(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> HeldBytes:
    """Every part of a device's memory, before workspaces and slack.

    States are sharded by ZeRO stage over the ranks that share them; the first pipeline stage holds
    the activations of as many micro-batches as there are stages, the last forms the logits.

    Check: full AdamW in BF16 keeps 16 bytes per parameter unsharded, 16 / N with ZeRO-3.
    """
    model, tp, pp, cp, dp = (
        workload.model,
        plans.tensor_parallel,
        plans.pipeline_parallel,
        plans.context_parallel,
        data_parallel,
    )
    zero = np.zeros(len(plans))
    weight_width, gradient_width, state_width = recipe_bytes(workload, plans)
    dense_all, routed_all = rank_params(workload, plans)
    dense, routed = trained_rank_params(workload, plans)
    states_held = held_params(plans, dp, dense, routed, from_stage=1)
    frozen = workload.method is not Method.FULL
    width = weight_width
    if workload.method is Method.QLORA:
        quantised = model.linear_params / max(1, model.total_params)
        width = quantised * (NF4_DOUBLE_QUANTISED_BITS / 8) + (1 - quantised) * 2.0
    if workload.method is Method.LORA and workload.precision in ("fp8", "mxfp8", "nvfp4"):
        width = 1.0  # frozen matrices are held in the format they are multiplied in
    # Weights that are sharded and trained in mixed precision are their own master copy, in 32 bit.
    mixed = not frozen and workload.precision not in ("fp32", "tf32", "bf16-true")
    own_master = plans.sharded_master & (plans.zero_stage >= 3) & mixed
    weights = held_params(plans, dp, dense_all, routed_all, from_stage=3) * np.where(own_master, 4.0, width)
    states = states_held * (state_width - np.where(own_master, 4.0, 0.0))
    gradients = held_params(plans, dp, dense, routed, from_stage=2) * np.where(own_master, 4.0, gradient_width)
    if frozen:
        weights = weights + (dense + routed) * 4.0
        states, gradients = (dense + routed) * OPTIMIZER_STATE_BYTES[workload.optimizer], (dense + routed) * 4.0
    layers = max(1, model.sample.layers if model.sample is not None else model.num_layers)
    unit = (model.total_params - model.parts.get("embedding", 0) - model.parts.get("head", 0)) / layers
    largest = max(unit, float(max(model.parts.get("embedding", 0), model.parts.get("head", 0))))
    gathered = np.where(
        (plans.zero_stage >= 3) & (data_group(plans, dp) > 1),
        (unit + largest) * (4.0 if width == 4.0 else 2.0) / tp,
        0.0,
    )
    copied = plans.copies_gradients | ~plans.fused_attention
    if mixed:
        states = states + np.where(copied, states_held * 4.0, 0.0)
    # Optimizers that are not fused hold a 32-bit copy of their shard's gradients while they step.
    copy_width = 2.0 if workload.precision == "bf16-true" else 4.0
    micro_batches = np.maximum(1.0, workload.global_batch / (dp * plans.micro_batch))
    on_host = np.where(plans.offload, states, 0.0)
    devices = tp * pp * cp * dp
    if model.sample is not None:
        kept, working, loss, chunk = plans.micro_batch * model.sample.kept_bytes, zero, zero, zero
    else:
        tokens = tokens_per_micro_batch(workload, plans)
        per_token = activation_bytes_per_token_layer(workload, plans)
        split = np.where(plans.sequence_parallel | (plans.checkpointing != FULL), tp, 1.0)
        chunks = interleave(workload, plans)
        flight = np.minimum(np.minimum(micro_batches, pp) * (1 + (pp - 1) / (pp * chunks)), micro_batches)
        each = tokens * per_token / split * model.num_layers / pp
        kept = each * flight
        whole, scores = whole_bytes_per_token_layer(workload, plans)
        working = np.where(plans.checkpointing == FULL, tokens * (whole + scores) / tp, 0.0)
        working = np.where(plans.checkpointing == SELECTIVE, tokens * 4.0 * model.mlp_width / tp, working)
        per_logit = np.where(plans.fused_modules, LOSS_BYTES_PER_LOGIT, EAGER_LOSS_BYTES_PER_LOGIT)
        loss = tokens * model.vocab_size * per_logit / tp
        chunk = np.minimum(tokens, LOSS_CHUNK_TOKENS) * model.vocab_size * LOSS_BYTES_PER_LOGIT / tp
        loss, chunk = np.where(plans.fused_loss, 0.0, loss), np.where(plans.fused_loss, chunk, 0.0)
        # The last stage forms the logits with one micro-batch in flight; the first holds them all.
        last = each + loss
        loss = np.where(pp > 1, np.maximum(0.0, last - kept), loss)
    return HeldBytes(
        weights=weights,
        gathered=gathered,
        gradients=gradients,
        gradients_late=(micro_batches <= 1) & ~plans.fused_modules,
        optimizer=states - on_host,
        on_host=on_host * np.minimum(plans.node.accelerators_per_node, devices) * HOST_COPY_FACTOR,
        kept=kept,
        working=working,
        loss=loss,
        chunk=chunk,
        update=np.where(plans.fused_modules | copied | plans.offload, 0.0, states_held * copy_width),
        several=devices > 1,
    )


def peak_bytes(held: HeldBytes, k: TrainingMemoryFactors) -> tuple[Column, Column, Column, Mask]:
    """(gradients, activations, overhead) at the peak moment, and whether that is the optimizer's step.

    At the end of forward every activation is held, and the gradients that outlive a step; in the
    optimizer's step the activations are gone, the gradients whole and the update's temporaries there.
    """
    kept = np.where(held.gradients_late, 0.0, held.gradients)
    forward = held.kept * k.training_activation_factor + np.maximum(
        np.maximum(held.working * k.training_workspace_factor, held.loss * k.training_loss_factor), held.chunk
    )
    forward = forward + held.gathered
    update = held.update
    late = held.gradients + update > kept + forward
    gradients, activations = np.where(late, held.gradients, kept), np.where(late, update, forward)
    slack = k.training_fragmentation_fraction * (held.optimizer + gradients + activations)
    overhead = k.training_context_bytes + np.where(held.several, k.training_collective_bytes, 0.0) + slack
    return gradients, activations, overhead, late


def training_memory(
    workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column, assumed: Assumptions
) -> TrainingMemory:
    """Device memory at the peak moment of a step, against what may be used of the device."""
    held = held_bytes(workload, plans, data_parallel)
    gradients, activations, overhead, late = peak_bytes(held, plans.memory_factors)
    return TrainingMemory(
        weights_bytes=held.weights,
        gradient_bytes=gradients,
        optimizer_bytes=held.optimizer,
        activation_bytes=activations,
        overhead_bytes=overhead,
        capacity_bytes=plans.node.memory_bytes,
        usable_bytes=plans.node.memory_bytes
        * np.where(plans.unified, assumed.unified_memory_fraction, assumed.training_memory_margin),
        host_bytes=held.on_host,
        peaks_in_update=late,
    )
