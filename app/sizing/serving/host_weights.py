"""Weights in host memory (CPU offload): the placement, and the time that the host takes for its part of a step or
prompt.

During decode, engines that support it compute with these weights in place, on the host's processors, alternating with
the accelerators: part of the layers with their cache, or the routed experts only. No weights move over the PCIe slot.
The host reads only the experts that a batch activates. Only for prompts do engines move the weights over the slot, if
that is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, column_names
from app.sizing.formula import formula, trace_label
from app.sizing.model.architecture import ModelArchitecture


@dataclass(frozen=True, slots=True)
class HostOffload(Columns):
    """Part of each plan's weights that is in host memory, and the host resources of a replica; zeros if there is
    none.
    """

    weights_share: Column  # share of all weights
    layers_share: Column  # share of the layers with their cache; routed experts follow `experts_share`
    experts_share: Column  # share of the routed experts
    weights_bytes: Column  # weights in host memory, B
    dense_bytes: Column  # those that every step reads, B
    routed_bytes: Column  # routed experts among them, B
    room_bytes: Column  # host memory that weights and cache may fill, B
    bytes_per_s: Column  # achieved rate of reading weights
    socket_bytes_per_s: Column  # data-sheet memory bandwidth
    flops_per_s: Column  # compute rate
    link_bytes_per_s: Column  # bandwidth from the host to the accelerators

    @classmethod
    def without_offload(cls, count: int) -> HostOffload:
        """Placement with no weights in host memory; the rates are 1, so that zero bytes take no time."""
        empty = cls(*(np.zeros(count) for _ in column_names(cls)))
        for rate in (empty.bytes_per_s, empty.socket_bytes_per_s, empty.flops_per_s, empty.link_bytes_per_s):
            rate[:] = 1.0
        return empty

    @property
    def distinct_placements(self) -> tuple[int, Codes]:
        """Number of distinct placements and the placement index of each plan; 0 if no weights are in host memory."""
        codes, offloaded = np.zeros(len(self), dtype=np.int64), np.flatnonzero(self.weights_share > 0)
        if not len(offloaded):
            return 1, codes
        rates = (self.socket_bytes_per_s, self.flops_per_s, self.link_bytes_per_s)
        columns = (self.weights_share, self.room_bytes, *rates)
        order = [np.unique(column[offloaded], return_inverse=True) for column in columns]
        code = np.zeros(len(offloaded), dtype=np.int64)
        for values, index in order:
            code = np.unique(code * len(values) + index, return_inverse=True)[1]
        codes[offloaded] = 1 + code
        return int(codes.max()) + 1, codes

    def at_full_rate(self) -> HostOffload:
        """The same placement on an ideal host: full memory bandwidth and no compute time."""
        return replace(self, bytes_per_s=self.socket_bytes_per_s, flops_per_s=np.full(len(self), np.inf))


def host_part_label(on: HostOffload | None) -> str:
    """Trace label for values that include the host's part, or an empty label if no plan uses host memory."""
    return "" if on is None else "including the host part"


@dataclass(frozen=True, slots=True)
class HostMemory(Columns):
    """Host memory that a replica needs."""

    weights_bytes: Column  # weights in host memory, B
    cache_bytes: Column  # cache of one sequence of the longest context, B
    room_bytes: Column  # host memory that weights and cache may fill, B

    @property
    def needed_bytes(self) -> Column:
        return self.weights_bytes + self.cache_bytes

    @property
    def fits(self) -> Mask:
        return self.needed_bytes <= self.room_bytes


@dataclass(frozen=True, slots=True)
class HostStep(Columns):
    """Host times for its part of a decode step, in seconds."""

    host_multiply_slope_s: Column  # time to multiply one token, s
    host_dense_s: Column  # time to read the layers, s
    host_experts_s: Column  # time to read all routed experts on the host, s
    host_cache_slope_s: Column  # time to read one sequence's cache, s


@dataclass(frozen=True, slots=True)
class HostPrompt(Columns):
    """Times for the host's part of a prompt, in seconds: computed on the host, or moved to the accelerators."""

    flops: Column  # matrix FLOPs of one prompt that the host computes
    host_multiply_s: Column  # time to multiply one prompt on the host, s
    host_dense_s: Column  # time to read the layers on the host, s
    host_experts_s: Column  # time to read all routed experts on the host, s
    moved_dense_s: Column  # time to move the layers to the accelerators, s
    moved_experts_s: Column  # time to move all routed experts to the accelerators, s
    moved_multiply_s: Column  # time to multiply one prompt with moved weights, s

    @property
    def has_host_part(self) -> Mask:
        """Whether the host computes any part of the model."""
        return self.flops > 0


