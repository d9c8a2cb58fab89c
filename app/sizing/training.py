"""Training and fine-tuning: memory per device, step time, and how many devices meet a deadline.

Each layout is taken at the smallest data-parallel degree that fits memory and deadline, found by
bisection over the divisors of the global batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.communication import LinkRates, achieved_bytes_per_s
from app.sizing.market import PCIE_BYTES_PER_S, Market
from app.sizing.precision import NF4_DOUBLE_QUANTISED_BYTES
from app.sizing.training_plan import TrainingPlans
from app.sizing.units import GIB, MIB
from app.sizing.workload import Method, TrainingWorkload

# Bytes per parameter: (16-bit weights, gradients, master copy, optimizer states).
OPTIMIZER_BYTES = {
    "adamw": (4.0, 8.0),
    "adamw-8bit": (4.0, 2.03),
    "adafactor": (4.0, 0.02),
    "lion": (4.0, 4.0),
    "muon": (4.0, 4.0),
    "sgd": (4.0, 4.0),
}

LOSS_CHUNK_TOKENS = 512.0
CPU_ADAM_PARAMS_PER_S = 1.5e9
MAX_INTERLEAVE = 8.0


@dataclass(frozen=True, slots=True)
class TrainingMemory(Columns):
    """Bytes on the fullest device at its peak. The parts sum to `total_bytes`."""

    weights_bytes: Column
    gradient_bytes: Column
    optimizer_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    capacity_bytes: Column
    usable_bytes: Column
    host_bytes: Column  # offloaded states in host memory, per machine

    @property
    def total_bytes(self) -> Column:
        return self.weights_bytes + self.gradient_bytes + self.optimizer_bytes + self.activation_bytes + self.overhead_bytes

    @property
    def fits(self) -> Mask:
        return self.total_bytes <= self.usable_bytes


def rank_params(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Parameters of the fullest model-parallel rank: its share of the layers and an end of the model."""
    model = workload.model
    embedding, head = model.parts.get("embedding", 0), model.parts.get("head", 0)
    ends, largest_end = embedding + head, max(embedding, head)
    tp, pp = plans.tensor_parallel, plans.pipeline_parallel
    body = (model.total_params - ends) / (tp * pp)
    return body + np.where(pp > 1, largest_end, ends) / tp


