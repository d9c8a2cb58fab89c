"""Device memory of a serving replica, part by part; what does not fit is turned down here first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Columns, Mask
from app.sizing.hardware.engines import RULES, engine_named
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Market
from app.sizing.units import GIB

# From this size on engines default to larger steps and more sequences (vLLM's threshold; it leaves the A100 out).
LARGE_DEVICE_BYTES = 70 * GIB


@dataclass(frozen=True, slots=True)
class ServingMemory(Columns):
    """Bytes on the fullest device of a replica. The parts sum to `total_bytes`."""

    weights_bytes: Column
    activation_bytes: Column
    overhead_bytes: Column
    kv_pool_bytes: Column
    capacity_bytes: Column
    usable_bytes: Column  # what the engine will take: the parts before the cache, and the cache
    rule: Codes  # by which it takes that, an index into RULES
    memory_fraction: Column
    cache_bytes_per_sequence: Column  # at the mean final length, per device
    held_bytes_per_sequence: Column  # in the mean over a request's life, or reserved for it
    longest_sequence_bytes: Column  # at the longest context, per device
    max_sequences: Column
    max_batched_tokens: Column

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
        """Sequences that run at once: pages are given as a sequence grows, so that in the mean each holds half its
        output.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            by_memory = np.where(
                self.held_bytes_per_sequence > 0, self.kv_pool_bytes / self.held_bytes_per_sequence, np.inf
            )
        return np.maximum(1.0, np.floor(np.minimum(by_memory, self.max_sequences)))


def visible_bytes(plans: Plans, market: Market, assumed: Assumptions) -> Column:
    """Memory an engine sees of a device: a little less than its driver reports, and less than its label."""
    reported = np.array([a.memory_is_reported for a in market.accelerators])[plans.accelerator]
    return plans.memory_bytes * np.where(reported, assumed.visible_memory_fraction, assumed.unreported_memory_fraction)


def weights_per_device_bytes(weights_bytes: Column, devices: Column, assumed: Assumptions) -> Column:
    """Weights of one device, split evenly over the replica.

    Check: Llama-3.1-70B in BF16 over 8 devices is 131.417 / 8 * 1.005 = 16.51 GiB.
    """
    return weights_bytes / devices * assumed.weights_load_overhead


def padded_share(hidden_size: int) -> float:
    """What MXFP4 experts grow by when they are loaded: their rows are padded to whole blocks of 256.

    Check: gpt-oss has rows of 2,880, padded to 3,072: 6.7 %, so that 61.1 GiB become 64.4.
    """
    return -(-hidden_size // 256) * 256 / hidden_size - 1


def activation_bytes(
    model: ModelArchitecture,
    batched_tokens: Column,
    sequences: Column,
    logits_copies: Column,
    tensor_parallel: Column,
    pipeline_parallel: Column,
    assumed: Assumptions,
) -> Column:
    """Workspace of the largest step: its live tensors, or the copies of the logits that sampling holds, whichever is
    more.

    Limits: engines profile it; a pipeline stage needs half, because the embedding and the head lie apart.
    Check: Llama-3.1-8B, 8192 tokens, 1024 sequences: 3.8 * 1024 * 128256 * 4 = 1.86 GiB (measured: 1.89).
    """
    h, d, tp = model.hidden_size, model.head_dim, tensor_parallel
    mlp = 6 * model.mlp_width
    attention = 2 * (2 * model.num_heads + 2 * min(model.kv_heads, model.num_heads)) * d
    live = (
        batched_tokens * max(mlp, attention) / tp
        + 4 * batched_tokens * h
        + 2 * batched_tokens * model.experts_per_token * h / tp
    )
    logits = logits_copies * sequences * model.vocab_size * 4
    stages = np.where(pipeline_parallel > 1, 2.0, 1.0)
    return np.maximum(assumed.activation_workspace_factor * live, logits) / stages


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
    output_tokens: float = 0.0,
    max_batch: Column | None = None,
    max_batched_tokens: Column | None = None,
    fraction: Column | None = None,
    engine_version: str | None = None,
) -> ServingMemory:
    """Memory of every plan: weights, workspace and overhead first, the cache gets the rest of what the engine takes."""
    small = plans.small_engine
    tp, capacity = plans.tensor_parallel, visible_bytes(plans, market, assumed)
    rules = [engine_named(e).memory_at(engine_version) for e in market.engines]

    def rule(name: str) -> Column:
        return np.array([float(getattr(r, name)) for r in rules])[plans.engine]

    ampere = np.array([a.family == "nvidia_ampere" for a in market.accelerators])[plans.accelerator]
    large = (capacity >= LARGE_DEVICE_BYTES) & ~ampere
    sequences = np.where(large, assumed.max_sequences, assumed.max_sequences_small_device)
    own = np.array([r.sequences or 0.0 for r in rules])[plans.engine]
    sequences = np.where(small, assumed.max_sequences_small_engine, np.where(own > 0, own, sequences))
    if max_batch is not None:
        sequences = max_batch
    chunk = np.where(large, assumed.max_batched_tokens, assumed.max_batched_tokens_small_device)
    chunk = np.where(small, assumed.max_batched_tokens_small_engine, chunk)
    if max_batched_tokens is not None:
        chunk = max_batched_tokens
    shared = market.columns.unified[plans.accelerator]
    share = np.where(
        shared, assumed.unified_memory_fraction, np.where(small, assumed.small_engine_memory_fraction, rule("fraction"))
    )
    if fraction is not None:
        share = fraction
    runtime = np.where(
        small,
        assumed.small_runtime_overhead_gib,
        assumed.runtime_overhead_gib + assumed.graph_overhead_gib * rule("graphs_inside"),
    )
    overhead = runtime + np.where((tp > 1) & ~small, assumed.parallel_overhead_gib, 0.0)
    # A device under 8 GiB is served by engines that size their context to it.
    overhead = np.minimum(overhead * GIB, 0.12 * capacity)
    padded = plans.expert_bytes * (
        padded_share(model.hidden_size) * (plans.weight_format == market.format_index["mxfp4"])
    )
    weights = weights_per_device_bytes(plans.weights_bytes + padded, plans.accelerators_per_replica, assumed)
    activations = activation_bytes(model, chunk, sequences, rule("logits_copies"), tp, plans.pipeline_parallel, assumed)
    fixed = weights + activations + overhead
    chosen = np.where(small, 0, np.array([list(RULES).index(r.fraction_of) for r in rules])[plans.engine])
    usable = np.choose(
        chosen,
        [
            capacity * share,
            np.minimum(capacity * share + activations + overhead, capacity),
            fixed + share * np.maximum(capacity - fixed, 0.0),
        ],
    )
    final = cache_bytes(model, final_tokens, plans)
    return ServingMemory(
        weights_bytes=weights,
        activation_bytes=activations,
        overhead_bytes=overhead,
        kv_pool_bytes=np.maximum(usable - fixed, 0.0),
        capacity_bytes=capacity,
        usable_bytes=usable,
        rule=chosen,
        memory_fraction=share,
        cache_bytes_per_sequence=final,
        held_bytes_per_sequence=np.where(
            rule("reserves") > 0, final, cache_bytes(model, final_tokens - output_tokens / 2, plans)
        ),
        longest_sequence_bytes=cache_bytes(model, longest_tokens, plans),
        max_sequences=sequences,
        max_batched_tokens=chunk,
    )
