"""Slots in the order in which they finish."""

from __future__ import annotations

import numpy as np

from app.sizing.serving.simulation.state import CONTEXTS, DECODING, LEFT, initial_state, start_decoding, stop_decoding
from tests.sizing.serving.simulation.given import replica, requests


def test_slots_leave_in_the_order_in_which_they_finish() -> None:
    s = initial_state(replica(), requests(10, 10, count=50))
    left = np.random.default_rng(1).permutation(50) + 1
    for i, tokens in enumerate(left):
        start_decoding(s, i, 100, int(tokens))
    assert (s.clock[CONTEXTS], s.clock[LEFT]) == (5000, left.sum())
    out = [stop_decoding(s, 0) for _ in range(50)]
    assert left[out].tolist() == sorted(left.tolist())
    assert (s.number[DECODING], s.clock[CONTEXTS], s.clock[LEFT]) == (0, 0, 0)


def test_a_slot_in_the_middle_can_leave() -> None:
    s = initial_state(replica(), requests(10, 10, count=20))
    for i, tokens in enumerate((5, 9, 7, 20, 11, 8, 30)):
        start_decoding(s, i, 10, tokens)
    gone = stop_decoding(s, 3)
    rest = [stop_decoding(s, 0) for _ in range(6)]
    keys = dict(enumerate((5, 9, 7, 20, 11, 8, 30)))
    assert [keys[i] for i in rest] == sorted(v for i, v in keys.items() if i != gone)
