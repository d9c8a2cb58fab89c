"""Tokens on their way to the ranks of their experts."""

from __future__ import annotations

import numpy as np
import pytest

from app.sizing.serving.communication import LinkSpeed, LinkUse
from app.sizing.serving.exchange import ExpertExchange, build_expert_exchange, exchange_fixed_s, exchange_slope_s
from tests.examples import col
from tests.sizing.serving.given import MIXTURE, on_big

SPEED = LinkSpeed(col(8e-6), col(400e9), col(15e-6), col(40e9), col(15e-6), col(40e9))
LINK = LinkUse(np.array([False]), col(450e9), np.array([True]), col(50e9), col(1), 0.5)


def test_a_rank_that_keeps_its_tokens_exchanges_none() -> None:
    found = build_expert_exchange(MIXTURE, on_big(MIXTURE))
    assert found.expert_layers[0] == found.inside_bytes[0] == found.across_bytes[0] == 0


def test_a_token_goes_once_to_each_rank_that_holds_one_of_its_experts() -> None:
    found = build_expert_exchange(MIXTURE, on_big(MIXTURE, data_parallel=4))
    reached = 3 * (1 - (3 / 4) ** MIXTURE.experts_per_token)
    assert found.inside_bytes[0] == pytest.approx(reached * MIXTURE.hidden_size * 3)  # sent in 8 bits, back in 16
    assert found.across_bytes[0] == 0
    assert found.expert_layers[0] == MIXTURE.moe_layers


def test_links_and_network_carry_their_shares_side_by_side() -> None:
    inside, across = ExpertExchange(col(10), col(8e3), col(0)), ExpertExchange(col(10), col(8e3), col(8e3))
    assert exchange_slope_s(inside, LINK)[0] == pytest.approx(10 * 8e3 / 225e9)
    assert exchange_slope_s(across, LINK)[0] == pytest.approx(10 * 8e3 / 25e9)
    assert exchange_fixed_s(inside, SPEED)[0] == pytest.approx(10 * 2 * 8e-6)
    assert exchange_fixed_s(across, SPEED)[0] == pytest.approx(10 * 2 * 15e-6)


def test_more_ranks_reach_more_of_them_but_never_more_than_a_token_has_experts() -> None:
    sent = [build_expert_exchange(MIXTURE, on_big(MIXTURE, data_parallel=d)).inside_bytes[0] for d in (2, 4, 8)]
    assert np.all(np.diff(sent) > 0)
    assert sent[-1] <= MIXTURE.experts_per_token * MIXTURE.hidden_size * 3
