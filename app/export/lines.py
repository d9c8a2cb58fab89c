"""Lines of a bill of materials, built from a stored answer: quantity, price, source, and what a supplier must quote.

This module adds no prices or names of its own: all of them were stored with the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Any

from app.errors import NotFound, Unanswerable
from app.export.order import OrderDetails
from app.sizing.columns import GB, GIB, HOURS_PER_DAY, HOURS_PER_MONTH
from app.sizing.decisions.prices import age_days
from app.sizing.hardware.listings import INVENTORY
from app.sizing.hardware.parts import Commitment, PriceKind, day_numbers
from app.sizing.hardware.terms import commercial_terms, find_lead_time
from app.sizing.words import (
    describe_pricing,
    format_count,
    format_number,
    format_storage_rate,
    join_words,
    provider_name,
    source_name,
)

CENT = Decimal("0.01")
PRICE_STEP = Decimal("0.0001")  # step of prices per hour, kW, GiB and Gbit/s
THOUSANDTH = Decimal("0.001")
MILLIONTH = Decimal("0.000001")


def to_decimal(value: float, step: Decimal) -> Decimal:
    """A figure of an answer as a decimal, rounded half up to a step.

    Check:
        >>> to_decimal(2.675, CENT)
        Decimal('2.68')
    """
    return round_half_up(Decimal(repr(value)), step)


def round_half_up(value: Decimal, step: Decimal) -> Decimal:
    return value.quantize(step, rounding=ROUND_HALF_UP)


def format_decimal(value: Decimal, separator: str = "") -> str:
    """A number without an exponent and without trailing zeros.

    Parameters:
        separator: separator of thousands.

    Check:
        >>> format_decimal(Decimal("26280.000")), format_decimal(Decimal("4.70")), format_decimal(Decimal("1E+3"))
        ('26280', '4.7', '1000')
    """
    text = f"{value:,f}".replace(",", separator)
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True, slots=True)
class Settlement:
    """Currency of a bill, its exchange rate, and the tax."""

    currency: str = "USD"
    per_usd: Decimal = Decimal(1)  # units of the currency for one USD
    rate_date: date | None = None  # day of the exchange rate; None for USD
    tax_name: str | None = None
    tax_percent: Decimal = Decimal(0)  # tax rate in percent

    def tax(self, amount: Decimal) -> Decimal:
        return round_half_up(amount * self.tax_percent / 100, CENT)


SHORT_TEXT_LENGTH = 40  # characters of a description that every procurement tool accepts
REFERENCE_LENGTH = 35  # characters of a quote reference that every procurement tool accepts
FILING_FIELDS = ("label", "reference", "cost_centre")  # request fields that the buyer files an answer under
FILING_LABELS = {"label": "Label", "reference": "Reference", "cost_centre": "Cost center"}  # their display names
# Kinds of lines that are services, not goods.
SERVICE_KINDS = ("cloud", "hosting", "power", "support", "installation", "licence")


class Trade(StrEnum):
    """Kind of supplier that sells a line: no supplier is asked for what another kind sells."""

    HARDWARE = "hardware dealer"
    CLOUD = "cloud provider"
    DATA_CENTER = "data center operator"
    SOFTWARE = "software vendor"
    UTILITY = "electricity supplier"


TRADES = {
    "cloud": Trade.CLOUD,
    "hosting": Trade.DATA_CENTER,
    "power": Trade.UTILITY,
    "licence": Trade.SOFTWARE,
}  # by kind of line; all other kinds are sold by a hardware dealer


class Unit(StrEnum):
    """Units as codes of UN/ECE Recommendation 20."""

    EACH = "EA"
    HOUR = "HUR"
    MONTH = "MON"
    KILOWATT = "KWT"
    GBIT_PER_S = "B80"
    GIBIBYTE = "E62"
    GIGABYTE = "E34"
    TERABYTE = "E35"
    LUMP_SUM = "LS"


# Units as documents write them.
UNITS = {
    Unit.EACH: "each",
    Unit.HOUR: "hours",
    Unit.MONTH: "months",
    Unit.KILOWATT: "kW",
    Unit.GBIT_PER_S: "Gbit/s",
    Unit.GIBIBYTE: "GiB",
    Unit.GIGABYTE: "GB",
    Unit.TERABYTE: "TB",
    Unit.LUMP_SUM: "lump sum",
}


@dataclass(frozen=True, slots=True)
class PriceSource:
    """Origin of a price, and its age on the day of the answer."""

    kind: str
    source: str
    observed: str
    confidence: str
    age_days: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a bill. A line without a price needs a quote."""

    goods: str  # commodity of the line: machine, accelerator, network, cloud, ...
    kind: str  # compute, network, rack, storage, hosting, power, support, installation, licence, cloud, ...
    sku: str
    description: str
    quantity: Decimal
    unit: Unit
    usd: Decimal | None  # price per unit in USD
    unit_price: Decimal | None  # price per unit in the currency of the bill
    once: bool  # paid once; false: paid over the term
    price: PriceSource | None = None
    manufacturer: str | None = None
    part_number: str | None = None  # the manufacturer's
    supplier: str | None = None
    supplier_part_id: str | None = None
    term_months: Decimal | None = None
    codes: dict[str, str] = field(default_factory=dict)  # commodity codes by scheme: unspsc, cpv, hs_code
    notes: str = ""
    number: int = 0
    lot: int = 0  # index of the group of machines: pools of different machines are separate lots
    owned: bool = False  # the buyer has it already: it costs nothing, and no order or quote request contains it

    @property
    def total(self) -> Decimal | None:
        """Quantity times unit price, to the cent; None if the line has no price."""
        return None if self.unit_price is None else round_half_up(self.quantity * self.unit_price, CENT)

    def cost_over(self, months: Decimal) -> Decimal:
        """Total of the line over some months instead of its term, to the cent; 0 for a line without a price."""
        if self.once or not self.term_months or self.unit_price is None:
            return self.total or Decimal(0)
        return round_half_up(self.quantity * months * self.unit_price / self.term_months, CENT)

    @property
    def payment_timing(self) -> str:
        """When the line is paid: "once" or "over_term"."""
        return "once" if self.once else "over_term"

    @property
    def short_description(self) -> str:
        """Description within the length that every procurement tool accepts."""
        return shorten_text(self.description, SHORT_TEXT_LENGTH)

    @property
    def trade(self) -> Trade:
        """Kind of supplier that sells the line."""
        return TRADES.get(self.kind, Trade.HARDWARE)


