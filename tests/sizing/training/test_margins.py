"""Margins of time and memory: factors that hold with a confidence, and the probability of a limit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.sizing.training.margins import (
    Margins,
    build_margins,
    deadline_probability,
    meets_deadline_at_confidence,
    memory_neighbourhood,
)
from app.sizing.uncertainty import Neighborhood, Spread
from tests.examples import col

# Nine runs in ten take at most e^0.4 of the time predicted.
TIME = Spread("training", 3.0, 0.0, 0.0, (-0.6, -0.4, -0.2, 0.0, 0.2, 0.4, 0.6), 60, 9)
MEMORY = Spread("training_memory", 0.0, 1.0, 0.0, (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3), 60, 9)
# Many sources for the first stack, none for the second: the scale is 1 and sqrt(1 + 3) = 2.
AROUND = Neighborhood(col(1e9, 0.0), col(0.0, 0.0), col(0.0, 0.0), col(1.0, 1.0))
KNOWN = np.array([True, False])


def margins(confidence: float) -> Margins:
    return build_margins(confidence, (TIME, AROUND), MEMORY, KNOWN)


def test_factors_grow_with_the_confidence_and_without_measurements() -> None:
    assert margins(0.9).time_factor == pytest.approx([math.exp(0.4), math.exp(0.8)])
    assert margins(0.8).time_factor == pytest.approx([math.exp(0.2), math.exp(0.4)])
    assert margins(0.8).asked == 0.8


def test_predictions_are_taken_at_their_word_at_one_half() -> None:
    assert margins(0.5).time_factor.tolist() == [1.0, 1.0]


def test_a_run_is_in_time_when_it_is_with_its_margin() -> None:
    # e^0.4 is 1.49: 67 of 100 seconds are in time with the first, 44 with the second
    assert meets_deadline_at_confidence(margins(0.9), col(67.0, 67.0), 100.0).tolist() == [True, False]
    assert meets_deadline_at_confidence(margins(0.9), col(67.1, 44.9), 100.0).tolist() == [False, True]


def test_what_holds_with_a_confidence_has_that_probability() -> None:
    for confidence in (0.5, 0.8, 0.9, 0.95):
        sure = margins(confidence)
        assert deadline_probability(sure, 100.0 / sure.time_factor, 100.0) == pytest.approx([confidence] * 2)


def test_a_peak_is_as_far_from_certain_as_the_share_that_comes_and_goes() -> None:
    # 60 of 80 bytes are counted; the recipe of the second is unpublished; the third is all states
    found = memory_neighbourhood(
        col(60.0, 60.0, 80.0), col(80.0, 80.0, 80.0), np.array([True, False, True]), col(1.0, 1.0, 1.5)
    )
    assert found.distance == pytest.approx([2 * 0.25, 2.0, 0.0])
    # squares add: sqrt(1 + 0.5^2), sqrt(1 + 2^2), and what only rules say is half as far off again
    assert MEMORY.relative_spread(found) == pytest.approx([1.25**0.5, 5**0.5, 1.5])


def test_margins_are_a_table() -> None:
    second = margins(0.9).take(np.array([1]))
    assert second.time_factor == pytest.approx([math.exp(0.8)])
    assert (second.time, second.memory, second.asked) == (TIME, MEMORY, 0.9)
    assert second.recipe_known.tolist() == [False]
