"""Collectives and transfers of serving: all-reduces, the all-to-all of experts, and context parallelism.

The all-to-all applies where attention is data parallel and the routed experts are spread over all ranks. Context
parallelism gathers the queries with an all-gather and combines the outputs with a reduce-scatter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.formula import formula, trace_label
from app.sizing.hardware.achieved import Achieved
from app.sizing.hardware.parts import LINKS, Link, all_reduce_s, known_network_bytes_per_s
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.plans import Plans


@dataclass(frozen=True, slots=True)
class LinkUse(Columns):
    """Links that connect the devices of a replica."""

    pcie: Mask  # whether devices of a machine are linked by PCIe rather than a scale-up link
    link_bytes_per_s: Column  # bandwidth of the link inside a machine, each way
    across: Mask  # whether pipeline stages are on different machines
    network_bytes_per_s: Column  # network bandwidth of one accelerator, each way
    linked_ranks: Column  # tensor-parallel ranks that share a link; the network connects the others
    exchange_share: float  # share of link and network bandwidth that the all-to-all of experts achieves


@dataclass(frozen=True, slots=True)
class LinkSpeed(Columns):
    """Achieved latency and bandwidth of collectives and pipeline hops on those links."""

    collective_latency_s: Column  # latency of one collective inside a machine, s
    collective_bytes_per_s: Column  # bandwidth of a collective inside a machine
    hop_latency_s: Column  # latency of a transfer between pipeline stages, s
    hop_bytes_per_s: Column  # bandwidth of a transfer between pipeline stages
    network_latency_s: Column  # latency of one network hop, s, used or not
    network_bytes_per_s: Column  # network bandwidth that is achieved


def link_use(plans: Plans, assumed: Assumptions) -> LinkUse:
    """Links of every plan."""
    node, rows = plans.machines.table.node, plans.machines.rows
    across = (plans.nodes_per_replica > 1) & (plans.accelerators_per_replica > plans.scale_up_domain)
    network = known_network_bytes_per_s(node.network_bytes_per_s[rows], assumed)
    pcie, share = node.link[rows] == LINKS.index(Link.PCIE), assumed.exchange_bandwidth_share
    return LinkUse(pcie, node.link_bytes_per_s[rows], across, network, plans.linked_ranks, share)


@formula(unit="s", source="fitted to benchmark measurements")
def collective_latency_s(link: LinkUse, achieved: Achieved) -> Column:
    """Latency of one collective inside a machine.

    Parameters:
        link: links of the plan.
        achieved: fitted latencies.
    Limits: one value for all group sizes.
    Check:
        >>> waits = row(pcie_latency_s=20e-6, scale_up_latency_s=8e-6)
        >>> collective_latency_s(row(pcie=np.array([True, False])), waits).tolist()
        [2e-05, 8e-06]
    """
    return np.where(link.pcie, achieved.pcie_latency_s, achieved.scale_up_latency_s)


@formula(unit="B/s", source="fitted to benchmark measurements")
def collective_bytes_per_s(link: LinkUse, achieved: Achieved) -> Column:
    """Bandwidth that a collective achieves on the link inside a machine; infinite for a device without a link.

    Parameters:
        link: links of the plan.
        achieved: fitted bandwidth fractions.
    Limits: large messages; latency dominates small ones.
    Check: 0.75 of NVLink's 450 GB/s.
        >>> shares = row(pcie_bandwidth_fraction=0.6, scale_up_bandwidth_fraction=0.75)
        >>> float(collective_bytes_per_s(row(pcie=False, link_bytes_per_s=450e9), shares))
        337500000000.0
    """
    fraction = np.where(link.pcie, achieved.pcie_bandwidth_fraction, achieved.scale_up_bandwidth_fraction)
    return np.where(link.link_bytes_per_s > 0, link.link_bytes_per_s * fraction, np.inf)


@formula(unit="s", source="fitted to benchmark measurements")
def hop_latency_s(link: LinkUse, achieved: Achieved, collective_latency_s: Column) -> Column:
    """Latency of one transfer between pipeline stages.

    Parameters:
        link: links of the plan.
        achieved: fitted latencies.
        collective_latency_s: latency of a collective inside a machine, s.
    Limits: idle links.
    Check: the stages are on different machines.
        >>> float(hop_latency_s(row(across=True), row(network_latency_s=15e-6), 8e-6))
        1.5e-05
    """
    return np.where(link.across, achieved.network_latency_s, collective_latency_s)


@formula(unit="B/s", source="fitted to benchmark measurements")
def hop_bytes_per_s(link: LinkUse, achieved: Achieved, collective_bytes_per_s: Column) -> Column:
    """Bandwidth that a transfer between pipeline stages achieves.

    Parameters:
        link: links of the plan.
        achieved: fitted bandwidth fractions.
        collective_bytes_per_s: bandwidth of a collective inside a machine, B/s.
    Limits: idle links.
    Check: 0.9 of a network of 50 GB/s.
        >>> link = row(across=True, network_bytes_per_s=50e9)
        >>> float(hop_bytes_per_s(link, row(network_bandwidth_fraction=0.9), 337.5e9))
        45000000000.0
    """
    return np.where(link.across, link.network_bytes_per_s * achieved.network_bandwidth_fraction, collective_bytes_per_s)


@formula(unit="s", source="ring all-reduce, Patarasuk and Yuan 2009; Shoeybi et al. 2019 (arXiv:1909.08053)")
def link_transfer_s(
    reductions: Column, message_bytes: Column, pipeline_parallel: Column, link: LinkUse, speed: LinkSpeed
) -> Column:
    """Transfer time of one message (a token of a sequence, or a whole prompt) over the links.

    Each layer has two all-reduces; in expert layers with data-parallel attention an all-to-all replaces one of them.
    Pipeline stages add point-to-point transfers.

    Parameters:
        reductions: all-reduces per pass.
        message_bytes: activations of the token or prompt between layers, B.
        pipeline_parallel: pipeline stages.
        link: links of the plan.
        speed: achieved link speeds.
    Limits: collectives do not overlap with compute.
    Check: 64 all-reduces of 8 KB over 8 ranks at 337.5 GB/s, us.
        >>> speed = row(collective_bytes_per_s=337.5e9, hop_bytes_per_s=45e9)
        >>> round(float(link_transfer_s(64, 8192, 1, row(linked_ranks=np.array(8)), speed)) * 1e6, 3)
        2.719
    """
    reduced = all_reduce_s(message_bytes, link.linked_ranks, speed.collective_bytes_per_s)
    hops = pipeline_parallel - 1
    return np.where(link.linked_ranks > 1, reductions * reduced, 0.0) + hops * message_bytes / speed.hop_bytes_per_s


@formula(unit="s", source="fitted to benchmark measurements")
def link_latency_s(reductions: Column, pipeline_parallel: Column, link: LinkUse, speed: LinkSpeed) -> Column:
    """Latency of the collectives and pipeline transfers of one step.

    Parameters:
        reductions: all-reduces per pass.
        pipeline_parallel: pipeline stages.
        link: links of the plan.
        speed: achieved link speeds.
    Limits: idle links.
    Check: 64 all-reduces at 8 us and one transfer between stages at 15 us, us.
        >>> speed = row(collective_latency_s=8e-6, hop_latency_s=15e-6)
        >>> round(float(link_latency_s(64, 2, row(linked_ranks=np.array(8)), speed)) * 1e6, 3)
        527.0
    """
    reduced = np.where(link.linked_ranks > 1, reductions * speed.collective_latency_s, 0.0)
    return reduced + (pipeline_parallel - 1) * speed.hop_latency_s


@formula(unit="s", source="ring all-reduce, Patarasuk and Yuan 2009, first inside machines, then between them")
def cross_node_all_reduce_s(
    reductions: Column,
    message_bytes: Column,
    tensor_parallel: Column,
    linked_ranks: Column,
    network_bytes_per_s: Column,
) -> Column:
    """Transfer time of all-reduces over the network, after each machine has reduced its own part.

    Each accelerator sends its part of the sum through its own port.

    Parameters:
        reductions: all-reduces per pass.
        message_bytes: activations of the token or prompt between layers, B.
        tensor_parallel: tensor-parallel ranks.
        linked_ranks: ranks that share a link inside a machine or scale-up domain.
        network_bytes_per_s: network bandwidth of one accelerator, B/s.
    Limits: rings between machines; no overlap with compute.
    Check: a token of 16 KB over two machines of eight, at 45 GB/s each, twice in 80 layers.
        >>> round(one(cross_node_all_reduce_s(col(160), col(16384), col(16), col(8), col(45e9))) * 1e6, 2)  # 2 KB each
        7.28
    """
    machines = tensor_parallel / linked_ranks
    return reductions * 2 * (machines - 1) / machines * message_bytes / linked_ranks / network_bytes_per_s


@formula(unit="s", source="NCCL's tree algorithm for small messages")
def cross_node_latency_s(
    reductions: Column, tensor_parallel: Column, linked_ranks: Column, network_latency_s: Column
) -> Column:
    """Latency of a step's all-reduces between machines, in addition to that inside them.

    Parameters:
        reductions: all-reduces per pass.
        tensor_parallel: tensor-parallel ranks.
        linked_ranks: ranks that share a link inside a machine or scale-up domain.
        network_latency_s: latency of one network hop, s.
    Limits: one value for all hops.
    Check: four machines form a tree of two levels, passed up and down.
        >>> round(one(cross_node_latency_s(col(1), col(32), col(8), col(15e-6))) * 1e6)
        60
    """
    return reductions * 2 * np.log2(tensor_parallel / linked_ranks) * network_latency_s


def link_speed(link: LinkUse, achieved: Achieved) -> LinkSpeed:
    """Achieved link speeds of every plan."""
    latency, rate = collective_latency_s(link, achieved), collective_bytes_per_s(link, achieved)
    hop_s, hop_rate = hop_latency_s(link, achieved, latency), hop_bytes_per_s(link, achieved, rate)
    network_rate = link.network_bytes_per_s * achieved.network_bandwidth_fraction
    return LinkSpeed(latency, rate, hop_s, hop_rate, achieved.network_latency_s, network_rate)


def transfer_and_latency_s(
    reductions: Column,
    message_bytes: Column,
    tensor_parallel: Column,
    pipeline_parallel: Column,
    link: LinkUse,
    speed: LinkSpeed,
) -> tuple[Column, Column]:
    """Transfer time of a message and the latency that does not depend on its size, s.

    Both include the network if tensor-parallel ranks span machines.
    """
    transfer = link_transfer_s(reductions, message_bytes, pipeline_parallel, link, speed)
    latency = link_latency_s(reductions, pipeline_parallel, link, speed)
    if (tensor_parallel > link.linked_ranks).any():
        group = tensor_parallel, link.linked_ranks
        transfer = transfer + cross_node_all_reduce_s(reductions, message_bytes, *group, speed.network_bytes_per_s)
        latency = latency + cross_node_latency_s(reductions, *group, speed.network_latency_s)
    return transfer, latency


@dataclass(frozen=True, slots=True)
class ExpertExchange(Columns):
    """Bytes that one device exchanges per token of its rank and expert layer: dispatch and combine."""

    expert_layers: Column  # expert layers with this exchange; 0 if a rank keeps its tokens
    inside_bytes: Column  # bytes over the link inside a machine or scale-up domain
    across_bytes: Column  # bytes over the network between machines or domains


@formula(unit="ranks", source="independent draws with even routing")
def reached_ranks(stage_accelerators: Column, experts_per_token: float) -> Column:
    """Other ranks (or machines) that hold an expert of one token; a token is sent to each of them once.

    Parameters:
        stage_accelerators: accelerators (or machines) over which the experts of a layer are spread.
        experts_per_token: routed experts that a token uses.
    Limits: experts are routed evenly, without a limit on machines per token.
    Check:
        >>> round(one(reached_ranks(col(32), 8)), 2)  # 31 * (1 - (31/32)^8)
        6.95
    """
    return (stage_accelerators - 1) * (1 - (1 - 1 / stage_accelerators) ** experts_per_token)


@formula(unit="B", source="DeepSeek-V3 (arXiv:2412.19437), section 3.2: low-precision dispatch, 16-bit combine")
def exchanged_bytes(
    reached_ranks: Column,
    hidden_size: float,
    dispatch_bytes: Column,
    combine_bytes: Column,
    tensor_parallel: Column,
    data_parallel: Column,
) -> Column:
    """Bytes of one token in one expert layer, shared by the devices of its rank.

    Parameters:
        reached_ranks: other ranks that the token is sent to.
        hidden_size: elements of a token between layers.
        dispatch_bytes: bytes per element sent to the experts.
        combine_bytes: bytes per element sent back.
        tensor_parallel: devices of a rank.
        data_parallel: data-parallel attention ranks; there is no exchange with one.
    Limits: quantization scales of the dispatched tokens are not counted.
    Check:
        >>> one(exchanged_bytes(col(6.95), 7168, col(1), col(2), col(1), col(32)))
        149452.8
    """
    sent = reached_ranks * hidden_size * (dispatch_bytes + combine_bytes) / tensor_parallel
    return np.where(data_parallel > 1, sent, 0.0)


@formula(unit="1", source="counted: ranks that share no link")
def cross_domain_share(stage_accelerators: Column, ranks_in_domain: Column) -> Column:
    """Share of the other ranks that are outside the scale-up domain or machine.

    Parameters:
        stage_accelerators: accelerators of a stage.
        ranks_in_domain: those within one machine or scale-up domain.
    Limits: experts are routed evenly.
    Check:
        >>> round(one(cross_domain_share(col(32), col(8))), 4)  # 24 of 31
        0.7742
    """
    return (stage_accelerators - ranks_in_domain) / np.maximum(stage_accelerators - 1, 1.0)


@formula(unit="s", source="bytes over achieved link bandwidth; latency is separate")
def exchange_slope_s(exchange: ExpertExchange, link: LinkUse) -> Column:
    """Time to exchange one token in all expert layers; link and network transfer in parallel.

    Parameters:
        exchange: expert exchange of one device.
        link: links of the plan.
    Limits: no overlap with compute; every rank has the same number of tokens.
    Check: 58 layers, 40 KB inside a machine at 450 GB/s and 100 KB at 50 GB/s, of which 0.6 are achieved, us.
        >>> sent = row(expert_layers=58, inside_bytes=40e3, across_bytes=100e3)
        >>> links = row(link_bytes_per_s=450e9, network_bytes_per_s=50e9, exchange_share=0.6)
        >>> round(float(exchange_slope_s(sent, links)) * 1e6, 3)
        193.333
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(exchange.inside_bytes > 0, exchange.inside_bytes / link.link_bytes_per_s, 0.0)
        slower = np.maximum(inside, exchange.across_bytes / link.network_bytes_per_s)
    return exchange.expert_layers * slower / link.exchange_share


