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
from lxml import etree

from app.export.cxml import cxml_bytes
from app.export.lines import (
    CENT,
    NothingPriced,
    Settlement,
    Trade,
    Unit,
    UnknownRank,
    build_bill,
    lines_to_quote,
    racks_needed,
    round_half_up,
    shorten_text,
)
from app.export.order import OrderDetails
from app.export.quotes import quote_groups
from app.export.ubl import ubl_bytes
from app.sizing.hardware.listings import INVENTORY
from tests.export import stored

USD = Settlement()
SITE = [("network", 5), ("power_distribution", 5), ("installation", 5)]  # what the servers of stored.BOUGHT need


def named(option: dict[str, Any], *lots: dict[str, Any]) -> list[tuple[str, int]]:
    lines = list(lines_to_quote(option, lots))
    assert all(line.total is None and line.notes.startswith("to be quoted") for line in lines)
    return [(line.goods, int(line.quantity)) for line in lines]


def test_servers_are_installed_and_clouds_charge_for_traffic_once_per_seller() -> None:
    assert named({}, stored.BOUGHT, stored.RENTED, stored.RENTED) == [*SITE, ("egress", 1)]


def test_a_rack_holds_what_its_units_and_its_power_allow() -> None:
    assert racks_needed(12, 2.8, 2.0) == 2  # 20 kW feed seven machines of 2.8 kW
    assert racks_needed(12, 0.5, 8.0) == 3  # 42 units hold five machines of eight
    assert racks_needed(3, 132.0, 48.0) == 3  # a machine that is a rack of its own
    assert racks_needed(40, 0.4, None) == 1  # of unknown height: by power alone


def test_towers_are_set_up_on_a_network_and_need_no_rack() -> None:
    tower = {**stored.BOUGHT, "parts": [part for part in stored.BOUGHT["parts"] if part["what"] != "rack_kw"]}
    assert named({}, tower) == [("network", 5), ("installation", 5)]
    assert named({}, {**tower, "machines": 1}) == [("installation", 1)]
    texts = [line.description for line in lines_to_quote({}, [tower])]
    assert texts[-1] == "Delivery and set-up, per machine"


def test_machines_of_unknown_disks_need_room_for_the_weights_of_a_replica() -> None:
    bare = {**stored.BOUGHT, "machine": {"sku": "x", "name": "a server"}}
    service = {
        "memory": {"per_accelerator_gib": {"weights": 34.0}},
        "deployment": {"accelerators_per_replica": 2},
    }
    (disks,) = (line for line in lines_to_quote(service, [bare]) if line.goods == "storage")
    # 2 x 34 GiB are 73 GB
    assert disks.description == "NVMe storage, per machine: operating system and 73 GB of model weights"
    assert not [line for line in lines_to_quote(service, [stored.BOUGHT]) if line.goods == "storage"]


@pytest.mark.parametrize(
    ("seller", "note"), [("Amazon Web Services", "0.09 USD per GB"), ("Nebius", "free of charge"), ("A Cloud", "")]
)
def test_a_published_price_of_traffic_is_a_note_and_the_line_still_needs_a_quote(seller: str, note: str) -> None:
    (traffic,) = (x for x in lines_to_quote({}, [{**stored.RENTED, "seller": seller}]) if x.goods == "egress")
    assert traffic.usd is None and traffic.notes.startswith("to be quoted")
    assert note in traffic.notes and ("published price" in traffic.notes) == bool(note)


def test_checkpoints_are_stored_at_the_published_price_of_the_provider() -> None:
    run = {"performance": {"cluster": {"checkpoint_capacity_tb": 4.0}}}
    rented = {**stored.RENTED, "seller": "CoreWeave"}  # bills name sellers as people do
    (storage,) = (line for line in lines_to_quote(run, [rented]) if line.goods == "storage")
    assert "0.07 USD per GB and month, distributed file storage" in storage.notes
    lasting = {"performance": {**run["performance"], "days": 73.0}}
    (storage,) = (line for line in lines_to_quote(lasting, [rented]) if line.goods == "storage")
    # 4,000 GB x 0.07 USD x 73 days of 24 / 730 months
    assert storage.notes.endswith("; about 672 USD over 2.4 months, in no total") and storage.usd is None
    (own,) = (line for line in lines_to_quote(run, [stored.BOUGHT]) if line.unit is Unit.TERABYTE)
    assert own.notes == "to be quoted"
    small = {"performance": {"cluster": {"checkpoint_capacity_tb": 0.009}, "required_storage_gb_per_s": 0.00322}}
    (line,) = (line for line in lines_to_quote(small, [rented]) if line.goods == "storage")
    assert (line.quantity, line.unit) == (Decimal(9), Unit.GIGABYTE)
    assert line.description == "Checkpoint storage, written at 3.22 MB/s"


