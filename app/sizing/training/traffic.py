"""Communication between the ranks of a layout: bytes per link and number of messages.

Covers the all-reduces of tensor parallelism, the ring of context parallelism, the all-to-all of expert parallelism,
the hand-over between pipeline stages, and the all-gathers, reduce-scatters and all-reduces of weights and gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.achieved import TrainingAchieved
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import FULL
from app.sizing.training.plans import RankGroups, RankParams, TrainingMachines, TrainingPlans
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe


@dataclass(frozen=True, slots=True)
class Traffic(Columns):
    """Communication of one rank: seconds at the links' nominal rates, and the number of messages."""

    scale_up_s: Column  # on links inside a machine, s
    network_s: Column  # on the network between machines, s
    scale_up_messages: Column  # messages inside a machine
    network_messages: Column  # messages between machines


@dataclass(frozen=True, slots=True)
class LayerTraffic(Columns):
    """Communication of one micro-batch within and between layers."""

    tensor: Traffic  # all-reduces of hidden states
    context: Traffic  # ring of keys and values
    expert: Traffic  # all-to-all of tokens
    pipeline: Traffic  # hidden states from stage to stage


@dataclass(frozen=True, slots=True)
class StateTraffic(Columns):
    """Communication of weights and gradients between ranks that hold the same ones."""

    sharded: Traffic  # ZeRO-3, per micro-batch: all-gather of weights, reduce-scatter of gradients
    synchronized: Traffic  # per step: all-reduce of gradients, or their reduce-scatter and all-gather of weights


@formula(unit="s", source="definition; the rate is from the data sheet")
def scale_up_s(traffic_bytes: Column, crosses_machines: Mask, machine: TrainingMachines) -> Column:
    """Seconds that bytes take at the nominal rate of the links inside a machine.

    Parameters:
        traffic_bytes: bytes that one rank sends.
        crosses_machines: whether the group of ranks spans machines.
    Check: 4.5 GB at 450 GB/s, inside a machine and between machines.
        >>> scale_up_s(col(4.5e9), np.array([False, True]), row(scale_up_bytes_per_s=col(450e9))).tolist()
        [0.01, 0.0]
    """
    return np.where(crosses_machines, 0.0, traffic_bytes / machine.scale_up_bytes_per_s)


@formula(unit="s", source="definition; the rate is from the system's data sheet")
def network_s(traffic_bytes: Column, crosses_machines: Mask, machine: TrainingMachines) -> Column:
    """Seconds that bytes take at the nominal rate of one accelerator's share of the network.

    Parameters:
        traffic_bytes: bytes that one rank sends.
        crosses_machines: whether the group of ranks spans machines.
    Check: 4.5 GB at 50 GB/s, inside a machine and between machines.
        >>> network_s(col(4.5e9), np.array([False, True]), row(network_bytes_per_s=col(50e9))).tolist()
        [0.0, 0.09]
    """
    return np.where(crosses_machines, traffic_bytes / machine.network_bytes_per_s, 0.0)


def _route_traffic(plans: TrainingPlans, ranks: Column, traffic_bytes: Column, messages: Column) -> Traffic:
    """Assign traffic to the links inside a machine, or to the network where the group of ranks spans machines."""
    crosses = ranks > plans.machine.scale_up_accelerators
    return Traffic(
        scale_up_s(traffic_bytes, crosses, plans.machine),
        network_s(traffic_bytes, crosses, plans.machine),
        np.where(crosses, 0.0, messages),
        np.where(crosses, messages, 0.0),
    )


def no_traffic(rows: int) -> Traffic:
    zero = np.zeros(rows)
    return Traffic(zero, zero, zero, zero)


