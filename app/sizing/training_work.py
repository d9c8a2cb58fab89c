"""The work of one training step on one device: FLOPs, bytes and messages, free of any speed.

Symbols: t tensor, p pipeline, c context, e expert, d data parallel; T tokens of a micro-batch on one
rank of the context group; h hidden size, L layers, V vocabulary. The fit and the search count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.communication import UNKNOWN_NETWORK_BYTES_PER_S
from app.sizing.hardware import Link
from app.sizing.market import LINKS, PCIE_BYTES_PER_S
from app.sizing.model import ModelArchitecture
from app.sizing.precision import NF4_DOUBLE_QUANTISED_BYTES
from app.sizing.training_plan import FULL, NONE, SELECTIVE, TrainingPlans
from app.sizing.workload import Method, TrainingWorkload

# Backward of fused attention forms the scores again: 2.5 times its forward; of stored scores twice.
FUSED_BACKWARD, STORED_BACKWARD = 2.5, 2.0
# Bytes a fused loss moves per logit: written in 16 bit, read and widened for the softmax, its gradient written and read twice.
LOSS_BYTES_PER_LOGIT = 22.0
# Bytes an optimizer moves per parameter of its shard: gradient, master copy and moments read, all but the gradient written.
OPTIMIZER_TRAFFIC = {"adamw": 30.0, "adamw-8bit": 18.0, "adafactor": 16.0, "lion": 22.0, "muon": 22.0, "sgd": 22.0}
# Newton-Schulz of Muon: five iterations of three products of the momentum matrix with its square.
MUON_FLOPS_PER_PARAM_WIDTH = 30.0
PERMUTED_BYTES = 6.0  # per element of h, expert of a token and layer: copied to its expert and back, forward and backward
MAX_INTERLEAVE = 8.0


@dataclass(frozen=True, slots=True)
class Traffic(Columns):
    """Bytes that cross links, as seconds at the links' own rates, and how many messages they come in."""

    inside_s: Column
    across_s: Column
    inside_messages: Column
    across_messages: Column


@dataclass(frozen=True, slots=True)
class DeviceWork(Columns):
    """What one device computes for one micro-batch, forward, backward and recomputed, as seconds at its own rates."""

    matrix_s: Column  # at the peak of the training precision
    wide_matrix_s: Column  # what stays in 16 bit: the head
    expert_s: Column
    attention_s: Column
    elementwise_s: Column  # at the memory's bandwidth
    dequantised_s: Column
    layers: Column
    expert_layers: Column
    adapted_layers: Column


@dataclass(frozen=True, slots=True)
class MicroBatchWork(Columns):
    """One micro-batch on one device: the same at every data-parallel degree."""

    pcie: Mask  # inside a machine; the rest have a scale-up link
    device: DeviceWork
    tensor: Traffic
    context: Traffic
    expert: Traffic
    hop: Traffic  # between pipeline stages
    stages: Column
    chunks: Column  # of a stage, interleaved

    @property
    def bubble_micro_batches(self) -> Column:
        """Idle slots of the pipeline per step, in micro-batches: (p - 1) / v. Source: Narayanan et al. 2021 (arXiv:2104.04473)."""
        return (self.stages - 1) / self.chunks


@dataclass(frozen=True, slots=True)
class StateWork(Columns):
    """What a step does with weights, gradients and optimizer states on one device, at a data-parallel degree."""

    micro_batches: Column
    machines: Column
    shard: Traffic  # ZeRO-3: weights gathered and gradients scattered, with every micro-batch
    data: Traffic  # once per step
    optimizer_s: Column  # at the memory's bandwidth
    offload_s: Column
    host_params: Column  # that the host's processors update


@dataclass(frozen=True, slots=True)
class TrainingWork(Columns):
    """One step of one device."""

    micro: MicroBatchWork
    state: StateWork