@formula(unit="s", source="fitted to benchmark measurements")
def exchange_fixed_s(exchange: ExpertExchange, speed: LinkSpeed) -> Column:
    """Latency of a step's dispatches and combines.

    Parameters:
        exchange: expert exchange of one device.
        speed: achieved link speeds.
    Limits: idle links; latencies are those fitted to other collectives.
    Check: two exchanges in each of 58 layers at 15 us, us.
        >>> speed = row(network_latency_s=15e-6, collective_latency_s=8e-6)
        >>> round(float(exchange_fixed_s(row(expert_layers=58, across_bytes=100e3), speed)) * 1e6)
        1740
    """
    each = np.where(exchange.across_bytes > 0, speed.network_latency_s, speed.collective_latency_s)
    return exchange.expert_layers * 2 * each


def build_expert_exchange(model: ModelArchitecture, plans: Plans, *, forwards: bool = False) -> ExpertExchange:
    """Expert exchange of every plan.

    For decode, a token goes straight to each rank. For prefill (`forwards`), it crosses the network once per machine or
    scale-up domain, and the link forwards it to the ranks there.
    """
    ranks, linked = plans.stage_accelerators, plans.linked_stage_accelerators
    if not (plans.data_parallel > 1).any():
        none = np.zeros(len(plans))
        return ExpertExchange(none, none, none)
    experts, elements = float(model.experts_per_token), float(model.hidden_size)
    formats = plans.dispatch_bytes, plans.combine_bytes
    degrees = plans.tensor_parallel, plans.data_parallel
    sent = exchanged_bytes(reached_ranks(ranks, experts), elements, *formats, *degrees)
    layers = np.where(plans.data_parallel > 1, float(model.moe_layers), 0.0)
    if forwards and (ranks > linked).any():
        with trace_label("to other machines"):
            machines = np.maximum(ranks / linked, 1.0)
            across = exchanged_bytes(reached_ranks(machines, experts), elements, *formats, *degrees)
        return ExpertExchange(layers, np.where(linked > 1, sent, 0.0), across)
    share = cross_domain_share(ranks, linked)
    return ExpertExchange(layers, sent * (1 - share), sent * share)


