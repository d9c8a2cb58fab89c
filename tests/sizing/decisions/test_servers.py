"""What a service of many is put on: parts of servers, unless others are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.servers import fit_to_serve
from app.sizing.hardware.parts import Segment
from app.sizing.question import Constraints
from tests.sizing.small import BIG, CARD, DESK, snapshot

TOY = replace(DESK, slug="toy", name="Toy", segment=Segment.CONSUMER)
OF = snapshot(accelerators=[BIG, CARD, DESK, TOY])
PLACE = OF.accelerator_index["toy"]


def kept(*, only: tuple[str, ...] = (), named: tuple[str, ...] = (), **limits: Any) -> tuple[bool, Rejections]:
    """Whether the consumer part counts, and what was turned down."""
    types = [a.slug for a in OF.accelerators]
    allowed = np.array([not only or slug in only for slug in types])
    rejections = Rejections(OF.accelerators)
    outright = np.array([slug in named for slug in types])
    found = fit_to_serve(OF, Constraints(**limits), allowed, outright, Assumptions(), rejections)
    return bool(found[PLACE]), rejections


def test_a_consumer_part_serves_nobody_unasked() -> None:
    counts, rejections = kept()
    assert not counts
    (one,) = rejections.nearest()
    assert (one.accelerator, one.code) == ("toy", "not_for_servers")


@pytest.mark.parametrize(
    "asked",
    [
        {"segments": ("consumer",)},
        {"named": ("toy",)},
        {"only": ("toy",)},
        {"max_power_w": 60.0},
    ],
    ids=["segment", "named", "nothing else", "no server draws so little"],
)
def test_it_counts_where_it_is_asked_for(asked: dict[str, Any]) -> None:
    counts, rejections = kept(**asked)
    assert counts
    assert not rejections.nearest()


def test_a_limit_of_power_that_servers_keep_changes_nothing() -> None:
    assert not kept(max_power_w=5000.0)[0]
