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
from app.export.asked_for import asked_for
from app.export.lines import OWN_WORDS, Bill, Line, PriceSource, Unit, plain
from app.export.money import CENT, FINE, THOUSANDTH, Settlement, decimal, plainly, rounded
from app.sizing.hardware.prices import current_kind
from app.sizing.product_names import provider_name
from app.sizing.units import HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.words import format_count

Document = Mapping[str, Any]
UNNAMED_REGIONS = ("unspecified", "global")
TERMS_MONTHS = {"1y": 12, "3y": 36}
BY_CENT = (Unit.EACH, Unit.MONTH)
OF_MACHINES = ("machine", "accelerator", "chassis", "processors", "memory")  # parts that a discount applies to


class UnknownRank(NotFound):
    code = "unknown-rank"


@dataclass(frozen=True, slots=True)
class Good:
    """How a cost part appears on a bill."""

    goods: str  # commodity that codes are looked up by
    kind: str  # kind of line
    unit: Unit
    text: str  # description; empty if the part has a name of its own


# Parts that are paid once, by the name of the cost part.
BOUGHT = {
    "accelerator": Good("accelerator", "compute", Unit.EACH, ""),
    "machine": Good("machine", "compute", Unit.EACH, ""),
    "chassis": Good("chassis", "compute", Unit.EACH, "Chassis with board, power supplies and cooling"),
    "processors": Good("processors", "compute", Unit.EACH, "Processors for one machine"),
    "memory": Good("memory", "compute", Unit.EACH, "Memory for one machine"),
    "more_memory_gib": Good("memory", "compute", Unit.GIBIBYTE, "Additional memory for the machines"),
    "network_gbit_per_s": Good(
        "network", "network", Unit.GBIT_PER_S, "Network between machines: switches, cables, optics"
    ),
    "rack_kw": Good("rack", "rack", Unit.KILOWATT, "Racks and power strips, by rated power"),
}
# Parts that are paid per month, by the name of the cost part.
MONTHLY = {
    "upkeep_usd": Good("support", "support", Unit.MONTH, "Support and spare parts"),
    "floor_kw": Good("hosting", "hosting", Unit.MONTH, "Data center space and cooling"),
    "power_kw": Good("power", "power", Unit.MONTH, "Electricity under load, including facility overhead (PUE)"),
}


def bill_of(answer: Document, supply: Document, rank: int, settlement: Settlement) -> Bill:
    """Bill of one ranked option. Raises UnknownRank if the answer has no such rank."""
    ranked, request = answer["recommendations"], answer["request"]
    if not 1 <= rank <= len(ranked):
        many = f"It has ranks 1 to {len(ranked)}" if ranked else "No option was feasible, so there is nothing to buy"
        raise UnknownRank(f"This answer has no rank {rank}. {many}.", ranks=len(ranked))
    option, as_of = ranked[rank - 1], date.fromisoformat(answer["as_of"])
    lots = supply["ranks"][rank - 1]
    draft_lines = [replace(line, lot=place) for place, lot in enumerate(lots) for line in _lines(lot, option, supply)]
    draft_lines += asked_for(option, lots)
    codes, currency = supply["codes"], settlement
    lines = tuple(
        replace(
            line,
            number=number,
            codes=codes.get(line.goods, {}),
            unit_price=_converted(line, currency),
            price=_aged(line.price, as_of),
        )
        for number, line in enumerate(draft_lines, start=1)
    )
    return Bill(
        answer=answer["id"],
        rank=rank,
        title=title_of(lots),
        created_at=answer["created_at"],
        as_of=as_of,
        snapshot=answer["catalog"]["snapshot"],
        settlement=settlement,
        lines=lines,
        own_words={name: plain(request[name]) for name in OWN_WORDS if request.get(name) is not None},
    )


def _aged(price: PriceSource | None, as_of: date) -> PriceSource | None:
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


def _converted(line: Line, settlement: Settlement) -> Decimal | None:
    return None if line.usd is None else rounded(line.usd * settlement.per_usd, _step(line.unit))


def _step(unit: Unit) -> Decimal:
    return CENT if unit in BY_CENT else FINE


def _lines(lot: Document, option: Document, supply: Document) -> Iterator[Line]:
    """Lines of one lot: a group of identical machines."""
    hours = next((part["quantity"] for part in lot["parts"] if part["what"] == "horizon_hours"), 0.0)
    months = decimal(hours / HOURS_PER_MONTH, THOUSANDTH)
    derived = supply.get("derived") or supply["reckoned"]  # "reckoned": stored by version 0.1
    for part in lot["parts"]:
        what = part["what"]
        if what in MONTHLY:
            yield _monthly(lot, part, months, derived[what])
        elif what in BOUGHT and "unit_usd" in part:
            yield _bought(lot, part, derived.get(what))
        elif what == "machine":
            yield _rented(lot, part, _hours(option, hours))
    if not any("unit_usd" in part or "usd_per_hour" in part for part in lot["parts"]):
        yield _unpriced(lot)


def _hours(option: Document, horizon_hours: float) -> float:
    """Hours that machines are rented for: the duration of a run, or the whole horizon."""
    days = option.get("performance", {}).get("days")
    ends = option["cost"]["usd_total"] is not None and days is not None
    return days * HOURS_PER_DAY if ends else horizon_hours