@formula(
    unit="s",
    source="alpha-beta model (Thakur et al. 2005; Patarasuk and Yuan 2009); shares and latencies are fitted",
)
def collective_s(traffic: Traffic, pcie: Mask, achieved: TrainingAchieved) -> Column:
    """Seconds of collectives: bytes at the achieved share of the link's rate, plus a latency per message.

    Parameters:
        pcie: whether the accelerators of a machine are connected by PCIe only.
    Limits: no congestion beyond the oversubscription stated for the network.
    Check: 10 ms of NVLink at half its rate, and 100 messages of 20 µs.
        >>> moved = row(scale_up_s=col(0.01), network_s=col(0), scale_up_messages=col(100), network_messages=col(0))
        >>> shares = {f"collective_{link}_fraction": 0.5 for link in ("pcie", "scale_up", "network")}
        >>> fitted = row(**shares, collective_latency_s=2e-5, collective_network_latency_s=5e-5)
        >>> collective_s(moved, np.array([False]), fitted).round(6).tolist()
        [0.022]
    """
    scale_up_fraction = np.where(pcie, achieved.collective_pcie_fraction, achieved.collective_scale_up_fraction)
    scale_up = traffic.scale_up_s / scale_up_fraction
    network = traffic.network_s / achieved.collective_network_fraction
    waits = (
        traffic.scale_up_messages * achieved.collective_latency_s
        + traffic.network_messages * achieved.collective_network_latency_s
    )
    return scale_up + network + waits


@formula(unit="B", source="Shoeybi et al. 2019 (arXiv:1909.08053)")
def hidden_state_bytes(counts: Counts, tokens_per_micro_batch: Column) -> Column:
    """Hidden states of a micro-batch in 16 bit.

    Check: 4,096 tokens of Llama-3.1-8B are 32 MiB.
        >>> hidden_state_bytes(PRETRAIN_COUNTS, col(4096))[0] / 2**20
        np.float64(32.0)
    """
    return tokens_per_micro_batch * BYTES_16_BIT * counts.hidden_size


