"""What a model can live in of a card that is cut into slices: each a smaller card by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.columns import Column, Picked, looked_up
from app.sizing.decisions.machines import Candidates
from app.sizing.formula import formula
from app.sizing.hardware.slices import Slice, Slicing
from app.sizing.hardware.tables import Machines
from app.sizing.packing.cards import Option
from app.sizing.packing.shares import Member, Share, sized
from app.sizing.question import Question
from app.sizing.serving.measured import Settings
from app.sizing.serving.plans import Plans
from app.sizing.snapshot import Snapshot


@formula(unit="B", source="nvidia-smi mig -lgip of A100 and H100")
def slice_memory_bytes(memory_bytes: Column, memory_share: Column, assumed: Assumptions) -> Column:
    """Memory of a slice: its parts of the card's, less what the driver keeps of each.

    Source: what the driver lists of an A100 80 GB, whose eighths have 9.5 GiB. Limits: larger slices lose less.
    Check:
        >>> float(slice_memory_bytes(80.0, 0.125, Assumptions()))
        9.5
    """
    taken: Column = memory_bytes * memory_share * assumed.slice_memory_fraction
    return taken


@formula(unit="1", source="nvidia-smi mig -lgip of A100 and H100")
def slice_compute_share(compute_share: Column, assumed: Assumptions) -> Column:
    """Part of a card's arithmetic that a slice does: some multiprocessors belong to none.

    Source: a seventh of an H100 has 16 of 132 multiprocessors. Limits: larger slices have all of theirs.
    Check:
        >>> round(float(slice_compute_share(1 / 7, Assumptions())), 4)  # 16 / 132 = 0.1212
        0.1214
    """
    return compute_share * assumed.slice_compute_fraction


def cut(plans: Plans, slicing: Slicing, assumed: Assumptions) -> tuple[Plans, list[Slice]]:
    """Every plan on every slice of its card, and the slice of each row."""
    count = len(slicing.slices)
    rows = np.repeat(np.arange(len(plans)), count)
    of = list(slicing.slices) * len(plans)
    compute = np.array([s.compute / slicing.compute for s in of])
    memory = np.array([s.memory / slicing.memory for s in of])
    whole = plans.take(rows)
    machines = looked_up(Candidates, whole.offered)
    node = looked_up(Machines, machines.node)
    node = replace(node, memory_bytes=slice_memory_bytes(node.memory_bytes, memory, assumed))
    does = slice_compute_share(compute, assumed)
    sliced = replace(
        whole,
        machines=Picked(replace(machines, node=node), np.arange(len(rows))),
        linear_flops_per_s=whole.linear_flops_per_s * does,
        bit16_flops_per_s=whole.bit16_flops_per_s * does,
        bytes_per_s=whole.bytes_per_s * memory,
    )
    return sliced, of


def slices_of(question: Question, market: Snapshot, member: Member, slicing: Slicing) -> list[Share]:
    """The ways a model runs in slices, of each slice the one of fewest cards; as closed forms say."""
    single = np.flatnonzero((member.whole.accelerators_per_replica == 1) & ~member.whole.away)
    if not len(single):
        return []
    plans, of = cut(member.whole.take(single), slicing, question.assumptions)
    found = sized(question, market, member, plans, Settings(), member.workload)
    best: dict[Slice, tuple[int, int]] = {}
    for row, count in enumerate(found.cards.tolist()):
        slice_of = of[found.rows[row]]
        if np.isfinite(count) and (slice_of not in best or count < best[slice_of][0]):
            best[slice_of] = (int(count), row)
    return [
        found.share(
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
