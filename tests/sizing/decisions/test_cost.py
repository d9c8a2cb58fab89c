"""How long a volume takes, and how many replicas are done in time, worked by hand. What traffic costs at hosts
that are paid by the token, worked by hand. Purchases in addition to owned machines, computed by hand. What a
deployment costs, and which limits it keeps, worked by hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sizing.assumptions import Assumptions
from app.sizing.columns import GIB, HOURS_PER_MONTH, Codes
from app.sizing.decisions.cost import (
    HOSTS_SHOWN,
    Cost,
    allows_hosted_api,
    break_even_rate_per_s,
    can_meet_deadline,
    cold_start_s,
    deployment_cost,
    estimate_ancillary_costs,
    hosted_costs,
    hosted_usd_per_million,
    hosted_usd_per_month,
    kwh_per_million,
    min_run_s,
    replicas_for_volume,
    run_s,
    usd_per_million,
    usd_total,
    within_limits,
)
from app.sizing.decisions.machines import Candidates
from app.sizing.decisions.ownership import Parts
from app.sizing.decisions.rejections import Rejections
from app.sizing.hardware.parts import Environment
from app.sizing.question import Constraints, Economics
from app.sizing.result import HostedPrice
from app.sizing.workload import InferenceWorkload, Load
from tests.examples import CHAT, col
from tests.sizing.decisions.offered import RENTED_AND_OWNED, machines
from tests.sizing.small import SMALL

OFFLINE = replace(CHAT, load=Load.OFFLINE)
VOLUME = replace(OFFLINE, volume_requests=1e6, deadline_s=36_000.0)


def replicas(workload: InferenceWorkload, capacity: float, *, batch: float = 20.0, start: float = 100.0) -> float:
    """Replicas that a workload takes where four of them share a machine."""
    return float(replicas_for_volume(workload, col(capacity), col(batch), col(start), col(4.0))[0])


@pytest.mark.parametrize(("nodes", "seconds"), [(1.0, 16.0), (2.0, 8.0)])
def test_a_cold_start_reads_the_weights_on_every_machine_and_starts_the_engine(nodes: float, seconds: float) -> None:
    assumed = replace(Assumptions(), model_load_gb_per_s=2.0, engine_start_s=45.0)
    assert cold_start_s(col(32e9), col(nodes), assumed).tolist() == pytest.approx([seconds + 45.0])


def test_a_run_is_its_start_and_an_even_share_of_no_less_than_a_batch() -> None:
    assert run_s(1e6, col(4.0), col(25.0), col(256.0), col(60.0)).tolist() == [60 + 1e6 / 4 / 25]
    assert run_s(100.0, col(4.0), col(25.0), col(256.0), col(60.0)).tolist() == [60 + 256 / 25]
    assert np.isfinite(run_s(100.0, col(4.0), col(0.0), col(1.0), col(60.0))).all()


def test_machines_are_filled_and_the_fewest_in_time() -> None:
    """A million at 3 a second in 35,900 s are 9.3 replicas: three machines of four."""
    assert replicas(VOLUME, 3.0) == 12
    assert replicas(replace(VOLUME, deadline_s=1e9), 3.0) == 4
    assert replicas(replace(VOLUME, deadline_s=None), 3.0) == 4  # as long as it takes
    assert replicas(OFFLINE, 3.0) == 4
    assert replicas(replace(VOLUME, deadline_s=99.0), 3.0) == 4  # no number is enough
    assert replicas(replace(VOLUME, volume_requests=36_000 * 12.0 - 1200), 3.0) == 4  # four, to the second


def test_no_number_of_replicas_goes_below_the_start_and_a_batch() -> None:
    hour = replace(VOLUME, deadline_s=3600.0)
    capacity, batch, start = col(1.0, 1.0, 2.0), col(100.0, 7100.0, 7100.0), col(100.0, 100.0, 100.0)
    assert min_run_s(capacity, batch, start).tolist() == [200.0, 7200.0, 3650.0]
    assert can_meet_deadline(hour, capacity, batch, start).tolist() == [True, False, False]
    assert can_meet_deadline(OFFLINE, capacity, batch, start).all()


@given(
    st.floats(1, 1e7),
    st.floats(200, 1e6),
    st.floats(0.01, 100),
    st.floats(1, 300),
    st.floats(1, 500),
    st.integers(1, 8),
    st.floats(0.1, 100),
)
def test_no_other_number_of_replicas_in_time_costs_less(
    volume: float, deadline: float, capacity: float, batch: float, start: float, each: int, usd: float
) -> None:
    """Compared with every number up to twice the chosen one; machines are paid from start to the end of the volume."""
    asked = replace(OFFLINE, volume_requests=volume, deadline_s=deadline)
    if not can_meet_deadline(asked, col(capacity), col(batch), col(start))[0]:
        return
    (chosen,) = replicas_for_volume(asked, col(capacity), col(batch), col(start), col(float(each))).tolist()
    tried = np.arange(1.0, min(2 * chosen + each, 1e5) + 1)
    lasts = run_s(volume, tried, np.full(len(tried), capacity), col(batch), col(start))
    total = usd * np.ceil(tried / each) * lasts
    if chosen > len(tried):
        return
    assert lasts[int(chosen) - 1] <= deadline * (1 + 1e-6)
    assert total[int(chosen) - 1] <= total[lasts <= deadline].min(initial=np.inf) * (1 + 1e-9)


def price(provider: str = "host", **usd: float | None) -> HostedPrice:
    asked = {"usd_per_million_input": 0.5, "usd_per_million_output": 2.0, "usd_per_million_cached_input": None}
    return HostedPrice("a-model", provider, source="a table", observed="2026-01-01", **{**asked, **usd})  # type: ignore[arg-type]


def test_a_service_costs_its_mean_load_by_the_month() -> None:
    """2 requests/s of 1,024 in and 256 out: 1,280 tokens at 0.8 USD per million, in 2,628,000 seconds."""
    (found,) = hosted_costs(CHAT, [price()], 2 * 1280.0)
    assert found.usd_per_million_tokens == pytest.approx((1024 * 0.5 + 256 * 2.0) / 1280)
    assert found.usd_per_month == pytest.approx(0.8e-6 * 2560 * 2_628_000)
    assert found.usd_total is None


def test_work_that_ends_costs_what_all_of_it_does() -> None:
    work = replace(CHAT, load=Load.OFFLINE, volume_requests=1e6)
    (found,) = hosted_costs(work, [price()], None)
    assert found.usd_total == pytest.approx(1e6 * 1280 * 0.8e-6)
    assert found.usd_per_month is None


def test_cached_input_has_its_own_price_where_the_host_has_one() -> None:
    cached = replace(CHAT, cached_prefix_fraction=0.5)
    (without,), (with_one,) = (
        hosted_costs(cached, [price(usd_per_million_cached_input=usd)], None) for usd in (None, 0.1)
    )
    assert without.usd_per_million_tokens == pytest.approx(0.8)
    assert with_one.usd_per_million_tokens == pytest.approx(0.8 - 0.5 * 1024 * 0.4 / 1280)


def test_a_few_hosts_are_shown_in_order_of_cost() -> None:
    prices = [price(f"host-{i}", usd_per_million_input=float(9 - i)) for i in range(6)]
    found = hosted_costs(CHAT, prices, None)
    assert [c.price.provider for c in found] == ["host-5", "host-4", "host-3"]
    assert len(found) == HOSTS_SHOWN


@pytest.mark.parametrize(
    ("limits", "open_to"),
    [
        (Constraints(), True),
        (Constraints(environments=(Environment.CLOUD,)), True),
        (Constraints(environments=(Environment.ON_PREM,)), False),
        (Constraints(regions=("eu-*",)), False),
        (Constraints(providers=("aws",)), False),
    ],
)
def test_no_host_is_named_where_it_would_have_to_stand_somewhere(limits: Constraints, open_to: bool) -> None:
    assert allows_hosted_api(limits) is open_to


@given(st.floats(0.01, 1e4), st.floats(0.001, 50.0), st.floats(2.0, 1e5))
def test_where_machines_begin_to_pay_both_cost_the_same(usd_per_hour: float, usd: float, tokens: float) -> None:
    rate = break_even_rate_per_s(usd_per_hour, usd, tokens)
    assert hosted_usd_per_month(usd, rate * tokens) == pytest.approx(usd_per_hour * HOURS_PER_MONTH)


@given(st.floats(0.01, 10.0), st.floats(0.01, 40.0), st.floats(1.0, 1e5), st.floats(0.0, 1e4), st.floats(0.0, 1.0))
def test_a_million_lies_between_the_prices_it_is_made_of(
    prompt: float, output: float, tokens_in: float, tokens_out: float, cached: float
) -> None:
    found = hosted_usd_per_million(prompt, prompt / 10, output, tokens_in, tokens_out, cached)
    assert min(prompt / 10, output) * (1 - 1e-9) <= found <= max(prompt, output) * (1 + 1e-9)


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


def test_cost_and_energy_per_million() -> None:
    # 110.2 / 3600 / 27000 * 1e6, and 11.2 kW / 3600 / 27000 * 1e6
    assert usd_per_million(col(110.2), col(27000))[0] == pytest.approx(1.13374, rel=1e-5)
    assert kwh_per_million(col(11200), col(27000))[0] == pytest.approx(0.115226, rel=1e-5)
    assert kwh_per_million(col(11200), col(0))[0] > 1e9
    assert usd_per_million(col(2), col(0))[0] > 1e12  # nothing is made: no division by zero, and no bargain


def test_work_that_ends_pays_its_machines_for_as_long_as_it_lasts() -> None:
    assert usd_total(col(80.0), col(2.5 * 86_400))[0] == pytest.approx(2.5 * 24 * 80)


def test_rent_is_paid_per_machine_and_owners_pay_for_racks_and_their_network() -> None:
    """Machines of eight at 40 USD an hour, or bought at 300,000 and 16 an hour; every two of them work as one."""
    cost = deployment_cost(
        RENTED_AND_OWNED, col(4, 4), col(2, 2), Assumptions(), Economics(horizon_months=24, electricity_usd_per_kwh=0)
    )
    ancillary = 4 * (8 * 400 * 4.7 + 9 * 200)  # eight ports of 400 Gbit/s, nine kilowatts
    upkeep = 0.05 / 8760 * ancillary
    assert cost.usd_per_hour.tolist() == pytest.approx([4 * 40, 4 * 16 + ancillary / (24 * 730) + upkeep])
    assert np.isnan(cost.purchase_usd[0])
    assert cost.purchase_usd[1] == 4 * 300_000 + ancillary
    assert cost.tco_usd.tolist() == pytest.approx([160 * 24 * 730, 64 * 24 * 730 + ancillary * (1 + 2 * 0.05)])


def test_a_fleet_draws_the_power_of_all_its_machines() -> None:
    cost = deployment_cost(RENTED_AND_OWNED, col(1, 5), col(0, 0), Assumptions(), Economics())
    assert cost.power_w.tolist() == [7500, 5 * 7000]
    assert cost.rated_w.tolist() == [10_000, 5 * 9000]


# Rows: one and two machines of the first type, one of the second, which is owned.
COST = Cost(
    usd_per_hour=col(40, 80, 16),
    purchase_usd=col(np.nan, np.nan, 300_000),
    power_w=col(7500, 15_000, 7000),
    rated_w=col(10_000, 20_000, 9000),
    tco_usd=col(1e6, 2e6, 5e5),
    carbon_kg=col(3000, 6000, 300),
)
ACCELERATOR: Codes = np.array([0, 0, 1])


def limited(**limits: Any) -> tuple[list[bool], Rejections]:
    rejections = Rejections(SMALL.accelerators)
    kept = within_limits(ACCELERATOR, col(8, 16, 8), COST, Constraints(**limits), rejections)
    return kept.tolist(), rejections


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, [True, True, True]),
        ({"max_accelerators": 8}, [True, False, True]),
        ({"max_accelerators": 7}, [False, False, False]),
        ({"max_usd_per_hour": 40.0}, [True, False, True]),
        ({"max_usd_per_hour": 39.99}, [False, False, True]),
        ({"max_purchase_usd": 300_000.0}, [True, True, True]),
        ({"max_purchase_usd": 299_999.0}, [True, True, False]),  # rented machines are not bought
        ({"max_power_w": 10_000.0}, [True, False, True]),  # what it is rated for, not what it draws
        ({"max_power_w": 9_999.0}, [False, False, True]),
        ({"max_power_w": 15_000.0}, [True, False, True]),
        ({"max_accelerators": 8, "max_power_w": 9_500.0}, [False, False, True]),
    ],
)
def test_limits_are_kept_to_the_last_dollar_and_watt(limits: dict[str, Any], kept: list[bool]) -> None:
    assert limited(**limits)[0] == kept


@pytest.mark.parametrize(
    ("limits", "accelerator", "code", "needed", "available", "unit", "says"),
    [
        (
            {"max_accelerators": 4},
            0,
            "too_many_accelerators",
            8,
            4,
            "accelerators",
            "needs 8 accelerators; the limit is 4",
        ),
        (
            {"max_usd_per_hour": 10.0},
            0,
            "over_budget",
            40,
            10,
            "usd_per_hour",
            "costs 40.00 USD/h for 8 accelerators; the budget is 10.00 USD/h",
        ),
        (
            {"max_purchase_usd": 1e5},
            1,
            "over_budget",
            300_000,
            1e5,
            "usd",
            "costs 300,000 USD upfront for 8 accelerators; the purchase budget is 100,000 USD",
        ),
        (
            {"max_power_w": 5000.0},
            0,
            "over_power",
            10,
            5,
            "kw",
            "draws up to 10 kW with 8 accelerators; the limit is 5",
        ),
    ],
)
def test_a_type_that_keeps_no_limit_says_by_how_much(
    limits: dict[str, Any], accelerator: int, code: str, needed: float, available: float, unit: str, says: str
) -> None:
    found = limited(**limits)[1].by_accelerator[accelerator]
    assert (found.code, found.needed, found.available, found.unit) == (code, needed, available, unit)
    assert says in found.text


def test_only_what_an_earlier_limit_left_is_held_against_the_next() -> None:
    """The first type's small plan is over the money; its large one, over the number, is not blamed on the money."""
    kept, rejections = limited(max_accelerators=8, max_usd_per_hour=20.0)
    assert kept == [False, False, True]
    assert rejections.by_accelerator[0].needed == 40
    assert list(rejections.by_accelerator) == [0]