@formula(unit="1", source="documentation of llama.cpp (--n-cpu-moe, -ot), Ollama (num_gpu) and KTransformers")
def expert_share_on_host(
    weights_share: Column | float, weights_bytes: Column, expert_bytes: Column, experts_first: Mask
) -> Column:
    """Share of the routed experts in host memory. Experts go before layers if the engine can separate them.

    Parameters:
        weights_share: share of all weights in host memory.
        weights_bytes: weights of the model, B.
        expert_bytes: routed experts among them, B.
        experts_first: whether the engine can separate experts from layers.
    Limits: shares are not rounded to whole layers.
    Check:
        >>> float(expert_share_on_host(0.45, 100e9, 90e9, True))  # half of 90 GB of experts
        0.5
    """
    first = np.minimum(1.0, weights_share * weights_bytes / np.maximum(expert_bytes, 1.0))
    return np.where(expert_bytes > 0, np.where(experts_first, first, weights_share), 0.0)


@formula(unit="1", source="documentation of llama.cpp (-ngl) and Ollama")
def layer_share_on_host(
    weights_share: Column | float, weights_bytes: Column, expert_bytes: Column, experts_first: Mask
) -> Column:
    """Share of the layers in host memory, their routed experts not counted.

    Parameters:
        weights_share: share of all weights in host memory.
        weights_bytes: weights of the model, B.
        expert_bytes: routed experts among them, B.
        experts_first: whether the engine can separate experts from layers.
    Limits: embedding tables and the output head are counted as parts of the layers.
    Check:
        >>> float(layer_share_on_host(0.95, 100e9, 90e9, True))  # all experts, and half of the rest
        0.5
    """
    beyond = weights_share * weights_bytes - np.where(experts_first, expert_bytes, 0.0)
    of = np.maximum(weights_bytes - np.where(experts_first, expert_bytes, 0.0), 1.0)
    return np.minimum(1.0, np.maximum(0.0, beyond) / of)


@formula(unit="B", source="sum of the parts")
def host_weights_bytes(
    experts_share: Column, layers_share: Column, weights_bytes: Column, expert_bytes: Column
) -> Column:
    """Weights of a replica in host memory.

    Parameters:
        experts_share: share of the routed experts in host memory.
        layers_share: share of the layers in host memory.
        weights_bytes: weights of the model, B.
        expert_bytes: routed experts among them, B.
    Check:
        >>> host_weights_bytes(1.0, 0.5, 100e9, 90e9)
        95000000000.0
    """
    return experts_share * expert_bytes + layers_share * (weights_bytes - expert_bytes)


@formula(unit="same", source="definition")
def remaining_on_accelerators(whole: Column, share_on_host: Column) -> Column:
    """Bytes or FLOPs that remain on the accelerators.

    Parameters:
        whole: bytes or FLOPs of the whole model.
        share_on_host: share that the host holds or computes.
    Check:
        >>> remaining_on_accelerators(80e9, 0.25)
        60000000000.0
    """
    return whole * (1.0 - share_on_host)


@formula(unit="1", source="counted from the model configuration")
def host_flops_share(model: ModelArchitecture, experts_share: Column, layers_share: Column) -> Column:
    """Share of a token's matrix FLOPs that the host computes.

    Parameters:
        model: model architecture.
        experts_share: share of the routed experts in host memory.
        layers_share: share of the layers in host memory.
    Limits: the output head is counted as part of the layers.
    Check: all routed experts of Mixtral 8x7B, two of eight for each token.
        >>> round(float(host_flops_share(registered("mistralai/Mixtral-8x7B-v0.1"), 1.0, 0.0)), 3)
        0.884
    """
    routed = model.routed_matmul_params
    whole = model.matmul_params
    return (experts_share * routed + layers_share * (whole - routed)) / whole


@formula(unit="s", source="roofline model (Williams et al. 2009)")
def host_work_s(amount: Column, per_s: Column) -> Column:
    """Time of an amount of host work: bytes read or moved, or FLOPs computed.

    Parameters:
        amount: B or FLOP.
        per_s: rate, B/s or FLOP/s.
    Check: 40 GB at 80 GB/s.
        >>> host_work_s(40e9, 80e9)
        0.5
    """
    return amount / per_s


@formula(unit="s", source="roofline model (Williams et al. 2009); llama.cpp computes layer by layer")
def host_pass_s(
    host: HostStep, step_tokens: Column, active_expert_share: Column, micro_batch: Column, batch: Column
) -> Column:
    """Time of the host's part of one pass over a batch (CPU offload): reading or multiplying, whichever takes longer,
    then its cache.

    The host computes with its weights in place, so no weights move over the PCIe slot.

    Parameters:
        host: host times for its part of a step.
        step_tokens: tokens of a micro-batch.
        active_expert_share: share of the routed experts that the tokens activate.
        micro_batch: sequences that one stage computes at a time.
        batch: sequences in the batch.
    Limits: transfers between host and accelerators take no time.
    Check: 10 GB read at 100 GB/s, for one sequence.
        >>> times = HostStep(*(col(v) for v in (0.001, 0.1, 0.0, 0.0)))
        >>> one(host_pass_s(times, col(1), col(1), col(1), col(1)))
        0.1
    """
    read = host.host_dense_s + host.host_experts_s * active_expert_share
    weights = np.maximum(step_tokens * host.host_multiply_slope_s, read)
    return np.maximum(1.0, batch / micro_batch) * (weights + micro_batch * host.host_cache_slope_s)


