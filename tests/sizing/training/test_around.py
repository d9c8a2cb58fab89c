"""Sizes around the best: whole machines, every layout at each."""

from __future__ import annotations

import numpy as np

from app.sizing.training.around import degrees_near_size, sizes_around
from app.sizing.training.counts import counts_of
from tests.examples import col
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of


def test_sizes_are_whole_machines_near_a_size_or_a_part_of_one() -> None:
    several, part = sizes_around(col(160, 4), col(8, 8)).tolist()
    assert several == [136, 144, 152, 160, 184, 200]
    assert set(part) == {4}


def test_every_layout_is_tried_at_each_size_once() -> None:
    counts = counts_of(WORKLOAD)
    plans = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
    rows, degrees = degrees_near_size(counts, plans, np.full(len(plans), 64.0))
    sizes = plans.ranks[rows] * degrees
    assert len(set(zip(rows.tolist(), sizes.tolist(), strict=True))) == len(rows)
    assert 64 in sizes
    assert (sizes % 8 == 0).all()
    assert (np.abs(np.maximum(1, np.floor(64 / degrees + 0.5)) * degrees / 64 - 1) <= counts.near_batch_share).all()