# Collectives per layer: an all-gather of the queries, one of the softmax log-sums, and a reduce-scatter of the outputs.
# This is the default of vLLM and SGLang (dcp_comm_backend ag_rs).
COLLECTIVES_PER_LAYER = 3.0


@dataclass(frozen=True, slots=True)
class ContextExchange(Columns):
    """Bytes that one device exchanges per token and step, so that each rank attends to its part of a context."""

    layers: Column  # layers with this exchange; 0 if every rank keeps all tokens of its heads
    inside_bytes: Column  # bytes over the link inside a machine or scale-up domain
    across_bytes: Column  # bytes over the network between machines or domains


@formula(unit="B", source="Helix parallelism (arXiv:2507.07120); vllm/v1/attention/ops: all_gather, reduce_scatter")
def context_exchanged_bytes(
    query_elements: float, context_bytes: Column, tensor_parallel: Column, context_parallel: Column
) -> Column:
    """Bytes that one device exchanges per token, in all layers, with the ranks that share its contexts.

    An all-gather distributes the queries; a reduce-scatter returns the outputs of those heads.

    Parameters:
        query_elements: elements of queries and outputs of one token in all layers.
        context_bytes: bytes per exchanged element.
        tensor_parallel: tensor-parallel ranks that split the heads.
        context_parallel: ranks that share the tokens of a sequence's cache.
    Limits: the softmax sums, a few bytes per head, are not counted.
    Check: DeepSeek-R1 on eight ranks: 61 layers, 128 heads, queries of 576 and outputs of 512.
        >>> one(context_exchanged_bytes(61 * 128 * (576 + 512), col(2), col(8), col(8)))
        14866432.0
    """
    return (context_parallel - 1) * query_elements * context_bytes / tensor_parallel


