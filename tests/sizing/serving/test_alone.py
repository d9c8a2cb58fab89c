"""The best service by itself is the one that ranks first."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.serving.alone import best_single_service
from tests.examples import CHAT, LLAMA_8B
from tests.sizing.small import SMALL

SMALL_CHAT = replace(CHAT, model=LLAMA_8B, peak_per_s=40.0, average_per_s=20.0)


def test_it_is_what_a_recommendation_ranks_first() -> None:
    question = Question(SMALL_CHAT)
    best = best_single_service(question, SMALL_CHAT, SMALL)
    assert best is not None
    assert len(best) == 1
    first = recommend_hardware(question, SMALL).recommendations[0].estimate
    assert SMALL.accelerators[int(best.accelerator[0])].slug == first.deployment.accelerator
    assert first.cost is not None
    assert float(best.cost.usd_per_hour[0]) == first.cost.usd_per_hour


def test_nothing_is_found_where_nothing_does() -> None:
    assert best_single_service(Question(SMALL_CHAT, Constraints(max_usd_per_hour=0.01)), SMALL_CHAT, SMALL) is None
