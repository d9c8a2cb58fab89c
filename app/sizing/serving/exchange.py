"""Expert parallelism: the all-to-all exchange of tokens with the ranks that hold their experts (dispatch and combine).

It applies where attention is data parallel and the routed experts are spread over all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.communication import LinkSpeed, LinkUse
from app.sizing.serving.plans import Plans


@dataclass(frozen=True, slots=True)
class ExpertExchange(Columns):
    """Bytes that one device exchanges per token of its rank and expert layer: dispatch and combine."""

    expert_layers: Column  # expert layers with this exchange; 0 if a rank keeps its tokens
    inside_bytes: Column  # bytes over the link inside a machine or scale-up domain
    across_bytes: Column  # bytes over the network between machines or domains


@formula(unit="ranks", source="independent draws with even routing")
def reached_ranks(stage_accelerators: Column, experts_per_token: float) -> Column:
    """Other ranks that hold an expert of one token; a token is sent to each of them once.

    Parameters:
        stage_accelerators: accelerators over which the experts of a layer are spread.
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


def build_expert_exchange(model: ModelArchitecture, plans: Plans) -> ExpertExchange:
    """Expert exchange of every plan."""
    ranks, linked = plans.stage_accelerators, plans.linked_stage_accelerators
    if not (plans.data_parallel > 1).any():
        none = np.zeros(len(plans))
        return ExpertExchange(none, none, none)
    sent = exchanged_bytes(
        reached_ranks(ranks, float(model.experts_per_token)),
        float(model.hidden_size),
        plans.dispatch_bytes,
        plans.combine_bytes,
        plans.tensor_parallel,
        plans.data_parallel,
    )
    share = cross_domain_share(ranks, linked)
    layers = np.where(plans.data_parallel > 1, float(model.moe_layers), 0.0)
    return ExpertExchange(layers, sent * (1 - share), sent * share)
