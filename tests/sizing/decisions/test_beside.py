"""Purchases in addition to owned machines, computed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.beside import estimate_ancillary_costs
from app.sizing.decisions.chassis import Parts
from app.sizing.decisions.machines import Candidates
from app.sizing.units import GIB
from tests.examples import col
from tests.sizing.decisions.offered import machines

# Machines of eight with 400 Gbit/s each: rented, bought, and bought in parts with an unknown network.
FOUND = machines(
    purchase_usd=col(np.nan, 300_000, 200_000),
    network_bytes_per_s=col(50e9, 50e9, np.nan),
    parts=Parts(*(col(np.nan, np.nan, v) for v in (160_000, 14_000, 7_680, 640 * GIB, 27))),
)


@pytest.mark.parametrize(
    ("linked", "per_gbit"), [(1, 0), (2, 4.7), (64, 4.7), (65, 4.7 * 2.27), (2048, 4.7 * 2.27), (2049, 4.7 * 3.53)]
)
def test_a_network_costs_by_the_tiers_that_join_its_machines(linked: float, per_gbit: float) -> None:
    found = estimate_ancillary_costs(FOUND, col(*[linked] * 3), col(*[linked] * 3), 0.0, Assumptions())
    cards = 3.75 if linked > 1 else 0.0  # the usual 100 Gbit/s for each accelerator, and cards for them
    assert found.network_usd.tolist() == pytest.approx([0, linked * 3200 * per_gbit, linked * 800 * (per_gbit + cards)])


def test_racks_are_of_servers_and_memory_of_machines_put_together() -> None:
    desks = replace(FOUND, node=replace(FOUND.node, workstation=np.array([False, False, True])))
    found = estimate_ancillary_costs(
        desks, col(2, 2, 2), col(1, 1, 1), col(800 * GIB, 800 * GIB, 800 * GIB), Assumptions()
    )
    assert found.racks_usd.tolist() == [0, 2 * 10 * 200, 0]
    assert found.more_memory_usd.tolist() == pytest.approx([0, 0, 2 * (1000 - 640) * 27])  # 800 GiB are 80 % of 1000
    assert found.network_usd.tolist() == [0, 0, 0]


def total(found: Candidates, nodes: float, linked: float, host_gib: float) -> np.ndarray:
    n = len(found)
    bought = estimate_ancillary_costs(
        found, np.full(n, nodes), np.full(n, linked), np.full(n, host_gib * GIB), Assumptions()
    )
    return bought.network_usd + bought.racks_usd + bought.more_memory_usd


@given(st.integers(1, 5000), st.integers(1, 5000), st.floats(0, 4000), st.integers(0, 3), st.floats(0, 1000))
def test_more_machines_and_more_memory_never_cost_less(
    nodes: int, more: int, host_gib: float, times: int, gib: float
) -> None:
    linked, wider = 1 + nodes % 7, 1 + nodes % 7 + times * 40
    assert (total(FOUND, nodes + more, wider, host_gib + gib) >= total(FOUND, nodes, linked, host_gib)).all()
