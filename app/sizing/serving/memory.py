"""Device memory of a serving replica, part by part; what does not fit is turned down here first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Codes, Column, Mask
from app.sizing.formula import formula, told_as
from app.sizing.hardware.engines import RULES
from app.sizing.hardware.tables import step_sizes
from app.sizing.model.architecture import ModelArchitecture
from app.sizing.serving.cache import Prefixes, caches_of
from app.sizing.serving.host_weights import HostMemory, OnHost, host_sequences, left_on_accelerators
from app.sizing.serving.measured import Memory, Settings
from app.sizing.serving.plans import Plans
from app.sizing.units import GIB

LOGIT_BYTES = 4  # samplers work in 32 bit
MXFP4_ROW_BLOCK = 256  # elements that rows of MXFP4 experts are padded to
STATIC, FREE = tuple(RULES).index("static"), tuple(RULES).index("free")


@dataclass(frozen=True, slots=True)
class ServingMemory(Memory):
    """Memory of a stream of tokens: the cache gets what weights, workspace and overhead leave."""

    kv_pool_bytes: Column
    cache_bytes_per_sequence: Column  # at the mean final length, per device
    held_bytes_per_sequence: Column  # in the mean while it runs, per device
    longest_sequence_bytes: Column  # at the longest context, per device
    max_sequences: Column  # the engine's own limit
    max_batched_tokens: Column
    prefixes: Prefixes | None = None  # that idle sessions leave behind, where hits on them are counted
    host: HostMemory | None = None  # where part of the weights lies there

    @property
    def fits(self) -> Mask:
        held: Mask = self.needed_bytes <= self.usable_bytes
        return held if self.host is None else held & self.host.fits

    @property
    def unfit(self) -> Column:
        short = self.needed_bytes / np.maximum(self.usable_bytes, 1.0)
        if self.host is not None:
            short = np.maximum(short, self.host.needed_bytes / np.maximum(self.host.room_bytes, 1.0))
        return np.where(self.fits, 0.0, short)


@formula(unit="B", source="start-up logs of engines; readings of drivers")
def capacity_bytes(memory_bytes: Column, memory_is_reported: Mask, assumed: Assumptions) -> Column:
    """Memory an engine sees of a device: a little less than its driver reports, and less than its label.

    Source: start-up logs of vLLM. Limits: what else runs on the device is not counted.
    """
    return memory_bytes * np.where(
        memory_is_reported, assumed.visible_memory_fraction, assumed.unreported_memory_fraction
    )


@formula(unit="1", source="rows of MXFP4 experts are padded to whole blocks of 256")
def padded_share(hidden_size: float) -> float:
    """What MXFP4 experts grow by when they are loaded.

    Source: loaded checkpoints of gpt-oss. Limits: engines that keep rows as they are stored take less.
    Check:
        >>> round(float(padded_share(2880)), 4)  # 2,880 padded to 3,072: 61.1 GiB become 64.4
        0.0667
    """
    padded: float = np.ceil(hidden_size / MXFP4_ROW_BLOCK) * MXFP4_ROW_BLOCK
    return padded / hidden_size - 1


@formula(unit="B", source="counts of the configuration; start-up logs for the load overhead")
def weights_bytes_per_accelerator(
    weights_bytes: Column,
    expert_bytes: Column,
    padding_share: Column | float,
    accelerators_per_replica: Column,
    data_parallel: Column,
    assumed: Assumptions,
) -> Column:
    """Weights of one device, split evenly over the replica; all but routed experts are there once for each
    data-parallel rank.

    Source: counted tensors; start-up logs of vLLM. Limits: layers that are not split evenly leave one device with more.
    Check:
        >>> 131.417 / 8 * 1.005  # Llama-3.1-70B in BF16 over 8 devices, GiB
        16.509260625
    """
    copied = (data_parallel - 1) * (weights_bytes - expert_bytes)
    split: Column = (weights_bytes + expert_bytes * padding_share + copied) / accelerators_per_replica
    return split * assumed.weights_load_overhead


@formula(unit="B", source="counted; start-up profiles of vLLM 0.11 and 0.19 for the copies of the logits")
def activation_bytes(
    model: ModelArchitecture,
    max_batched_tokens: Column,
    max_sequences: Column,
    logits_copies: Column,
    tensor_parallel: Column,
    pipeline_parallel: Column,
    assumed: Assumptions,
) -> Column:
    """Workspace of the largest step: its live tensors, or the copies of the logits that sampling holds, whichever is
    more.

    Source: counted tensors of a layer; activation peaks that vLLM profiles.
    Limits: a pipeline stage needs half, because the embedding and the head lie apart.
    Check:
        >>> round(3.8 * 1024 * 128256 * 4 / 2**30, 2)  # Llama-3.1-8B, 1024 sequences, GiB; measured: 1.89
        1.86
    """
    heads = 2 * model.num_heads + 2 * np.minimum(model.kv_heads, model.num_heads)
    widest = np.maximum(6 * model.mlp_width, 2 * heads * model.head_dim)
    routed = 2 * max_batched_tokens * model.experts_per_token * model.hidden_size
    live: Column = (
        max_batched_tokens * widest / tensor_parallel
        + 4 * max_batched_tokens * model.hidden_size
        + routed / tensor_parallel
    )
    logits = logits_copies * max_sequences * model.vocab_size * LOGIT_BYTES
    stages = np.where(pipeline_parallel > 1, 2.0, 1.0)
    most: Column = np.maximum(assumed.activation_workspace_factor * live, logits)
    return most / stages


@formula(unit="B", source="start-up logs of vLLM")
def overhead_bytes(
    small_engine: Mask, graphs_inside: Mask, stage_accelerators: Column, capacity_bytes: Column, assumed: Assumptions
) -> Column:
    """Runtime, captured graphs and communication buffers of a device.

    Source: start-up logs. Limits: a small device is served by engines that size their context to it.
    """
    engine = np.where(
        small_engine,
        assumed.small_runtime_overhead_gib,
        assumed.runtime_overhead_gib + assumed.graph_overhead_gib * graphs_inside,
    )
    buffers = np.where((stage_accelerators > 1) & ~small_engine, assumed.parallel_overhead_gib, 0.0)
    taken: Column = (engine + buffers) * GIB
    return np.minimum(taken, assumed.overhead_memory_fraction_limit * capacity_bytes)


@formula(unit="1", source="defaults of the engines")
def memory_fraction(unified: Mask, small_engine: Mask, fraction: Column, assumed: Assumptions) -> Column:
    """Share of a device that an engine takes: its own default, less where memory is the system's.

    Source: documentation of the engines. Limits: what an operator sets is asked for as `memory_fraction`.
    """
    return np.where(
        unified,
        assumed.unified_memory_fraction,
        np.where(small_engine, assumed.small_engine_memory_fraction, fraction),
    )


@formula(unit="B", source="sum of the parts")
def fixed_bytes(weights_bytes_per_accelerator: Column, activation_bytes: Column, overhead_bytes: Column) -> Column:
    """What is there before the first token is cached. Source: counted. Limits: none."""
    return weights_bytes_per_accelerator + activation_bytes + overhead_bytes


@formula(unit="B", source="the engine's own rule for its share of a device")
def usable_bytes(
    rule: Codes,
    capacity_bytes: Column,
    memory_fraction: Column,
    activation_bytes: Column,
    overhead_bytes: Column,
    fixed_bytes: Column,
) -> Column:
    """What an engine will take of a device: a share of all of it, of it beside a workspace apart, or of what loading
    left free.

    Source: documentation of vLLM, SGLang and TensorRT-LLM. Limits: one engine on the device, alone.
    """
    whole = capacity_bytes * memory_fraction
    static = np.minimum(whole + activation_bytes + overhead_bytes, capacity_bytes)
    free = np.minimum(fixed_bytes, capacity_bytes) + memory_fraction * np.maximum(capacity_bytes - fixed_bytes, 0.0)
    return np.where(rule == STATIC, static, np.where(rule == FREE, free, whole))


@formula(unit="B", source="engines give the cache what is left")
def kv_pool_bytes(usable_bytes: Column, fixed_bytes: Column) -> Column:
    """KV blocks of a device.

    Source: Kwon et al. 2023 (arXiv:2309.06180). Limits: engines that reserve no pool fill it as sequences grow.
    """
    return np.maximum(usable_bytes - fixed_bytes, 0.0)


@formula(unit="sequences", source="what fits into the pool, up to the engine's own limit")
def sequences(kv_pool_bytes: Column, held_bytes_per_sequence: Column, max_sequences: Column) -> Column:
    """Sequences that run at once: KV blocks are given as a sequence grows, so that in the mean each holds half its
    output; near the limit some lose their room for a while, which costs few prompts.

    Source: Kwon et al. 2023 (arXiv:2309.06180). Limits: a steady state; a burst in step ends at its whole outputs.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(
            1.0,
            np.floor(
                np.minimum(
                    np.where(held_bytes_per_sequence > 0, kv_pool_bytes / held_bytes_per_sequence, np.inf),
                    max_sequences,
                )
            ),
        )