@formula(unit="s", source="bytes over achieved link bandwidth")
def context_slope_s(context: ContextExchange, speed: LinkSpeed) -> Column:
    """Time to exchange one token's queries and outputs; link and network transfer in parallel.

    Parameters:
        context: context exchange of one device.
        speed: achieved link speeds.
    Limits: no overlap with compute.
    Check: 10 MB at 400 GB/s inside a machine, and 2 MB at 40 GB/s over the network, us.
        >>> speed = row(collective_bytes_per_s=400e9, network_bytes_per_s=40e9)
        >>> round(float(context_slope_s(row(inside_bytes=10e6, across_bytes=2e6), speed)) * 1e6, 3)
        50.0
    """
    return np.maximum(
        context.inside_bytes / speed.collective_bytes_per_s, context.across_bytes / speed.network_bytes_per_s
    )


@formula(unit="s", source="fitted to benchmark measurements")
def context_fixed_s(context: ContextExchange, speed: LinkSpeed) -> Column:
    """Latency of a step's all-gathers and reduce-scatters for context parallelism.

    Parameters:
        context: context exchange of one device.
        speed: achieved link speeds.
    Limits: idle links; latencies are those fitted to other collectives.
    Check: three collectives in each of 61 layers at 8 us, us.
        >>> speed = row(network_latency_s=15e-6, collective_latency_s=8e-6)
        >>> round(float(context_fixed_s(row(layers=61, across_bytes=0.0), speed)) * 1e6)
        1464
    """
    return (
        context.layers
        * COLLECTIVES_PER_LAYER
        * np.where(context.across_bytes > 0, speed.network_latency_s, speed.collective_latency_s)
    )


def build_context_exchange(model: ModelArchitecture, plans: Plans) -> ContextExchange:
    """Context exchange of every plan."""
    shared = plans.context_parallel > 1
    if not shared.any():
        none = np.zeros(len(plans))
        return ContextExchange(none, none, none)
    elements = float(sum(g.layers * g.decode_macs for g in model.attention))
    with trace_label("context"):
        sent = context_exchanged_bytes(elements, plans.context_bytes, plans.tensor_parallel, plans.context_parallel)
        across = cross_domain_share(plans.context_parallel, np.minimum(plans.context_parallel, plans.linked_ranks))
    layers = np.where(shared, float(sum(g.layers for g in model.attention)), 0.0)
    return ContextExchange(layers, sent * (1 - across), sent * across)
