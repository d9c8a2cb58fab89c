"""What a kind of system says of how it is had."""

from __future__ import annotations

import pytest

from app.sizing.hardware.parts import Environment, SystemKind
from tests.sizing.small import BIG, system


@pytest.mark.parametrize("kind", SystemKind)
def test_servers_and_workstations_are_bought_and_the_rest_rented(kind: SystemKind) -> None:
    bought = kind in (SystemKind.SERVER, SystemKind.WORKSTATION)
    assert system("x", kind, BIG, 8).environment is (Environment.ON_PREM if bought else Environment.CLOUD)
