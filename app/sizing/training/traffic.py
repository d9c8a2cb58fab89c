"""What the ranks of a layout send one another: bytes over which link, in how many messages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.achieved import TrainingAchieved
from app.sizing.training.counts import Counts
from app.sizing.training.layouts import FULL
from app.sizing.training.plans import TrainingMachines, TrainingPlans
from app.sizing.training.ranks import RankParams, Spread
from app.sizing.training.recipes import BYTES_16_BIT, BYTES_32_BIT, Recipe


@dataclass(frozen=True, slots=True)
class Traffic(Columns):
    """Bytes that cross links, as seconds at the links' own rates, and how many messages they come in."""

    scale_up_s: Column
    network_s: Column
    scale_up_messages: Column
    network_messages: Column


@dataclass(frozen=True, slots=True)
class LayerTraffic(Columns):
    """Traffic of one micro-batch within and between layers."""

    tensor: Traffic  # all-reduces of hidden states
    context: Traffic  # keys and values round the ring
    expert: Traffic  # all-to-all of tokens
    pipeline: Traffic  # hidden states from stage to stage


@dataclass(frozen=True, slots=True)
class StateTraffic(Columns):
    """Traffic of weights and gradients among the ranks that hold the same."""

    sharded: Traffic  # ZeRO-3, with every micro-batch: weights all-gathered, gradients reduce-scattered
    synchronised: Traffic  # once per step: gradients all-reduced, or reduce-scattered and weights all-gathered


@formula(unit="s", source="definition")
def scale_up_s(traffic_bytes: Column, crosses_machines: Mask, machine: TrainingMachines) -> Column:
    """Seconds that bytes take at the rate of the links inside a machine.

    Source: definition; the rate is the data sheet's.
    """
    return np.where(crosses_machines, 0.0, traffic_bytes / machine.scale_up_bytes_per_s)


@formula(unit="s", source="definition")
def network_s(traffic_bytes: Column, crosses_machines: Mask, machine: TrainingMachines) -> Column:
    """Seconds that bytes take at the rate of one accelerator's share of the network.

    Source: definition; the rate is the system's.
    """
    return np.where(crosses_machines, traffic_bytes / machine.network_bytes_per_s, 0.0)


def _over(plans: TrainingPlans, ranks: Column, traffic_bytes: Column, messages: Column) -> Traffic:
    """Traffic over the links inside a machine, or over the network where a group of ranks reaches beyond it."""
    crosses = ranks > plans.machine.scale_up_accelerators
    return Traffic(
        scale_up_s(traffic_bytes, crosses, plans.machine),
        network_s(traffic_bytes, crosses, plans.machine),
        np.where(crosses, 0.0, messages),
        np.where(crosses, messages, 0.0),
    )


def silent(rows: int) -> Traffic:
    """No traffic."""
    zero = np.zeros(rows)
    return Traffic(zero, zero, zero, zero)


@formula(unit="s", source="Patarasuk and Yuan 2009; alpha-beta model of collectives")
def collective_s(traffic: Traffic, pcie: Mask, achieved: TrainingAchieved) -> Column:
    """Seconds of collectives: bytes over the achieved share of the link, and a latency per message.

    Source: alpha-beta model (Thakur et al. 2005); shares and latencies are fitted.
    Limits: no congestion beyond what the network's oversubscription says.
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

    Source: Shoeybi et al. 2019 (arXiv:1909.08053).
    Check:
        >>> hidden_state_bytes(PRETRAIN_COUNTS, col(4096))[0] / 2**20
        np.float64(32.0)
    """
    return tokens_per_micro_batch * BYTES_16_BIT * counts.hidden_size


@formula(unit="passes", source="Korthikanti et al. 2022 (arXiv:2205.05198)")
def layer_passes(plans: TrainingPlans) -> Column:
    """Passes through a layer: forward and backward, once more where it is recomputed whole.

    Source: Korthikanti et al. 2022 (arXiv:2205.05198).
    """
    return np.where(plans.activation_checkpointing == FULL, 3.0, 2.0)


@formula(unit="B", source="Shoeybi et al. 2019 (arXiv:1909.08053)")
def tensor_all_reduce_bytes(
    counts: Counts, plans: TrainingPlans, layer_passes: Column, hidden_state_bytes: Column
) -> Column:
    """Bytes each rank sends in two all-reduces of the hidden states per layer and pass.

    Source: Shoeybi et al. 2019 (arXiv:1909.08053); a ring carries 2 (t - 1) / t of the message.
    Limits: sequence parallelism sends as much, as reduce-scatters and all-gathers.
    """
    layers = counts.num_layers / plans.pipeline_parallel
    all_reduces = layer_passes * 2 * layers * 2
    return all_reduces * (plans.tensor_parallel - 1) / plans.tensor_parallel * hidden_state_bytes


