"""Weights in the host's memory: what lies where, and what the host takes for its part of a step or a prompt.

Engines that can do it compute what lies there on the host's processors, one after another with the accelerators: part
of the layers, with their cache, or the routed experts alone. Of experts only those that a batch touches are read. For
prompts they move weights over the slot instead, where that is quicker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.sizing.columns import Codes, Column, Columns, Mask, names_of
from app.sizing.formula import formula, told_as
from app.sizing.model.architecture import ModelArchitecture


@dataclass(frozen=True, slots=True)
class OnHost(Columns):
    """Of every plan what lies in its host's memory, and what the host gives a replica; zeros where nothing does."""

    weights_share: Column  # of all weights
    layers_share: Column  # of whole layers, their cache with them; of the routed experts only as `experts_share` says
    experts_share: Column  # of the routed experts
    weights_bytes: Column
    dense_bytes: Column  # of them, what every step reads
    routed_bytes: Column  # of them, routed experts
    room_bytes: Column  # of its memory, that weights and cache may fill
    bytes_per_s: Column  # that weights are read at
    socket_bytes_per_s: Column  # the same on paper
    flops_per_s: Column
    link_bytes_per_s: Column  # from there to the accelerators

    @classmethod
    def none(cls, count: int) -> OnHost:
        """Nothing; rates are such that nothing takes no time."""
        found = cls(*(np.zeros(count) for _ in names_of(cls)))
        for rate in (found.bytes_per_s, found.socket_bytes_per_s, found.flops_per_s, found.link_bytes_per_s):
            rate[:] = 1.0
        return found

    @property
    def kinds(self) -> tuple[int, Codes]:
        """How many kinds of it there are, and which each plan has; 0 where nothing lies there."""
        found, away = np.zeros(len(self), dtype=np.int64), np.flatnonzero(self.weights_share > 0)
        if not len(away):
            return 1, found
        told = (self.weights_share, self.room_bytes, self.socket_bytes_per_s, self.flops_per_s, self.link_bytes_per_s)
        order = [np.unique(column[away], return_inverse=True) for column in told]
        code = np.zeros(len(away), dtype=np.int64)
        for values, which in order:
            code = np.unique(code * len(values) + which, return_inverse=True)[1]
        found[away] = 1 + code
        return int(found.max()) + 1, found

    def at_best(self) -> OnHost:
        """The same as no host can beat: its memory at full rate, and nothing to compute."""
        return replace(self, bytes_per_s=self.socket_bytes_per_s, flops_per_s=np.full(len(self), np.inf))


def undivided(on: OnHost | None) -> str:
    """What lines carry that count the host's part too, where anything may lie there."""
    return "" if on is None else "with the host's part"


@dataclass(frozen=True, slots=True)
class HostMemory(Columns):
    """What a replica takes of its host's memory."""

    weights_bytes: Column
    cache_bytes: Column  # of one sequence of the longest context
    room_bytes: Column

    @property
    def needed_bytes(self) -> Column:
        return self.weights_bytes + self.cache_bytes

    @property
    def fits(self) -> Mask:
        return self.needed_bytes <= self.room_bytes


@dataclass(frozen=True, slots=True)
class HostStep(Columns):
    """Seconds that a host takes for its part of a step."""

    host_multiply_slope_s: Column  # of one token
    host_dense_s: Column
    host_experts_s: Column  # all that lie there
    host_cache_slope_s: Column  # of one sequence


@dataclass(frozen=True, slots=True)
class HostPrompt(Columns):
    """Seconds that a host's part of a prompt takes: there, or moved to the accelerators."""

    flops: Column  # of one prompt
    host_multiply_s: Column  # of one prompt
    host_dense_s: Column
    host_experts_s: Column
    moved_dense_s: Column
    moved_experts_s: Column
    moved_multiply_s: Column  # of one prompt

    @property
    def present(self) -> Mask:
        """Where a host has any part."""
        return self.flops > 0


@formula(unit="1", source="documentation of llama.cpp, Ollama and KTransformers")
def experts_on_host(
    weights_share: Column | float, weights_bytes: Column, expert_bytes: Column, experts_first: Mask
) -> Column:
    """Share of the routed experts in the host's memory: before any layer where an engine can tell them apart.

    Source: llama.cpp's --n-cpu-moe and -ot; Ollama's num_gpu counts whole layers. Limits: no rounding to layers.
    Check:
        >>> float(experts_on_host(0.45, 100e9, 90e9, True))  # half of 90 GB of experts
        0.5
    """
    first = np.minimum(1.0, weights_share * weights_bytes / np.maximum(expert_bytes, 1.0))
    return np.where(expert_bytes > 0, np.where(experts_first, first, weights_share), 0.0)


@formula(unit="1", source="documentation of llama.cpp and Ollama")
def layers_on_host(
    weights_share: Column | float, weights_bytes: Column, expert_bytes: Column, experts_first: Mask
) -> Column:
    """Share of the layers in the host's memory, their routed experts left out.

    Source: llama.cpp's -ngl. Limits: tables and the head are taken for part of the layers.
    Check:
        >>> float(layers_on_host(0.95, 100e9, 90e9, True))  # all experts, and half of the rest
        0.5
    """
    beyond = weights_share * weights_bytes - np.where(experts_first, expert_bytes, 0.0)
    of = np.maximum(weights_bytes - np.where(experts_first, expert_bytes, 0.0), 1.0)
    return np.minimum(1.0, np.maximum(0.0, beyond) / of)


@formula(unit="B", source="sum of the parts")
def host_weights_bytes(
    experts_share: Column, layers_share: Column, weights_bytes: Column, expert_bytes: Column
) -> Column:
    """Weights of a replica in its host's memory.

    Source: counted. Limits: none.
    Check:
        >>> host_weights_bytes(1.0, 0.5, 100e9, 90e9)
        95000000000.0
    """
    return experts_share * expert_bytes + layers_share * (weights_bytes - expert_bytes)