@formula(unit="passes", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def layer_passes(plans: TrainingPlans) -> Column:
    """Passes through a layer per micro-batch: forward and backward, and one more with full recomputation.

    Check: full recomputation, and any other mode.
        >>> layer_passes(row(activation_checkpointing=np.array([FULL, FULL - 1]))).tolist()
        [3.0, 2.0]
    """
    return np.where(plans.activation_checkpointing == FULL, 3.0, 2.0)


@formula(unit="B", source="Shoeybi et al. 2019 (arXiv:1909.08053); ring all-reduce")
def tensor_all_reduce_bytes(
    counts: Counts, plans: TrainingPlans, layer_passes: Column, hidden_state_bytes: Column
) -> Column:
    """Bytes that each rank sends in the tensor-parallel all-reduces: one per sublayer and pass.

    A ring all-reduce over t ranks sends 2 (t - 1) / t of the message per rank. Sequence parallelism sends as much,
    as reduce-scatters and all-gathers.

    Check: 32 layers of two sublayers over eight ranks, hidden states of 32 MiB: 7 GiB per micro-batch.
        >>> layout = row(tensor_parallel=col(8), pipeline_parallel=col(1))
        >>> tensor_all_reduce_bytes(PRETRAIN_COUNTS, layout, col(2), col(2**25))[0] / 2**30
        np.float64(7.0)
    """
    all_reduces = layer_passes * counts.num_sublayers / plans.pipeline_parallel
    return 2 * all_reduces * (plans.tensor_parallel - 1) / plans.tensor_parallel * hidden_state_bytes


@formula(unit="B", source="Liu et al. 2023 (arXiv:2310.01889)")
def context_ring_bytes(
    counts: Counts, plans: TrainingPlans, layer_passes: Column, tokens_per_micro_batch: Column
) -> Column:
    """Bytes of keys and values that each rank sends around the context-parallel ring.

    Keys and values go around once per pass, and once more in backward.

    Limits: KV heads are replicated where tensor parallelism has more ranks than there are KV heads.
    Check: Llama-3.1-8B, four ranks of 1,024 tokens: three hops, three times, of 128 MiB.
        >>> layout = row(tensor_parallel=col(1), pipeline_parallel=col(1), context_parallel=col(4))
        >>> context_ring_bytes(PRETRAIN_COUNTS, layout, col(2), col(1024))[0] / 2**20
        np.float64(1152.0)
    """
    width = tokens_per_micro_batch * BYTES_16_BIT * counts.kv_elements
    rounds = (layer_passes + 1) * (plans.context_parallel - 1)
    return rounds * width / np.minimum(plans.tensor_parallel, counts.kv_heads) / plans.pipeline_parallel


@formula(unit="messages", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_exchanges(counts: Counts, plans: TrainingPlans, layer_passes: Column) -> Column:
    """All-to-alls of a micro-batch: one to the experts and one back, per expert layer and pass.

    Check: 48 expert layers on four pipeline stages.
        >>> expert_exchanges(row(routing_layers=48), row(pipeline_parallel=col(4)), col(2))[0]
        np.float64(48.0)
    """
    return layer_passes * 2 * counts.routing_layers / plans.pipeline_parallel


@formula(unit="B", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_token_bytes(counts: Counts, tokens_per_micro_batch: Column, sequence_split: Column) -> Column:
    """Bytes of a micro-batch's tokens in the width that experts take, sent once.

    Some models project tokens to a narrower width before they dispatch them.

    Check: 4,096 tokens of width 2,048 are 16 MiB.
        >>> expert_token_bytes(row(expert_inputs=2048), col(4096), col(1))[0] / 2**20
        np.float64(16.0)
    """
    return tokens_per_micro_batch * BYTES_16_BIT * counts.expert_inputs / sequence_split


@formula(unit="1", source="dispatch of DeepEP and HybridEP with even routing")
def copies_sent(group: Column, experts_per_token: float) -> Column:
    """Number of other ranks (or machines) of a group that receive a token, because they hold at least one of its
    experts.

    A rank is missed by all k experts with probability (1 - 1/g)^k; DeepEP and HybridEP send one copy per rank.

    Parameters:
        group: ranks, or machines, that share the experts.
        experts_per_token: experts that each token is routed to.
    Limits: routing is even; imbalance is a fitted share of the experts' time.
    Check: eight experts per token over eight ranks: 4.6 of the seven others.
        >>> copies_sent(col(8), 8).round(2)[0]
        np.float64(4.59)
    """
    return (group - 1) * (1 - (1 - 1 / group) ** experts_per_token)


@formula(unit="B", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def pipeline_bytes(hand_overs: Column, hidden_state_bytes: Column, sequence_split: Column) -> Column:
    """Bytes of hidden states that a pipeline stage hands over, forward and backward, for all its chunks.

    Parameters:
        hand_overs: messages that a stage sends per micro-batch.
    Check: one chunk of 32 MiB, split over eight ranks: two messages of 4 MiB.
        >>> pipeline_bytes(col(2), col(2**25), col(8))[0] / 2**20
        np.float64(8.0)
    """
    return hand_overs * hidden_state_bytes / sequence_split


def layer_traffic(
    counts: Counts, plans: TrainingPlans, tokens: Column, sequence_split: Column, virtual_pipeline: Column
) -> LayerTraffic:
    """Return the communication of a micro-batch within and between layers.

    Tensor parallelism all-reduces hidden states, context parallelism passes keys and values around a ring, expert
    parallelism dispatches tokens by all-to-all, and pipeline parallelism hands hidden states from stage to stage.
    """
    tp, pp, cp, none = plans.tensor_parallel, plans.pipeline_parallel, plans.context_parallel, no_traffic(len(plans))
    passes, hidden = layer_passes(plans), hidden_state_bytes(counts, tokens)
    layers = counts.num_layers / pp
    tensor = context = expert = pipeline = none
    if (tp > 1).any():
        with trace_label("tensor parallel"):
            sent = tensor_all_reduce_bytes(counts, plans, passes, hidden)
            tensor = _route_traffic(plans, tp, sent, np.where(tp > 1, passes * counts.num_sublayers / pp, 0.0))
    if (cp > 1).any():
        with trace_label("context parallel"):
            sent = context_ring_bytes(counts, plans, passes, tokens)
            context = _route_traffic(plans, tp * cp, sent, np.where(cp > 1, layers * ((passes + 1) * (cp - 1)), 0.0))
    if (plans.expert_parallel > 1).any():
        expert = _expert_traffic(counts, plans, passes, tokens, sequence_split)
    if (pp > 1).any():
        with trace_label("pipeline parallel"):
            hand_overs = np.where(pp > 1, 2 * virtual_pipeline, 0.0)
            pipeline = _route_traffic(
                plans, tp * pp * cp, pipeline_bytes(hand_overs, hidden, sequence_split), hand_overs
            )
    return LayerTraffic(tensor, context, expert, pipeline)


def _expert_traffic(
    counts: Counts, plans: TrainingPlans, passes: Column, tokens: Column, sequence_split: Column
) -> Traffic:
    """All-to-all of tokens: one copy per destination rank inside a machine, one copy per destination machine."""
    machine, ep = plans.machine, plans.expert_parallel
    exchanges = expert_exchanges(counts, plans, passes)
    once = exchanges * expert_token_bytes(counts, tokens, sequence_split)
    far = np.maximum(ep / machine.scale_up_accelerators, 1.0)
    with trace_label("ranks"):
        near_s = once * copies_sent(ep, counts.experts_per_token) / machine.scale_up_bytes_per_s
    with trace_label("machines"):
        far_s = once * copies_sent(far, counts.experts_per_token) / machine.network_bytes_per_s
    messages = np.where(ep > 1, exchanges, 0.0)
    return Traffic(near_s, far_s, np.where(far > 1, 0.0, messages), np.where(far > 1, messages, 0.0))


@formula(unit="B/s", source="NCCL's rings over all network cards; Cho et al. 2019 (BlueConnect)")
def ring_bytes_per_s(group: Column, ranks_within: Column, crosses_machines: Mask, machine: TrainingMachines) -> Column:
    """Rate of a ring among ranks that hold the same weights.

    Between machines the ring uses the network cards of all its ranks in a machine at once.

    Parameters:
        group: ranks of the ring.
        ranks_within: neighboring ranks that hold different weights: tensor-parallel ranks, or shards of experts.
        crosses_machines: whether the group of ranks spans machines.
    Limits: never faster than the links inside the machine.
    Check: 16 replicas on machines of eight, network cards of 50 GB/s: tensor parallel 1 uses all eight cards, 8
        uses one.
        >>> machine = row(scale_up_accelerators=8, network_bytes_per_s=50e9, scale_up_bytes_per_s=450e9)
        >>> ring_bytes_per_s(col(16, 16), col(1, 8), np.array([True, True]), machine).tolist()
        [400000000000.0, 50000000000.0]
    """
    peers = np.minimum(np.maximum(machine.scale_up_accelerators / ranks_within, 1.0), group)
    across = np.minimum(machine.network_bytes_per_s * peers, machine.scale_up_bytes_per_s)
    return np.where(crosses_machines, across, machine.scale_up_bytes_per_s)


@formula(
    unit="B",
    source="Rajbhandari et al. 2020 (arXiv:1910.02054), section 7.2; 2021 (arXiv:2104.07857), section 4.1",
)
def sharding_bytes(
    group: Column, params_per_rank: Column, trained_params_per_rank: Column, plans: TrainingPlans, recipe: Recipe
) -> Column:
    """Bytes that each rank receives per micro-batch with ZeRO-3: all-gathered weights and reduce-scattered gradients.

    Weights are gathered in forward and in backward. Frameworks that free them between a layer's recomputation and
    its backward gather them once more.

    Parameters:
        group: ranks that shard the weights.
        params_per_rank: parameters of a model-parallel rank.
        trained_params_per_rank: trained parameters of a model-parallel rank.
    Check: 1e9 parameters in BF16 on eight ranks: 7/8 of three times 2 GB.
        >>> plans = row(fp32_gradients=np.array([False]), gathers_to_recompute=col(0))
        >>> sharding_bytes(col(8), col(1e9), col(1e9), plans, PRETRAIN_COUNTS.recipe).tolist()
        [5250000000.0]
    """
    share = (group - 1) / group
    gradient_bytes = np.where(plans.fp32_gradients, BYTES_32_BIT, recipe.gradient_bytes_per_param)
    gathered = (2.0 + plans.gathers_to_recompute) * share * params_per_rank * recipe.gathered_bytes_per_param
    return gathered + share * trained_params_per_rank * gradient_bytes


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054), section 7.1")
def synchronization_bytes(
    group: Column, trained_params_per_rank: Column, plans: TrainingPlans, recipe: Recipe
) -> Column:
    """Bytes that each rank receives once per step to synchronize gradients.

    ZeRO-1 and ZeRO-2 reduce-scatter gradients and all-gather weights; without ZeRO an all-reduce does both with
    gradients.

    Parameters:
        group: ranks that hold the same weights.
        trained_params_per_rank: trained parameters of a model-parallel rank.
    Check: 1e9 parameters in BF16 on eight ranks: 7/8 of 4 GB.
        >>> plans = row(fp32_gradients=np.array([False]), zero_stage=col(1))
        >>> synchronization_bytes(col(8), col(1e9), plans, PRETRAIN_COUNTS.recipe).tolist()
        [3500000000.0]
    """
    share = (group - 1) / group
    gradient_bytes = np.where(plans.fp32_gradients, BYTES_32_BIT, recipe.gradient_bytes_per_param)
    returned = np.where(plans.zero_stage >= 1, recipe.weight_bytes_per_param, gradient_bytes)
    received: Column = share * trained_params_per_rank * (gradient_bytes + returned)
    return received


@formula(unit="s", source="definition")
def sharding_s(shards_weights: Mask, sharding_bytes: Column, ring_bytes_per_s: Column) -> Column:
    """Seconds per micro-batch of ZeRO-3 traffic at the ring's nominal rate; 0 below ZeRO-3.

    Parameters:
        shards_weights: whether weights are sharded (ZeRO-3).
    Check: 5 GB at 50 GB/s.
        >>> sharding_s(np.array([True, False]), col(5e9), col(50e9)).tolist()
        [0.1, 0.0]
    """
    return np.where(shards_weights, sharding_bytes / ring_bytes_per_s, 0.0)


@formula(unit="s", source="definition")
def synchronization_s(shards_weights: Mask, synchronization_bytes: Column, ring_bytes_per_s: Column) -> Column:
    """Seconds per step of gradient synchronization at the ring's nominal rate; 0 with ZeRO-3.

    Parameters:
        shards_weights: whether weights are sharded (ZeRO-3).
    Check: 5 GB at 50 GB/s.
        >>> synchronization_s(np.array([True, False]), col(5e9), col(50e9)).tolist()
        [0.0, 0.1]
    """
    return np.where(shards_weights, 0.0, synchronization_bytes / ring_bytes_per_s)


def state_traffic(counts: Counts, plans: TrainingPlans, rank: RankParams, groups: RankGroups) -> StateTraffic:
    """Return the communication of gradients and weights, with dense parameters and routed experts in separate
    groups.

    Where the stages of a pipeline share a machine, the ranks with the same weights are in several machines, even if
    they would fit into one.
    """
    zero = np.zeros(len(plans))
    sharded = plans.zero_stage >= 3
    each_in = each_out = once_in = once_out = zero
    crosses_any, pp, most = zero > 0, plans.pipeline_parallel, plans.machine.scale_up_accelerators
    stages_inside = plans.tensor_parallel * plans.context_parallel * pp <= most
    kinds = [("dense", rank.dense, rank.trained_dense, groups.data_group, plans.tensor_parallel)]
    if counts.routed_params:
        kinds.append(("routed", rank.routed, rank.trained_routed, groups.expert_group, rank.expert_shards))
    for kind, held, trained, group, ranks_within in kinds:
        displaced = stages_inside & (group * ranks_within <= most) & (groups.accelerators > most)
        crosses, within = (
            (group * ranks_within > most) | displaced,
            np.where(displaced, ranks_within * pp, ranks_within),
        )
        with trace_label(kind):
            ring = ring_bytes_per_s(group, within, crosses, plans.machine)
            each = sharding_s(sharded, sharding_bytes(group, held, trained, plans, counts.recipe), ring)
            once = synchronization_s(sharded, synchronization_bytes(group, trained, plans, counts.recipe), ring)
        each_in, each_out = each_in + np.where(crosses, 0.0, each), each_out + np.where(crosses, each, 0.0)
        once_in, once_out = once_in + np.where(crosses, 0.0, once), once_out + np.where(crosses, once, 0.0)
        crosses_any = crosses_any | (crosses & (group > 1))
    several, layers = groups.data_group > 1, counts.weight_layers / plans.pipeline_parallel
    messages = np.where(several & sharded, 3 * layers, 0.0)
    whole = np.where(several & ~sharded, layers, 0.0)
    return StateTraffic(
        Traffic(each_in, each_out, np.where(crosses_any, 0.0, messages), np.where(crosses_any, messages, 0.0)),
        Traffic(once_in, once_out, np.where(crosses_any, 0.0, whole), np.where(crosses_any, whole, 0.0)),
    )
