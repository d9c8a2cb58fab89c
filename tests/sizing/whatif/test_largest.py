"""The search for the largest load: how far it looks, and when it stops."""

from __future__ import annotations

import pytest

from app.sizing.whatif.largest import CLOSENESS, DOUBLINGS, SMALLEST, STEPS, find_largest

DOWN = tuple(1 / step for step in STEPS)


@pytest.mark.parametrize("most", [3e-6, 0.01, 0.99, 1.0, 1.02, 7.0, 9e5])
def test_the_largest_value_is_found_in_few_steps(most: float) -> None:
    asked: list[float] = []

    def holds(value: float) -> bool:
        asked.append(value)
        return value <= most

    found = find_largest(holds, 1.0, DOUBLINGS, (SMALLEST,), CLOSENESS)
    assert found is not None
    assert found <= most <= found * (1 + CLOSENESS)
    assert len(asked) == len(set(asked)) <= len(DOUBLINGS) + 6


def test_a_condition_that_holds_nowhere_is_given_up_at_once() -> None:
    asked: list[float] = []

    def holds(value: float) -> bool:
        asked.append(value)
        return False

    assert find_largest(holds, 1.0, DOUBLINGS, (SMALLEST,), CLOSENESS) is None
    assert asked == [1.0, SMALLEST]


def test_a_start_that_formulas_place_far_too_high_is_still_corrected() -> None:
    found = find_largest(lambda value: value <= 0.02, 1.0, STEPS, DOWN, 0.05)
    assert found is not None
    assert found <= 0.02 <= found * 1.05
