"""Tentative support counts as tentative only beside better."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.hardware.support import EngineSupport, least_tentative

SURE = EngineSupport("vllm", "nvidia_hopper", "inference", {"bf16": True}, (), "a test")


def test_the_best_that_is_known_of_a_family_is_not_tentative() -> None:
    rows = (
        SURE,
        replace(SURE, engine="mlc", tentative=True),
        replace(SURE, engine="mlc", phase="training", tentative=True),  # nothing surer trains on it
        replace(SURE, engine="mlc", family="apple", tentative=True),
    )
    assert [row.tentative for row in least_tentative(rows)] == [False, True, False, False]
