"""Lines without a catalog price that a supplier must quote. They are on the bill and in none of its totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from app.export.lines import Line, Unit, clean_text
from app.export.money import THOUSANDTH, to_decimal
from app.sizing.product_names import provider_name
from app.sizing.words import format_number

Document = Mapping[str, Any]
TO_BE_QUOTED = "to be quoted"


def lines_to_quote(option: Document, lots: Sequence[Document]) -> Iterator[Line]:
    """All lines of one ranked option that need a quote."""
    yield from _installation_lines(lots)
    yield from _license_lines(lots)
    yield from _egress_lines(lots)
    yield from _pool_network_lines(option, lots)
    yield from _checkpoint_lines(option)
    yield from _companion_lines(option, lots)


def _installation_lines(lots: Sequence[Document]) -> Iterator[Line]:
    """Delivery and installation of purchased servers that are hosted in a data center."""
    bought = sum(lot.get("machines", 0) for lot in lots if any(part["what"] == "floor_kw" for part in lot["parts"]))
    if bought:
        text = "Delivery, installation and commissioning, per machine"
        yield _line_to_quote("installation", Decimal(bought), Unit.EACH, text)


def _license_lines(lots: Sequence[Document]) -> Iterator[Line]:
    """Licenses of software that is sold per accelerator; most engines are free."""
    licenses = dict.fromkeys(lot["licence"] for lot in lots if "licence" in lot)
    for licence in licenses:
        many = sum(lot.get("accelerators", 0) for lot in lots if lot.get("licence") == licence)
        yield _line_to_quote(
            "licence", Decimal(many), Unit.EACH, f"{licence}, per accelerator, over the term", once=False
        )


def _egress_lines(lots: Sequence[Document]) -> Iterator[Line]:
    """Egress traffic of each cloud. Some providers charge for it, and the catalog has no price for it."""
    for seller in dict.fromkeys(lot["seller"] for lot in lots if "instance_type" in lot and "seller" in lot):
        text = f"Egress traffic from {provider_name(seller)} over the term, as metered"
        yield _line_to_quote("egress", Decimal(1), Unit.EACH, text, kind="cloud", once=False)


def _pool_network_lines(option: Document, lots: Sequence[Document]) -> Iterator[Line]:
    """Network for KV cache transfer between purchased pools.

    Machine prices do not include it, because each replica stays within its machines.
    """
    transfer = option.get("performance", {}).get("pools", {}).get("transfer", {})
    bought = [lot for lot in lots if "pool" in lot and "instance_type" not in lot]
    if transfer.get("link") == "network" and len(bought) > 1:
        machines = sum(lot.get("machines", 0) for lot in bought)
        text = f"Network between the pools, {transfer['gbit_per_s']:,.0f} Gbit/s for KV cache transfer, per machine"
        yield _line_to_quote("network", Decimal(machines), Unit.EACH, text)


def _checkpoint_lines(option: Document) -> Iterator[Line]:
    """Storage for the checkpoints of a run."""
    speed = option.get("performance", {})
    terabytes = to_decimal(speed.get("cluster", {}).get("checkpoint_capacity_tb", 0.0), THOUSANDTH)
    if terabytes > 0:
        rate = speed.get("required_storage_gb_per_s")
        written = "" if rate is None else f", written at {format_number(rate)} GB/s"
        yield _line_to_quote("storage", terabytes, Unit.TERABYTE, f"Checkpoint storage{written}")


def _companion_lines(option: Document, lots: Sequence[Document]) -> Iterator[Line]:
    """Additional machines if several models together cost less than each on its own machines."""
    packing = option.get("packing", {})
    more = packing.get("machines", 0) - sum(lot.get("machines", 0) for lot in lots)
    if packing.get("cheaper") == "together" and more > 0:
        rented = lots[0].get("instance_type")
        goods, kind = ("machine", "compute") if rented is None else ("cloud", "cloud")
        named = rented or lots[0].get("machine", lots[0]["accelerator"])["name"]
        text = f"{named}: additional machines to run {len(packing['models'])} models together"
        yield _line_to_quote(goods, Decimal(more), Unit.EACH, text, kind=kind, once=rented is None)


def _line_to_quote(
    goods: str, quantity: Decimal, unit: Unit, text: str, kind: str | None = None, *, once: bool = True
) -> Line:
    return Line(
        goods=goods,
        kind=kind or goods,
        sku=goods,
        description=clean_text(text),
        quantity=quantity,
        unit=unit,
        usd=None,
        unit_price=None,
        once=once,
        notes=TO_BE_QUOTED,
    )
