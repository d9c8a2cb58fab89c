"""A model apart costs what a recommendation of it costs."""

from __future__ import annotations

from dataclasses import replace

from app.sizing.packing.apart import service_usd_per_hour
from app.sizing.question import Constraints, Question
from app.sizing.recommend import recommend_hardware
from app.sizing.workload import Slo
from tests.examples import CHAT
from tests.sizing.small import SMALL


def test_apart_is_the_cheapest_recommendation() -> None:
    best = recommend_hardware(Question(CHAT), SMALL).recommendations[0].estimate
    assert best.cost is not None
    assert service_usd_per_hour(Question(CHAT), CHAT, SMALL) == best.cost.usd_per_hour


def test_what_nothing_carries_has_no_price() -> None:
    at_once = replace(CHAT, slo=Slo(1e-6, 1e-6, None, 95))
    assert service_usd_per_hour(Question(CHAT), at_once, SMALL) is None
    assert service_usd_per_hour(Question(CHAT, Constraints(max_usd_per_hour=1e-6)), CHAT, SMALL) is None
