"""How many replicas a load takes, worked by hand."""

from __future__ import annotations

import pytest

from app.sizing.decisions.placement import replicas_needed, spare_replicas
from app.sizing.workload import Redundancy
from tests.examples import CHAT, col


def test_replicas_carry_the_target_share() -> None:
    assert replicas_needed(CHAT, col(5 / 0.7 / 3, 100), col(8, 8)).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("redundancy", "spare"),
    [
        (Redundancy(), 0),
        (Redundancy(spare=1), 1),
        (Redundancy(spare=2), 2),
        (Redundancy(double=True), 3),
        (Redundancy(spare=1, zones=2), 3),
        (Redundancy(spare=1, zones=4), 1),
    ],
)
def test_spares_survive_the_loss_of_a_domain(redundancy: Redundancy, spare: int) -> None:
    assert spare_replicas(redundancy, col(3))[0] == spare
