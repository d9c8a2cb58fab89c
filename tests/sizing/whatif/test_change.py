"""Where an answer turns is found to a share, was asked, and nothing nearer among the steps is missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.sizing.whatif.change import find_threshold

UP = (2.0, 4.0, 8.0)


@given(st.floats(1.001, 7.9), st.sampled_from([0.01, 0.05, 0.2]))
def test_a_turn_is_found_to_a_share(at: float, closeness: float) -> None:
    asked: list[float] = []

    def answer(value: float) -> str:
        asked.append(value)
        return "old" if value < at else "new"

    found = find_threshold(answer, 1.0, UP, closeness)
    assert found is not None and found.new_answer == "new" and found.value in asked
    assert found.last_unchanged < at <= found.value <= found.last_unchanged * (1 + closeness)


@given(st.floats(1.001, 7.9))
def test_downwards_is_the_same_mirrored(at: float) -> None:
    found = find_threshold(lambda v: v > 1 / at, 1.0, tuple(1 / s for s in UP), 0.05)
    assert found is not None and found.value <= 1 / at < found.last_unchanged <= found.value * 1.05


def test_no_turn_within_the_steps_is_none() -> None:
    assert find_threshold(lambda _: 1, 1.0, UP, 0.05) is None
    assert find_threshold(lambda v: v < 9, 1.0, UP, 0.05) is None


def test_the_outcome_nearest_to_the_present_one_is_reported() -> None:
    found = find_threshold(lambda v: 0 if v < 1.5 else 1 if v < 1.8 else 2, 1.0, UP, 0.01)
    assert found is not None and found.new_answer == 1 and 1.5 <= found.value < 1.52
