"""Times between the points of a replica's tables."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.serving.simulation.steps import linear_s, prompt_attention_total_s
from tests.sizing.serving.simulation.given import replica


@pytest.mark.parametrize(("tokens", "seconds"), [(0.0, 0.0), (2.5, 25.0), (4.0, 40.0), (7.0, 70.0), (40.0, 400.0)])
def test_linear_layers_are_read_between_the_points_and_beyond_them(tokens: float, seconds: float) -> None:
    r = replica(linear_s=np.array([0.0, 10, 20, 30, 40, 80, 120]), linear_exact=4, linear_stride=4)
    assert linear_s(r, tokens) == pytest.approx(seconds)


def test_attention_of_a_prompt_is_read_between_eighths_of_doublings() -> None:
    tokens = np.append(np.outer(2.0 ** np.arange(5), 1 + np.arange(8) / 8).ravel(), 32.0)
    r = replica(prompt_attention_s=tokens)  # as many seconds a token as tokens
    for asked in (1.0, 3.3, 8.0, 20.0, 32.0):
        assert prompt_attention_total_s(r, asked) == pytest.approx(asked**2)
