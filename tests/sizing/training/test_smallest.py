"""The smallest run that fits and is in time, against trying every degree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training.counts import counts_of
from app.sizing.training.degrees import degrees_of
from app.sizing.training.run import run_at
from app.sizing.training.smallest import sized
from tests.examples import PRETRAIN
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import plans_of

WORKLOAD = replace(PRETRAIN, global_batch=64, units=1e10)
COUNTS = counts_of(WORKLOAD)
LAYOUTS = plans_of(SMALL, WORKLOAD, accelerator="acme-big", framework="megatron", micro_batch_sequences=1)
ASSUMED = Assumptions()


@pytest.mark.parametrize("days", [0.5, 2.0, 1000.0])
def test_bisection_finds_what_trying_every_degree_finds(days: float) -> None:
    deadline_s = days * 86400
    found = sized(COUNTS, LAYOUTS, deadline_s, ASSUMED)
    chosen = dict(zip(found.able.tolist(), found.data_parallel[found.able].tolist(), strict=True))
    degrees = degrees_of(COUNTS, found.plans)
    number = degrees.counts()
    for row in range(0, len(found.plans), 5):
        rows = np.full(number[row], row)
        options = degrees.at(rows, np.arange(number[row]))
        run = run_at(COUNTS, found.plans.take(rows), options, ASSUMED)
        good = run.memory.fits & (run.wall_s <= deadline_s)
        assert chosen.get(row) == (float(options[np.argmax(good)]) if good.any() else None)


def test_a_shorter_deadline_never_takes_fewer_accelerators() -> None:
    loose, tight = (sized(COUNTS, LAYOUTS, days * 86400, ASSUMED) for days in (1000.0, 0.25))
    assert set(tight.able.tolist()) <= set(loose.able.tolist())
    assert len(tight.able) > 0
    assert (tight.data_parallel[tight.able] >= loose.data_parallel[tight.able]).all()
    assert (tight.data_parallel[tight.able] > loose.data_parallel[tight.able]).any()


def test_what_cannot_be_done_is_left_at_its_best_attempt() -> None:
    never = sized(COUNTS, LAYOUTS, 1.0, ASSUMED)
    assert len(never.able) == 0
    degrees = degrees_of(COUNTS, never.plans)
    largest = degrees.at(np.arange(len(never.plans)), degrees.counts() - 1)
    assert never.data_parallel.tolist() == largest.tolist()
    assert (never.wall_s[never.memory.fits] > 1.0).all()
    assert np.isinf(never.wall_s[~never.memory.fits]).all()
