"""The largest value for which a test holds, and whether memory is enough. Limits of several classes on every plan:
each binds where it has the least room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from app.sizing.columns import Column, Columns, Mask
from app.sizing.serving.interfaces import (
    Memory,
    bisect_largest,
    limits_with_margins,
    prediction_limits,
    tightest_limits,
)
from app.sizing.serving.margins import Margins
from app.sizing.workload import Slo, build_mixed_workload
from tests.examples import CHAT, col
from tests.sizing.serving.given import varied


@dataclass(frozen=True, slots=True)
class UpTo(Columns):
    """Holds up to a limit of each row."""

    limit: Column

    def holds(self, values: Column) -> Mask:
        met: Mask = values <= self.limit
        return met


def test_each_row_finds_its_own_limit() -> None:
    found = bisect_largest(col(0, 0, 1, 0), col(10, 10, 64, 10), UpTo(col(3, 99, 41.5, 7)))
    assert found.tolist() == pytest.approx([3, 10, 41.5, 7], rel=1e-4)
    assert found[0] <= 3 < found[0] * 1.0001
    assert bisect_largest(col(0), col(10), UpTo(col(20))).tolist() == [10]
    assert bisect_largest(col(1), col(10), UpTo(col(0.5))).tolist() == [1]  # the lower end where nothing holds
    # of many rows, those that hold nowhere are not halved, and the others find what they would alone
    many = np.tile(col(0.5, 3, 99), 500)
    together = bisect_largest(np.ones(1500), np.full(1500, 10.0), UpTo(many)).reshape(-1, 3)
    assert (together == bisect_largest(col(1, 1, 1), col(10, 10, 10), UpTo(col(0.5, 3, 99)))).all()


def test_what_a_row_comes_to_does_not_depend_on_how_many_others_there_are() -> None:
    low, high, limit = np.arange(401) / 7, 100 + np.arange(401) / 3, 60 + np.arange(401) / 11
    together = bisect_largest(low, high, UpTo(limit))
    for n in (1, 16, 17, 128, 129, 400):
        assert (bisect_largest(low[:n], high[:n], UpTo(limit[:n])) == together[:n]).all()


def test_more_halvings_come_nearer() -> None:
    coarse, fine = (float(bisect_largest(col(0), col(1), UpTo(col(np.pi / 4)), halvings=n)[0]) for n in (4, 30))
    assert coarse == 0.75
    assert fine == pytest.approx(np.pi / 4, abs=1e-8)


def test_what_is_needed_may_be_all_that_is_usable() -> None:
    nan = col(np.nan, np.nan)
    memory = Memory(
        weights_bytes=nan,
        activation_bytes=nan,
        overhead_bytes=nan,
        capacity_bytes=nan,
        usable_bytes=col(80, 80),
        needed_bytes=col(80, 80.01),
        memory_fraction=nan,
        sequences=nan,
    )
    assert memory.fits.tolist() == [True, False]


CHATS = replace(CHAT, slo=Slo(0.5, 0.04, None, 95))
PAPERS = replace(CHAT, slo=Slo(5.0, 0.1, None, 90), output_tokens=CHAT.output_tokens.add_tokens(100))
BOTH = build_mixed_workload([("chats", CHATS), ("papers", PAPERS)])


def test_one_kind_of_traffic_has_its_own_limits_less_the_margin() -> None:
    assert tightest_limits(CHAT, [col(0.1)]) is None
    slower = replace(Margins.without_margin(1), ttft=col(2.0), tpot=col(1.25))
    tpot, ttft = limits_with_margins(CHAT, None, col(0.1), slower)
    assert (tpot.tolist(), ttft.tolist()) == ([pytest.approx(0.04)], [0.5])


def test_what_binds_is_the_class_with_the_least_room_to_its_first_token() -> None:
    # On the quick plan the chats' half second is next; on the slow one 4.8 s of the papers' 5 are gone with the prompt.
    found = tightest_limits(BOTH, [col(0.1, 0.2), col(1.0, 4.8)])
    assert found is not None
    assert found.ttft_s.tolist() == [0.5, 5.0]
    assert found.unloaded_ttft_s.tolist() == [0.1, 4.8]
    assert found.tpot_s.tolist() == [0.04, 0.04]
    assert [
        limits.tolist() for limits in limits_with_margins(BOTH, found, found.unloaded_ttft_s, Margins.without_margin(2))
    ] == [
        [0.04, 0.04],
        [0.5, 5.0],
    ]


def test_a_limit_of_a_whole_request_leaves_the_rest_of_it_to_its_tokens() -> None:
    whole = replace(CHAT, slo=Slo(None, None, 10.0, 95))
    tpot, ttft = prediction_limits(whole, col(2.0), Margins.without_margin(1))
    assert ttft.tolist() == [10.0]
    assert tpot.tolist() == [pytest.approx(8.0 / whole.long_answer(95))]


def test_a_limit_on_whole_requests_takes_both_margins() -> None:
    """5 s for 201 tokens: 1 s unloaded at 1.5 times leaves 3.5 s, in which tokens may take 1.2 times as predicted."""
    factors = Margins(col(1), col(1.2), col(1.5), col(0))
    workload = varied(slo=Slo(None, None, 5.0, 95))
    tpot, ttft = prediction_limits(workload, col(1.0), factors)
    assert tpot[0] == pytest.approx(3.5 / 201 / 1.2)
    assert ttft[0] == pytest.approx(5 / 1.5)
    # a request exactly at these limits, with its margins, takes the whole limit
    assert factors.request_s(col(1.0), 1.0 + 201 * tpot)[0] == pytest.approx(5)
    # either margin alone tightens the limit of a token
    for changed in (replace(factors, ttft=col(1.6)), replace(factors, tpot=col(1.3))):
        assert prediction_limits(workload, col(1.0), changed)[0][0] < tpot[0]