@formula(unit="B", source="Liu et al. 2023 (arXiv:2310.01889)")
def context_ring_bytes(
    counts: Counts, plans: TrainingPlans, layer_passes: Column, tokens_per_micro_batch: Column
) -> Column:
    """Bytes of keys and values that each rank passes round the context ring, in every pass and once more in backward.

    Source: Liu et al. 2023 (arXiv:2310.01889).
    Limits: KV heads are copied where there are more tensor ranks than heads.
    """
    width = tokens_per_micro_batch * BYTES_16_BIT * counts.kv_elements
    rounds = (layer_passes + 1) * (plans.context_parallel - 1)
    return rounds * width / np.minimum(plans.tensor_parallel, counts.kv_heads) / plans.pipeline_parallel


@formula(unit="messages", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_exchanges(counts: Counts, plans: TrainingPlans, layer_passes: Column) -> Column:
    """All-to-alls of a micro-batch: every token to its experts and back, in every layer of experts and pass.

    Source: Fedus et al. 2021 (arXiv:2101.03961).
    """
    return layer_passes * 2 * counts.routing_layers / plans.pipeline_parallel


@formula(unit="B", source="Fedus et al. 2021 (arXiv:2101.03961)")
def expert_token_bytes(counts: Counts, tokens_per_micro_batch: Column, sequence_split: Column) -> Column:
    """Bytes of a micro-batch's tokens as experts take them, sent once: some models narrow them first.

    Source: Fedus et al. 2021 (arXiv:2101.03961).
    """
    return tokens_per_micro_batch * BYTES_16_BIT * counts.expert_inputs / sequence_split


@formula(unit="1", source="DeepEP; a token goes once to every rank, or machine, that has an expert of it")
def copies_sent(group: Column, experts_per_token: float) -> Column:
    """Others of a group that a token is sent to: those that hold one of its experts.

    Source: counted: each misses all of k even draws with the chance (1 - 1/g)^k; DeepEP's and HybridEP's dispatch.
    Limits: routing is even; what is not is a fitted share of the experts' time.
    Check: eight experts over eight ranks: 4.6 of the seven others.
        >>> copies_sent(col(8), 8).round(2)[0]
        np.float64(4.59)
    """
    return (group - 1) * (1 - (1 - 1 / group) ** experts_per_token)


@formula(unit="B", source="Narayanan et al. 2021 (arXiv:2104.04473)")
def pipeline_bytes(hand_overs: Column, hidden_state_bytes: Column, sequence_split: Column) -> Column:
    """Bytes of hidden states that a stage hands on, forward and backward, for each of its chunks.

    Source: Narayanan et al. 2021 (arXiv:2104.04473).
    """
    return hand_overs * hidden_state_bytes / sequence_split


def layer_traffic(
    counts: Counts, plans: TrainingPlans, tokens: Column, sequence_split: Column, virtual_pipeline: Column
) -> LayerTraffic:
    """Traffic of a micro-batch: all-reduces of hidden states, keys and values round the context ring, tokens to their
    experts and back, hidden states from stage to stage.
    """
    tp, pp, cp, none = plans.tensor_parallel, plans.pipeline_parallel, plans.context_parallel, silent(len(plans))
    passes, hidden = layer_passes(plans), hidden_state_bytes(counts, tokens)
    layers = counts.num_layers / pp
    tensor = context = expert = pipeline = none
    if (tp > 1).any():
        with told_as("tensor parallel"):
            sent = tensor_all_reduce_bytes(counts, plans, passes, hidden)
            tensor = _over(plans, tp, sent, np.where(tp > 1, passes * 2 * layers, 0.0))
    if (cp > 1).any():
        with told_as("context parallel"):
            sent = context_ring_bytes(counts, plans, passes, tokens)
            context = _over(plans, tp * cp, sent, np.where(cp > 1, layers * ((passes + 1) * (cp - 1)), 0.0))
    if (plans.expert_parallel > 1).any():
        expert = _expert_traffic(counts, plans, passes, tokens, sequence_split)
    if (pp > 1).any():
        with told_as("pipeline parallel"):
            hand_overs = np.where(pp > 1, 2 * virtual_pipeline, 0.0)
            pipeline = _over(plans, tp * pp * cp, pipeline_bytes(hand_overs, hidden, sequence_split), hand_overs)
    return LayerTraffic(tensor, context, expert, pipeline)


def _expert_traffic(
    counts: Counts, plans: TrainingPlans, passes: Column, tokens: Column, sequence_split: Column
) -> Traffic:
    """All-to-all of tokens: to every other rank over the links inside a machine, to every other machine once."""
    machine, ep = plans.machine, plans.expert_parallel
    exchanges = expert_exchanges(counts, plans, passes)
    once = exchanges * expert_token_bytes(counts, tokens, sequence_split)
    far = np.maximum(ep / machine.scale_up_accelerators, 1.0)
    with told_as("ranks"):
        near_s = once * copies_sent(ep, counts.experts_per_token) / machine.scale_up_bytes_per_s
    with told_as("machines"):
        far_s = once * copies_sent(far, counts.experts_per_token) / machine.network_bytes_per_s
    messages = np.where(ep > 1, exchanges, 0.0)
    return Traffic(near_s, far_s, np.where(far > 1, 0.0, messages), np.where(far > 1, messages, 0.0))


@formula(unit="B/s", source="Cho et al. 2019 (BlueConnect); NCCL's rings over all network cards")
def ring_bytes_per_s(group: Column, ranks_within: Column, crosses_machines: Mask, machine: TrainingMachines) -> Column:
    """Rate of a ring among ranks that hold the same weights. Over machines it goes through the network cards of all
    its ranks in a machine at once.

    Source: NCCL's rings over all network cards.
    Limits: never faster than the links inside the machine.
    """
    peers = np.minimum(np.maximum(machine.scale_up_accelerators / ranks_within, 1.0), group)
    across = np.minimum(machine.network_bytes_per_s * peers, machine.scale_up_bytes_per_s)
    return np.where(crosses_machines, across, machine.scale_up_bytes_per_s)


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def sharding_bytes(
    group: Column, params_per_rank: Column, trained_params_per_rank: Column, plans: TrainingPlans, recipe: Recipe
) -> Column:
    """ZeRO-3: bytes each rank receives with every micro-batch: weights gathered forward and backward, once more where
    a framework lets go of them between a layer's recomputation and its backward, gradients scattered.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 7.2; 2021 (arXiv:2104.07857), section 4.1.
    """
    share = (group - 1) / group
    gradient_bytes = np.where(plans.fp32_gradients, BYTES_32_BIT, recipe.gradient_bytes_per_param)
    gathered = (2.0 + plans.gathers_to_recompute) * share * params_per_rank * recipe.gathered_bytes_per_param
    return gathered + share * trained_params_per_rank * gradient_bytes


@formula(unit="B", source="Rajbhandari et al. 2020 (arXiv:1910.02054)")
def synchronisation_bytes(
    group: Column, trained_params_per_rank: Column, plans: TrainingPlans, recipe: Recipe
) -> Column:
    """Bytes each rank receives once a step: gradients scattered, and weights gathered (ZeRO-1, -2) or reduced
    gradients.

    Source: Rajbhandari et al. 2020 (arXiv:1910.02054), section 7.1.
    """
    share = (group - 1) / group
    gradient_bytes = np.where(plans.fp32_gradients, BYTES_32_BIT, recipe.gradient_bytes_per_param)
    returned = np.where(plans.zero_stage >= 1, recipe.weight_bytes_per_param, gradient_bytes)
    received: Column = share * trained_params_per_rank * (gradient_bytes + returned)
    return received


@formula(unit="s", source="definition")
def sharding_s(shards_weights: Mask, sharding_bytes: Column, ring_bytes_per_s: Column) -> Column:
    """Seconds at the ring's own rate, with every micro-batch; nothing where weights are whole (below ZeRO-3).

    Source: definition.
    """
    return np.where(shards_weights, sharding_bytes / ring_bytes_per_s, 0.0)


@formula(unit="s", source="definition")
def synchronisation_s(shards_weights: Mask, synchronisation_bytes: Column, ring_bytes_per_s: Column) -> Column:
    """Seconds at the ring's own rate, once a step; nothing where weights are sharded (ZeRO-3).

    Source: definition.
    """
    return np.where(shards_weights, 0.0, synchronisation_bytes / ring_bytes_per_s)


def state_traffic(counts: Counts, plans: TrainingPlans, rank: RankParams, spread: Spread) -> StateTraffic:
    """Gradients reduced and weights gathered among those that share them: dense ones, and routed experts apart."""
    zero = np.zeros(len(plans))
    sharded = plans.zero_stage >= 3
    each_in = each_out = once_in = once_out = zero
    crosses_any = zero > 0
    kinds = [("dense", rank.dense, rank.trained_dense, spread.data_group, plans.tensor_parallel)]
    if counts.routed_params:
        kinds.append(("routed", rank.routed, rank.trained_routed, spread.expert_group, rank.expert_shards))
    for kind, held, trained, group, within in kinds:
        crosses = group * within > plans.machine.scale_up_accelerators
        with told_as(kind):
            ring = ring_bytes_per_s(group, within, crosses, plans.machine)
            each = sharding_s(sharded, sharding_bytes(group, held, trained, plans, counts.recipe), ring)
            once = synchronisation_s(sharded, synchronisation_bytes(group, trained, plans, counts.recipe), ring)
        each_in, each_out = each_in + np.where(crosses, 0.0, each), each_out + np.where(crosses, each, 0.0)
        once_in, once_out = once_in + np.where(crosses, 0.0, once), once_out + np.where(crosses, once, 0.0)
        crosses_any = crosses_any | (crosses & (group > 1))
    several, layers = spread.data_group > 1, counts.weight_layers / plans.pipeline_parallel
    messages = np.where(several & sharded, 3 * layers, 0.0)
    whole = np.where(several & ~sharded, layers, 0.0)
    return StateTraffic(
        Traffic(each_in, each_out, np.where(crosses_any, 0.0, messages), np.where(crosses_any, messages, 0.0)),
        Traffic(once_in, once_out, np.where(crosses_any, 0.0, whole), np.where(crosses_any, whole, 0.0)),
    )