def engine_limits(
    plans: Plans, capacity: Column, assumed: Assumptions, settings: Settings, *, offline: bool
) -> tuple[Column, Column]:
    """Most sequences at once and most tokens of a step: what is set, else the engine's defaults for such a device.

    An engine that is always told how many run at once is given as many slots as are assumed.
    """
    rules = plans.scheduling
    own_tokens, own = step_sizes(rules, capacity, offline=offline)
    most = settings.max_sequences
    if most is None or np.isnan(most).any():
        chosen = np.where(rules.slots, assumed.max_sequences_small_engine, own) if rules.slots.any() else own
        most = chosen if most is None else np.where(np.isnan(most), chosen, most)
    tokens = settings.max_batched_tokens
    return most, own_tokens if tokens is None else tokens


def weights_of(model: ModelArchitecture, plans: Plans, assumed: Assumptions) -> Column:
    """Weights as they lie on the fullest device, padding included."""
    padded: Column | float = 0.0
    if plans.padded_experts.any():
        padded = np.where(plans.padded_experts, padded_share(model.hidden_size), 0.0)
    return weights_bytes_per_accelerator(
        plans.weights_bytes,
        plans.expert_bytes,
        padded,
        plans.accelerators_per_replica,
        plans.data_parallel,
        assumed,
    )


