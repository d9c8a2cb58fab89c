"""Device memory of a serving replica, part by part; what does not fit is turned down here first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Columns, Mask
from app.sizing.market import Market
from app.sizing.model import ModelArchitecture
from app.sizing.plan import SMALL_ENGINES, Plans
from app.sizing.units import GIB

# From this size on engines default to larger steps and more sequences (vLLM's threshold).
LARGE_DEVICE_BYTES = 70 * GIB


@dataclass(frozen=True, slots=True)
class ServingMemory(Columns):
    """Bytes on the fullest device of a replica. The parts sum to `total_bytes`."""

    weights_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    kv_pool_bytes: Column
    capacity_bytes: Column
    memory_fraction: Column
    cache_bytes_per_sequence: Column  # at the mean final length, per device
    longest_sequence_bytes: Column  # at the longest context, per device
    max_sequences: Column
    max_batched_tokens: Column

    @property
    def usable_bytes(self) -> Column:
        return self.capacity_bytes * self.memory_fraction

    @property
    def fixed_bytes(self) -> Column:
        """What is there before the first token is cached."""
        return self.weights_bytes + self.activation_bytes + self.overhead_bytes

    @property
    def total_bytes(self) -> Column:
        return self.fixed_bytes + self.kv_pool_bytes

    @property
    def needed_bytes(self) -> Column:
        """Least usable memory this plan runs in: fixed parts and one sequence of the longest context."""
        return self.fixed_bytes + self.longest_sequence_bytes

    @property
    def fits(self) -> Mask:
        return self.needed_bytes <= self.usable_bytes

    @property
    def sequences(self) -> Column:
        """Sequences of the mean final length that run at once."""
        with np.errstate(divide="ignore", invalid="ignore"):
            by_memory = np.where(self.cache_bytes_per_sequence > 0, self.kv_pool_bytes / self.cache_bytes_per_sequence, np.inf)
        return np.maximum(1.0, np.floor(np.minimum(by_memory, self.max_sequences)))


def small_engine(plans: Plans, market: Market) -> Mask:
    """Rows whose engine keeps a small runtime and stops gaining at a few slots."""
    return np.isin(plans.s.engine, [market.engines.index(e) for e in SMALL_ENGINES if e in market.engines])


def memory_fraction(plans: Plans, market: Market, assumed: Assumptions) -> Column:
    """Share of the device an engine may take: less where the system lives in the same memory."""
    soc = np.array([a.kind == "soc" for a in market.accelerators])[plans.accelerator]
    return np.where(soc, assumed.unified_memory_fraction, assumed.memory_fraction)


def weights_per_device_bytes(weights_bytes: Column, devices: Column, assumed: Assumptions) -> Column:
    """Weights of one device, split evenly over the replica.

    Check: Llama-3.1-70B in BF16 over 8 devices is 131.417 / 8 * 1.02 = 16.76 GiB.
    """
    return weights_bytes / devices * assumed.weights_load_overhead


def activation_bytes(
    model: ModelArchitecture, batched_tokens: Column, sequences: Column, tensor_parallel: Column, assumed: Assumptions
) -> Column:
    """Workspace of the largest step: MLP or attention intermediates, residual stream and logits.

    Limits: engines profile it; measured values lie between 0.8 and 4 GiB at 8192 tokens.
    Check: Llama-3.1-8B, 8192 tokens, 256 sequences, one device: 1.5 * (0.656 + 0.125 + 0.122) = 1.35 GiB.
    """
    h, d = model.hidden_size, model.head_dim
    mlp = 6 * model.mlp_width
    attention = 2 * (2 * model.num_heads + 2 * min(model.kv_heads, model.num_heads)) * d
    live = batched_tokens * max(mlp, attention) / tensor_parallel
    residual = 4 * batched_tokens * h
    logits = sequences * model.vocab_size * 4 / tensor_parallel
    dispatch = 2 * batched_tokens * model.experts_per_token * h / tensor_parallel
    return assumed.activation_workspace_factor * (live + residual + logits + dispatch)


def cache_bytes(model: ModelArchitecture, context_tokens: float, plans: Plans) -> Column:
    """Cache of one sequence on one device: heads split over tensor-parallel ranks, layers over stages."""
    tp, pp = plans.tensor_parallel, plans.pipeline_parallel
    total = np.zeros(len(plans))
    for g in model.attention:
        heads = np.minimum(float(g.kv_heads), tp)
        total += g.layers * g.held_elements(context_tokens) * plans.kv_element_bytes / (heads * pp)
    return total + model.state_bytes_per_sequence / (tp * pp)


def serving_memory(
    model: ModelArchitecture,
    plans: Plans,
    market: Market,
    assumed: Assumptions,
    *,
    final_tokens: float,
    longest_tokens: float,
    max_batch: Column | None = None,
    max_batched_tokens: Column | None = None,
    fraction: Column | None = None,
) -> ServingMemory:
    """Memory of every plan: weights, workspace and overhead first, the cache gets the rest."""
    small = small_engine(plans, market)
    tp = plans.tensor_parallel
    large = plans.c.m.memory_bytes >= LARGE_DEVICE_BYTES
    sequences = np.where(large, assumed.max_sequences, assumed.max_sequences_small_device)
    sequences = np.where(small, assumed.max_sequences_small_engine, sequences)
    if max_batch is not None:
        sequences = max_batch
    chunk = np.where(large & ~small, assumed.max_batched_tokens, assumed.max_batched_tokens_small_device)
    if max_batched_tokens is not None:
        chunk = max_batched_tokens
    share = memory_fraction(plans, market, assumed)
    if fraction is not None:
        share = fraction
    runtime = np.where(small, assumed.small_runtime_overhead_gib, assumed.runtime_overhead_gib)
    overhead = runtime + np.where((tp > 1) & ~small, assumed.parallel_overhead_gib, 0.0)
    # A device under 8 GiB is served by engines that size their context to it.
    overhead = np.minimum(overhead * GIB, 0.12 * plans.c.m.memory_bytes)
    weights = weights_per_device_bytes(plans.weights_bytes, plans.accelerators_per_replica, assumed)
    activations = activation_bytes(model, chunk, sequences, tp, assumed)
    pool = plans.c.m.memory_bytes * share - weights - activations - overhead
    return ServingMemory(
        weights_bytes=weights,
        activation_bytes=activations,
        overhead_bytes=overhead,
        kv_pool_bytes=np.maximum(pool, 0.0),
        capacity_bytes=plans.c.m.memory_bytes,
        memory_fraction=share,
        cache_bytes_per_sequence=cache_bytes(model, final_tokens, plans),
        longest_sequence_bytes=cache_bytes(model, longest_tokens, plans),
        max_sequences=sequences,
        max_batched_tokens=chunk,
    )
