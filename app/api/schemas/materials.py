"""Bills of materials on the wire: what may be asked of one, and what it looks like as JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.schemas.base import Component, Shown, present, printable, shown_as
from app.api.schemas.names import TrustName
from app.errors import Unanswerable
from app.export.lines import Bill, Line
from app.export.money import Settlement

# A number as it is written, to the last digit.
Exact = Annotated[Decimal, WithJsonSchema({"type": "number"})]
LINE: dict[str, Any] = {
    "line_no": 1,
    "kind": "compute",
    "goods": "machine",
    "sku": "smci-821ge-h200",
    "description": "Supermicro SYS-821GE-TNHR 8x H200, 2x Xeon Platinum 8558, 2048 GiB of memory",
    "quantity": 5,
    "unit": "EA",
    "unit_price": 370000,
    "line_total": 1850000,
    "paid": "once",
    "price": {"kind": "quote", "source": "survey", "observed": "2026-08", "confidence": "medium", "age_days": 111},
    "manufacturer": "Supermicro",
    "part_number": "SYS-821GE-TNHR",
    "codes": {"unspsc": "43211501"},
}
TOTALS = {"once": 1860200, "over_term": 683000.45, "subtotal": 2543200.45, "tax": 0, "total": 2543200.45}
BILL = {
    "recommendation": "rec_0123456789abcdef0123456789ab",
    "rank": 1,
    "option": "40 x NVIDIA H200 SXM 141GB",
    "created_at": "2026-11-20T00:00:00Z",
    "snapshot": "614f6a1a7f1b2af2",
    "as_of": "2026-11-20",
    "currency": "USD",
    "lines": [LINE],
    "totals": TOTALS,
    "to_be_quoted": [7],
}


class MaterialsQuery(BaseModel):
    """Which option, in which format, in whose currency, with which tax."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = Field(1, ge=1, le=1000)
    format: Annotated[Literal["json", "csv", "xlsx", "cxml", "oci", "ubl", "html"], Component("BillFormat")] = "json"
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="ISO 4217.")
    usd_rate: Exact | None = Field(
        None, gt=0, le=100_000_000, max_digits=18, description="Of the currency for one USD."
    )
    rate_date: date | None = Field(None, description="Day of the rate.")
    tax_name: Annotated[str, Field(min_length=1, max_length=40), AfterValidator(printable)] | None = None
    tax_percent: Exact | None = Field(None, ge=0, le=100, max_digits=8)

    def settlement(self) -> Settlement:
        """The currency and the tax. Raises Unanswerable where half of either is said."""
        foreign = self.currency != "USD"
        if foreign != (self.usd_rate is not None) or foreign != (self.rate_date is not None):
            raise Unanswerable(
                "Prices are kept in USD. Another currency takes all three: currency, usd_rate (of it for one USD) and "
                "rate_date (the rate's day); USD takes none."
            )
        if (self.tax_name is None) != (self.tax_percent is None):
            raise Unanswerable("A tax takes both its name and its percentage: tax_name and tax_percent.")
        return Settlement(
            self.currency, self.usd_rate or Decimal(1), self.rate_date, self.tax_name, self.tax_percent or Decimal(0)
        )


class PriceSourceShown(Shown):
    """Who stands behind a price, and how old it is at the day of the answer."""

    model_config = shown_as(LINE["price"])

    kind: str = Field(
        description="As in cost.price; reckoned with a figure of this service, or asked: with one of the request."
    )
    source: str
    observed: str
    confidence: TrustName
    age_days: int | None = None


class BillLineShown(Shown):
    """So much of something; without `unit_price` it is to be quoted. `paid` is once or over_term."""

    model_config = shown_as(LINE)

    line_no: int
    kind: str
    goods: str
    sku: str
    description: str
    quantity: float
    unit: str = Field(description="UN/ECE Recommendation 20.")
    unit_price: float | None = None
    line_total: float | None = None
    paid: Annotated[Literal["once", "over_term"], Component("Paid")]
    term_months: float | None = None
    price: PriceSourceShown | None = None
    manufacturer: str | None = None
    part_number: str | None = Field(None, description="The maker's, where it is known.")
    supplier: str | None = None
    supplier_part_id: str | None = None
    codes: dict[str, str] = Field(description="unspsc with unspsc_version, cpv, hs_code: data of the catalogue.")
    notes: str | None = None


class MaterialsTotalsShown(Shown):
    """What all lines come to, to the cent."""

    model_config = shown_as(TOTALS)

    once: float
    over_term: float
    subtotal: float
    tax: float
    total: float


class MaterialsShown(Shown):
    """What one ranked option is made of, as it was priced when it was answered."""

    model_config = shown_as(BILL)

    recommendation: str
    rank: int
    option: str
    created_at: str
    snapshot: str
    as_of: str = Field(description="Day to which ages of prices are counted.")
    label: str | None = Field(None, description="This and the next two as in the request.")
    reference: str | None = None
    cost_centre: str | None = None
    currency: str
    usd_rate: float | None = None
    rate_date: str | None = None
    tax_name: str | None = None
    tax_percent: float | None = None
    lines: list[BillLineShown]
    totals: MaterialsTotalsShown
    to_be_quoted: list[int] = Field(description="Lines without a price; in no total.")


def materials_json(bill: Bill) -> dict[str, Any]:
    """A bill as it is sent: amounts are exact to the cent."""
    settled = bill.settlement
    foreign, taxed = settled.rate_date, settled.tax_name
    return {
        "recommendation": bill.answer,
        "rank": bill.rank,
        "option": bill.title,
        "created_at": bill.created_at,
        "snapshot": bill.snapshot,
        "as_of": bill.as_of.isoformat(),
        **bill.own_words,
        "currency": settled.currency,
        **({} if foreign is None else {"usd_rate": float(settled.per_usd), "rate_date": foreign.isoformat()}),
        **({} if taxed is None else {"tax_name": taxed, "tax_percent": float(settled.tax_percent)}),
        "lines": [line_json(line) for line in bill.lines],
        "totals": {name: float(getattr(bill, name)) for name in MaterialsTotalsShown.model_fields},
        "to_be_quoted": [line.number for line in bill.lines if line.total is None],
    }


def line_json(line: Line) -> dict[str, Any]:
    """A line as it is sent; what is not known is absent."""
    price, figures = line.price, ("unit_price", "total", "term_months")
    unit_price, total, months = (None if (v := getattr(line, name)) is None else float(v) for name in figures)
    told = {
        "line_no": line.number,
        "kind": line.kind,
        "goods": line.goods,
        "sku": line.sku,
        "description": line.description,
        "quantity": float(line.quantity),
        "unit": line.unit.value,
        "unit_price": unit_price,
        "line_total": total,
        "paid": line.paid,
        "term_months": months,
        "price": None if price is None else present(**asdict(price)),
        "manufacturer": line.manufacturer,
        "part_number": line.part_number,
        "supplier": line.supplier,
        "supplier_part_id": line.supplier_part_id,
        "codes": line.codes,
        "notes": line.notes or None,
    }
    return {name: value for name, value in told.items() if value is not None}
