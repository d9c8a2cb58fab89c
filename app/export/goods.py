"""Builds the lines of a bill from a stored answer and its supply record.

This module adds no prices or names of its own: all of them were stored with the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from app.errors import NotFound
from app.export.asked_for import lines_to_quote
from app.export.lines import FILING_FIELDS, Bill, Line, PriceSource, Unit, clean_text
from app.export.money import CENT, PRICE_STEP, THOUSANDTH, Settlement, format_decimal, round_half_up, to_decimal
from app.sizing.hardware.prices import current_kind
from app.sizing.product_names import provider_name
from app.sizing.units import HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.words import format_count

Document = Mapping[str, Any]
UNNAMED_REGIONS = ("unspecified", "global")
TERMS_MONTHS = {"1y": 12, "3y": 36}
CENT_UNITS = (Unit.EACH, Unit.MONTH)
DISCOUNTED_PARTS = ("machine", "accelerator", "chassis", "processors", "memory")  # parts that a discount applies to


class UnknownRank(NotFound):
    code = "unknown-rank"


@dataclass(frozen=True, slots=True)
class CostItem:
    """How a cost part appears on a bill."""

    goods: str  # commodity that codes are looked up by
    kind: str  # kind of line
    unit: Unit
    text: str  # description; empty if the part has a name of its own


# Parts that are paid once, by the name of the cost part.
ONE_TIME_ITEMS = {
    "accelerator": CostItem("accelerator", "compute", Unit.EACH, ""),
    "machine": CostItem("machine", "compute", Unit.EACH, ""),
    "chassis": CostItem("chassis", "compute", Unit.EACH, "Chassis with board, power supplies and cooling"),
    "processors": CostItem("processors", "compute", Unit.EACH, "Processors for one machine"),
    "memory": CostItem("memory", "compute", Unit.EACH, "Memory for one machine"),
    "more_memory_gib": CostItem("memory", "compute", Unit.GIBIBYTE, "Additional memory for the machines"),
    "network_gbit_per_s": CostItem(
        "network", "network", Unit.GBIT_PER_S, "Network between machines: switches, cables, optics"
    ),
    "rack_kw": CostItem("rack", "rack", Unit.KILOWATT, "Racks and power strips, by rated power"),
}
# Parts that are paid per month, by the name of the cost part.
MONTHLY_ITEMS = {
    "upkeep_usd": CostItem("support", "support", Unit.MONTH, "Support and spare parts"),
    "floor_kw": CostItem("hosting", "hosting", Unit.MONTH, "Data center space and cooling"),
    "power_kw": CostItem("power", "power", Unit.MONTH, "Electricity under load, including facility overhead (PUE)"),
}


def build_bill(answer: Document, supply: Document, rank: int, settlement: Settlement) -> Bill:
    """Bill of one ranked option. Raises UnknownRank if the answer has no such rank."""
    ranked, request = answer["recommendations"], answer["request"]
    if not 1 <= rank <= len(ranked):
        reason = f"It has ranks 1 to {len(ranked)}" if ranked else "No option was feasible, so there is nothing to buy"
        raise UnknownRank(f"This answer has no rank {rank}. {reason}.", ranks=len(ranked))
    option, as_of = ranked[rank - 1], date.fromisoformat(answer["as_of"])
    lots = supply["ranks"][rank - 1]
    draft_lines = [
        replace(line, lot=place) for place, lot in enumerate(lots) for line in _lot_lines(lot, option, supply)
    ]
    draft_lines += lines_to_quote(option, lots)
    codes, currency = supply["codes"], settlement
    lines = tuple(
        replace(
            line,
            number=number,
            codes=codes.get(line.goods, {}),
            unit_price=_convert_price(line, currency),
            price=_with_age(line.price, as_of),
        )
        for number, line in enumerate(draft_lines, start=1)
    )
    return Bill(
        answer=answer["id"],
        rank=rank,
        title=option_title(lots),
        created_at=answer["created_at"],
        as_of=as_of,
        snapshot=answer["catalog"]["snapshot"],
        settlement=settlement,
        lines=lines,
        filing_values={name: clean_text(request[name]) for name in FILING_FIELDS if request.get(name) is not None},
    )


def _with_age(price: PriceSource | None, as_of: date) -> PriceSource | None:
    """The price source with its age. A price from the request dates from the day of the answer."""
    if price is None:
        return None
    observed = price.observed or as_of.isoformat()
    return replace(price, observed=observed, age_days=age_days(observed, as_of))


def age_days(observed: str, as_of: date) -> int | None:
    """Days since a price was observed; None if the date is invalid. A month or a year counts from its first day.

    Check:
        >>> age_days("2026-10", date(2026, 11, 20))
        50
    """
    year, month, day = (*observed.split("-"), "1", "1")[:3]
    try:
        return max(0, (as_of - date(int(year), int(month), int(day))).days)
    except ValueError:
        return None


def _convert_price(line: Line, settlement: Settlement) -> Decimal | None:
    return None if line.usd is None else round_half_up(line.usd * settlement.per_usd, _rounding_step(line.unit))


def _rounding_step(unit: Unit) -> Decimal:
    return CENT if unit in CENT_UNITS else PRICE_STEP


def _lot_lines(lot: Document, option: Document, supply: Document) -> Iterator[Line]:
    """Lines of one lot: a group of identical machines."""
    hours = next((part["quantity"] for part in lot["parts"] if part["what"] == "horizon_hours"), 0.0)
    months = to_decimal(hours / HOURS_PER_MONTH, THOUSANDTH)
    derived = supply.get("derived") or supply["reckoned"]  # "reckoned": stored by version 0.1
    for part in lot["parts"]:
        what = part["what"]
        if what in MONTHLY_ITEMS:
            yield _monthly_line(lot, part, months, derived[what])
        elif what in ONE_TIME_ITEMS and "unit_usd" in part:
            yield _purchase_line(lot, part, derived.get(what))
        elif what == "machine":
            yield _rental_line(lot, part, _rental_hours(option, hours))
    if not any("unit_usd" in part or "usd_per_hour" in part for part in lot["parts"]):
        yield _unpriced_line(lot)


def _rental_hours(option: Document, horizon_hours: float) -> float:
    """Hours that machines are rented for: the duration of a run, or the whole horizon."""
    days = option.get("performance", {}).get("days")
    ends = option["cost"]["usd_total"] is not None and days is not None
    return days * HOURS_PER_DAY if ends else horizon_hours


def _purchase_line(lot: Document, part: Document, derived: Document | None) -> Line:
    """Line that is paid once. Whole machines and accelerators use the price source of their own."""
    good = ONE_TIME_ITEMS[part["what"]]
    own = {"accelerator": lot["accelerator"], "machine": lot.get("machine")}.get(part["what"])
    around = lot.get("machine", lot["accelerator"])
    price = lot.get("price") if part["what"] == "machine" else lot["accelerator"]["price"]
    usd = to_decimal(part["unit_usd"], _rounding_step(good.unit))
    text = describe_machine(lot) if part["what"] == "machine" else own["name"] if own else good.text
    text += _network_note(lot) if part["what"] == "network_gbit_per_s" else ""
    return Line(
        goods=good.goods,
        kind=good.kind,
        sku=own["sku"] if own else f"{around['sku']}/{good.goods}",
        description=_with_pool(lot, text),
        quantity=to_decimal(part["quantity"], THOUSANDTH),
        unit=good.unit,
        usd=usd,
        unit_price=None,
        once=True,
        price=_price_source(derived or price),
        manufacturer=own.get("maker") if own else None,
        part_number=own.get("part_number") if own else None,
        supplier=lot.get("seller") if part["what"] == "machine" else None,
        notes=_discount_note(lot, part["what"], usd),
    )


def _network_note(lot: Document) -> str:
    """Number and rate of the machines that a network connects, for the cabling plan.

    The quantity of the line is the bandwidth only.
    """
    each = lot.get("machine", {}).get("network_gbit_per_s")
    rate = "" if each is None else f" at {each:,.0f} Gbit/s each"
    return f"; connects {format_count(lot['machines'], 'machine')}{rate}"


def _discount_note(lot: Document, what: str, usd: Decimal) -> str:
    """Note about a discount from the request, with the price before it to the cent."""
    off = Decimal(repr(lot.get("discount", 0.0)))
    if not off or what not in DISCOUNTED_PARTS:
        return ""
    return f"{format_decimal(100 * off)} % negotiated discount on {round_half_up(usd / (1 - off), CENT):,f} USD"


def _monthly_line(lot: Document, part: Document, months: Decimal, derived: Document) -> Line:
    """Line that is paid per month of the horizon, for all machines of the lot."""
    good = MONTHLY_ITEMS[part["what"]]
    monthly = part["quantity"] * part["usd_per_hour"] * HOURS_PER_MONTH
    drawn = f", {part['quantity']:.6g} kW average draw" if part["what"].endswith("_kw") else ""
    around = lot.get("machine", lot["accelerator"])
    return Line(
        goods=good.goods,
        kind=good.kind,
        sku=f"{around['sku']}/{good.goods}",
        description=_with_pool(lot, good.text + drawn),
        quantity=months,
        unit=Unit.MONTH,
        usd=to_decimal(monthly, CENT),
        unit_price=None,
        once=False,
        price=_price_source(derived),
        term_months=months,
    )


def _rental_line(lot: Document, part: Document, hours: float) -> Line:
    """Line of machines rented by the hour, or by the month of a commitment."""
    price = lot.get("price", {})
    months = TERMS_MONTHS.get(price.get("commitment", ""))
    machines = Decimal(repr(part["quantity"]))
    way = lot["pricing_model"].replace("_", " ")
    upfront = price.get("upfront_usd")
    where = "" if lot["region"] in UNNAMED_REGIONS else f", {lot['region']}"
    by_month = to_decimal(part["usd_per_hour"] * HOURS_PER_MONTH, CENT)
    usd = by_month if months else to_decimal(part["usd_per_hour"], PRICE_STEP)
    paid_first = "" if upfront is None else f"{upfront:,.2f} USD per machine is paid upfront and included in the price"
    notes = (paid_first, _discount_note(lot, part["what"], usd))
    text = (
        f"{describe_machine(lot)}, {way} from {provider_name(lot['seller'])}{where}; "
        f"{format_count(int(machines), 'machine')}"
    )
    return Line(
        goods="cloud",
        kind="cloud",
        sku=lot.get("machine", {}).get("sku", lot["instance_type"]),
        description=_with_pool(lot, text),
        quantity=round_half_up(machines * (months or to_decimal(hours, THOUSANDTH)), THOUSANDTH),
        unit=Unit.MONTH if months else Unit.HOUR,
        usd=usd,
        unit_price=None,
        once=False,
        price=_price_source(lot.get("price")),
        manufacturer=lot["seller"],
        supplier=lot["seller"],
        supplier_part_id=lot["instance_type"],
        term_months=Decimal(months) if months else to_decimal(hours / HOURS_PER_MONTH, THOUSANDTH),
        notes="; ".join(note for note in notes if note),
    )


def _unpriced_line(lot: Document) -> Line:
    """Line of machines that have no known price."""
    named = lot.get("machine", lot["accelerator"])
    return Line(
        goods="machine",
        kind="compute",
        sku=named["sku"],
        description=_with_pool(lot, describe_machine(lot)),
        quantity=Decimal(lot.get("machines", 1)),
        unit=Unit.EACH,
        usd=None,
        unit_price=None,
        once=True,
        manufacturer=named.get("maker"),
        part_number=named.get("part_number"),
        notes="to be quoted",
    )


def _price_source(stored: Document | None) -> PriceSource | None:
    if not stored:
        return None
    kind, source = current_kind(stored["kind"]), clean_text(stored["source"])
    return PriceSource(kind, source, stored.get("observed", ""), stored["confidence"])


def describe_machine(lot: Document) -> str:
    """Description of a machine: name, accelerators, processors, memory and network."""
    machine = lot.get("machine", {})
    name = lot.get("instance_type") or machine.get("name") or lot["accelerator"]["name"]
    parts = [name]
    each = lot.get("accelerators", 0) / (lot.get("machines") or 1)
    if each and lot["accelerator"]["name"] not in name:
        parts.append(f"{each:g} x {lot['accelerator']['name']}")
    if "processors" in machine:
        parts.append(machine["processors"])
    if "memory_gib" in machine:
        parts.append(f"{machine['memory_gib']:g} GiB of memory")
    if "network_gbit_per_s" in machine:
        parts.append(f"{machine['network_gbit_per_s']:g} Gbit/s network")
    return ", ".join(parts)


def _with_pool(lot: Document, text: str) -> str:
    """Description with the name of its pool, in plain text."""
    return clean_text(f"{text} ({lot['pool']} pool)" if "pool" in lot else text)


def option_title(lots: Sequence[Document]) -> str:
    """Title of an option: counts and names of its accelerators."""
    counts = [f"{lot.get('accelerators', 0)} x {lot['accelerator']['name']}" for lot in lots]
    return clean_text(" and ".join(counts))