def _bought(lot: Document, part: Document, derived: Document | None) -> Line:
    """Line that is paid once. Whole machines and accelerators use the price source of their own."""
    good = BOUGHT[part["what"]]
    own = {"accelerator": lot["accelerator"], "machine": lot.get("machine")}.get(part["what"])
    around = lot.get("machine", lot["accelerator"])
    price = lot.get("price") if part["what"] == "machine" else lot["accelerator"]["price"]
    usd = decimal(part["unit_usd"], _step(good.unit))
    text = machine_text(lot) if part["what"] == "machine" else own["name"] if own else good.text
    text += _joined(lot) if part["what"] == "network_gbit_per_s" else ""
    return Line(
        goods=good.goods,
        kind=good.kind,
        sku=own["sku"] if own else f"{around['sku']}/{good.goods}",
        description=_of(lot, text),
        quantity=decimal(part["quantity"], THOUSANDTH),
        unit=good.unit,
        usd=usd,
        unit_price=None,
        once=True,
        price=_price(derived or price),
        manufacturer=own.get("maker") if own else None,
        part_number=own.get("part_number") if own else None,
        supplier=lot.get("seller") if part["what"] == "machine" else None,
        notes=_negotiated(lot, part["what"], usd),
    )


def _joined(lot: Document) -> str:
    """Number and rate of the machines that a network connects, for the cabling plan.

    The quantity of the line is the bandwidth only.
    """
    each = lot.get("machine", {}).get("network_gbit_per_s")
    rate = "" if each is None else f" at {each:,.0f} Gbit/s each"
    return f"; connects {format_count(lot['machines'], 'machine')}{rate}"


def _negotiated(lot: Document, what: str, usd: Decimal) -> str:
    """Note about a discount from the request, with the price before it to the cent."""
    off = Decimal(repr(lot.get("discount", 0.0)))
    if not off or what not in OF_MACHINES:
        return ""
    return f"{plainly(100 * off)} % negotiated discount on {rounded(usd / (1 - off), CENT):,f} USD"


def _monthly(lot: Document, part: Document, months: Decimal, derived: Document) -> Line:
    """Line that is paid per month of the horizon, for all machines of the lot."""
    good = MONTHLY[part["what"]]
    monthly = part["quantity"] * part["usd_per_hour"] * HOURS_PER_MONTH
    drawn = f", {part['quantity']:.6g} kW average draw" if part["what"].endswith("_kw") else ""
    around = lot.get("machine", lot["accelerator"])
    return Line(
        goods=good.goods,
        kind=good.kind,
        sku=f"{around['sku']}/{good.goods}",
        description=_of(lot, good.text + drawn),
        quantity=months,
        unit=Unit.MONTH,
        usd=decimal(monthly, CENT),
        unit_price=None,
        once=False,
        price=_price(derived),
        term_months=months,
    )


def _rented(lot: Document, part: Document, hours: float) -> Line:
    """Line of machines rented by the hour, or by the month of a commitment."""
    price = lot.get("price", {})
    months = TERMS_MONTHS.get(price.get("commitment", ""))
    machines = Decimal(repr(part["quantity"]))
    way = lot["pricing_model"].replace("_", " ")
    upfront = price.get("upfront_usd")
    where = "" if lot["region"] in UNNAMED_REGIONS else f", {lot['region']}"
    by_month = decimal(part["usd_per_hour"] * HOURS_PER_MONTH, CENT)
    usd = by_month if months else decimal(part["usd_per_hour"], FINE)
    paid_first = "" if upfront is None else f"{upfront:,.2f} USD per machine is paid upfront and included in the price"
    notes = (paid_first, _negotiated(lot, part["what"], usd))
    text = f"{machine_text(lot)}, {way} from {provider_name(lot['seller'])}{where}; {format_count(int(machines), 'machine')}"
    return Line(
        goods="cloud",
        kind="cloud",
        sku=lot.get("machine", {}).get("sku", lot["instance_type"]),
        description=_of(lot, text),
        quantity=rounded(machines * (months or decimal(hours, THOUSANDTH)), THOUSANDTH),
        unit=Unit.MONTH if months else Unit.HOUR,
        usd=usd,
        unit_price=None,
        once=False,
        price=_price(lot.get("price")),
        manufacturer=lot["seller"],
        supplier=lot["seller"],
        supplier_part_id=lot["instance_type"],
        term_months=Decimal(months) if months else decimal(hours / HOURS_PER_MONTH, THOUSANDTH),
        notes="; ".join(note for note in notes if note),
    )


def _unpriced(lot: Document) -> Line:
    """Line of machines that have no known price."""
    named = lot.get("machine", lot["accelerator"])
    return Line(
        goods="machine",
        kind="compute",
        sku=named["sku"],
        description=_of(lot, machine_text(lot)),
        quantity=Decimal(lot.get("machines", 1)),
        unit=Unit.EACH,
        usd=None,
        unit_price=None,
        once=True,
        manufacturer=named.get("maker"),
        part_number=named.get("part_number"),
        notes="to be quoted",
    )


def _price(stored: Document | None) -> PriceSource | None:
    if not stored:
        return None
    kind, source = current_kind(stored["kind"]), plain(stored["source"])
    return PriceSource(kind, source, stored.get("observed", ""), stored["confidence"])


def machine_text(lot: Document) -> str:
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


def _of(lot: Document, text: str) -> str:
    """Description with the name of its pool, in plain text."""
    return plain(f"{text} ({lot['pool']} pool)" if "pool" in lot else text)


def title_of(lots: Sequence[Document]) -> str:
    """Title of an option: counts and names of its accelerators."""
    counts = [f"{lot.get('accelerators', 0)} x {lot['accelerator']['name']}" for lot in lots]
    return plain(" and ".join(counts))