@dataclass(frozen=True, slots=True)
class Bill:
    """Bill of one ranked option. Totals are computed from the lines on each access."""

    answer: str  # id of the stored recommendation
    rank: int  # 0 for the mixed fleet
    title: str
    created_at: str
    as_of: date  # day that price ages refer to
    snapshot: str  # id of the catalog snapshot that the answer used
    settlement: Settlement
    lines: tuple[Line, ...]
    filing_values: Mapping[str, str] = field(default_factory=dict)  # label, reference and cost_centre of the request
    order: OrderDetails = field(default_factory=OrderDetails)
    horizon_months: float = 0.0  # months over which purchases are spread

    @property
    def name(self) -> str:
        """What the answer calls the option: its rank, or the mixed fleet."""
        return option_name(self.rank)

    @property
    def reference(self) -> str:
        """Quote reference of the option, at most 35 characters, which every procurement tool accepts."""
        return f"{self.answer}-{self.rank}"[:REFERENCE_LENGTH]

    @property
    def priced_lines(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.unit_price is not None)

    @property
    def once(self) -> Decimal:
        return sum_totals(line for line in self.lines if line.once)

    @property
    def over_term(self) -> Decimal:
        return sum_totals(line for line in self.lines if not line.once)

    @property
    def subtotal(self) -> Decimal:
        return sum_totals(self.lines)

    def cost_over(self, months: Decimal) -> Decimal:
        """Sum of purchases, and of the other lines over some months at their rates, each to the cent."""
        return sum((line.cost_over(months) for line in self.priced_lines), Decimal("0.00"))

    @property
    def tax(self) -> Decimal:
        return self.settlement.tax(self.subtotal)

    @property
    def total(self) -> Decimal:
        return self.subtotal + self.tax

    @property
    def ordered_lines(self) -> tuple[Line, ...]:
        """Lines that a supplier sells, without what the buyer has already."""
        return tuple(line for line in self.lines if not line.owned)

    @property
    def unpriced_lines(self) -> tuple[Line, ...]:
        """Lines without a price, which no total includes."""
        return tuple(line for line in self.lines if line.unit_price is None)

    def require_priced_lines(self) -> tuple[Line, ...]:
        """Lines for formats that accept only priced lines. Raises NothingPriced if there are none."""
        orderable = tuple(line for line in self.priced_lines if not line.owned)
        if not orderable:
            raise NothingPriced("No line of this option has a price, so nothing can be ordered. Request a quote.")
        return orderable


