"""What the ranks of a layout send one another: bytes over which link, in how many messages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns, Mask
from app.sizing.hardware.links import UNKNOWN_NETWORK_BYTES_PER_S
from app.sizing.training.plans import FULL, TrainingPlans
from app.sizing.training.ranks import (
    data_group,
    expert_group,
    expert_shards,
    interleave,
    rank_params,
    routing_layers,
    sequence_split,
    tokens_per_micro_batch,
    trained_rank_params,
)
from app.sizing.workload import Method, TrainingWorkload


@dataclass(frozen=True, slots=True)
class Traffic(Columns):
    """Bytes that cross links, as seconds at the links' own rates, and how many messages they come in."""

    inside_s: Column
    across_s: Column
    inside_messages: Column
    across_messages: Column


@dataclass(frozen=True, slots=True)
class Links(Columns):
    """Rates of the links of every plan, and how many devices the faster one joins."""

    inside: Column  # bytes per second of one device, one way
    network: Column
    domain: Column

    def traffic(self, across: Mask, volume: Column, messages: Column) -> Traffic:
        """Bytes over one link or the other."""
        return Traffic(
            np.where(across, 0.0, volume / self.inside),
            np.where(across, volume / self.network, 0.0),
            np.where(across, 0.0, messages),
            np.where(across, messages, 0.0),
        )


def links_of(plans: TrainingPlans) -> Links:
    m = plans.node
    return Links(
        np.where(m.link_bytes_per_s > 0, m.link_bytes_per_s, 1e15),
        np.where(np.isnan(m.network_bytes_per_s), UNKNOWN_NETWORK_BYTES_PER_S, m.network_bytes_per_s),
        np.maximum(m.accelerators_per_node, m.scale_up_domain),
    )


def silent(plans: TrainingPlans) -> Traffic:
    zero = np.zeros(len(plans))
    return Traffic(zero, zero, zero, zero)


def layer_traffic(
    workload: TrainingWorkload, plans: TrainingPlans, links: Links
) -> tuple[Traffic, Traffic, Traffic, Traffic]:
    """(tensor, context, expert, pipeline) traffic of a micro-batch.

    Two all-reduces of T h per layer and pass; keys and values passed round the context group in every pass;
    every token to its experts and back in every pass; hidden states handed on twice per chunk.
    """
    model, tp, pp = workload.model, plans.tensor_parallel, plans.pipeline_parallel
    cp, ep = plans.context_parallel, plans.expert_parallel
    passes = np.where(plans.checkpointing == FULL, 3.0, 2.0)
    layers = model.num_layers / pp
    hidden = tokens_per_micro_batch(workload, plans) * 2.0 * model.hidden_size
    tensor = links.traffic(
        tp > links.domain, passes * 2 * layers * 2 * (tp - 1) / tp * hidden, np.where(tp > 1, passes * 2 * layers, 0.0)
    )
    width = tokens_per_micro_batch(workload, plans) * 2.0 * sum(g.layers * g.kv_elements for g in model.attention)
    rounds = (passes + 1) * (cp - 1)
    context = links.traffic(
        tp * cp > links.domain,
        rounds * width / np.minimum(tp, model.kv_heads) / pp,
        np.where(cp > 1, layers * rounds, 0.0),
    )
    exchanges = passes * 2 * routing_layers(model) / pp
    routed = exchanges * hidden * model.experts_per_token / sequence_split(plans) * (ep - 1) / ep
    far = np.where(ep > links.domain, 1 - links.domain / ep, 0.0)
    messages = np.where(ep > 1, exchanges, 0.0)
    expert = Traffic(
        routed * (1 - far) / links.inside,
        routed * far / links.network,
        np.where(far > 0, 0.0, messages),
        np.where(far > 0, messages, 0.0),
    )
    hand_overs = np.where(pp > 1, 2 * interleave(workload, plans), 0.0)
    hop = links.traffic(tp * pp * cp > links.domain, hand_overs * hidden / sequence_split(plans), hand_overs)
    return tensor, context, expert, hop


def _state_traffic(
    workload: TrainingWorkload, plans: TrainingPlans, dp: Column, links: Links
) -> tuple[Traffic, Traffic]:
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
            sharded,
            0.0,
            share * trained * (gradient_width + np.where(plans.zero_stage >= 1, weight_width, gradient_width)) / ring,
        )
        shard_inside, shard_across = (
            shard_inside + np.where(across, 0.0, each),
            shard_across + np.where(across, each, 0.0),
        )
        data_inside, data_across = data_inside + np.where(across, 0.0, once), data_across + np.where(across, once, 0.0)
        across_any = across_any | (across & (group > 1))
    several = data_group(plans, dp) > 1
    messages = np.where(several & sharded, 3 * layers, 0.0)
    whole = np.where(several & ~sharded, layers, 0.0)
    return (
        Traffic(shard_inside, shard_across, np.where(across_any, 0.0, messages), np.where(across_any, messages, 0.0)),
        Traffic(data_inside, data_across, np.where(across_any, 0.0, whole), np.where(across_any, whole, 0.0)),
    )
