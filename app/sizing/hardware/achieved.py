"""What engines achieve of a device's rates, and the fixed times they add: the coefficients of every speed.

A coefficient is the most specific base row (kernel tables, data sheets of links) times every fitted
factor that applies: of its engine, vendor, family, format class, and of their pairs. A combination
nobody measured gets the factors of what it shares with measured ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from app.sizing.columns import Column, Columns, names_of
from app.sizing.hardware.engines import engine_named
from app.sizing.model.formats import WEIGHT_FORMATS


@dataclass(frozen=True, slots=True)
class Achieved(Columns):
    """Coefficients of speed, one entry per row of a table. Fractions are of the device's or link's own rate."""

    linear_compute_fraction: Column  # matrices, of the matrix rate
    linear_memory_fraction: Column  # reading weights, of the bandwidth
    expert_memory_fraction: Column  # reading routed experts, of what dense weights achieve
    roofline_exponent: Column
    prefill_compute_fraction: Column  # matrices of a prompt, of what large decode batches achieve
    prefill_expert_fraction: Column  # routed experts of a prompt, of what its other matrices achieve
    attention_compute_fraction: Column
    attention_half_length_tokens: Column
    attention_memory_fraction: Column
    attention_latency_s: Column  # per layer
    layer_overhead_s: Column
    moe_layer_overhead_s: Column  # routing and permuting, per layer of experts
    latent_layer_overhead_s: Column  # per layer of latent attention
    step_overhead_s: Column
    sequence_overhead_s: Column
    prefill_layer_overhead_s: Column
    request_overhead_s: Column  # ingest and first response
    tokenise_token_s: Column  # of a server, per prompt token, one request after another
    stream_token_s: Column  # of a server, per token it hands to its clients, one after another
    scale_up_latency_s: Column  # per collective
    scale_up_bandwidth_fraction: Column
    pcie_latency_s: Column
    pcie_bandwidth_fraction: Column
    network_latency_s: Column
    network_bandwidth_fraction: Column
    sample_compute_fraction: Column  # convolutions of a single pass, of the matrix rate
    sample_linear_fraction: Column  # its matrices, of what large decode batches achieve
    sample_batch_s: Column  # of every batch, beside its passes


@dataclass(frozen=True, slots=True)
class TrainingAchieved(Columns):
    """Coefficients of training speed, one entry per row of a table. Fractions are of the device's or link's rate."""

    training_compute_fraction: Column  # matrices, of the matrix rate
    training_expert_fraction: Column  # routed experts, of what dense matrices achieve
    training_attention_fraction: Column  # attention, of the 16-bit matrix rate
    training_elementwise_fraction: Column  # norms, gates, copies and the optimizer, of the memory's bandwidth
    training_layer_s: Column  # launching and small kernels of one layer, forward and backward
    training_expert_layer_s: Column  # routing and permuting, per layer of experts
    adapter_layer_s: Column  # the adapters' own small matrices, per layer
    training_step_s: Column
    straggler_share: Column  # of a step, what waiting for the slowest machine adds with every doubling of machines
    tensor_overlap_share: Column  # of tensor, context and expert traffic, what computation hides
    data_overlap_share: Column  # of gradients and weights on their way, what computation may hide
    expert_imbalance_share: Column  # of an expert layer's time, what the busiest rank takes beyond the mean
    collective_scale_up_fraction: Column
    collective_pcie_fraction: Column
    collective_network_fraction: Column
    collective_latency_s: Column  # per message inside a machine
    collective_network_latency_s: Column
    host_optimizer_params_per_s: Column  # that the processors of a machine update


@dataclass(frozen=True, slots=True)
class SampleTrainingAchieved(Columns):
    """Coefficients of training on samples: images, speech, pictures to paint."""

    sample_training_fraction: Column  # convolutions and matrices, of the matrix rate
    sample_elementwise_fraction: Column  # activations written and read, of the memory's bandwidth
    sample_grouped_fraction: Column  # the same, by convolutions that keep channels or groups of them apart
    sample_operation_s: Column  # launching a kernel of forward and those of its backward
    sample_collective_fraction: Column  # of whichever link gradients cross
    sample_overlap_share: Column
    sample_step_s: Column


@dataclass(frozen=True, slots=True)
class TrainingMemoryFactors(Columns):
    """What no trace can know of training memory."""

    training_context_bytes: Column
    training_collective_bytes: Column  # of one group of ranks
    training_fragmentation_fraction: Column  # of what comes and goes, kept by the allocator beyond it


# Shares of a rate: a factor multiplies their odds, value / (1 - value), so nothing ever exceeds its rate.
SHARES = frozenset(
    name
    for table in (Achieved, TrainingAchieved, SampleTrainingAchieved, TrainingMemoryFactors)
    for name in table.__slots__
    if name.endswith(("_fraction", "_share"))
)


SHARP = 50.0  # exponent at which a roofline has its knee


def ideal(count: int) -> Achieved:
    """Every rate fully achieved and no time lost: what no measurement can beat."""
    whole, none = np.full(count, 1.0), np.zeros(count)
    values = {name: whole if name in SHARES else none for name in Achieved.__slots__}
    return Achieved(**values | {"roofline_exponent": np.full(count, SHARP)})


Number = TypeVar("Number", float, Column)


def moved(name: str, base: Number, factor: Number) -> Number:
    """A coefficient times a factor: of the odds where it is a share, of the value otherwise.

    Check:
        >>> round(moved("linear_memory_fraction", 0.8, 0.5), 3)  # odds of 4 become 2
        0.667
    """
    if name not in SHARES:
        return base * factor
    odds = base / (1 - base) * factor
    return odds / (1 + odds)


def format_class(weight_format: str, native: bool) -> str:
    """Which coefficients a stored format computes with."""
    return WEIGHT_FORMATS[weight_format].format_class(native=native)


def vendor_of(family: str) -> str:
    """The maker whose software stack a family shares; families are named vendor first where a vendor has several."""
    return family.split("_", 1)[0]


def kernels_of(family: str) -> str:
    """Whether base values of a family come from measured kernel tables: so far one vendor's."""
    return "tabulated" if vendor_of(family) == "nvidia" else "untabulated"