def test_an_engine_that_is_sold_is_licensed_per_accelerator() -> None:
    licensed = {"licence": "NVIDIA AI Enterprise"}
    found = named({}, {**stored.BOUGHT, **licensed}, {**stored.RENTED, **licensed})
    assert ("licence", 48) in found
    assert [line.description for line in lines_to_quote({}, [{**stored.BOUGHT, **licensed}])][-1] == (
        "NVIDIA AI Enterprise, per accelerator, over the term"
    )
    (sold,) = (line for line in lines_to_quote({}, [{**stored.BOUGHT, **licensed}]) if line.goods == "licence")
    assert "4,500 USD per accelerator and year, or 1 USD per accelerator hour" in sold.notes and sold.usd is None
    (sold,) = (line for line in lines_to_quote({}, [{**stored.BOUGHT, **licensed}], 36.0) if line.goods == "licence")
    assert sold.notes.endswith("; about 540,000 USD over 36 months, in no total")  # 40 accelerators, three years


def test_owned_pools_need_a_network_between_them() -> None:
    both = {**stored.BOUGHT, "pool": "prefill"}, {**stored.BOUGHT, "pool": "decode"}
    option = {"performance": {"pools": {"transfer": {"link": "network", "gbit_per_s": 1120}}}}
    assert named(option, *both) == [*SITE, *SITE, ("network", 10)]
    assert named({"performance": {"pools": {"transfer": {"link": "scale_up"}}}}, *both) == [*SITE, *SITE]


def test_a_run_needs_storage_for_its_checkpoints() -> None:
    run = {"performance": {"cluster": {"checkpoint_capacity_tb": 1.25}, "required_storage_gb_per_s": 0.5}}
    (line,) = lines_to_quote(run, [])
    assert (line.quantity, line.description) == (Decimal("1.250"), "Checkpoint storage, written at 0.5 GB/s")
    assert (line.kind, line.once, line.supplier) == ("storage", True, None)
    rented = list(lines_to_quote(run, [stored.RENTED]))[-1]
    assert (rented.kind, rented.once, rented.supplier) == ("cloud", False, "A Cloud")


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
    assert named({"packing": together}, stored.BOUGHT) == [*SITE, *more]


def test_a_discount_is_shown_with_the_price_before_it() -> None:
    lot = {**stored.BOUGHT, "discount": 0.2}
    machine, network, rack = build_bill(stored.answer(1), stored.supply(lot), 1, USD).lines[:3]
    discount, lead_time = machine.notes.split("; ")
    assert discount == "20 % negotiated discount on 462,500.00 USD"
    assert lead_time == "reported lead time: 40 weeks or more (resellers, 2026-06-30, spheron.network)"
    assert network.description.endswith("cables and optics, 3,200 Gbit/s for each of 5 machines")
    assert network.notes == rack.notes == ""
    lot = {**stored.RENTED, "discount": 0.1}
    rented = build_bill(stored.answer(1), stored.supply(lot), 1, USD).lines[0]
    assert rented.notes.endswith("; 10 % negotiated discount on 3.84 USD")
    assert rented.description.endswith("on demand from A Cloud, eu-1; 8 machines")


def test_servers_that_are_bought_are_lines_with_price_source_and_age() -> None:
    bill = build_bill(stored.answer(), stored.supply(), 1, USD)
    assert [(line.goods, int(line.quantity), line.unit) for line in bill.lines] == [
        ("machine", 5, Unit.EACH),
        ("network", 5, Unit.EACH),
        ("rack", 5, Unit.EACH),
        ("support", 36, Unit.MONTH),
        ("hosting", 36, Unit.MONTH),
        ("power", 36, Unit.MONTH),
        ("network", 5, Unit.EACH),
        ("power_distribution", 5, Unit.EACH),
        ("installation", 5, Unit.EACH),
    ]
    assert bill.lines[2].description == "Rack with power strips, 42 units, for machines of 8 units and 10.2 kW each"
    assert bill.lines[3].notes == "term assumed: 36 months"
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


def test_rent_is_by_the_hour_for_a_month_or_the_requested_term_or_as_long_as_the_work_takes() -> None:
    line, traffic = build_bill(stored.answer(), stored.supply(), 3, USD).lines
    assert (traffic.goods, traffic.description, traffic.total) == (
        "egress",
        "Egress traffic from A Cloud over the term, as metered",
        None,
    )
    assert (line.unit, line.quantity, line.unit_price) == (Unit.HOUR, Decimal(8 * 730), Decimal("3.4568"))
    assert (line.supplier_part_id, line.supplier, line.manufacturer) == ("h200.1", "A Cloud", "NVIDIA")
    assert (line.term_months, line.notes.partition(";")[0]) == (Decimal(1), "monthly rate at 730 hours")
    yearly = {**stored.answer(), "request": {"economics": {"horizon_months": 12}}}
    line, _ = build_bill(yearly, stored.supply(), 3, USD).lines
    assert (line.quantity, line.term_months) == (Decimal(8 * 730 * 12), Decimal(12))
    assert line.notes == "term as requested: 12 months, 730 hours each"
    line, _ = build_bill(yearly, stored.supply(), 3, USD, OrderDetails(term_months=2)).lines
    assert line.quantity == Decimal(8 * 730 * 2)
    run = stored.answer(days=2.5)
    run["recommendations"][2]["cost"]["usd_total"] = 1659.25
    line, _ = build_bill(run, stored.supply(), 3, USD).lines
    assert line.quantity == 8 * 60
    assert line.notes == "for the 2.5 days of the run"
    assert line.total == Decimal("1659.26")


