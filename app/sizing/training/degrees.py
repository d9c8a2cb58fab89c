"""Which data-parallel degrees a layout may take: divisors of the global batch that fill whole machines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from app.sizing.columns import Codes, Column, Mask
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans

Entry = TypeVar("Entry", bound=np.generic)

# The grid of a search: divisors judged, spread evenly over their ranks where there are more, and sizes between them.
LARGEST_DIVISOR = 65536
LARGEST_CLUSTER = 131072  # accelerators
MOST_DIVISORS = 48
SIZES_PER_OCTAVE = 4


def divides(divisor: Column, number: Column) -> Mask:
    """Whether whole numbers divide; a division and a floor, which cost a quarter of a remainder."""
    quotient = number / divisor
    found: Mask = quotient == np.floor(quotient)
    return found


@lru_cache(maxsize=256)
def divisors_of(batch: int) -> Column:
    """Divisors of a global batch, ascending."""
    numbers = np.arange(1, min(batch, LARGEST_DIVISOR) + 1)
    divisors: Column = numbers[batch % numbers == 0].astype(np.float64)
    if len(divisors) > MOST_DIVISORS:
        divisors = divisors[np.unique(np.geomspace(1, len(divisors), MOST_DIVISORS).astype(int) - 1)]
    divisors.flags.writeable = False
    return divisors


@lru_cache(maxsize=256)
def degrees_judged(batch: int, most: float) -> Column:
    """Degrees of a search: divisors of a global batch, and sizes between them as far as a batch near it reaches."""
    octaves = 2.0 ** np.arange(np.floor(np.log2(LARGEST_DIVISOR)) + 1)
    between = np.outer(octaves, 1 + np.arange(SIZES_PER_OCTAVE) / SIZES_PER_OCTAVE)
    sizes = between[(between <= min(most, LARGEST_DIVISOR)) & (between == np.floor(between))]
    degrees: Column = np.union1d(divisors_of(batch), sizes)
    degrees.flags.writeable = False
    return degrees


def _rows(values: NDArray[Entry], like: Column) -> NDArray[Entry]:
    """A column that lines up with one number per row, or with a row of options."""
    return values[(slice(None),) + (None,) * (like.ndim - 1)]


def legal(counts: Counts, plans: TrainingPlans, degrees: Column) -> Mask:
    """Whether each row may take a data-parallel degree (one per row, or a row of options) and go through whole
    micro-batches of a batch near the one asked (of samples the last may be part full).
    """
    micro = _rows(plans.micro_batch_sequences, degrees)
    even: Mask = degrees * micro <= counts.global_batch
    if not counts.in_samples:
        batch = step_batch_of(counts.global_batch, degrees * micro)
        even = np.abs(batch / counts.global_batch - 1) <= counts.near_batch_share
    return even & splits(counts, plans, degrees)


def step_batch_of(asked: float, shares: Column) -> Column:
    """The batch nearest to the one asked that is made of whole shares."""
    nearest: Column = np.maximum(1.0, np.floor(asked / shares + 0.5)) * shares
    return nearest


def splits(counts: Counts, plans: TrainingPlans, degrees: Column) -> Mask:
    """Whether the framework makes so many replicas, over whose ranks experts spread evenly."""
    even: Mask = np.ones(degrees.shape, dtype=bool)
    single = plans.stack.single_accelerator
    if single.any():
        even = even & (~_rows(single, degrees) | (degrees == 1))
    if counts.is_moe:
        ranks = _rows(plans.tensor_parallel * plans.context_parallel, degrees)
        even = even & divides(_rows(plans.expert_parallel, degrees), ranks * degrees)
    return even


def degree_of(counts: Counts, plans: TrainingPlans, accelerators: Column) -> tuple[Column, Mask]:
    """(data-parallel degree that makes up so many accelerators, whether each row may take it, with however far a
    batch); one number per row, or a row of options.
    """
    degree = accelerators / _rows(plans.ranks, accelerators)
    whole = np.maximum(1.0, np.floor(degree))
    return degree, (degree == whole) & splits(counts, plans, whole)


def filled(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators (one number per row, or a row of options) fill whole machines beyond the first."""
    count = _rows(plans.accelerators_per_node, accelerators)
    found: Mask = (accelerators <= count) | divides(count, accelerators)
    return found


def wired(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators are of one machine or one domain, or have a known network between their machines."""
    near: Mask = accelerators <= _rows(plans.machine.scale_up_accelerators, accelerators)
    return near | ~np.isnan(_rows(plans.node.network_bytes_per_s, accelerators))


def joined(plans: TrainingPlans, accelerators: Column) -> Mask:
    """Whether accelerators are machines that are built into one cluster; inference-class hardware, nobody does, and it
    stays alone.
    """
    alone = accelerators <= _rows(plans.accelerators_per_node, accelerators)
    cluster = alone | _rows(plans.machine.training_class, accelerators)
    found: Mask = filled(plans, accelerators) & wired(plans, accelerators) & cluster
    return found


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees that each row may take, ascending. Rows that may take the same share one list."""

    options: Column  # of every list, padded
    count: Codes  # of every list
    of: Codes  # the list of every row

    def counts(self) -> Codes:
        """How many degrees each row may take."""
        return self.count[self.of]

    def at(self, rows: Codes, place: Codes) -> Column:
        """The degree at a place in the list of each row."""
        return self.options[self.of[rows], place]


def degrees_of(counts: Counts, plans: TrainingPlans) -> Degrees:
    """Data-parallel degrees each row may take. Rows on machines of one size that split a batch alike are asked once."""
    example, of = kinds(
        plans.machine.shape,
        plans.ranks,
        plans.micro_batch_sequences,
        plans.tensor_parallel,
        plans.context_parallel,
        plans.expert_parallel,
        plans.stack.single_accelerator,
    )
    alike = plans.take(example)
    reach = counts.global_batch * (1 + (0.0 if counts.in_samples else counts.near_batch_share))
    divisors = degrees_judged(int(counts.global_batch), reach)
    options = np.broadcast_to(divisors, (len(alike), len(divisors)))
    accelerators = alike.ranks[:, None] * options
    allowed = legal(counts, alike, options) & joined(alike, accelerators)
    allowed &= accelerators <= LARGEST_CLUSTER
    kind, option = np.nonzero(allowed)
    packed = np.full(allowed.shape, np.inf)
    packed[kind, np.cumsum(allowed, axis=1)[kind, option] - 1] = divisors[option]
    return Degrees(packed, allowed.sum(axis=1), of)


def kinds(*columns: Column | Codes | Mask) -> tuple[Codes, Codes]:
    """(a row of every combination of whole numbers that occurs, the combination of every row)."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        place, count = _placed(values.astype(np.int64, copy=False))
        code = code * count + place
    of, count = _placed(code)
    example = np.zeros(count, dtype=np.int64)
    example[of] = np.arange(len(code))
    return example, of


def _placed(values: Codes) -> tuple[Codes, int]:
    """The place of each value among those that occur, and how many these are."""
    places = np.zeros(int(values.max(initial=-1)) + 1, dtype=np.int64)
    places[values] = 1
    return (np.cumsum(places) - 1)[values], int(places.sum())
