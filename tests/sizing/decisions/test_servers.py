"""What a service of many is put on: parts of servers, unless others are named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.rejections import Rejections
from app.sizing.decisions.servers import usual_types
from app.sizing.hardware.parts import Segment
from app.sizing.question import Constraints
from tests.sizing.small import BIG, CARD, DESK, snapshot

TOY = replace(DESK, slug="toy", name="Toy", segment=Segment.CONSUMER)


KIT = replace(DESK, slug="kit", name="Kit", segment=Segment.EDGE)
OF = snapshot(accelerators=[BIG, CARD, DESK, TOY, KIT])


def kept(
    part: str = "toy",
    *,
    serves_many: bool = True,
    only: tuple[str, ...] = (),
    named: tuple[str, ...] = (),
    **limits: Any,
) -> tuple[bool, Rejections]:
    """Whether a part counts, and the rejections."""
    types = [a.slug for a in OF.accelerators]
    allowed = np.array([not only or slug in only for slug in types])
    rejections = Rejections(OF.accelerators)
    outright = np.array([slug in named for slug in types])
    found = usual_types(
        OF, Constraints(**limits), allowed, outright, Assumptions(), rejections, serves_many=serves_many
    )
    return bool(found[OF.accelerator_index[part]]), rejections


def test_a_consumer_part_serves_only_on_request() -> None:
    counts, rejections = kept()
    assert not counts
    assert {(r.accelerator, r.code) for r in rejections.closest_first()} == {
        ("toy", "not_for_servers"),
        ("kit", "not_for_servers"),
    }


def test_one_person_has_a_desktop_and_no_development_kit() -> None:
    assert kept("toy", serves_many=False)[0]
    assert not kept("kit", serves_many=False)[0]
    assert kept("kit", serves_many=False, max_power_w=60.0)[0]


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
    assert "toy" not in {r.accelerator for r in rejections.closest_first()}


def test_a_limit_of_power_that_servers_keep_changes_nothing() -> None:
    assert not kept(max_power_w=5000.0)[0]
