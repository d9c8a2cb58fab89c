"""Lower bounds of a layout's time and cost at any data-parallel degree; the search skips layouts with worse bounds."""

from __future__ import annotations

import numpy as np

from app.sizing.columns import Codes, Column
from app.sizing.decisions.cost import usd_total
from app.sizing.decisions.ranking import Measures
from app.sizing.formula import formula
from app.sizing.training.counts import Counts
from app.sizing.training.plans import TrainingPlans
from app.sizing.training.step import MicroBatchTime

# Layouts per accelerator type that are sized first: one of them is nearly as good as the best.
LEADERS_PER_TYPE = 8


@formula(unit="s", source="definition")
def least_accelerator_s(counts: Counts, micro_batch_sequences: Column, ranks: Column, micro_batch_s: Column) -> Column:
    """Lower bound of the accelerator-seconds of a run: every micro-batch passes all ranks of a replica once.

    Parameters:
        counts: the workload's tokens or samples, and its sequence length.
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
    return Measures(
        usd=usd_total(plans.offered.usd_per_hour, of_machine_s),
        latency_s=np.zeros(len(plans)),
        throughput_per_accelerator=counts.units / surely_s,
        joules_per_unit=plans.offered.draw_w * of_machine_s / counts.units,
    )


def lowest_bounds_per_type(accelerator: Codes, bound: Column) -> Codes:
    """Rows of each accelerator type with the lowest bounds, at most `LEADERS_PER_TYPE` per type."""
    order = np.lexsort((bound, accelerator))
    of_type = accelerator[order]
    return order[np.arange(len(order)) - np.searchsorted(of_type, of_type) < LEADERS_PER_TYPE]
