"""Models on slices of a partitioned card (NVIDIA MIG); each slice acts as a smaller card."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Indexed, materialize_as
from app.sizing.decisions.machines import Candidates
from app.sizing.formula import formula
from app.sizing.hardware.slices import Slice, Slicing
from app.sizing.hardware.tables import Machines
from app.sizing.packing.cards import Option
from app.sizing.packing.shares import Member, Share, size_member_plans
from app.sizing.question import Question
from app.sizing.serving.measured import Settings
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Catalog


@formula(unit="B", source="output of nvidia-smi mig -lgip on A100 and H100")
def slice_memory_bytes(memory_bytes: Column, memory_share: Column, assumed: Assumptions) -> Column:
    """Usable memory of a slice.

    Parameters:
        memory_bytes: memory of the whole card, bytes.
        memory_share: share of the card's memory parts, 0 to 1.
        assumed: assumptions, for the share of a slice's memory that the driver leaves.
    Limits: an eighth of an A100 80 GB has 9.5 GiB; larger slices lose less.
    Check:
        >>> float(slice_memory_bytes(80.0, 0.125, Assumptions()))
        9.5
    """
    taken: Column = memory_bytes * memory_share * assumed.slice_memory_fraction
    return taken


@formula(unit="1", source="output of nvidia-smi mig -lgip on A100 and H100")
def slice_compute_share(compute_share: Column, assumed: Assumptions) -> Column:
    """Share of a card's compute that a slice has; some multiprocessors belong to no slice.

    Parameters:
        compute_share: share of the card's compute parts, 0 to 1.
        assumed: assumptions, for the share of multiprocessors that slices use.
    Limits: a seventh of an H100 has 16 of 132 multiprocessors; larger slices have all of theirs.
    Check: 16 / 132 = 0.1212.
        >>> round(float(slice_compute_share(1 / 7, Assumptions())), 4)
        0.1214
    """
    return compute_share * assumed.slice_compute_fraction


def slice_plans(plans: Plans, slicing: Slicing, assumed: Assumptions) -> tuple[Plans, list[Slice]]:
    """Every plan on every slice of its card, and the slice of each row."""
    count = len(slicing.slices)
    rows = np.repeat(np.arange(len(plans)), count)
    slice_of_row = list(slicing.slices) * len(plans)
    compute = np.array([s.compute / slicing.compute for s in slice_of_row])
    memory = np.array([s.memory / slicing.memory for s in slice_of_row])
    whole = plans.take(rows)
    machines = materialize_as(Candidates, whole.offered)
    node = materialize_as(Machines, machines.node)
    node = replace(node, memory_bytes=slice_memory_bytes(node.memory_bytes, memory, assumed))
    compute_share = slice_compute_share(compute, assumed)
    sliced = replace(
        whole,
        machines=Indexed(replace(machines, node=node), np.arange(len(rows))),
        linear_flops_per_s=whole.linear_flops_per_s * compute_share,
        bit16_flops_per_s=whole.bit16_flops_per_s * compute_share,
        bytes_per_s=whole.bytes_per_s * memory,
    )
    return sliced, slice_of_row


def find_slice_shares(question: Question, catalog: Catalog, member: Member, slicing: Slicing) -> list[Share]:
    """For each slice, the plan that needs the fewest cards, by the closed formulas."""
    single = np.flatnonzero(
        (member.whole_card_plans.accelerators_per_replica == 1) & ~member.whole_card_plans.offloads_weights
    )
    if not len(single):
        return []
    plans, slice_of_row = slice_plans(member.whole_card_plans.take(single), slicing, question.assumptions)
    found = size_member_plans(question, catalog, member, plans, Settings(), member.workload)
    best: dict[Slice, tuple[int, int]] = {}
    for row, count in enumerate(found.cards.tolist()):
        slice_of = slice_of_row[found.rows[row]]
        if np.isfinite(count) and (slice_of not in best or count < best[slice_of][0]):
            best[slice_of] = (int(count), row)
    return [
        found.make_share(
            row,
            Option(
                count,
                slice_of.memory / slicing.memory,
                slice_of.compute / slicing.compute,
                slice_of,
            ),
        )
        for slice_of, (count, row) in sorted(best.items())
    ]
