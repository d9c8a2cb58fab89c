"""The bill adds up to the cost, whatever is rented, bought or put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.decisions.bill import itemize_costs
from app.sizing.decisions.cost import deployment_cost
from app.sizing.hardware.prices import KINDS
from app.sizing.question import Economics
from app.sizing.result import Part
from app.sizing.units import GIB
from tests.examples import col
from tests.sizing.decisions.offered import asked

MACHINES = len(asked(price_kinds=KINDS)[0])


def spent(lines: Sequence[Part]) -> float:
    return sum(part.quantity * part.unit_usd for part in lines if part.unit_usd is not None)


def hourly(lines: Sequence[Part]) -> float:
    return sum(part.quantity * part.usd_per_hour for part in lines if part.usd_per_hour is not None)


def named(lines: Sequence[Part], what: str) -> Part:
    (found,) = (part for part in lines if part.what == what)
    return found


@given(
    st.lists(st.integers(1, 3000), min_size=MACHINES, max_size=MACHINES),
    st.integers(1, 100),
    st.floats(0, 2000),
    st.builds(
        Economics,
        horizon_months=st.floats(1, 240),
        electricity_usd_per_kwh=st.floats(0, 2),
        pue=st.floats(1, 3),
        discounts=st.sampled_from([(), (("acme-big", 0.3), ("acme-card", 0.1))]),
    ),
)
def test_every_cost_adds_up_from_its_bill(
    machines: list[int], linked: int, host_gib: float, economics: Economics
) -> None:
    found, nodes = asked(economics=economics, price_kinds=KINDS)[0], col(*machines)
    joined, host = np.full(MACHINES, float(linked)), host_gib * GIB
    cost = deployment_cost(found, nodes, joined, Assumptions(), economics, host_bytes=host)
    for row, lines in enumerate(itemize_costs(found, nodes, joined, Assumptions(), economics, host_bytes=host)):
        hours = named(lines, "horizon_hours").quantity
        assert spent(lines) / hours + hourly(lines) == pytest.approx(cost.usd_per_hour[row])
        assert hours * cost.usd_per_hour[row] == pytest.approx(cost.tco_usd[row])
        assert machines[row] * named(lines, "machine_kw").quantity * 1e3 == pytest.approx(cost.power_w[row])
        if np.isnan(cost.purchase_usd[row]):
            assert not [part for part in lines if part.unit_usd is not None]
        else:
            assert spent(lines) == pytest.approx(cost.purchase_usd[row])


def test_a_quoted_machine_is_one_line_and_another_says_what_is_in_it() -> None:
    one = np.ones(MACHINES)
    lines = {
        tuple(part.what for part in bill if part.unit_usd is not None)
        for bill in itemize_costs(asked(price_kinds=KINDS)[0], one, one, Assumptions(), Economics())
    }
    assert lines == {
        (),
        ("machine", "rack_kw"),
        ("accelerator", "chassis", "processors", "memory", "rack_kw"),
        ("accelerator", "chassis", "processors", "memory"),  # under a desk
    }
