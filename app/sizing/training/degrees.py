"""Legal data-parallel degrees of a layout, and lower bounds of its time and cost at any of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import SECONDS_PER_HOUR, Codes, Column, Mask
from app.sizing.decisions.cost import usd_total
from app.sizing.decisions.machines import required_connection
from app.sizing.decisions.ranking import Measures
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingMachines, TrainingPlans
from app.sizing.training.recipes import recipe_of
from app.sizing.training.step import MicroBatchTime
from app.sizing.workload import TrainingWorkload

Entry = TypeVar("Entry", bound=np.generic)

# The grid of a search: divisors of the global batch (a sample if there are many) and sizes between them.
LARGEST_DIVISOR = 65536
LARGEST_CLUSTER = 131072  # accelerators
MAX_DIVISORS = 48
SIZES_PER_OCTAVE = 4


def is_divisor(divisor: Column, number: Column) -> Mask:
    """Whether each divisor divides its whole number; division and floor cost a quarter of a remainder."""
    quotient = number / divisor
    result: Mask = quotient == np.floor(quotient)
    return result


@lru_cache(maxsize=256)
def batch_divisors(batch: int) -> Column:
    """Divisors of a global batch, ascending, at most `MAX_DIVISORS` of them."""
    numbers = np.arange(1, min(batch, LARGEST_DIVISOR) + 1)
    divisors: Column = numbers[batch % numbers == 0].astype(np.float64)
    if len(divisors) > MAX_DIVISORS:
        divisors = divisors[np.unique(np.geomspace(1, len(divisors), MAX_DIVISORS).astype(int) - 1)]
    divisors.flags.writeable = False
    return divisors


@lru_cache(maxsize=256)
def search_degrees(batch: int, most: float) -> Column:
    """Data-parallel degrees that a search evaluates: divisors of the global batch and sizes between them, up to a
    limit.
    """
    octaves = 2.0 ** np.arange(np.floor(np.log2(LARGEST_DIVISOR)) + 1)
    intermediate = np.outer(octaves, 1 + np.arange(SIZES_PER_OCTAVE) / SIZES_PER_OCTAVE)
    sizes = intermediate[(intermediate <= min(most, LARGEST_DIVISOR)) & (intermediate == np.floor(intermediate))]
    degrees: Column = np.union1d(batch_divisors(batch), sizes)
    degrees.flags.writeable = False
    return degrees


def _align_rows(values: NDArray[Entry], like: Column) -> NDArray[Entry]:
    """Reshape one value per row so that it broadcasts against `like`: one number per row, or one row of options."""
    return values[(slice(None),) + (None,) * (like.ndim - 1)]


def is_legal_degree(counts: Counts, plans: TrainingPlans, degrees: Column) -> Mask:
    """Whether each row may use a data-parallel degree (one per row, or a row of options).

    Whole micro-batches must make up a batch near the requested one. Models that process samples may fill the last
    micro-batch in part.
    """
    micro = _align_rows(plans.micro_batch_sequences, degrees)
    even: Mask = degrees * micro <= counts.global_batch
    if not counts.in_samples:
        batch = nearest_step_batch(counts.global_batch, degrees * micro)
        even = np.abs(batch / counts.global_batch - 1) <= counts.near_batch_share
    return even & supports_degree(counts, plans, degrees)


def nearest_step_batch(requested: float, shares: Column) -> Column:
    """Global batch nearest to the requested one that is a whole multiple of `shares`."""
    nearest: Column = np.maximum(1.0, np.floor(requested / shares + 0.5)) * shares
    return nearest


def supports_degree(counts: Counts, plans: TrainingPlans, degrees: Column) -> Mask:
    """Whether the framework supports each data-parallel degree and experts spread evenly over its ranks."""
    even: Mask = np.ones(degrees.shape, dtype=bool)
    single = plans.stack.single_accelerator
    if single.any():
        even = even & (~_align_rows(single, degrees) | (degrees == 1))
    if counts.is_moe:
        ranks = _align_rows(plans.tensor_parallel * plans.context_parallel, degrees)
        even = even & is_divisor(_align_rows(plans.expert_parallel, degrees), ranks * degrees)
    return even


def degree_for_accelerators(counts: Counts, plans: TrainingPlans, accelerators: Column) -> tuple[Column, Mask]:
    """Return (data-parallel degree that uses the given accelerators, whether each row may use that degree).

    `accelerators` holds one number per row, or a row of options. The distance of the resulting batch from the
    requested one is not checked.
    """
    degree = accelerators / _align_rows(plans.ranks, accelerators)
    whole = np.maximum(1.0, np.floor(degree))
    return degree, (degree == whole) & supports_degree(counts, plans, whole)


def fills_machines(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators (one number per row, or a row of options) fill whole machines beyond the first machine."""
    count = _align_rows(plans.accelerators_per_node, accelerators)
    result: Mask = (accelerators <= count) | is_divisor(count, accelerators)
    return result


