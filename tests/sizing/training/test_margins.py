"""Margins of time and memory: factors that hold with a confidence, and the probability of a limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.sizing.training.margins import Margins, allowed_bytes, in_time, margins_of, surely_in_time, within
from app.sizing.uncertainty import Around, Spread
from tests.examples import col

# Nine runs in ten take at most e^0.4 of the time predicted, and e^0.2 of the memory.
TIME = Spread("training", 3.0, 0.0, 0.0, (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6), 60, 9)
MEMORY = Spread("training_memory", 0.0, 0.0, 0.0, (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3), 60, 9)
# Many sources beside the first stack, none beside the second: the scale is 1 and sqrt(1 + 3) = 2.
AROUND = Around(col(1e9, 0.0), col(0.0, 0.0), col(0.0, 0.0), col(1.0, 1.0))


def margins(confidence: float) -> Margins:
    return margins_of(confidence, (TIME, AROUND), (MEMORY, AROUND))


def test_factors_grow_with_the_confidence_and_where_nobody_measured() -> None:
    assert margins(0.9).time_factor == pytest.approx([math.exp(0.4), math.exp(0.8)])
    assert margins(0.9).memory_factor == pytest.approx([math.exp(0.2), math.exp(0.2)])
    assert margins(0.8).time_factor == pytest.approx([math.exp(0.2), math.exp(0.4)])
    assert margins(0.8).asked == 0.8


def test_predictions_are_taken_at_their_word_at_one_half() -> None:
    assert margins(0.5).time_factor.tolist() == margins(0.5).memory_factor.tolist() == [1.0, 1.0]


def test_a_run_is_in_time_when_it_is_with_its_margin() -> None:
    # e^0.4 is 1.49: 67 of 100 seconds are in time with the first, 44 with the second
    assert surely_in_time(margins(0.9), col(67.0, 67.0), 100.0).tolist() == [True, False]
    assert surely_in_time(margins(0.9), col(67.1, 44.9), 100.0).tolist() == [False, True]


def test_doubt_counts_against_the_device_and_never_on_top_of_the_reserve() -> None:
    # e^0.2 is 1.22: 81.9 of 100 bytes hold with doubt
    assert allowed_bytes(margins(0.9), col(90.0, 70.0), col(100.0, 100.0)) == pytest.approx([81.873, 70.0], rel=1e-4)


def test_what_holds_with_a_confidence_has_that_probability() -> None:
    for confidence in (0.5, 0.8, 0.9, 0.95):
        sure = margins(confidence)
        assert in_time(sure, 100.0 / sure.time_factor, 100.0) == pytest.approx([confidence] * 2)
        assert within(sure, 100.0 / sure.memory_factor, col(100.0, 100.0)) == pytest.approx([confidence] * 2)


def test_margins_are_a_table() -> None:
    second = margins(0.9).take(np.array([1]))
    assert second.time_factor == pytest.approx([math.exp(0.8)])
    assert (second.time, second.asked) == (TIME, 0.9)
