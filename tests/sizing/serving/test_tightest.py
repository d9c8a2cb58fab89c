"""Limits of several classes on every plan: each binds where it has the least room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.serving.margins import Margins
from app.sizing.serving.tightest import limits_with_margins, prediction_limits, tightest_limits
from app.sizing.workload import Slo, build_mixed_workload
from tests.examples import CHAT, col

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
