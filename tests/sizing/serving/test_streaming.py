"""What a server in front of an engine adds."""

from __future__ import annotations

import pytest

from app.sizing.serving.streaming import decode_step_s, tokenise_s, uses_server
from app.sizing.workload import Load
from tests.examples import col
from tests.sizing.serving.given import achieved


def test_a_step_takes_at_least_what_handing_out_its_tokens_does() -> None:
    assert decode_step_s(col(0.01, 0.01), col(100, 500), col(40e-6, 40e-6)).tolist() == [0.01, 0.02]


def test_a_prompt_is_tokenised_token_by_token() -> None:
    assert tokenise_s(col(1000), 1.0, achieved(1))[0] == pytest.approx(1000 * 2e-6)


def test_only_what_arrives_is_served() -> None:
    assert [uses_server(load) for load in (Load.OPEN, Load.CLOSED, Load.BATCH, Load.OFFLINE)] == [1, 1, 0, 0]
