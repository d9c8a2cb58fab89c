"""Decode with context parallelism: each rank attends to its part of a cache, and the ranks merge the results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.columns import Column, Columns
from app.sizing.formula import formula, trace_label
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.communication import LinkSpeed
from app.sizing.serving.exchange import cross_domain_share
from app.sizing.serving.plans import Plans

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
