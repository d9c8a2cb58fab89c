"""Links and what a collective takes over them, worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.sizing.hardware.links import all_reduce_s, machine_link
from app.sizing.hardware.parts import Link
from tests.examples import col
from tests.sizing.small import BIG, CARD, SYSTEMS


def test_ring_all_reduce() -> None:
    assert all_reduce_s(col(1e6), col(8), col(337.5e9))[0] == pytest.approx(1.75e6 / 337.5e9)
    assert all_reduce_s(col(1e6), col(1), col(1e15))[0] == 0


def test_a_machine_of_which_no_more_is_known_is_wired_as_usual() -> None:
    assert machine_link(BIG, count=8) == (Link.SCALE_UP, 450e9, 8.0)
    assert machine_link(BIG, count=4) == (Link.SCALE_UP, 450e9, 4.0)
    assert machine_link(BIG, count=16) == (Link.SCALE_UP, 450e9, 8.0)  # two boards
    assert machine_link(BIG, count=1) == (Link.NONE, 0.0, 1.0)
    assert machine_link(CARD, count=4) == (Link.PCIE, 32e9, 4.0)


def test_a_domain_beyond_the_machine_links_even_a_single_chip() -> None:
    chip = replace(BIG, link_spans_machines=True, scaleup_domain_size=256)
    assert machine_link(chip, count=1) == (Link.SCALE_UP, 450e9, 256.0)
    assert machine_link(chip, count=8) == (Link.SCALE_UP, 450e9, 256.0)


def test_what_a_system_says_of_its_wiring_counts() -> None:
    pairs = replace(SYSTEMS[0], link=Link.SCALE_UP, scaleup_domain_size=2.0)
    assert machine_link(BIG, count=8, system=pairs) == (Link.SCALE_UP, 450e9, 2.0)
    slots = replace(SYSTEMS[0], link=Link.PCIE, scaleup_domain_size=None)
    assert machine_link(BIG, count=8, system=slots) == (Link.PCIE, 64e9, 8.0)
    assert machine_link(BIG, count=8, system=replace(slots, link=Link.NONE)) == (Link.NONE, 0.0, 1.0)
