"""Coefficients of every speed: the share of a device's rates that engines achieve, and fixed overheads.

A coefficient is the most specific base row (kernel tables, data sheets of links) times every fitted factor that
applies: factors of its engine, vendor, family and format class, and of pairs of these. A combination without
measurements gets the factors that it shares with measured combinations.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np

from app.sizing.columns import Column, Columns, column_names
from app.sizing.hardware.engines import engine_named
from app.sizing.model.formats import WEIGHT_FORMATS


@dataclass(frozen=True, slots=True)
class Achieved(Columns):
    """Coefficients of serving speed, one entry per row of a table. Fractions refer to the rate of the device or
    link.
    """

    linear_compute_fraction: Column  # matrix multiplications, of the matrix rate
    linear_memory_fraction: Column  # reading weights, of the memory bandwidth
    read_bytes_per_clock: Column  # weights that a multiprocessor requests, bytes per clock cycle
    expert_memory_fraction: Column  # reading routed experts, of the share that dense weights achieve
    roofline_exponent: Column  # sharpness of the knee between memory and compute limits
    prefill_compute_fraction: Column  # matrices of a prompt, of the share that large decode batches achieve
    prefill_expert_fraction: Column  # routed experts of a prompt, of the share that its other matrices achieve
    expert_half_rows: Column  # rows at which the product of an expert reaches half of that rate
    expert_copy_passes: Column  # times that the experts of a layer read or write a copy of a token
    attention_compute_fraction: Column  # attention of a prompt, of the 16-bit matrix rate
    attention_fp8_speedup: Column  # attention of a prompt with an FP8 KV cache, times the rate with a 16-bit one
    attention_half_length_tokens: Column  # tokens at which attention reaches half of its rate
    attention_memory_fraction: Column  # reading the KV cache, of the memory bandwidth
    attention_latency_s: Column  # s per layer
    layer_overhead_s: Column  # s per layer
    moe_layer_overhead_s: Column  # routing and permuting, s per layer of experts
    latent_layer_overhead_s: Column  # s per layer of latent attention (MLA)
    step_overhead_s: Column  # s per decode step
    sequence_overhead_s: Column  # s per sequence of a step
    prefill_layer_overhead_s: Column  # s per layer of a prompt
    prefill_moe_layer_overhead_s: Column  # launching the kernels of the experts of a prompt, s per layer
    request_overhead_s: Column  # request parsing and first response, s per request
    tokenise_token_s: Column  # tokenization by the server, s per prompt token, one request at a time
    stream_token_s: Column  # streaming by the server, s per output token, one token at a time
    scale_up_latency_s: Column  # s per collective
    scale_up_bandwidth_fraction: Column  # of the scale-up link
    pcie_latency_s: Column  # s per collective
    pcie_bandwidth_fraction: Column  # of the PCIe link
    network_latency_s: Column  # s per collective
    network_bandwidth_fraction: Column  # of the network
    sample_compute_fraction: Column  # convolutions of a single pass, of the matrix rate
    sample_linear_fraction: Column  # matrices of a single pass, of the share that large decode batches achieve
    cross_attention_fraction: Column  # reads of a recording's cache by a decoded token, of attention_memory_fraction
    sample_batch_s: Column  # overhead of every batch in addition to its passes, s
    sample_decode_layer_s: Column  # kernel launches and search of a decoded token of a sample, s per layer


@dataclass(frozen=True, slots=True)
class TrainingAchieved(Columns):
    """Coefficients of training speed, one entry per row of a table. Fractions refer to the rate of the device or
    link.
    """

    training_compute_fraction: Column  # matrix multiplications, of the matrix rate
    training_expert_fraction: Column  # routed experts, of the share that dense matrices achieve
    training_attention_fraction: Column  # attention, of the 16-bit matrix rate
    training_elementwise_fraction: Column  # norms, gates, copies and the optimizer, of the memory bandwidth
    training_layer_s: Column  # kernel launches and small kernels of one layer, forward and backward, s
    training_expert_layer_s: Column  # routing and permuting, s per layer of experts
    adapter_layer_s: Column  # small matrices of the adapters, s per layer
    training_step_s: Column  # overhead, s per step
    straggler_share: Column  # share of a step added by waiting for the slowest machine, per doubling of the machines
    tensor_overlap_share: Column  # share of tensor, context and expert traffic hidden by computation
    data_overlap_share: Column  # share of gradient and weight traffic that computation can hide
    expert_imbalance_share: Column  # excess of the busiest rank over the mean, share of the time of an expert layer
    collective_scale_up_fraction: Column  # of the scale-up link
    collective_pcie_fraction: Column  # of the PCIe link
    collective_network_fraction: Column  # of the network
    collective_latency_s: Column  # s per message inside a machine
    collective_network_latency_s: Column  # s per message between machines
    host_optimizer_params_per_s: Column  # parameters/s that the host CPUs of a machine update


@dataclass(frozen=True, slots=True)
class SampleTrainingAchieved(Columns):
    """Coefficients of training on samples: vision, speech and diffusion models."""

    sample_training_fraction: Column  # convolutions and matrix multiplications, of the matrix rate
    sample_elementwise_fraction: Column  # activations written and read, of the memory bandwidth
    sample_grouped_fraction: Column  # activations of depthwise and grouped convolutions, of the memory bandwidth
    sample_operation_s: Column  # kernel launches of one operation, forward and backward, s
    sample_collective_fraction: Column  # of the link that gradients cross
    sample_overlap_share: Column  # share of gradient traffic hidden by computation
    sample_step_s: Column  # overhead, s per step


@dataclass(frozen=True, slots=True)
class TrainingMemoryFactors(Columns):
    """Parts of training memory that a trace does not show."""

    training_context_bytes: Column  # context of the runtime, bytes per device
    training_collective_bytes: Column  # communication buffers, bytes per group of ranks
    training_fragmentation_fraction: Column  # allocator overhead, share of the temporary memory


# Shares of a rate: a factor multiplies their odds, value / (1 - value), so that none exceeds the rate.
SHARES = frozenset(
    name
    for table in (Achieved, TrainingAchieved, SampleTrainingAchieved, TrainingMemoryFactors)
    for name in table.__slots__
    if name.endswith(("_fraction", "_share"))
)


SHARP = 50.0  # exponent of a roofline with a sharp knee


def without_graphs(achieved: Achieved) -> Achieved:
    """Coefficients of engines that launch each layer of a decode step as they launch a layer of a prompt."""
    layer = np.maximum(achieved.layer_overhead_s, achieved.prefill_layer_overhead_s)
    experts = np.maximum(achieved.moe_layer_overhead_s, achieved.prefill_moe_layer_overhead_s)
    return replace(achieved, layer_overhead_s=layer, moe_layer_overhead_s=experts)


def ideal_coefficients(count: int) -> Achieved:
    """Coefficients of `count` rows that reach every rate fully and lose no time: an upper bound for any measurement."""
    whole, none = np.full(count, 1.0), np.zeros(count)
    values = {name: whole if name in SHARES else none for name in Achieved.__slots__}
    best = {"roofline_exponent": SHARP, "read_bytes_per_clock": np.inf, "attention_fp8_speedup": 2.0}
    return Achieved(**values | {name: np.full(count, value) for name, value in best.items()})


# Coefficients that a factor on all times divides or multiplies. The others are shares of one of these.
RATE_SHARES = (
    "linear_compute_fraction",
    "linear_memory_fraction",
    "attention_compute_fraction",
    "attention_memory_fraction",
    "scale_up_bandwidth_fraction",
    "pcie_bandwidth_fraction",
    "network_bandwidth_fraction",
)
OVERHEADS = tuple(name for name in Achieved.__slots__ if name.endswith("_s") and not name.startswith("sample_"))
# Of these, the ones that only prompts use. Attention at decode is limited by reading the cache.
PROMPT_SHARES = ("prefill_compute_fraction", "attention_compute_fraction")
PROMPT_OVERHEADS = (
    "prefill_layer_overhead_s",
    "prefill_moe_layer_overhead_s",
    "request_overhead_s",
    "tokenise_token_s",
)


def with_time_factors(achieved: Achieved, step_time: Column, prefill_time: Column) -> Achieved:
    """Coefficients at which every time of serving token streams takes `step_time` times as long, and that of prompts
    `prefill_time` times as long again. A share may exceed 1: measured times count for more than data sheets.
    """
    values = {name: getattr(achieved, name) for name in column_names(Achieved)}
    values |= {name: values[name] / step_time for name in RATE_SHARES}
    values |= {name: values[name] * step_time for name in OVERHEADS}
    values |= {name: values[name] / prefill_time for name in PROMPT_SHARES}
    values |= {name: values[name] * prefill_time for name in PROMPT_OVERHEADS}
    return Achieved(**values)


# The same for training, and the rate at which the host updates parameters.
TRAINING_RATES = (
    "training_compute_fraction",
    "training_attention_fraction",
    "training_elementwise_fraction",
    "collective_scale_up_fraction",
    "collective_pcie_fraction",
    "collective_network_fraction",
    "host_optimizer_params_per_s",
    "sample_training_fraction",
    "sample_elementwise_fraction",
    "sample_grouped_fraction",
    "sample_collective_fraction",
)
TrainingTable = TypeVar("TrainingTable", TrainingAchieved, SampleTrainingAchieved)


def with_training_time_factor(achieved: TrainingTable, step_time: Column) -> TrainingTable:
    """Coefficients at which every time of a training step takes `step_time` times as long."""
    values = {}
    for name in column_names(type(achieved)):
        value = getattr(achieved, name)
        if len(value):
            value = value / step_time if name in TRAINING_RATES else value
            value = value * step_time if name.endswith("_s") and name not in TRAINING_RATES else value
        values[name] = value
    return replace(achieved, **values)


Number = TypeVar("Number", float, Column)


def apply_factor(name: str, base: Number, factor: Number) -> Number:
    """A coefficient multiplied by a factor. For a share, the factor multiplies its odds.

    Check:
        >>> round(apply_factor("linear_memory_fraction", 0.8, 0.5), 3)  # odds of 4 become 2
        0.667
    """
    if name not in SHARES:
        return base * factor
    odds = base / (1 - base) * factor
    return odds / (1 + odds)


@cache
def format_class(weight_format: str, native: bool) -> str:
    """Format class of a stored format, which selects its coefficients."""
    return WEIGHT_FORMATS[weight_format].format_class(native=native)


def vendor_of(family: str) -> str:
    """Vendor whose software stack a family uses. The name of a family starts with the vendor if it has several
    families.
    """
    return family.split("_", 1)[0]


def kernels_of(family: str) -> str:
    """Origin of the base values of a family: "tabulated" (measured kernel tables, only NVIDIA) or "untabulated"."""
    return "tabulated" if vendor_of(family) == "nvidia" else "untabulated"


class CoefficientTable:
    """Coefficients by family, format class and engine: the most specific base row times its factors."""

    def __init__(self, rows: Iterable[Coefficient], factors: Iterable[Factor] = ()) -> None:
        self.rows = {(r.name, r.family, r.format_class, r.engine): r for r in rows}
        self._general = {  # the rows of names that have no more specific one
            name: self.rows[name, "*", "*", "*"]
            for name, rows in Counter(r.name for r in self.rows.values()).items()
            if rows == 1 and (name, "*", "*", "*") in self.rows
        }
        self._columns: dict[tuple[type[Columns], str, str, str], dict[str, float]] = {}
        self.factors: dict[str, list[Factor]] = defaultdict(list)
        for factor in sorted(
            factors,
            key=lambda f: (f.name, f.runtime, f.engine, f.generation, f.kernels, f.vendor, f.family, f.format_class),
        ):
            self.factors[factor.name].append(factor)
        self._near: dict[tuple[str, str, str], list[Factor]] = {}
        self._of_engine: dict[tuple[str, str], list[Factor]] = {}

    def find_row(self, name: str, *, family: str = "*", format_class: str = "*", engine: str = "*") -> Coefficient:
        """The most specific base row; engine takes precedence over family, family over format class.

        Raises KeyError for a name without any row, which means that the catalog is incomplete.
        """
        if name in self._general:
            return self._general[name]
        for e in (engine, "*"):
            for f in (family, "*"):
                for c in (format_class, "*"):
                    found = self.rows.get((name, f, c, e))
                    if found is not None:
                        return found
        raise KeyError(f"The catalog has no coefficient {name} for {family}, {format_class}, {engine}.")

    def find_value(
        self,
        name: str,
        *,
        family: str = "*",
        format_class: str = "*",
        engine: str = "*",
        generation: str = "today",
        fitted: bool = True,
    ) -> float:
        """Value of the base row times every factor that applies; the base value alone if `fitted` is false."""
        base = self.find_row(name, family=family, format_class=format_class, engine=engine).value
        if not fitted:
            return base
        near = self._applicable_factors(name, engine, family) if name in self.factors else ()
        if generation != "today":
            generation = engine_named(engine).generation_of(name, generation)
        applied = (f.value for f in near if f.generation in ("*", generation) and f.format_class in ("*", format_class))
        return apply_factor(name, base, math.prod(applied))

    def _applicable_factors(self, name: str, engine: str, family: str) -> list[Factor]:
        """Factors of a coefficient that can apply to an engine on a family, in any generation and format class."""
        key = (name, engine, family)
        if key not in self._near:
            at = {"kernels": kernels_of(family), "vendor": vendor_of(family), "family": family}
            self._near[key] = [f for f in self._factors_of_engine(name, engine) if f.applies_to(**at)]
        return self._near[key]

    def _factors_of_engine(self, name: str, engine: str) -> list[Factor]:
        """Factors of a coefficient that can apply to an engine, on any family."""
        key = (name, engine)
        if key not in self._of_engine:
            at = {"runtime": engine_named(engine).runtime, "engine": engine}
            self._of_engine[key] = [f for f in self.factors.get(name, ()) if f.applies_to(**at)]
        return self._of_engine[key]

    def stack_row(self, table: type[Columns], family: str, engine: str, format_class: str) -> dict[str, float]:
        """Every column of a coefficient table for one stack; cached."""
        key = (table, family, engine, format_class)
        known = self._columns.get(key)
        if known is None:
            at = {
                name: self.find_value(name, family=family, engine=engine, format_class=format_class)
                for name in column_names(table)
            }
            known = self._columns[key] = at
        return known


@dataclass(frozen=True, slots=True)
class Coefficient:
    """Base value of one achieved fraction or overhead for a family, format class and engine ("*": any)."""

    name: str
    family: str
    format_class: str
    engine: str
    value: float
    low: float
    high: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Factor:
    """One fitted correction of a coefficient for everything that its keys match ("*": any)."""

    name: str
    runtime: str
    engine: str
    generation: str
    kernels: str
    vendor: str
    family: str
    format_class: str
    value: float
    rows: int
    sources: str

    def applies_to(self, **of: str) -> bool:
        """Whether every given key equals the factor's key or the factor accepts any value."""
        return not [key for key, value in of.items() if getattr(self, key) not in ("*", value)]


RATES = ("fp32", "16bit", "fp8", "int8", "fp4")