@formula(unit="s", source="llama.cpp moves weights to the accelerators for large batches")
def host_prompt_s(host: HostPrompt, prompts_per_step: Column, active_expert_share: Column) -> Column:
    """Time of the host's part of one prefill step: computed on the host or moved over the slot, whichever is faster.

    Parameters:
        host: times for the host's part of a prompt.
        prompts_per_step: prompts in the step.
        active_expert_share: share of the routed experts that the tokens activate.
    Limits: attention of prompts stays on the accelerators.
    Check: one prompt, 2 s on the host, or 0.5 s to move its weights and 0.1 s to multiply.
        >>> times = HostPrompt(*(col(v) for v in (0.0, 2.0, 0.2, 0.0, 0.5, 0.0, 0.1)))
        >>> one(host_prompt_s(times, col(1), col(1)))
        0.6
    """
    read = host.host_dense_s + host.host_experts_s * active_expert_share
    there = np.maximum(prompts_per_step * host.host_multiply_s, read)
    moved = host.moved_dense_s + host.moved_experts_s * active_expert_share
    return np.minimum(there, moved + prompts_per_step * host.moved_multiply_s)


@formula(unit="s", source="llama.cpp and KTransformers compute layer by layer")
def with_host_part_s(accelerators_s: Column, host_s: Column) -> Column:
    """Time of the accelerators' part followed by the host's part.

    Parameters:
        accelerators_s: time of the accelerators' part, s.
        host_s: time of the host's part, s.
    Limits: the two parts do not overlap.
    Check:
        >>> with_host_part_s(0.25, 0.5)
        0.75
    """
    return accelerators_s + host_s


@formula(unit="sequences", source="counted")
def host_sequences(room_bytes: Column, weights_bytes: Column, cache_bytes_on_host: Column) -> Column:
    """Sequences whose cache fits into host memory next to the weights; infinite if the host keeps no cache.

    Parameters:
        room_bytes: host memory for weights and cache, B.
        weights_bytes: weights in host memory, B.
        cache_bytes_on_host: mean cache of a running sequence in host memory, B.
    Limits: at least one sequence is counted; `HostMemory.fits` rejects plans without room for it.
    Check: 32 GB left after 96 GB of weights, at 0.5 GB per sequence.
        >>> float(host_sequences(128e9, 96e9, 0.5e9))
        64.0
    """
    held = np.floor((room_bytes - weights_bytes) / np.maximum(cache_bytes_on_host, 1.0))
    return np.where(cache_bytes_on_host > 0, np.maximum(1.0, held), np.inf)


def traced_host_work_s(label: str, amount: Column, per_s: Column) -> Column:
    """Time of an amount of host work, recorded under its own trace label, s."""
    with trace_label(label):
        return host_work_s(amount, per_s)


def host_step(model: ModelArchitecture, on: HostOffload, cache_read_bytes: Column) -> HostStep:
    """Host times for its part of a step; `cache_read_bytes` is what all layers read per sequence."""
    share = host_flops_share(model, on.experts_share, on.layers_share)
    return HostStep(
        host_multiply_slope_s=traced_host_work_s(
            "matrices, per token", 2 * model.matmul_params * share, on.flops_per_s
        ),
        host_dense_s=traced_host_work_s("reading layers", on.dense_bytes, on.bytes_per_s),
        host_experts_s=traced_host_work_s("reading experts", on.routed_bytes, on.bytes_per_s),
        host_cache_slope_s=traced_host_work_s("reading the cache", cache_read_bytes * on.layers_share, on.bytes_per_s),
    )


def host_prompt(on: HostOffload, flops: Column) -> HostPrompt:
    """Times for the host's part of a prompt; `flops` are those that the host computes.

    The time to multiply moved weights is left at zero: it depends on the accelerators.
    """
    return HostPrompt(
        flops=flops,
        host_multiply_s=traced_host_work_s("matrices, per prompt", flops, on.flops_per_s),
        host_dense_s=traced_host_work_s("reading layers", on.dense_bytes, on.bytes_per_s),
        host_experts_s=traced_host_work_s("reading experts", on.routed_bytes, on.bytes_per_s),
        moved_dense_s=traced_host_work_s("moving layers", on.dense_bytes, on.link_bytes_per_s),
        moved_experts_s=traced_host_work_s("moving experts", on.routed_bytes, on.link_bytes_per_s),
        moved_multiply_s=np.zeros(len(on)),
    )