class CoefficientTable:
    """Looks a coefficient up by family, format class and engine: the most specific base row, times its factors."""

    def __init__(self, rows: Iterable[Coefficient], factors: Iterable[Factor] = ()) -> None:
        self.rows = {(r.name, r.family, r.format_class, r.engine): r for r in rows}
        self._columns: dict[tuple[type[Columns], str, str, str], dict[str, float]] = {}
        self.factors: dict[str, list[Factor]] = defaultdict(list)
        for factor in sorted(
            factors,
            key=lambda f: (f.name, f.runtime, f.engine, f.generation, f.kernels, f.vendor, f.family, f.format_class),
        ):
            self.factors[factor.name].append(factor)
        self._near: dict[tuple[str, str, str], list[Factor]] = {}

    def row(self, name: str, *, family: str = "*", format_class: str = "*", engine: str = "*") -> Coefficient:
        """Engine before family before format; a missing name is a broken catalogue, so KeyError."""
        for e in (engine, "*"):
            for f in (family, "*"):
                for c in (format_class, "*"):
                    found = self.rows.get((name, f, c, e))
                    if found is not None:
                        return found
        raise KeyError(f"the catalogue has no coefficient {name} for {family}, {format_class}, {engine}")

    def value(
        self,
        name: str,
        *,
        family: str = "*",
        format_class: str = "*",
        engine: str = "*",
        generation: str = "today",
        fitted: bool = True,
    ) -> float:
        """The base row's value, times every factor that applies unless only the base is wanted."""
        base = self.row(name, family=family, format_class=format_class, engine=engine).value
        if not fitted:
            return base
        at = {"generation": generation, "format_class": format_class}
        applied = [f.value for f in self._of(name, engine, family) if f.applies(**at)]
        return moved(name, base, math.prod(applied, start=1.0))

    def _of(self, name: str, engine: str, family: str) -> list[Factor]:
        """Factors of a coefficient that an engine on a family gets in some generation and format."""
        key = (name, engine, family)
        if key not in self._near:
            at = {
                "runtime": engine_named(engine).runtime,
                "engine": engine,
                "kernels": kernels_of(family),
                "vendor": vendor_of(family),
                "family": family,
            }
            self._near[key] = [f for f in self.factors.get(name, ()) if f.applies(**at)]
        return self._near[key]

    def row_of(self, table: type[Columns], family: str, engine: str, format_class: str) -> dict[str, float]:
        """Every column of a coefficient table for one stack, worked out once."""
        key = (table, family, engine, format_class)
        known = self._columns.get(key)
        if known is None:
            at = {
                name: self.value(name, family=family, engine=engine, format_class=format_class)
                for name in names_of(table)
            }
            known = self._columns[key] = at
        return known


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One achieved fraction or overhead, for a family, a format class and an engine ('*': any)."""

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
    """One fitted correction of a coefficient, for everything its keys name ('*': any)."""

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

    def applies(self, **of: str) -> bool:
        """Whether every key this factor names agrees, of those given."""
        return not [key for key, value in of.items() if getattr(self, key) not in ("*", value)]


RATES = ("fp32", "16bit", "fp8", "int8", "fp4")
