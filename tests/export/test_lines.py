"""Items without a price are listed for a quote, and are in no total. Lines of a bill from a stored answer:
purchases, rentals, monthly payments and items to quote.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.export.lines import (
    CENT,
    NothingPriced,
    Settlement,
    Unit,
    UnknownRank,
    build_bill,
    lines_to_quote,
    round_half_up,
)
from tests.export import stored

USD = Settlement()


def named(option: dict[str, Any], *lots: dict[str, Any]) -> list[tuple[str, int]]:
    lines = list(lines_to_quote(option, lots))
    assert all(line.total is None and line.notes == "to be quoted" for line in lines)
    return [(line.goods, int(line.quantity)) for line in lines]


def test_servers_are_installed_and_clouds_charge_for_traffic_once_per_seller() -> None:
    assert named({}, stored.BOUGHT, stored.RENTED, stored.RENTED) == [("installation", 5), ("egress", 1)]


def test_an_engine_that_is_sold_is_licensed_per_accelerator() -> None:
    licensed = {"licence": "NVIDIA AI Enterprise"}
    found = named({}, {**stored.BOUGHT, **licensed}, {**stored.RENTED, **licensed})
    assert ("licence", 48) in found
    assert [line.description for line in lines_to_quote({}, [{**stored.BOUGHT, **licensed}])][-1] == (
        "NVIDIA AI Enterprise, per accelerator, over the term"
    )


def test_owned_pools_need_a_network_between_them() -> None:
    both = {**stored.BOUGHT, "pool": "prefill"}, {**stored.BOUGHT, "pool": "decode"}
    option = {"performance": {"pools": {"transfer": {"link": "network", "gbit_per_s": 1120}}}}
    assert named(option, *both) == [("installation", 10), ("network", 10)]
    assert named({"performance": {"pools": {"transfer": {"link": "scale_up"}}}}, *both) == [("installation", 10)]


def test_a_run_needs_storage_for_its_checkpoints() -> None:
    run = {"performance": {"cluster": {"checkpoint_capacity_tb": 1.25}, "required_storage_gb_per_s": 0.5}}
    (line,) = lines_to_quote(run, [])
    assert (line.quantity, line.description) == (Decimal("1.250"), "Checkpoint storage, written at 0.5 GB/s")


@pytest.mark.parametrize(
    ("packing", "more"),
    [
        ({"machines": 8, "cheaper": "together"}, [("machine", 3)]),
        ({"machines": 5, "cheaper": "together"}, []),
        ({"machines": 8, "cheaper": "apart"}, []),
        ({}, []),
    ],
)
def test_companions_need_machines_beyond_those_of_the_first_where_they_share_them(
    packing: dict[str, Any], more: list[tuple[str, int]]
) -> None:
    together = {**packing, "models": [{"name": "one"}, {"name": "two"}]}
    assert named({"packing": together}, stored.BOUGHT) == [("installation", 5), *more]


def test_a_discount_is_shown_with_the_price_before_it() -> None:
    lot = {**stored.BOUGHT, "discount": 0.2}
    machine, network, rack = build_bill(stored.answer(1), stored.supply(lot), 1, USD).lines[:3]
    assert machine.notes == "20 % negotiated discount on 462,500.00 USD"
    assert network.description.endswith("switches, cables, optics; connects 5 machines at 3,200 Gbit/s each")
    assert network.notes == rack.notes == ""
    lot = {**stored.RENTED, "discount": 0.1}
    rented = build_bill(stored.answer(1), stored.supply(lot), 1, USD).lines[0]
    assert rented.notes == "10 % negotiated discount on 3.84 USD"
    assert rented.description.endswith("on demand from A Cloud, eu-1; 8 machines")


def test_servers_that_are_bought_are_lines_with_price_source_and_age() -> None:
    bill = build_bill(stored.answer(), stored.supply(), 1, USD)
    assert [(line.goods, int(line.quantity), line.unit) for line in bill.lines] == [
        ("machine", 5, Unit.EACH),
        ("network", 16_000, Unit.GBIT_PER_S),
        ("rack", 51, Unit.KILOWATT),
        ("support", 36, Unit.MONTH),
        ("hosting", 36, Unit.MONTH),
        ("power", 36, Unit.MONTH),
        ("installation", 5, Unit.EACH),
    ]
    machine = bill.lines[0]
    assert (machine.part_number, machine.manufacturer) == ("SYS-821GE-TNHR", "Supermicro")
    assert machine.price is not None
    assert (machine.price.kind, machine.price.age_days) == ("quote", 113)  # 2 August to 23 November
    assert machine.codes["unspsc"] == "43211501"
    # 5 x 370,000 + 16,000 x 4.70 + 51 x 200
    assert bill.once == Decimal("1935400.00")
    # 38.25 kW x 0.156 USD x 730 h a month, to the cent
    assert bill.lines[5].unit_price == Decimal("4355.91")
    assert bill.total == bill.subtotal == bill.once + bill.over_term


def test_machines_without_a_quote_are_bought_part_by_part() -> None:
    bill = build_bill(stored.answer(), stored.supply(), 2, USD)
    cards = bill.lines[0]
    assert (cards.sku, cards.manufacturer, cards.total) == (stored.ACCELERATOR["sku"], "NVIDIA", Decimal("1240000.00"))
    assert cards.price is not None
    assert cards.price.kind == "list"
    around = bill.lines[1]
    assert around.price is not None
    assert (around.sku, around.price.kind) == ("smci-821ge-h200/chassis", "estimate")
    assert bill.lines[4].unit is Unit.GIBIBYTE
    assert bill.lines[4].total == Decimal("13.50")


def test_rent_is_by_the_hour_over_the_horizon_or_as_long_as_the_work_takes() -> None:
    line, traffic = build_bill(stored.answer(), stored.supply(), 3, USD).lines
    assert (traffic.goods, traffic.description, traffic.total) == (
        "egress",
        "Egress traffic from A Cloud over the term, as metered",
        None,
    )
    assert (line.unit, line.quantity, line.unit_price) == (Unit.HOUR, Decimal(8 * 26_280), Decimal("3.4568"))
    assert line.supplier_part_id == "h200.1"
    run = stored.answer(days=2.5)
    run["recommendations"][2]["cost"]["usd_total"] = 1659.25
    line, _ = build_bill(run, stored.supply(), 3, USD).lines
    assert line.quantity == 8 * 60
    assert line.total == Decimal("1659.26")


def test_a_commitment_is_by_the_month_over_its_term() -> None:
    line, _ = build_bill(stored.answer(), stored.supply(), 4, USD).lines
    assert (line.unit, line.quantity, line.term_months) == (Unit.MONTH, Decimal(8 * 12), Decimal(12))
    assert line.unit_price == Decimal("2523.45")  # 3.45678 USD x 730 h
    assert "1,000.00 USD per machine is paid upfront" in line.notes


def test_what_has_no_price_is_asked_for_and_in_no_total() -> None:
    bill = build_bill(stored.answer(), stored.supply(), 5, USD)
    assert [(line.goods, line.total) for line in bill.lines] == [("machine", None)]
    assert bill.total == 0
    with pytest.raises(NothingPriced):
        bill.require_priced_lines()
    needs = {"checkpoint_capacity_tb": 1.25, "network_gbit_per_s_per_node": 800}
    asked = build_bill(stored.answer(cluster=needs, required_storage_gb_per_s=0.5), stored.supply(), 1, USD).lines[-1]
    assert (asked.goods, asked.quantity, asked.unit, asked.total) == ("storage", Decimal("1.25"), Unit.TERABYTE, None)


def test_what_the_caller_said_is_of_the_day_of_the_answer() -> None:
    supply = stored.supply()
    supply["derived"]["power_kw"] = {"kind": "asked", "source": "request", "confidence": "high"}
    power = build_bill(stored.answer(), supply, 1, USD).lines[5].price
    assert power is not None
    assert (power.kind, power.observed, power.age_days) == ("asked", "2026-11-23", 0)


def test_an_answer_of_an_earlier_version_has_the_current_price_kind() -> None:
    supply = stored.supply()
    supply["reckoned"] = supply.pop("derived")
    supply["reckoned"]["power_kw"]["kind"] = "reckoned"
    power = build_bill(stored.answer(), supply, 1, USD).lines[5].price
    assert power is not None
    assert power.kind == "estimate"


def test_pools_are_lots_of_their_own() -> None:
    supply = stored.supply()
    supply["ranks"][0] = [{"pool": "prefill", **stored.RENTED}, {"pool": "decode", **stored.BOUGHT}]
    bill = build_bill(stored.answer(), supply, 1, USD)
    assert bill.title == "8 x NVIDIA H200 SXM 141GB and 40 x NVIDIA H200 SXM 141GB"
    assert [line.description.endswith("(prefill pool)") for line in bill.lines[:2]] == [True, False]
    assert bill.lines[1].description.endswith("(decode pool)")


def test_a_rank_that_is_not_there_says_which_are() -> None:
    with pytest.raises(UnknownRank, match="ranks 1 to 5"):
        build_bill(stored.answer(), stored.supply(), 6, USD)
    with pytest.raises(UnknownRank, match="nothing to buy"):
        build_bill(stored.answer(0), stored.supply(), 1, USD)


def test_another_currency_is_converted_by_line_and_taxed_as_given() -> None:
    euro = Settlement("EUR", Decimal("0.92"), date(2026, 11, 20), "VAT", Decimal("19"))
    bill = build_bill(stored.answer(), stored.supply(), 1, euro)
    assert bill.lines[0].unit_price == Decimal("340400.00")
    assert bill.tax == round_half_up(bill.subtotal * Decimal("0.19"), CENT)
    assert bill.total == bill.subtotal + bill.tax


@given(
    st.lists(st.tuples(st.floats(0.001, 1e6), st.floats(0.01, 1e7)), min_size=1, max_size=8),
    st.decimals("0.0001", 1000, places=4),
    st.decimals(0, 100, places=3),
)
def test_totals_are_the_sums_of_the_lines_shown(
    bought: list[tuple[float, float]], rate: Decimal, percent: Decimal
) -> None:
    parts = [{"what": "rack_kw", "quantity": quantity, "unit_usd": usd} for quantity, usd in bought]
    lot = {**stored.BOUGHT, "parts": [*parts, *stored.RUNNING]}
    settled = Settlement("EUR", rate, date(2026, 11, 20), "tax", percent)
    bill = build_bill(stored.answer(1), stored.supply(lot), 1, settled)
    shown = [line.quantity * line.unit_price for line in bill.lines if line.unit_price is not None]
    assert bill.subtotal == sum(round_half_up(amount, CENT) for amount in shown)
    assert bill.once + bill.over_term == bill.subtotal
    assert bill.total == bill.subtotal + round_half_up(bill.subtotal * percent / 100, CENT)
