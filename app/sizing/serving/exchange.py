"""Tokens sent to the ranks of their experts and back, where attention is data parallel and experts lie on all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.communication import LinkSpeed, LinkUse
from app.sizing.serving.plans import Plans


@dataclass(frozen=True, slots=True)
class Exchange(Columns):
    """What one device sends, and gets, of one token of its rank in a layer of experts: dispatch and combine."""

    expert_layers: Column  # that exchange; none where a rank keeps its tokens
    inside_bytes: Column  # over the link inside a machine or scale-up domain
    across_bytes: Column  # over the network between them


@formula(unit="ranks", source="independent draws with even routing")
def reached_ranks(stage_accelerators: Column, experts_per_token: float) -> Column:
    """Other ranks that hold an expert of one token; a token goes to each of them once.

    Source: counted. Limits: experts are routed evenly, not to few machines first.
    Check:
        >>> round(one(reached_ranks(col(32), 8)), 2)  # 31 * (1 - (31/32)^8)
        6.95
    """
    return (stage_accelerators - 1) * (1 - (1 - 1 / stage_accelerators) ** experts_per_token)


@formula(unit="B", source="DeepSeek-V3 (arXiv:2412.19437), 3.2: dispatch in few bits, combine in 16")
def exchanged_bytes(
    reached_ranks: Column,
    hidden_size: float,
    dispatch_bytes: Column,
    combine_bytes: Column,
    tensor_parallel: Column,
    data_parallel: Column,
) -> Column:
    """Bytes of one token in one layer, shared by the devices of its rank.

    Source: counted. Limits: scales of what is sent in few bits are left out.
    Check:
        >>> one(exchanged_bytes(col(6.95), 7168, col(1), col(2), col(1), col(32)))
        149452.8
    """
    sent = reached_ranks * hidden_size * (dispatch_bytes + combine_bytes) / tensor_parallel
    return np.where(data_parallel > 1, sent, 0.0)


@formula(unit="1", source="ranks that share no link")
def across_share(stage_accelerators: Column, together: Column) -> Column:
    """Share of the other ranks that lie in other machines, outside the scale-up domain.

    Source: counted. Limits: experts are routed evenly.
    Check:
        >>> round(one(across_share(col(32), col(8))), 4)  # 24 of 31
        0.7742
    """
    return (stage_accelerators - together) / np.maximum(stage_accelerators - 1, 1.0)


@formula(unit="s", source="latency apart, bytes over what the links achieve")
def exchange_slope_s(exchange: Exchange, link: LinkUse) -> Column:
    """Exchanging one token in all layers: links and network carry their shares side by side.

    Source: counted. Limits: nothing is computed meanwhile; every rank has as many tokens.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(exchange.inside_bytes > 0, exchange.inside_bytes / link.link_bytes_per_s, 0.0)
        slower = np.maximum(inside, exchange.across_bytes / link.network_bytes_per_s)
    return exchange.expert_layers * slower / link.exchange_share


@formula(unit="s", source="fitted to measurements")
def exchange_fixed_s(exchange: Exchange, speed: LinkSpeed) -> Column:
    """Latency of a step's dispatches and combines. Source: calibration of other transfers. Limits: idle links."""
    each = np.where(exchange.across_bytes > 0, speed.network_latency_s, speed.collective_latency_s)
    return exchange.expert_layers * 2 * each


def exchange_of(model: ModelArchitecture, plans: Plans) -> Exchange:
    """What every plan exchanges."""
    ranks, together = plans.stage_accelerators, plans.together
    if not (plans.data_parallel > 1).any():
        none = np.zeros(len(plans))
        return Exchange(none, none, none)
    sent = exchanged_bytes(
        reached_ranks(ranks, float(model.experts_per_token)),
        float(model.hidden_size),
        plans.dispatch_bytes,
        plans.combine_bytes,
        plans.tensor_parallel,
        plans.data_parallel,
    )
    share = across_share(ranks, together)
    layers = np.where(plans.data_parallel > 1, float(model.moe_layers), 0.0)
    return Exchange(layers, sent * (1 - share), sent * share)