def share_taken(plans: Plans, assumed: Assumptions, settings: Settings) -> Column:
    """Share of a device that an engine takes: what is set, else its own."""
    if settings.memory_fraction is not None:
        return settings.memory_fraction
    return memory_fraction(plans.unified, plans.small_engine, plans.memory_rules.fraction, assumed)


def serving_memory(
    model: ModelArchitecture,
    plans: Plans,
    assumed: Assumptions,
    *,
    final_tokens: float,
    longest_tokens: float,
    output_tokens: float = 0.0,
    output_variation: float = 0.0,
    offline: bool = False,
    settings: Settings | None = None,
    unforeseen_share: Column | None = None,
) -> ServingMemory:
    """Memory of every plan: weights, workspace and overhead first, the cache gets the rest of what the engine takes.

    `unforeseen_share` of a device is allowed for beyond that. `offline`: no server stands before the engine.
    """
    settings = Settings() if settings is None else settings
    rules, small, tp = plans.memory_rules, plans.small_engine, plans.tensor_parallel
    capacity = capacity_bytes(plans.memory_bytes, plans.memory_is_reported, assumed)
    most, tokens = engine_limits(plans, capacity, assumed, settings, offline=offline)
    share = share_taken(plans, assumed, settings)
    weights = weights_of(model, plans, assumed)
    activations = activation_bytes(model, tokens, most, rules.logits_copies, tp, plans.pipeline_parallel, assumed)
    overhead = overhead_bytes(small, rules.graphs_inside, plans.stage_accelerators, capacity, assumed)
    fixed = fixed_bytes(weights, activations, overhead)
    if unforeseen_share is not None:
        fixed = fixed + unforeseen_share * capacity
    usable = usable_bytes(np.where(small, 0, rules.rule), capacity, share, activations, overhead, fixed)
    pool = kv_pool_bytes(usable, fixed)
    final, held, longest = caches_of(model, plans, final_tokens, output_tokens, output_variation, longest_tokens)
    found = ServingMemory(
        weights_bytes=weights,
        activation_bytes=activations,
        overhead_bytes=overhead,
        capacity_bytes=capacity,
        usable_bytes=usable,
        needed_bytes=fixed + longest,
        memory_fraction=share,
        sequences=sequences(pool, held, most),
        kv_pool_bytes=pool,
        cache_bytes_per_sequence=final,
        held_bytes_per_sequence=held,
        longest_sequence_bytes=longest,
        max_sequences=most,
        max_batched_tokens=tokens,
    )
    return found if plans.on_host is None else shared_with_host(found, plans, plans.on_host)


def shared_with_host(found: ServingMemory, plans: Plans, on: OnHost) -> ServingMemory:
    """The same with the host's part of the cache taken out, and the host's memory told beside it."""
    there = on.layers_share * plans.accelerators_per_replica
    host = HostMemory(on.weights_bytes, found.longest_sequence_bytes * there, on.room_bytes)
    with told_as("left to the accelerators"):
        with told_as("at its end"):
            final = left_on_accelerators(found.cache_bytes_per_sequence, on.layers_share)
        with told_as("in the mean"):
            held = left_on_accelerators(found.held_bytes_per_sequence, on.layers_share)
        with told_as("longest context"):
            longest = left_on_accelerators(found.longest_sequence_bytes, on.layers_share)
        fitting = sequences(found.kv_pool_bytes, held, found.max_sequences)
    beside = host_sequences(on.room_bytes, on.weights_bytes, found.held_bytes_per_sequence * there)
    return replace(
        found,
        needed_bytes=found.needed_bytes - (found.longest_sequence_bytes - longest),
        sequences=np.minimum(fitting, beside),
        cache_bytes_per_sequence=final,
        held_bytes_per_sequence=held,
        longest_sequence_bytes=longest,
        host=host,
    )
