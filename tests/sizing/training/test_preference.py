"""What layouts are compared by."""

from __future__ import annotations

import numpy as np

from app.sizing.assumptions import Assumptions
from app.sizing.training.preference import best_row_per_type, pipeline_handicap
from tests.examples import col


def test_a_pipeline_must_be_better_by_more_than_a_near_tie() -> None:
    assert pipeline_handicap(col(1, 2, 16), Assumptions(near_tie_share=0.1)).tolist() == [1.0, 1.1, 1.1]


def test_the_best_of_each_type_is_the_cheapest_of_equals_and_then_the_first_by_its_key() -> None:
    accelerator = np.array([3, 3, 3, 1, 1])
    score, usd, tie = col(2, 1, 1, 5, 5), col(0, 9, 8, 1, 1), col(0, 0, 0, 7, 6)
    assert best_row_per_type(accelerator, score, usd, tie).tolist() == [4, 2]