@formula(unit="same", source="what lies with the host is not on the accelerators")
def left_on_accelerators(whole: Column, share_on_host: Column) -> Column:
    """Bytes or FLOPs that stay with the accelerators. Source: counted. Limits: none."""
    return whole * (1.0 - share_on_host)


@formula(unit="1", source="counts of the configuration")
def host_flops_share(model: ModelArchitecture, experts_share: Column, layers_share: Column) -> Column:
    """Share of a token's matrix FLOPs that the host does.

    Source: counted. Limits: the head is taken for part of the layers.
    Check: all routed experts of Mixtral 8x7B, two of eight for each token.
        >>> round(float(host_flops_share(registered("mistralai/Mixtral-8x7B-v0.1"), 1.0, 0.0)), 3)
        0.884
    """
    routed = model.routed_matmul_params
    whole = model.matmul_params
    return (experts_share * routed + layers_share * (whole - routed)) / whole


@formula(unit="s", source="roofline")
def on_host_s(amount: Column, per_s: Column) -> Column:
    """Bytes that a host reads or FLOPs that it computes, over its rate. Source: Williams et al. 2009. Limits: none."""
    return amount / per_s


@formula(unit="s", source="the host's part follows the accelerators', once for every micro-batch")
def host_pass_s(
    host: HostStep, step_tokens: Column, touched_experts: Column, micro_batch: Column, batch: Column
) -> Column:
    """The host's part of one pass over a batch: reading or multiplying, whichever takes longer, then its cache.

    Source: Williams et al. 2009; llama.cpp computes layer by layer. Limits: hand-overs between the two take no time.
    Check: 10 GB read at 100 GB/s, for one sequence.
        >>> alone = HostStep(*(col(v) for v in (0.001, 0.1, 0.0, 0.0)))
        >>> one(host_pass_s(alone, col(1), col(1), col(1), col(1)))
        0.1
    """
    read = host.host_dense_s + host.host_experts_s * touched_experts
    weights = np.maximum(step_tokens * host.host_multiply_slope_s, read)
    return np.maximum(1.0, batch / micro_batch) * (weights + micro_batch * host.host_cache_slope_s)


@formula(unit="s", source="computed where it lies, or moved over the slot, whichever is quicker")
def host_prompt_s(host: HostPrompt, prompts_per_step: Column, touched_experts: Column) -> Column:
    """The host's part of one engine step of prompts.

    Source: llama.cpp moves weights for large batches. Limits: attention of prompts stays with the accelerators.
    Check: one prompt, 2 s on the host, or 0.5 s to move its weights and 0.1 s to multiply.
        >>> told = HostPrompt(*(col(v) for v in (0.0, 2.0, 0.2, 0.0, 0.5, 0.0, 0.1)))
        >>> one(host_prompt_s(told, col(1), col(1)))
        0.6
    """
    read = host.host_dense_s + host.host_experts_s * touched_experts
    there = np.maximum(prompts_per_step * host.host_multiply_s, read)
    moved = host.moved_dense_s + host.moved_experts_s * touched_experts
    return np.minimum(there, moved + prompts_per_step * host.moved_multiply_s)


@formula(unit="s", source="one after another")
def beside_host_s(accelerators_s: Column, host_s: Column) -> Column:
    """Seconds of both parts. Source: llama.cpp and KTransformers compute layer by layer. Limits: no overlap."""
    return accelerators_s + host_s


@formula(unit="sequences", source="what fits beside the weights in the host's memory")
def host_sequences(room_bytes: Column, weights_bytes: Column, cache_bytes_on_host: Column) -> Column:
    """Sequences whose part of the cache the host holds. Source: counted. Limits: at least one."""
    held = np.floor((room_bytes - weights_bytes) / np.maximum(cache_bytes_on_host, 1.0))
    return np.where(cache_bytes_on_host > 0, np.maximum(1.0, held), np.inf)


def taken_s(what: str, amount: Column, per_s: Column) -> Column:
    """What an amount takes, under a line of its own."""
    with told_as(what):
        return on_host_s(amount, per_s)


def host_step(model: ModelArchitecture, on: OnHost, cache_read_bytes: Column) -> HostStep:
    """What a host takes for its part of a step; `cache_read_bytes` is what all layers read of one sequence."""
    share = host_flops_share(model, on.experts_share, on.layers_share)
    return HostStep(
        host_multiply_slope_s=taken_s("a token multiplied", 2 * model.matmul_params * share, on.flops_per_s),
        host_dense_s=taken_s("layers read", on.dense_bytes, on.bytes_per_s),
        host_experts_s=taken_s("experts read", on.routed_bytes, on.bytes_per_s),
        host_cache_slope_s=taken_s("cache read", cache_read_bytes * on.layers_share, on.bytes_per_s),
    )


def host_prompt(on: OnHost, flops: Column) -> HostPrompt:
    """What a host takes for its part of a prompt of so many FLOPs there; what multiplying takes where they are moved is
    the accelerators' to say.
    """
    return HostPrompt(
        flops=flops,
        host_multiply_s=taken_s("a prompt multiplied", flops, on.flops_per_s),
        host_dense_s=taken_s("layers read", on.dense_bytes, on.bytes_per_s),
        host_experts_s=taken_s("experts read", on.routed_bytes, on.bytes_per_s),
        moved_dense_s=taken_s("layers moved", on.dense_bytes, on.link_bytes_per_s),
        moved_experts_s=taken_s("experts moved", on.routed_bytes, on.link_bytes_per_s),
        moved_multiply_s=np.zeros(len(on)),
    )