def interleave(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Model chunks per stage: as asked, else as many as there are layers to a stage, eight at most, where the framework interleaves."""
    if plans.chunks is not None:
        return np.where(plans.pipeline_parallel > 1, plans.chunks, 1.0)
    chunks = np.clip(np.floor(workload.model.num_layers / plans.pipeline_parallel), 1.0, MAX_INTERLEAVE)
    return np.where((plans.pipeline_parallel > 1) & plans.interleaves, chunks, 1.0)


def expert_shards(plans: TrainingPlans) -> Column:
    """Ranks that share a layer's routed experts: the expert group, else the tensor group."""
    return np.where(plans.expert_parallel > 1, plans.expert_parallel, plans.tensor_parallel)


def rank_params(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Column]:
    """(dense, routed) parameters of the fullest model-parallel rank: its share of the layers and an end of the model."""
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    embedding, head = model.parts.get("embedding", 0), model.parts.get("head", 0)
    ends, largest_end = embedding + head, max(embedding, head)
    routed = model.routed_params
    dense = (model.total_params - routed - ends) / (tp * pp) + np.where(pp > 1, largest_end, ends) / tp
    return dense, routed / (expert_shards(plans) * pp)


def trained_rank_params(workload: TrainingWorkload, plans: TrainingPlans) -> tuple[Column, Column]:
    """(dense, routed) parameters of a rank that have gradients."""
    if workload.method is Method.FULL:
        return rank_params(workload, plans)
    adapters = workload.model.lora_params(workload.lora_rank, workload.lora_targets)
    return adapters / (plans.tensor_parallel * plans.pipeline_parallel), np.zeros(len(plans))


def flops_per_unit(workload: TrainingWorkload) -> float:
    """Model FLOPs per token (or sample), forward and backward, without recomputation."""
    model = workload.model
    if model.sample is not None:
        return 3 * model.sample.forward_flops
    if workload.method is Method.FULL:
        return model.training_flops_per_token(workload.units_per_sequence)
    scores = score_flops_per_token(workload)
    return 4 * model.training_matmul_params + 3 * scores + adapter_flops_per_token(workload) + 3 * model.recurrent_flops_per_token


def routing_layers(model: ModelArchitecture) -> float:
    """Layers that send tokens to experts; with a single expert there is nowhere to send them."""
    return float(model.moe_layers if model.is_moe else 0)


def score_flops_per_token(workload: TrainingWorkload) -> float:
    """Attention of a mean token of a sequence, forward."""
    return workload.model.prefill_attention_flops(workload.units_per_sequence) / workload.units_per_sequence


def adapter_flops_per_token(workload: TrainingWorkload) -> float:
    """Adapters, forward and backward; of those on routed experts a token passes its experts' only."""
    model = workload.model
    sharing = max(1, model.num_experts) / max(1, model.experts_per_token)
    return 6 * model.lora_params(workload.lora_rank, workload.lora_targets) / sharing


def elementwise_bytes_per_token_layer(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Bytes that norms, rotations, gates, residuals and copies of one token move in one mean layer, forward: 24h + 4(n + m)d + 6f.

    FP8 and FP4 also read what they convert and write it twice, as it is and transposed: 5 bytes per input of a matrix.
    """
    model = workload.model
    h, f = model.hidden_size, model.mlp_width
    plain = 24 * h + model.attention_activation_bytes + 6 * f
    converted = 5 * (2 * h + model.num_heads * model.head_dim + f)
    return np.where(plans.narrow, plain + converted, plain)


@dataclass(frozen=True, slots=True)
class Links(Columns):
    """Rates of the links of every plan, and how many devices the faster one joins."""

    inside: Column  # bytes per second of one device, one way
    network: Column
    domain: Column

    def traffic(self, across: Mask, volume: Column, messages: Column) -> Traffic:
        """Bytes over one link or the other."""
        return Traffic(
            np.where(across, 0.0, volume / self.inside), np.where(across, volume / self.network, 0.0),
            np.where(across, 0.0, messages), np.where(across, messages, 0.0),
        )  # fmt: skip


def links_of(plans: TrainingPlans) -> Links:
    m = plans.c.m
    return Links(
        np.where(m.link_bytes_per_s > 0, m.link_bytes_per_s, 1e15),
        np.where(np.isnan(m.network_bytes_per_s), UNKNOWN_NETWORK_BYTES_PER_S, m.network_bytes_per_s),
        np.maximum(m.count, m.domain),
    )


def silent(plans: TrainingPlans) -> Traffic:
    zero = np.zeros(len(plans))
    return Traffic(zero, zero, zero, zero)


def tokens_per_micro_batch(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Tokens of a micro-batch on one rank of the context group."""
    return plans.micro_batch * workload.units_per_sequence / plans.context_parallel


def sample_work(workload: TrainingWorkload, plans: TrainingPlans) -> DeviceWork:
    """Of images, speech and pictures: FLOPs of three forwards, and the activations written and read in them."""
    sample = workload.model.sample
    assert sample is not None
    zero = np.zeros(len(plans))
    return DeviceWork(
        matrix_s=3 * sample.forward_flops * plans.micro_batch / plans.peak_flops_per_s,
        wide_matrix_s=zero,
        expert_s=zero,
        attention_s=zero,
        elementwise_s=3 * sample.moved_bytes * plans.micro_batch / plans.bytes_per_s,
        dequantised_s=zero,
        layers=np.full(len(plans), float(max(1, sample.layers))),
        expert_layers=zero,
        adapted_layers=zero,
    )


def token_work(workload: TrainingWorkload, plans: TrainingPlans) -> DeviceWork:
    """Of tokens: every matrix forward and twice backward (once where it is frozen), once more where its layer is recomputed."""
    model, ranks = workload.model, plans.tensor_parallel * plans.pipeline_parallel
    tokens, layers = tokens_per_micro_batch(workload, plans), model.num_layers / plans.pipeline_parallel
    full, selective = plans.checkpointing == FULL, plans.checkpointing == SELECTIVE
    frozen = workload.method is not Method.FULL
    head, routed = model.head_matmul_params, model.routed_matmul_params
    dense = model.training_matmul_params - head - routed
    passes = (2.0 if frozen else 3.0) + full
    adapters = adapter_flops_per_token(workload) if frozen else 0.0
    backward = np.where(plans.fused_attention, FUSED_BACKWARD, STORED_BACKWARD)
    score_passes = 1 + backward + (full | (~plans.fused_attention & selective))
    attention = score_flops_per_token(workload) * score_passes + 3 * model.recurrent_flops_per_token
    quantised = model.linear_params / ranks * (2.0 + full) * (NF4_DOUBLE_QUANTISED_BYTES + 4.0)
    return DeviceWork(
        matrix_s=tokens * (2 * passes * dense + adapters) / ranks / plans.peak_flops_per_s,
        wide_matrix_s=tokens * 2 * (2.0 if frozen else 3.0) * head / ranks / plans.wide_flops_per_s,
        expert_s=tokens * 2 * passes * routed / ranks / plans.peak_flops_per_s,
        attention_s=tokens * attention / ranks / plans.wide_flops_per_s,
        elementwise_s=tokens * moved_bytes_per_token(workload, plans) / plans.bytes_per_s,
        dequantised_s=quantised / plans.bytes_per_s if workload.method is Method.QLORA else np.zeros(len(plans)),
        layers=layers * (1 + full / 3),
        expert_layers=routing_layers(model) / plans.pipeline_parallel,
        adapted_layers=layers if frozen else np.zeros(len(plans)),
    )


def moved_bytes_per_token(workload: TrainingWorkload, plans: TrainingPlans) -> Column:
    """Bytes that one token moves beside its matrices on one device, forward and backward: layers, experts' permutation, loss.

    Backward moves twice what forward does; a recomputed layer moves its own once more. Sequence parallelism
    splits the norms too. Stored scores cross memory ten times per pair of tokens and head.
    """
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    norms = 24.0 * model.hidden_size
    layer = (elementwise_bytes_per_token_layer(workload, plans) - norms) / tp + norms / sequence_split(plans)
    stored = np.where(plans.fused_attention, 0.0, 10.0 * model.num_heads * workload.units_per_sequence / tp)
    passes = np.where(plans.checkpointing == NONE, 3.0, 4.0)
    permuted = PERMUTED_BYTES * model.hidden_size * model.experts_per_token * routing_layers(model)
    return (model.num_layers * (layer + stored) * passes + permuted + model.vocab_size * LOSS_BYTES_PER_LOGIT / tp) / pp


def sequence_split(plans: TrainingPlans) -> Column:
    """Ranks that share the tokens between matrices: the tensor group's, where sequences are split over it."""
    return np.where(plans.sequence_parallel, plans.tensor_parallel, 1.0)


def layer_traffic(workload: TrainingWorkload, plans: TrainingPlans, links: Links) -> tuple[Traffic, Traffic, Traffic, Traffic]:
    """(tensor, context, expert, pipeline) traffic of a micro-batch.

    Two all-reduces of T h per layer and pass; keys and values passed round the context group in every pass;
    every token to its experts and back in every pass; hidden states handed on twice per chunk.
    """
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    cp, ep = plans.context_parallel, plans.expert_parallel
    passes = np.where(plans.checkpointing == FULL, 3.0, 2.0)
    layers = model.num_layers / pp
    hidden = tokens_per_micro_batch(workload, plans) * 2.0 * model.hidden_size
    tensor = links.traffic(tp > links.domain, passes * 2 * layers * 2 * (tp - 1) / tp * hidden, np.where(tp > 1, passes * 2 * layers, 0.0))
    width = tokens_per_micro_batch(workload, plans) * 2.0 * sum(g.layers * g.kv_elements for g in model.attention)
    rounds = (passes + 1) * (cp - 1)
    context = links.traffic(
        tp * cp > links.domain, rounds * width / np.minimum(tp, model.kv_heads) / pp, np.where(cp > 1, layers * rounds, 0.0)
    )
    exchanges = passes * 2 * routing_layers(model) / pp
    routed = exchanges * hidden * model.experts_per_token / sequence_split(plans) * (ep - 1) / ep
    far = np.where(ep > links.domain, 1 - links.domain / ep, 0.0)
    messages = np.where(ep > 1, exchanges, 0.0)
    expert = Traffic(
        routed * (1 - far) / links.inside, routed * far / links.network, np.where(far > 0, 0.0, messages), np.where(far > 0, messages, 0.0)
    )
    hand_overs = np.where(pp > 1, 2 * interleave(workload, plans), 0.0)
    hop = links.traffic(tp * pp * cp > links.domain, hand_overs * hidden / sequence_split(plans), hand_overs)
    return tensor, context, expert, hop


def micro_batch_work(workload: TrainingWorkload, plans: TrainingPlans) -> MicroBatchWork:
    """Counts of one micro-batch.

    Source: Shoeybi et al. 2019 (arXiv:1909.08053); Korthikanti et al. 2022 (arXiv:2205.05198); Liu et al. 2023 (arXiv:2310.01889).
    """
    if workload.in_samples:
        device = sample_work(workload, plans)
        tensor = context = expert = hop = silent(plans)
    else:
        device = token_work(workload, plans)
        tensor, context, expert, hop = layer_traffic(workload, plans, links_of(plans))
    return MicroBatchWork(
        pcie=plans.c.m.link == LINKS.index(Link.PCIE), device=device, tensor=tensor, context=context, expert=expert, hop=hop,
        stages=plans.pipeline_parallel, chunks=interleave(workload, plans),
    )  # fmt: skip


def state_work(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> StateWork:
    """Counts of one step beside its micro-batches. Source: Rajbhandari et al. 2020 (arXiv:1910.02054)."""
    links = links_of(plans)
    devices = plans.ranks * data_parallel
    shard, data = _state_traffic(workload, plans, data_parallel, links)
    local = held_params(plans, data_parallel, *trained_rank_params(workload, plans), from_stage=1)
    orthogonal = local * MUON_FLOPS_PER_PARAM_WIDTH * workload.model.hidden_size / plans.wide_flops_per_s
    update = local * OPTIMIZER_TRAFFIC[workload.optimizer] / plans.bytes_per_s + (orthogonal if workload.optimizer == "muon" else 0.0)
    return StateWork(
        micro_batches=np.maximum(1.0, workload.global_batch / (data_parallel * plans.micro_batch)),
        machines=np.ceil(devices / links.domain),
        shard=shard,
        data=data,
        optimizer_s=np.where(plans.offload, 0.0, update),
        offload_s=np.where(plans.offload, local * 4.0 / PCIE_BYTES_PER_S, 0.0),
        host_params=np.where(plans.offload, local * np.minimum(plans.c.m.count, devices), 0.0),
    )


def training_work(workload: TrainingWorkload, plans: TrainingPlans, data_parallel: Column) -> TrainingWork:
    """Counts of one step at a data-parallel degree."""
    return TrainingWork(micro_batch_work(workload, plans), state_work(workload, plans, data_parallel))


def data_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same dense weights: replicas, and the context group with them."""
    return data_parallel * plans.context_parallel


def expert_group(plans: TrainingPlans, data_parallel: Column) -> Column:
    """Ranks that hold the same routed experts."""
    ranks = data_parallel * plans.context_parallel * plans.tensor_parallel
    return np.maximum(1.0, ranks / expert_shards(plans))


def held_params(plans: TrainingPlans, data_parallel: Column, dense: Column, routed: Column, *, from_stage: int) -> Column:
    """Of a rank's parameters those one device holds: its share where ZeRO shards them (states from stage 1, gradients 2, weights 3)."""
    shared = plans.zero_stage >= from_stage
    groups = data_group(plans, data_parallel), expert_group(plans, data_parallel)
    return dense / np.where(shared, groups[0], 1.0) + routed / np.where(shared, groups[1], 1.0)


def _state_traffic(workload: TrainingWorkload, plans: TrainingPlans, dp: Column, links: Links) -> tuple[Traffic, Traffic]:
    """(with every micro-batch, once per step): gradients reduced and weights gathered among those that share them.

    A ring over machines goes through the network cards of all its ranks in a machine at once.
    """
    model, tp = workload.model, plans.tensor_parallel
    wide = workload.precision in ("fp32", "tf32")
    weight_width = 4.0 if wide else 2.0
    gradient_width = np.where(plans.wide_gradients, 4.0, weight_width)
    frozen_width = 0.55 if workload.method is Method.QLORA else weight_width
    sharded = plans.zero_stage >= 3
    layers = (model.sample.layers if model.sample is not None else model.num_layers) / plans.pipeline_parallel
    zero = np.zeros(len(plans))
    shard_inside, shard_across, data_inside, data_across = zero, zero, zero, zero
    dense_all, routed_all = rank_params(workload, plans)
    dense_trained, routed_trained = trained_rank_params(workload, plans)
    across_any = zero > 0
    for held, trained, group, spread in (
        (dense_all, dense_trained, data_group(plans, dp), tp),
        (routed_all, routed_trained, expert_group(plans, dp), expert_shards(plans)),
    ):
        share = (group - 1) / group
        across = group * spread > links.domain
        peers = np.clip(links.domain / spread, 1.0, group)
        ring = np.where(across, np.minimum(links.network * peers, links.inside), links.inside)
        gathered = 2 * share * held * (weight_width if workload.method is Method.FULL else frozen_width)
        scattered = share * trained * gradient_width
        each = np.where(sharded, (gathered + scattered) / ring, 0.0)
        once = np.where(
            sharded, 0.0, share * trained * (gradient_width + np.where(plans.zero_stage >= 1, weight_width, gradient_width)) / ring
        )
        shard_inside, shard_across = shard_inside + np.where(across, 0.0, each), shard_across + np.where(across, each, 0.0)
        data_inside, data_across = data_inside + np.where(across, 0.0, once), data_across + np.where(across, once, 0.0)
        across_any = across_any | (across & (group > 1))
    several = data_group(plans, dp) > 1
    messages = np.where(several & sharded, 3 * layers, 0.0)
    whole = np.where(several & ~sharded, layers, 0.0)
    return (
        Traffic(shard_inside, shard_across, np.where(across_any, 0.0, messages), np.where(across_any, messages, 0.0)),
        Traffic(data_inside, data_across, np.where(across_any, 0.0, whole), np.where(across_any, whole, 0.0)),
    )