def activation_bytes_per_token_layer(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Bytes kept for backward per token and layer in 16 bit, by what is recomputed.

    Kept whole: 16h + 8f + 4(n + m)d + 4n + 8 in eager modules, 8h + 4(n + m)d + 6f + 4n with fused
    kernels; selective drops the MLP's intermediate products; full keeps the layer's input, 2h.
    Source: Korthikanti et al. 2022 (arXiv:2205.05198), re-derived for gated MLPs and flash attention.
    Check: Llama-3.1-8B fused is 139 392 bytes, eager 200 840.
    """
    model = workload.model
    h = model.hidden_size
    fused, eager = model.activation_bytes_per_layer(), model.activation_bytes_per_layer(fused=False)
    whole = np.where(plans.model_parallel, fused, eager)
    selective = fused - 4 * model.mlp_width
    return np.choose(plans.checkpointing, [whole, np.full(len(plans), selective), np.full(len(plans), 2.0 * h)])


def interleave(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Model chunks per pipeline stage: as many as there are layers to a stage, eight at most."""
    chunks = np.floor(workload.model.num_layers / plans.pipeline_parallel)
    return np.where(plans.pipeline_parallel > 1, np.clip(chunks, 1.0, MAX_INTERLEAVE), 1.0)


def training_memory(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column, assumed: Assumptions) -> TrainingMemory:
    """Device memory at the peak of a step.

    States are sharded by ZeRO stage over the data-parallel ranks; the first pipeline stage holds the
    activations of as many micro-batches as there are stages; logits are kept whole unless layers
    are recomputed, where the loss runs in chunks.

    Check: full AdamW in BF16 keeps 16 bytes per parameter unsharded, 16 / N with ZeRO-3.
    """
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    params = rank_params(workload, plans)
    stage, dp = plans.zero_stage, data_parallel
    wide = workload.precision in ("fp32", "tf32")
    weight_width, gradient_width = (4.0, 4.0) if wide else (2.0, 2.0)
    master, states = OPTIMIZER_BYTES[workload.optimizer]
    optimizer_width = states if wide else master + states
    share3 = np.where(stage >= 3, 1 / dp, 1.0)
    share2 = np.where(stage >= 2, 1 / dp, 1.0)
    share1 = np.where(stage >= 1, 1 / dp, 1.0)
    if workload.method is Method.FULL:
        gradients = np.where(plans.model_parallel & (not wide), 4.0, gradient_width)
        weights, gradient, optimizer = params * weight_width * share3, params * gradients * share2, params * optimizer_width * share1
    else:
        adapters = model.lora_params(workload.lora_rank, workload.lora_targets)
        frozen = model.total_params * 2.0
        if workload.method is Method.QLORA:
            # NF4 with double quantisation: 0.515869 bytes per linear element, measured.
            frozen = model.linear_params * NF4_DOUBLE_QUANTISED_BYTES + (model.total_params - model.linear_params) * 2.0
        weights = frozen * share3 + adapters * 2.0
        gradient = np.full(len(plans), adapters * 2.0)
        optimizer = np.full(len(plans), adapters * states)
    block = model.total_params / max(1, model.num_layers) * weight_width
    gathered = np.where((stage >= 3) & (dp > 1), 2 * block, 0.0)
    on_host = np.where(plans.offload, optimizer, 0.0)
    optimizer = optimizer - on_host
    return TrainingMemory(
        weights_bytes=weights + gathered,
        gradient_bytes=gradient,
        optimizer_bytes=optimizer,
        activation_bytes=_activations(workload, plans, dp),
        overhead_bytes=np.where(tp * pp * dp > 1, assumed.framework_overhead_gib * GIB, min(1.0, assumed.framework_overhead_gib) * GIB),
        capacity_bytes=plans.c.m.memory_bytes,
        usable_bytes=plans.c.m.memory_bytes * assumed.training_memory_margin,
        host_bytes=on_host * np.minimum(plans.c.m.count, tp * pp * dp),
    )


def _activations(workload: TrainingWorkload, plans: TrainingPlans, dp: Column) -> Column:
    """Activations of all micro-batches in flight, one layer's working set, and the logits."""
    model = workload.model
    if model.sample is not None:
        return plans.micro_batch * model.sample.kept_bytes
    tokens = plans.micro_batch * workload.units_per_sequence
    tp, pp = plans.tensor_parallel, plans.pipeline_parallel
    per_token = activation_bytes_per_token_layer(workload, plans)
    micro_batches = workload.global_batch / (dp * plans.micro_batch)
    flight = np.minimum(micro_batches, pp) * (1 + (pp - 1) / (pp * interleave(workload, plans)))
    flight = np.where(pp > 1, flight, 1.0)
    kept = tokens * per_token / tp * model.num_layers / pp * flight
    h, f, n = model.hidden_size, model.mlp_width, model.num_heads
    working = np.where(plans.checkpointing == 2, tokens * (8 * h + 6 * f + 8 * n * model.head_dim) / tp, 0.0)
    loss_tokens = np.where(plans.checkpointing == 2, np.minimum(tokens, LOSS_CHUNK_TOKENS), tokens)
    logits = loss_tokens * model.vocab_size * 10.0 / tp
    return kept + working + logits + 64 * MIB


@dataclass(frozen=True, slots=True)
class StepTime(Columns):
    """Seconds of one optimizer step; the parts sum to `step_s`."""

    compute_s: Column
    exposed_communication_s: Column
    pipeline_bubble_s: Column
    optimizer_s: Column
    input_s: Column

    @property
    def step_s(self) -> Column:
        return self.compute_s + self.exposed_communication_s + self.pipeline_bubble_s + self.optimizer_s + self.input_s


def flops_per_unit(workload: TrainingWorkload) -> float:
    """Model FLOPs per token (or sample), forward and backward, without recomputation."""
    model = workload.model
    if model.sample is not None:
        return 3 * model.sample.forward_flops
    if workload.method is Method.FULL:
        return model.training_flops_per_token(workload.units_per_sequence)
    scores = model.prefill_attention_flops(workload.units_per_sequence) / workload.units_per_sequence
    adapters = model.lora_params(workload.lora_rank, workload.lora_targets)
    share = max(1, model.num_experts) / max(1, model.experts_per_token)
    return 4 * model.training_matmul_params + 3 * scores + 6 * adapters / share + 3 * model.recurrent_flops_per_token


def recomputed_flops_per_unit(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Extra forward FLOPs by what is recomputed: nothing, the MLP's products, or the whole layer."""
    model = workload.model
    if model.sample is not None:
        return np.zeros(len(plans))
    body = 2 * (model.training_matmul_params - model.head_matmul_params)
    scores = model.prefill_attention_flops(workload.units_per_sequence) / workload.units_per_sequence
    return np.choose(plans.checkpointing, [np.zeros(len(plans)), np.full(len(plans), 0.05 * body), np.full(len(plans), body + scores)])


def step_time(
    workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column, rates: LinkRates, market: Market, assumed: Assumptions
) -> StepTime:
    """Time of one optimizer step at a data-parallel degree.

    Compute is FLOPs over the achieved rate, less for small matrices (of samples, with the activations
    moved); tensor-parallel traffic is
    exposed but for the overlap assumed; data-parallel traffic hides behind computation up to the
    same share; the bubble is (p - 1) / (v m) of the computation with v chunks and m micro-batches.

    Source: Narayanan et al. 2021 (arXiv:2104.04473); Rajbhandari et al. 2020 (arXiv:1910.02054).
    """
    model, tp, pp, dp = workload.model, plans.tensor_parallel, plans.pipeline_parallel, data_parallel
    units = plans.micro_batch * workload.units_per_sequence
    micro_batches = np.maximum(1.0, workload.global_batch / (dp * plans.micro_batch))
    per_unit = flops_per_unit(workload) + recomputed_flops_per_unit(workload, plans)
    half = market.coefficients.value("training_half_size")
    size = units * model.hidden_size / tp
    efficiency = size / (size + half) if model.sample is None else plans.micro_batch / (plans.micro_batch + 16.0)
    if workload.method is not Method.FULL:
        efficiency = efficiency * market.coefficients.value("adapter_efficiency")
    if workload.method is Method.QLORA:
        efficiency = efficiency / market.coefficients.value("qlora_slowdown")
    compute = micro_batches * units * per_unit / (tp * pp) / (plans.flops_per_s * efficiency)
    if model.sample is not None:  # activations are written and read in forward and twice in backward
        moved = (
            3
            * model.sample.moved_bytes
            / (plans.bytes_per_s * market.coefficients.value("linear_memory_fraction", format_class="16bit", fitted=False))
        )
        compute = np.hypot(compute, micro_batches * units * moved)
    launches = max(1, model.sample.layers if model.sample else model.num_layers)
    compute = compute + micro_batches * launches / pp * market.coefficients.value("training_layer_overhead_s")

    m = plans.c.m
    inside = achieved_bytes_per_s(m.link, m.link_bytes_per_s, rates)
    devices = tp * pp * dp
    across = devices > np.maximum(m.count, m.domain)
    network = np.where(np.isnan(m.network_bytes_per_s), 1e9, m.network_bytes_per_s) * rates.network_fraction
    layers = model.num_layers / pp
    hidden = units * 2.0 * model.hidden_size
    passes = np.where(plans.checkpointing == 2, 6.0, 4.0)
    tensor = np.where(tp > 1, micro_batches * layers * passes * (2 * (tp - 1) / tp * hidden / inside + rates.latency_s[m.link]), 0.0)
    hop = np.where(across, network, inside)
    pipeline = np.where(pp > 1, micro_batches * 2 * interleave(workload, plans) * hidden / tp / hop * 0.5, 0.0)

    peers = np.maximum(1.0, m.count / (tp * np.minimum(pp, np.maximum(1.0, m.count / tp))))
    ring = np.where(across, np.minimum(network * peers, inside), inside)
    latency = np.where(across, rates.network_latency_s, rates.latency_s[m.link])
    trained = rank_params(workload, plans)
    if workload.method is not Method.FULL:
        trained = np.full(len(plans), model.lora_params(workload.lora_rank, workload.lora_targets))
    width = 4.0 if workload.precision in ("fp32", "tf32") else 2.0
    frozen_width = 0.55 if workload.method is Method.QLORA else width
    share = (dp - 1) / dp
    reduce = 2 * share * trained * np.where(plans.model_parallel, 4.0, width) / ring
    gathers = 2 * micro_batches * share * model.total_params * frozen_width / ring
    if workload.method is Method.FULL:
        gathers = gathers + micro_batches * share * trained * width / ring - reduce
    data = np.where(plans.zero_stage >= 3, reduce + gathers, reduce) + np.where(
        dp > 1, 2 * layers * latency * np.where(plans.zero_stage >= 3, micro_batches, 1.0), 0.0
    )
    data = np.where(dp > 1, data, 0.0)
    overlap = assumed.communication_overlap
    hidden_data = np.minimum(data * overlap, compute * overlap)
    exposed = tensor * (1 - 0.4 * overlap) + pipeline + (data - hidden_data)

    local = trained / np.where(plans.zero_stage >= 1, dp, 1.0)
    optimizer = local * 24.0 / plans.bytes_per_s
    offloaded = local * 4.0 / (PCIE_BYTES_PER_S * 0.7) + local * np.minimum(m.count, devices) / CPU_ADAM_PARAMS_PER_S
    return StepTime(
        compute_s=compute,
        exposed_communication_s=exposed,
        pipeline_bubble_s=np.where(pp > 1, (pp - 1) / (interleave(workload, plans) * micro_batches) * (compute + tensor), 0.0),
        optimizer_s=np.where(plans.offload, offloaded, optimizer),
        input_s=np.zeros(len(plans)),
    )


@dataclass(frozen=True, slots=True)
class Run(Columns):
    """A whole run at a data-parallel degree."""

    data_parallel: Column
    devices: Column
    nodes: Column
    wall_s: Column
    interruptions: Column
    checkpoint_interval_s: Column
    step: StepTime
    memory: TrainingMemory


def run_at(
    workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column, rates: LinkRates, market: Market, assumed: Assumptions
) -> Run:
    """Wall time of the run: steps, experiments on top, and time lost to interruptions.

    Check: 16 384 devices are interrupted 16 384 * 4.74e-4 = 7.8 times a day.
    """
    step = step_time(workload, plans, data_parallel, rates, market, assumed)
    devices = plans.tensor_parallel * plans.pipeline_parallel * data_parallel
    steps = workload.units / (workload.global_batch * workload.units_per_sequence)
    per_s = assumed.interruptions_per_accelerator_day * devices / 86400.0
    interval = checkpoint_interval_s(workload, per_s, assumed)
    busy = steps * step.step_s * (1 + workload.experiment_overhead) * (1 + assumed.checkpoint_stall_s / interval)
    wall = busy * (1 + per_s * (assumed.restart_minutes * 60 + interval / 2))
    return Run(
        data_parallel=data_parallel,
        devices=devices,
        nodes=np.ceil(devices / plans.c.m.count),
        wall_s=wall,
        interruptions=per_s * wall,
        checkpoint_interval_s=interval,
        step=step,
        memory=training_memory(workload, plans, data_parallel, assumed),
    )


def checkpoint_interval_s(workload: TrainingWorkload, interruptions_per_s: Column, assumed: Assumptions) -> Column:
    """Seconds between checkpoints: as asked, or where stalls and lost work cost the same.

    sqrt(2 * stall / rate), from two minutes to an hour. Source: Young 1974.
    Check: a 10 s stall and 7.8 interruptions a day is 471 s.
    """
    if workload.checkpoint_interval_s is not None:
        return np.full(len(interruptions_per_s), workload.checkpoint_interval_s)
    best = np.sqrt(2 * assumed.checkpoint_stall_s / np.maximum(interruptions_per_s, 1e-12))
    return np.clip(best, 120.0, 3600.0)


def degrees(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Codes]:
    """Data-parallel degrees each row may take, ascending: (rows x options padded, how many).

    A degree divides the global batch into whole micro-batches (of samples the last may be part full), and the devices fill whole machines
    beyond the first. Machines without a known network stay alone, and so does inference-class hardware,
    which nobody builds into training clusters.
    """
    batch = workload.global_batch
    divisors = np.array([d for d in range(1, min(batch, 65536) + 1) if batch % d == 0], dtype=np.float64)
    if len(divisors) > 48:
        divisors = divisors[np.unique(np.geomspace(1, len(divisors), 48).astype(int) - 1)]
    fixed = plans.tensor_parallel * plans.pipeline_parallel
    devices = fixed[:, None] * divisors[None, :]
    count = plans.c.m.count[:, None]
    shares = batch / plans.micro_batch[:, None]
    whole = shares >= divisors[None, :] if workload.in_samples else np.mod(shares, divisors[None, :]) == 0
    alone = devices <= count
    joined = (np.mod(devices, count) == 0) & ~np.isnan(plans.c.m.network_bytes_per_s)[:, None]
    joined |= (devices <= plans.c.m.domain[:, None]) & (np.mod(devices, count) == 0)
    legal = whole & (alone | (joined & plans.clusters[:, None])) & (devices <= 131072)
    packed = np.where(legal, divisors[None, :], np.inf)
    packed = np.sort(packed, axis=1)
    return packed, legal.sum(axis=1)


def smallest_run(
    workload: TrainingWorkload, plans: TrainingPlans, rates: LinkRates, market: Market, assumed: Assumptions
) -> tuple[TrainingPlans, Run, Mask, Mask]:
    """Each row at its smallest degree that fits memory and meets the deadline.

    Rows without a legal degree are dropped. Returns (plans, run, fits, in time); a row that fails
    is shown at its largest degree, its best attempt.
    """
    options, count = degrees(workload, plans)
    rows = np.flatnonzero(count > 0)
    plans, options, count = plans.take(rows), options[rows], count[rows]
    index = np.arange(len(plans))
    low, high = np.zeros(len(plans), dtype=np.int64), count - 1
    for _ in range(int(np.ceil(np.log2(max(2, int(count.max(initial=1)))))) + 1):
        middle = (low + high) // 2
        run = run_at(workload, plans, options[index, middle], rates, market, assumed)
        good = run.memory.fits & (run.wall_s <= workload.deadline_s)
        high = np.where(good, middle, high)
        low = np.where(good, low, np.minimum(middle + 1, high))
    run = run_at(workload, plans, options[index, high], rates, market, assumed)
    ram = np.where(np.isnan(plans.c.ram_bytes), np.inf, plans.c.ram_bytes)
    fits = run.memory.fits & (run.memory.host_bytes <= 0.8 * ram)
    return plans, run, fits, run.wall_s <= workload.deadline_s


def scaling_efficiency(
    workload: TrainingWorkload, plans: TrainingPlans, run: Run, rates: LinkRates, market: Market, assumed: Assumptions
) -> Column:
    """Speed per device over that of one machine's worth of the same layout, capped at 1."""
    fixed = plans.tensor_parallel * plans.pipeline_parallel
    alone = np.maximum(1.0, np.floor(np.maximum(plans.c.m.count, fixed) / fixed))
    base = np.minimum(alone, run.data_parallel)
    reference = step_time(workload, plans, base, rates, market, assumed)
    # The same global batch on fewer devices takes proportionally more micro-batches.
    return np.minimum(1.0, reference.step_s * base / (run.step.step_s * run.data_parallel))