class NothingPriced(Unanswerable):
    """Raised for a bill without any priced line."""

    code = "nothing-priced"


def sum_totals(lines: Iterable[Line]) -> Decimal:
    """Sum of the line totals; lines without a price are skipped."""
    return sum((line.total for line in lines if line.total is not None), Decimal("0.00"))


def clean_text(text: str) -> str:
    """Text in one line without control characters, which every format can carry.

    Check:
        >>> clean_text("a\\tb\\x00c")
        'a b c'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shorten_text(text: str, length: int) -> str:
    """Text cut after a whole word, or within a word that is longer than the length.

    Check:
        >>> shorten_text("Electricity under load, the building's share", 30)
        'Electricity under load, the'
    """
    if len(text) <= length:
        return text
    head, _, _ = text[: length + 1].rpartition(" ")
    return (head or text[:length]).rstrip(" ,;(")


Document = Mapping[str, Any]
TO_BE_QUOTED = "to be quoted"


# A standard rack: height units (EIA-310), and the power that `rack_usd_per_kw` assumes for one rack.
RACK_UNITS, RACK_KW = 42, 20.0


def racks_needed(machines: int, machine_kw: float, rack_units: float | None) -> int:
    """Racks for machines of one kind, by height units and rated power; a machine above the power of a rack fills one.

    Check: two servers of 8 units and 10.2 kW need a rack each, because 20 kW hold only one.
        >>> racks_needed(2, 10.2, 8.0), racks_needed(12, 2.8, 2.0), racks_needed(1, 132.0, 48.0)
        (2, 2, 1)
    """
    by_units = int(RACK_UNITS // rack_units) if rack_units else machines
    per_rack = max(1, min(by_units, int(RACK_KW // machine_kw) if machine_kw > 0 else machines))
    return -(-machines // per_rack)


def _lot_racks(lot: Document) -> int:
    """Racks of a lot; 0 for rented machines, workstations and machines without a price."""
    rated = next((part["quantity"] for part in lot["parts"] if part["what"] == "rack_kw"), 0.0)
    machines = lot.get("machines") or 0
    units = lot.get("machine", {}).get("rack_units")
    return racks_needed(machines, rated / machines, units) if rated and machines else 0


def lines_to_quote(option: Document, lots: Sequence[Document], months: float = 0.0) -> Iterator[Line]:
    """All lines of one ranked option that need a quote. Those with a published price state the amount over some months;
    no total includes it.
    """
    for lot in lots:
        if "instance_type" not in lot and lot.get("seller") != INVENTORY:
            yield from _site_lines(option, lot)
    yield from _license_lines(lots, months)
    yield from _egress_lines(lots)
    yield from _pool_network_lines(option, lots)
    yield from _checkpoint_lines(option, lots, months)
    yield from _companion_lines(option, lots)


def _site_lines(option: Document, lot: Document) -> Iterator[Line]:
    """What bought machines need on site and the catalog has no price for."""
    machines, racks = Decimal(lot.get("machines", 1)), _lot_racks(lot)
    if machines > 1 or racks:
        text = "Front-end network, per machine: switch port, cable and optics for users, storage and management"
        yield _line_to_quote("network", machines, Unit.EACH, _with_pool(lot, text))
    weights = _replica_weights_gb(option)
    if weights and not lot.get("machine", {}).get("storage_gb"):
        text = f"NVMe storage, per machine: operating system and {format_number(weights)} GB of model weights"
        yield _line_to_quote("storage", machines, Unit.EACH, _with_pool(lot, text))
    if racks:
        rated = sum(part["quantity"] for part in lot["parts"] if part["what"] == "rack_kw") / racks
        text = f"Power distribution, per rack: feeds A and B for {format_number(rated)} kW"
        yield _line_to_quote("power_distribution", Decimal(racks), Unit.EACH, _with_pool(lot, text))
    text = "Delivery, installation and commissioning, per machine" if racks else "Delivery and set-up, per machine"
    yield _line_to_quote("installation", machines, Unit.EACH, _with_pool(lot, text))


def _replica_weights_gb(option: Document) -> float:
    """Weights of one replica, GB; 0 for a run, whose storage is that of its checkpoints."""
    each = option.get("memory", {}).get("per_accelerator_gib", {}).get("weights", 0.0)
    return float(each * option.get("deployment", {}).get("accelerators_per_replica", 0) * GIB / GB)


def _license_lines(lots: Sequence[Document], months: float) -> Iterator[Line]:
    """Licenses of software that is sold per accelerator; most engines are free."""
    licenses = dict.fromkeys(lot["licence"] for lot in lots if "licence" in lot)
    for licence in licenses:
        many = sum(lot.get("accelerators", 0) for lot in lots if lot.get("licence") == licence)
        text = f"{licence}, per accelerator, over the term"
        line = _line_to_quote("licence", Decimal(many), Unit.EACH, text, once=False)
        yield with_published_term(line, licence, many, months)


def _egress_lines(lots: Sequence[Document]) -> Iterator[Line]:
    """Egress traffic of each cloud. How much there is depends on the service; some providers do not charge for it."""
    for seller in dict.fromkeys(lot["seller"] for lot in lots if "instance_type" in lot and "seller" in lot):
        text = f"Egress traffic from {provider_name(seller)} over the term, as metered"
        line = _line_to_quote("egress", Decimal(1), Unit.LUMP_SUM, text, kind="cloud", once=False)
        yield with_published_term(replace(line, supplier=seller), seller)


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


def _checkpoint_lines(option: Document, lots: Sequence[Document], months: float) -> Iterator[Line]:
    """Storage for the checkpoints of a run: bought with own machines, rented from the provider of rented ones."""
    speed = option.get("performance", {})
    terabytes = to_decimal(speed.get("cluster", {}).get("checkpoint_capacity_tb", 0.0), THOUSANDTH)
    if terabytes > 0:
        gigabytes = terabytes * 1000
        size, unit = (gigabytes, Unit.GIGABYTE) if terabytes < 1 else (terabytes, Unit.TERABYTE)
        rate = speed.get("required_storage_gb_per_s")
        written = "" if rate is None else f", written at {format_storage_rate(rate)}"
        seller = next((lot.get("seller") for lot in lots if "instance_type" in lot), None)
        line = _line_to_quote("storage", size, unit, f"Checkpoint storage{written}")
        rented = replace(line, kind="cloud", once=False, supplier=seller)
        lasts = months if speed.get("days") is None else speed["days"] * HOURS_PER_DAY / HOURS_PER_MONTH
        yield line if seller is None else with_published_term(rented, seller, float(gigabytes), lasts)


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


def with_published_term(line: Line, seller: str, quantity: float = 0.0, months: float = 0.0) -> Line:
    """The line with the published price of a seller or of a software product as a note, and the amount of a known
    quantity over some months. The line still needs a quote: sellers without a published price would look cheaper.
    """
    term = commercial_terms().get((line.goods, seller))
    if term is None:
        return line
    usd = term.usd_over(quantity, months) if quantity and months else 0.0
    over = "a month" if months == 1 else f"{format_number(months)} months"
    amount = f"; about {usd:,.0f} USD over {over}, in no total" if usd >= 1 else ""
    return replace(line, notes=clean_text(f"{line.notes}; {term.describe()}{amount}"))


def with_lead_time(line: Line, lot: Document, as_of: date) -> Line:
    """The line of bought machines or accelerators with their lead time, if a source had reported one by the day of the
    answer, as a note. Other lines are returned unchanged.
    """
    if line.goods not in ("machine", "accelerator") or line.owned:
        return line
    products = (lot[part]["sku"] for part in ("machine", "accelerator") if part in lot)
    reported = find_lead_time(*products, until=as_of.isoformat())
    notes = (line.notes, "" if reported is None else clean_text(reported.describe()))
    return replace(line, notes="; ".join(note for note in notes if note))


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


UNNAMED_REGIONS = ("unspecified", "global")
CENT_UNITS = (Unit.EACH, Unit.MONTH)
DISCOUNTED_PARTS = ("machine", "accelerator", "chassis", "processors", "memory")  # parts that a discount applies to


NO_DETAILS = OrderDetails()


class UnknownRank(NotFound):
    code = "unknown-rank"


MIXED_FLEET = 0  # in place of a rank: the groups of the mixed fleet


def plan_rank(answer: Document, rank: int | None) -> int:
    """The rank, or that of the plan that an answer recommends: its first option, or else its mixed fleet."""
    if rank is None:
        return MIXED_FLEET if answer.get("mixed_fleet") and not answer["recommendations"] else 1
    return rank


def option_name(rank: int) -> str:
    """What the answer calls an option: its rank, or the mixed fleet."""
    return "mixed fleet" if rank == MIXED_FLEET else f"rank {rank}"


@dataclass(frozen=True, slots=True)
class StoredOption:
    """A deployment of a stored answer with what its exports need. A mixed fleet has several."""

    option: Document  # deployment, memory, performance and cost
    lots: Sequence[Document]  # groups of identical machines
    starts: Sequence[Document] | None  # start commands; None in answers of versions that stored none
    owned: bool = False  # a group of a mixed fleet on machines that the buyer has already
    share: float = 1.0  # share of the requests that a group of a mixed fleet carries


def select_options(answer: Document, supply: Document, rank: int) -> tuple[StoredOption, ...]:
    """The deployment at a rank of a stored answer, or those of its mixed fleet. Raises UnknownRank."""
    ranked, fleet = answer["recommendations"], supply.get("mixed_fleet")
    if rank == MIXED_FLEET and fleet:
        return tuple(StoredOption(**group) for group in fleet)
    if not 1 <= rank <= len(ranked):
        reason = f"It has ranks 1 to {len(ranked)}." if ranked else "No single option was feasible."
        also = " Rank 0 is its mixed fleet." if fleet else "" if ranked else " There is nothing to buy."
        raise UnknownRank(f"This answer has no rank {rank}. {reason}{also}", ranks=len(ranked))
    starts = supply["starts"][rank - 1] if "starts" in supply else None
    return (StoredOption(ranked[rank - 1], supply["ranks"][rank - 1], starts),)


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
        "network", "network", Unit.EACH, "Cluster network, per machine: switch ports, cables and optics"
    ),
    "rack_kw": CostItem("rack", "rack", Unit.EACH, "Rack with power strips"),
}
# Parts that are paid per month, by the name of the cost part.
MONTHLY_ITEMS = {
    "upkeep_usd": CostItem("support", "support", Unit.MONTH, "Support and spare parts"),
    "floor_kw": CostItem("hosting", "hosting", Unit.MONTH, "Data center space and cooling"),
    "power_kw": CostItem("power", "power", Unit.MONTH, "Electricity under load, including facility overhead (PUE)"),
}


def build_bill(
    answer: Document, supply: Document, rank: int, settlement: Settlement, order: OrderDetails = NO_DETAILS
) -> Bill:
    """Bill of one ranked option, or of the mixed fleet. Raises UnknownRank if the answer has no such rank."""
    options, request = select_options(answer, supply, rank), answer["request"]
    as_of, lots = date.fromisoformat(answer["as_of"]), [lot for each in options for lot in each.lots]
    months = order.term_months or (request.get("economics") or {}).get("horizon_months")
    term = BillTerm(months, *_rental_terms(lots))
    placed = enumerate((lot, each.option) for each in options for lot in each.lots)
    draft_lines = [
        with_lead_time(replace(line, lot=place), lot, as_of)
        for place, (lot, option) in placed
        for line in _lot_lines(lot, option, supply, term)
    ]
    to_quote = term.months(_horizon_hours(lots[0]) / HOURS_PER_MONTH)
    draft_lines += [line for each in options for line in lines_to_quote(each.option, each.lots, to_quote)]
    codes, currency = supply["codes"], settlement
    lines = tuple(
        replace(
            line,
            number=number,
            supplier=(order.supplier if line.trade is Trade.HARDWARE and not line.owned else None) or line.supplier,
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
        order=order,
        horizon_months=_horizon_hours(lots[0]) / HOURS_PER_MONTH,
    )


@dataclass(frozen=True, slots=True)
class BillTerm:
    """Months that rentals by the hour and running costs are billed for."""

    requested: float | None  # months that the buyer or the request states
    rented_by_the_hour: bool  # all machines are rented by the hour
    commitment: int = 0  # longest commitment in months, if all machines are rented

    def months(self, horizon_months: float) -> float:
        """The stated months; else one month of a rental by the hour, the commitment of the other rented machines, or
        the horizon that purchases are spread over.
        """
        return self.requested or (1.0 if self.rented_by_the_hour else float(self.commitment) or horizon_months)

    def note(self, months: Decimal, run_days: float | None = None) -> str:
        """Where the term comes from."""
        if run_days is not None:
            return f"for the {format_number(run_days)} days of the run"
        count = f"{format_decimal(months)} month{'' if months == 1 else 's'}"
        hours = f", {HOURS_PER_MONTH:g} hours each" if self.rented_by_the_hour else ""
        if self.requested:
            return f"term as requested: {count}{hours}"
        if self.rented_by_the_hour:
            return f"monthly rate at {HOURS_PER_MONTH:g} hours; no term was requested and none is required"
        return f"term of the commitment: {count}" if self.commitment else f"term assumed: {count}"


def _rental_terms(lots: Sequence[Document]) -> tuple[bool, int]:
    """Whether all machines are rented without a commitment; else the longest commitment if all are rented, or 0.
    Machines that the buyer has already count only if there are no others.
    """
    lots = [lot for lot in lots if lot.get("seller") != INVENTORY] or lots
    if not all("instance_type" in lot for lot in lots):
        return False, 0
    bound = [Commitment((lot.get("price") or {}).get("commitment") or Commitment.NONE).months for lot in lots]
    return not any(bound), max(bound, default=0)


def _with_age(price: PriceSource | None, as_of: date) -> PriceSource | None:
    """The price source with its age. A price from the request dates from the day of the answer."""
    if price is None:
        return None
    observed = price.observed or as_of.isoformat()
    return replace(price, observed=observed, age_days=int(age_days(day_numbers([observed]), as_of.isoformat())[0]))


def _convert_price(line: Line, settlement: Settlement) -> Decimal | None:
    return None if line.usd is None else round_half_up(line.usd * settlement.per_usd, _rounding_step(line.unit))


def _rounding_step(unit: Unit) -> Decimal:
    return CENT if unit in CENT_UNITS else PRICE_STEP


def _lot_lines(lot: Document, option: Document, supply: Document, term: BillTerm) -> Iterator[Line]:
    """Lines of one lot: a group of identical machines."""
    hours = term.months(_horizon_hours(lot) / HOURS_PER_MONTH) * HOURS_PER_MONTH
    months = to_decimal(hours / HOURS_PER_MONTH, THOUSANDTH)
    derived = supply.get("derived") or supply["reckoned"]  # "reckoned": stored by version 0.1
    days = run_days(option)
    for part in lot["parts"]:
        what = part["what"]
        if what in MONTHLY_ITEMS and part["quantity"] > 0:
            yield _monthly_line(lot, part, months, derived[what], term.note(months))
        elif what in ONE_TIME_ITEMS and "unit_usd" in part:
            yield _purchase_line(lot, part, derived.get(what))
        elif what == "machine":
            rented = hours if days is None else days * HOURS_PER_DAY
            yield _rental_line(lot, part, rented, term.note(months, days))
    if not any("unit_usd" in part or "usd_per_hour" in part for part in lot["parts"]):
        yield _unpriced_line(lot)


def _horizon_hours(lot: Document) -> float:
    return next((part["quantity"] for part in lot["parts"] if part["what"] == "horizon_hours"), 0.0)


def run_days(option: Document) -> float | None:
    """Days of a run, which its machines are rented for; None for a service."""
    days = option.get("performance", {}).get("days")
    return None if (option.get("cost") or {}).get("usd_total") is None else days


def _purchase_line(lot: Document, part: Document, derived: Document | None) -> Line:
    """Line that is paid once. Whole machines and accelerators use the price source of their own."""
    good = ONE_TIME_ITEMS[part["what"]]
    own = {"accelerator": lot["accelerator"], "machine": lot.get("machine")}.get(part["what"])
    around = lot.get("machine", lot["accelerator"])
    price = lot.get("price") if part["what"] == "machine" else lot["accelerator"]["price"]
    quantity, each = _orderable_quantity(lot, part)
    owned = lot.get("seller") == INVENTORY and part["what"] != "more_memory_gib"
    usd = to_decimal(0.0 if owned else each, _rounding_step(good.unit))
    text = describe_machine(lot) if part["what"] == "machine" else own["name"] if own else good.text
    text += _size_note(lot, part)
    text += " (already yours)" if owned else ""
    return Line(
        goods=good.goods,
        kind=good.kind,
        sku=own["sku"] if own else f"{around['sku']}/{good.goods}",
        description=_with_pool(lot, text),
        quantity=to_decimal(quantity, THOUSANDTH),
        unit=good.unit,
        usd=usd,
        unit_price=None,
        once=True,
        price=None if owned else _price_source(derived or price),
        manufacturer=own.get("maker") if own else None,
        part_number=own.get("part_number") if own else None,
        supplier=lot.get("seller") if part["what"] == "machine" and not owned else None,
        notes="in no order" if owned else "; ".join(_part_notes(lot, part["what"], usd)),
        owned=owned,
    )


def _orderable_quantity(lot: Document, part: Document) -> tuple[float, float]:
    """Quantity and unit price in units that a supplier sells: the network per machine, racks as whole racks."""
    pieces = {"network_gbit_per_s": lot.get("machines"), "rack_kw": _lot_racks(lot)}.get(part["what"])
    if not pieces:
        return part["quantity"], part["unit_usd"]
    return float(pieces), part["quantity"] * part["unit_usd"] / pieces


def _size_note(lot: Document, part: Document) -> str:
    """Size of a network port or of a rack, by which its price was estimated."""
    if part["what"] == "network_gbit_per_s":
        return f", {part['quantity'] / lot['machines']:,.0f} Gbit/s for each of {lot['machines']:,} machines"
    if part["what"] != "rack_kw":
        return ""
    units = lot.get("machine", {}).get("rack_units")
    height = "" if units is None else f"{units:g} units and "
    each = part["quantity"] / lot["machines"]
    return f", {RACK_UNITS} units, for machines of {height}{format_number(each)} kW each"


def _part_notes(lot: Document, what: str, usd: Decimal) -> Iterator[str]:
    """Notes about the price of a machine or of a part: a discount, and the licenses that it includes."""
    if discount := _discount_note(lot, what, usd):
        yield discount
    licences = (lot.get("price") or {}).get("licences")
    if licences and what == "machine":
        yield clean_text(f"includes {join_words(licences)}")


def _discount_note(lot: Document, what: str, usd: Decimal) -> str:
    """Note about a discount from the request, with the price before it to the cent."""
    off = Decimal(repr(lot.get("discount", 0.0)))
    if not off or what not in DISCOUNTED_PARTS:
        return ""
    return f"{format_decimal(100 * off)} % negotiated discount on {round_half_up(usd / (1 - off), CENT):,f} USD"


def _monthly_line(lot: Document, part: Document, months: Decimal, derived: Document, note: str) -> Line:
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
        notes=note,
    )


def _rental_line(lot: Document, part: Document, hours: float, term_note: str) -> Line:
    """Line of machines rented by the hour, or by the month of a commitment."""
    price = lot.get("price", {})
    months = Commitment(price.get("commitment") or Commitment.NONE).months or None
    machines = Decimal(repr(part["quantity"]))
    way = describe_pricing(lot["pricing_model"])
    upfront = price.get("upfront_usd")
    where = "" if lot["region"] in UNNAMED_REGIONS else f", {lot['region']}"
    by_month = to_decimal(part["usd_per_hour"] * HOURS_PER_MONTH, CENT)
    usd = by_month if months else to_decimal(part["usd_per_hour"], PRICE_STEP)
    paid_first = "" if upfront is None else f"{upfront:,.2f} USD per machine is paid upfront and included in the price"
    bound = f"committed for {months} months" if months else term_note
    notes = (bound, paid_first, *_part_notes(lot, part["what"], usd))
    text = f"{describe_machine(lot)}, {way} from {provider_name(lot['seller'])}{where}; {_machines_text(lot, machines)}"
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
        manufacturer=lot["accelerator"].get("maker"),
        supplier=lot["seller"],
        supplier_part_id=lot["instance_type"],
        term_months=Decimal(months) if months else to_decimal(hours / HOURS_PER_MONTH, MILLIONTH),
        notes="; ".join(note for note in notes if note),
    )


def _machines_text(lot: Document, mean: Decimal) -> str:
    """Number of machines; if fewer are rented on average than at the peak, both numbers."""
    peak = lot.get("machines", mean)
    counted = format_count(int(peak), "machine")
    return counted if mean >= peak else f"{counted} at peak, {format_number(float(mean))} on average"


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
    kind = PriceKind.ESTIMATE.value if stored["kind"] == "reckoned" else stored["kind"]  # stored by version 0.1
    source = source_name(clean_text(stored["source"]))
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
        parts.append(f"{machine['memory_gib']:,.6g} GiB of memory")
    if "storage_gb" in machine:
        parts.append(f"{machine['storage_gb']:,.6g} GB of local storage")
    if "network_gbit_per_s" in machine:
        parts.append(f"{machine['network_gbit_per_s']:,.6g} Gbit/s network")
    return ", ".join(parts)


def _with_pool(lot: Document, text: str) -> str:
    """Description with the name of its pool, in plain text."""
    return clean_text(f"{text} ({lot['pool']} pool)" if "pool" in lot else text)


def option_title(lots: Sequence[Document]) -> str:
    """Title of an option: counts and names of its accelerators."""
    counts = [f"{lot.get('accelerators', 0)} x {lot['accelerator']['name']}" for lot in lots]
    return clean_text(" and ".join(counts))