def test_a_commitment_is_by_the_month_over_its_term() -> None:
    line, _ = build_bill(stored.answer(), stored.supply(), 4, USD).lines
    assert (line.unit, line.quantity, line.term_months) == (Unit.MONTH, Decimal(8 * 12), Decimal(12))
    assert line.unit_price == Decimal("2523.45")  # 3.45678 USD x 730 h
    assert line.notes.startswith("committed for 12 months; 1,000.00 USD per machine is paid upfront")
    stated = build_bill(stored.answer(), stored.supply(), 4, USD, OrderDetails(term_months=2)).lines[0]
    assert stated.quantity == line.quantity  # a commitment has a term of its own


def test_what_has_no_price_is_asked_for_and_in_no_total() -> None:
    bill = build_bill(stored.answer(), stored.supply(), 5, USD)
    assert [(line.goods, line.total) for line in bill.lines] == [
        ("machine", None),
        ("network", None),
        ("installation", None),
    ]
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


def test_short_text_ends_after_a_whole_word() -> None:
    assert (
        shorten_text("Electricity under load, the building's share of it", 40)
        == "Electricity under load, the building's"
    )
    assert shorten_text("Electricity, under", 13) == "Electricity"
    assert shorten_text("x" * 50, 40) == "x" * 40
    assert shorten_text("as it is", 8) == "as it is"


def test_a_rental_with_a_purchase_is_billed_over_the_same_horizon() -> None:
    supply = stored.supply()
    supply["ranks"][0] = [{"pool": "prefill", **stored.RENTED}, {"pool": "decode", **stored.BOUGHT}]
    lines = build_bill(stored.answer(), supply, 1, USD).lines
    assert {line.term_months for line in lines if line.term_months is not None} == {Decimal(36)}
    assert lines[0].notes == "term assumed: 36 months"


def test_the_buyer_chooses_the_dealer_of_the_hardware_only() -> None:
    chosen = OrderDetails(supplier="Dealer Ltd")
    bought = build_bill(stored.answer(), stored.supply(), 1, USD, chosen).lines
    assert {line.supplier for line in bought if line.trade is Trade.HARDWARE} == {"Dealer Ltd"}
    assert {line.supplier for line in bought if line.trade is not Trade.HARDWARE} == {None}
    rented = build_bill(stored.answer(), stored.supply(), 3, USD, chosen).lines
    assert {line.supplier for line in rented} == {"A Cloud"}


OWNED: dict[str, Any] = {
    **stored.BOUGHT,
    "seller": INVENTORY,
    "parts": [*stored.BOUGHT["parts"], {"what": "more_memory_gib", "quantity": 64.0, "unit_usd": 27.0}],
}


def test_hardware_that_the_buyer_has_costs_nothing_and_is_in_no_order() -> None:
    supply = stored.supply(OWNED)
    bill = build_bill(stored.answer(1), supply, 1, USD, OrderDetails(supplier="Dealer Ltd"))
    owned = [line for line in bill.lines if line.owned]
    assert [line.goods for line in owned] == ["machine", "network", "rack"]
    assert {(line.total, line.supplier, line.price, line.notes) for line in owned} == {
        (Decimal("0.00"), None, None, "in no order")
    }
    assert all(line.description.endswith("(already yours)") for line in owned)
    assert bill.once == Decimal("1728.00")  # 64 GiB x 27 USD
    numbers = {line.number for line in owned}
    assert not numbers & {line.number for group in quote_groups(bill) for line in group.lines}
    assert not numbers & {line.number for line in bill.require_priced_lines()}
    request = etree.fromstring(ubl_bytes(bill))
    lines = request.findall("{*}RequestForQuotationLine")
    assert len(lines) == len(bill.lines) - 3 == int(request.findtext("{*}LineCountNumeric"))
    assert b"already yours" not in cxml_bytes(bill)


def test_a_rental_by_the_hour_next_to_a_commitment_has_its_term() -> None:
    supply = stored.supply()
    supply["ranks"][0] = [{"pool": "prefill", **stored.RESERVED}, {"pool": "decode", **stored.RENTED}]
    bound, free, _ = build_bill(stored.answer(), supply, 1, USD).lines
    assert bound.term_months == free.term_months == 12
    assert free.quantity == 8 * 730 * 12
    assert free.notes == "term of the commitment: 12 months"
    _, free, _ = build_bill(stored.answer(), supply, 1, USD, OrderDetails(term_months=3)).lines
    assert free.quantity == 8 * 730 * 3
