"""Items without a price are listed for a quote, and are in no total."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from app.export.asked_for import lines_to_quote
from app.export.goods import build_bill
from app.export.money import Settlement
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
