"""Decode over a cache whose tokens lie on several ranks: each attends to its own, and they put the parts together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, told_as
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.communication import LinkSpeed
from app.sizing.serving.exchange import across_share
from app.sizing.serving.plans import Plans

# Of a layer: queries are gathered, then the logarithms of sums, then outputs are added up and scattered. What vLLM and
# SGLang do unless told otherwise (dcp_comm_backend ag_rs).
COLLECTIVES = 3.0


@dataclass(frozen=True, slots=True)
class Context(Columns):
    """What one device exchanges of a sequence's token in a step, so that each rank attends to its part of a context."""

    layers: Column  # that do so; none where every rank keeps all tokens of its heads
    inside_bytes: Column  # over the link inside a machine or scale-up domain
    across_bytes: Column  # over the network between them


@formula(unit="B", source="Helix parallelism (arXiv:2507.07120); vllm/v1/attention/ops: all_gather, reduce_scatter")
def context_exchanged_bytes(
    query_elements: float, context_bytes: Column, tensor_parallel: Column, context_parallel: Column
) -> Column:
    """Queries that one device gets of the ranks it shares contexts with, and outputs of these heads that it sends back,
    of one token in all layers.

    Source: counted. Limits: sums of a few bytes a head are left out.
    Check: DeepSeek-R1 on eight ranks: 61 layers, 128 heads, queries of 576 and outputs of 512.
        >>> one(context_exchanged_bytes(61 * 128 * (576 + 512), col(2), col(8), col(8)))
        14866432.0
    """
    return (context_parallel - 1) * query_elements * context_bytes / tensor_parallel


@formula(unit="s", source="bytes over what the links achieve")
def context_slope_s(context: Context, speed: LinkSpeed) -> Column:
    """Exchanging one token's queries and outputs: links and network carry their shares side by side.

    Source: counted. Limits: nothing is computed meanwhile.
    """
    return np.maximum(
        context.inside_bytes / speed.collective_bytes_per_s, context.across_bytes / speed.network_bytes_per_s
    )


@formula(unit="s", source="fitted to measurements")
def context_fixed_s(context: Context, speed: LinkSpeed) -> Column:
    """Latency of a step's gathers and scatters. Source: calibration of other transfers. Limits: idle links."""
    return (
        context.layers
        * COLLECTIVES
        * np.where(context.across_bytes > 0, speed.network_latency_s, speed.collective_latency_s)
    )


def context_of(model: ModelArchitecture, plans: Plans) -> Context:
    """What every plan exchanges."""
    shared = plans.context_parallel > 1
    if not shared.any():
        none = np.zeros(len(plans))
        return Context(none, none, none)
    elements = float(sum(g.layers * g.decode_macs for g in model.attention))
    with told_as("context"):
        sent = context_exchanged_bytes(elements, plans.context_bytes, plans.tensor_parallel, plans.context_parallel)
        across = across_share(plans.context_parallel, np.minimum(plans.context_parallel, plans.linked_ranks))
    layers = np.where(shared, float(sum(g.layers for g in model.attention)), 0.0)
    return Context(layers, sent * (1 - across), sent * across)