def has_interconnect(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators share a machine or scale-up domain, or have a known network between their machines."""
    near: Mask = accelerators <= _align_rows(plans.machine.scale_up_accelerators, accelerators)
    return near | ~np.isnan(_align_rows(plans.node.network_bytes_per_s, accelerators))


CUBE_CHIPS = 64  # 4 x 4 x 4 chips, of which larger slices of a 3D torus are made
LARGEST_2D_TORUS = 1024  # 32 x 32 chips of v3; larger domains are 3D


def forms_slice(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators (one number per row, or a row of options) are a slice that is rented, if slices are.

    Slices have 1, 2, 4, 8 ... chips; those of a 3D torus, above 64 chips, any number of cubes. More chips than a torus
    has are several whole ones.
    Source: docs.cloud.google.com/tpu, the topologies of v4, v5e, v5p and v6e.
    """
    torus = _align_rows(plans.machine.torus, accelerators)
    domain = _align_rows(plans.machine.scale_up_accelerators, accelerators)
    cubes = (domain > LARGEST_2D_TORUS) & (accelerators % CUBE_CHIPS == 0)
    sold = (np.exp2(np.rint(np.log2(accelerators))) == accelerators) | cubes
    return ~torus | np.where(accelerators <= domain, sold, is_divisor(domain, accelerators))


def forms_cluster(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators form a cluster of whole, networked machines, or a slice of a torus.

    Inference-class machines are not built into training clusters, so they pass only up to one machine.
    """
    one_machine = accelerators <= _align_rows(plans.accelerators_per_node, accelerators)
    cluster = one_machine | _align_rows(plans.machine.training_class, accelerators)
    whole = fills_machines(plans, accelerators) & forms_slice(plans, accelerators)
    result: Mask = whole & has_interconnect(plans, accelerators) & cluster
    return result


def is_well_connected(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators (one number per row, or a row of options) use the network no more than they must.

    They share a scale-up domain where an affordable machine of their type holds them all in one.
    """
    largest = _align_rows(plans.machine.largest_scale_up, accelerators)
    required = np.minimum(required_connection(accelerators, largest), accelerators)
    connected: Mask = _align_rows(plans.machine.scale_up_accelerators, accelerators) >= required
    return connected


@dataclass(frozen=True, slots=True)
class LegalDegrees:
    """Legal data-parallel degrees of each row, ascending. Rows with equal options share one list."""

    options: Column  # degrees of every list, padded with infinity
    list_lengths: Codes  # number of degrees in each list
    row_lists: Codes  # list of each row

    def degrees_per_row(self) -> Codes:
        return self.list_lengths[self.row_lists]

    def degree_at(self, rows: Codes, place: Codes) -> Column:
        return self.options[self.row_lists[rows], place]


def legal_degrees(counts: Counts, plans: TrainingPlans) -> LegalDegrees:
    """Return the legal data-parallel degrees of each row.

    Rows with machines of the same shape and the same split of a batch are evaluated once.
    """
    example, list_of_row = group_rows(
        plans.machine.shape,
        plans.ranks,
        plans.micro_batch_sequences,
        plans.tensor_parallel,
        plans.context_parallel,
        plans.expert_parallel,
        plans.stack.single_accelerator,
    )
    examples = plans.take(example)
    reach = counts.global_batch * (1 + (0.0 if counts.in_samples else counts.near_batch_share))
    divisors = search_degrees(int(counts.global_batch), reach)
    options = np.broadcast_to(divisors, (len(examples), len(divisors)))
    accelerators = examples.ranks[:, None] * options
    allowed = is_legal_degree(counts, examples, options) & forms_cluster(examples, accelerators)
    allowed &= is_well_connected(examples, accelerators) & (accelerators <= LARGEST_CLUSTER)
    kind, option = np.nonzero(allowed)
    packed = np.full(allowed.shape, np.inf)
    packed[kind, np.cumsum(allowed, axis=1)[kind, option] - 1] = divisors[option]
    return LegalDegrees(packed, allowed.sum(axis=1), list_of_row)


def group_rows(*columns: Column | Codes | Mask) -> tuple[Codes, Codes]:
    """Return (one example row of each distinct combination of whole numbers, the combination of each row)."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        place, count = _rank_values(values.astype(np.int64, copy=False))
        code = code * count + place
    group_of_row, count = _rank_values(code)
    example = np.zeros(count, dtype=np.int64)
    example[group_of_row] = np.arange(len(code))
    return example, group_of_row


def _rank_values(values: Codes) -> tuple[Codes, int]:
    """Return (rank of each value among the distinct values, number of distinct values)."""
    places = np.zeros(int(values.max(initial=-1)) + 1, dtype=np.int64)
    places[values] = 1
    return (np.cumsum(places) - 1)[values], int(places.sum())


# Layouts per accelerator type that are sized first: one of them is nearly as good as the best.
LEADERS_PER_TYPE = 8


@formula(unit="s", source="definition")
def least_accelerator_s(counts: Counts, micro_batch_sequences: Column, ranks: Column, micro_batch_s: Column) -> Column:
    """Lower bound of the accelerator-seconds of a run: every micro-batch passes all ranks of a replica once.

    Parameters:
        micro_batch_sequences: sequences or samples per micro-batch.
        ranks: accelerators per model replica.
        micro_batch_s: time of one micro-batch, seconds.
    Limits: excludes the pipeline bubble, optimizer, gradient exchange, checkpoints and interruptions.
    Check: 8,000 tokens in micro-batches of two sequences of 1,000, on four ranks for half a second each.
        >>> counts = row(units=8000.0, units_per_sequence=1000.0)
        >>> least_accelerator_s(counts, col(2), col(4), col(0.5)).tolist()
        [8.0]
    """
    return counts.units / (counts.units_per_sequence * micro_batch_sequences) * ranks * micro_batch_s


def lower_bound_measures(counts: Counts, plans: TrainingPlans, time: MicroBatchTime) -> Measures:
    """Lower bounds of the measures that rank runs. The bound on duration is 0, because it depends on the degree."""
    busy_s = least_accelerator_s(counts, plans.micro_batch_sequences, plans.ranks, time.compute_s + time.exposed_s)
    surely_s = busy_s * plans.stack.margins.time_factor
    of_machine_s = surely_s / plans.accelerators_per_node
    # Carbon is ranked by the median duration and includes the building's overhead, of which the bound knows nothing.
    least_kwh = plans.offered.draw_w / 1e3 * busy_s / plans.accelerators_per_node / SECONDS_PER_HOUR
    return Measures(
        usd=usd_total(plans.offered.usd_per_hour, of_machine_s),
        latency_s=np.zeros(len(plans)),
        throughput_per_accelerator=counts.units / surely_s,
        joules_per_unit=plans.offered.draw_w * of_machine_s / counts.units,
        carbon_kg_per_unit=least_kwh * plans.offered.grid_g_per_kwh / 1e3 / counts.units,
    )


def lowest_bounds_per_type(accelerator: Codes, bound: Column) -> Codes:
    """Rows of each accelerator type with the lowest bounds, at most `LEADERS_PER_TYPE` per type."""
    order = np.lexsort((bound, accelerator))
    of_type = accelerator[order]
    return order[np.arange(len(order)) - np.searchsorted(of_type, of_type) < LEADERS_PER_TYPE]


def cluster_memory_bytes(machines: TrainingMachines) -> Column:
    """Accelerator memory that a run can combine, in bytes; infinite for machines that form clusters."""
    node = machines.offered.node
    near = np.where(machines.training_class, machines.scale_up_accelerators, node.accelerators_per_node)
    endless = machines.training_class & ~np.isnan(node.network_bytes_per_s)
    return np.where(endless, np.inf, node.memory_bytes * near)


def machines_able_to_hold(workload: TrainingWorkload, machines: TrainingMachines) -> TrainingMachines:
    """Return the machines that can hold the weights, and the largest machine of every other type.

    The largest machine stays so that its rejection can state the shortfall.
    """
    memory, accelerator = cluster_memory_bytes(machines), machines.offered.node.accelerator
    hopeless = memory < workload.model.total_params * recipe_of(workload).base_bytes_per_param
    if not hopeless.any():
        return machines
    largest: Codes = np.full(int(accelerator.max()) + 1, -1)
    order = np.argsort(memory, kind="stable")
    largest[accelerator[order]] = order  # keeps the last of several machines of a type
    keep = ~hopeless
    keep[largest[largest >= 0]] = True
    return machines.take(np.flatnonzero(keep))
