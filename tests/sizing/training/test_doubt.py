"""How far the memory of plans may be off: from nothing, if all is counted, to everything, if nothing is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.training.counts import counts_of
from app.sizing.training.doubt import allowed_bytes, fit_probability, fits_at_confidence, memory_factor, memory_scale
from app.sizing.training.margins import memory_neighbourhood
from app.sizing.training.memory import TrainingMemory, estimate_training_memory
from app.sizing.uncertainty import Spread
from tests.examples import row
from tests.sizing.small import SMALL
from tests.sizing.training.layouts import WORKLOAD, plans_of

# A peak counted to the byte is off by e^0.1 at 80 %; with all of it open, sqrt(1 + 4) times as far.
PEAKS = Spread("training_memory", 0.0, 1.0, 0.0, (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3), 60, 9)


def judged(*, known: bool, confidence: float = 0.8) -> tuple[Any, TrainingMemory]:
    plans = plans_of(SMALL, WORKLOAD, confidence, accelerator="acme-big", framework="megatron")
    number = len(plans)
    margins = row(asked=confidence, memory=PEAKS, recipe_known=np.full(number, known), widened=np.ones(number))
    _, memory = estimate_training_memory(counts_of(WORKLOAD), plans, np.full(number, 8.0), Assumptions())
    return row(stack=row(margins=margins)), memory


def test_the_more_of_a_peak_comes_and_goes_the_further_it_may_be_off() -> None:
    plans, memory = judged(known=True)
    moving = (memory.activation_bytes + memory.overhead_bytes) / memory.total_bytes
    assert memory_scale(plans, memory) == pytest.approx(np.sqrt(1 + (2 * moving) ** 2))
    assert moving.min() < 0.3 < moving.max()


def test_an_unpublished_recipe_makes_the_whole_memory_uncertain() -> None:
    plans, memory = judged(known=False)
    assert memory_scale(plans, memory) == pytest.approx(np.full(len(memory), 5**0.5))
    assert (memory_factor(plans, memory, 0.8) > memory_factor(*judged(known=True), 0.8)).all()


def test_what_surely_fits_fits_with_the_probability_asked() -> None:
    for known in (True, False):
        plans, memory = judged(known=known, confidence=0.9)
        surely = fits_at_confidence(plans, memory)
        assert surely.any() and not surely.all()
        assert (fit_probability(plans, memory)[surely] >= 0.9).all()
        tight = memory.total_bytes > 0.999 * memory.capacity_bytes / memory_factor(plans, memory, 0.9)
        assert (fit_probability(plans, memory)[tight] < 0.91).all()


def test_doubt_counts_against_the_device_and_never_on_top_of_the_reserve() -> None:
    plans, memory = judged(known=True)
    allowed = allowed_bytes(plans, memory)
    assert (allowed <= memory.usable_bytes).all()
    doubted = memory.capacity_bytes / memory_factor(plans, memory, 0.8)
    assert allowed == pytest.approx(np.minimum(memory.usable_bytes, doubted))


def test_a_reserve_never_asks_for_more_as_states_are_sharded_further() -> None:
    # What a run needs with its doubt falls with its states, or bisection over replicas would not find the smallest.
    states = np.linspace(0.0, 200.0, 400)
    for moving in (1.0, 10.0, 50.0):
        total = states + moving
        scale = PEAKS.relative_spread(memory_neighbourhood(states, total, np.full(400, True), np.ones(400)))
        assert (np.diff(total * PEAKS.error_factor(0.95, scale)) >= 0).all()
