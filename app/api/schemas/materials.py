"""Schemas of purchases: the bill behind a cost, bills of materials, and hand-offs with their files."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.schemas.base import Component, ResponseModel, TrustName, require_printable, rounded_fields, with_examples
from app.api.schemas.origins import ResultModel
from app.errors import Unanswerable
from app.export.handoff.option import Handoff
from app.export.lines import Bill, Line, Settlement
from app.sizing.result import Part


class PartShown(ResultModel, of=Part):
    """A line of the bill. Lines with `unit_usd` add up to the purchase cost, paid over `horizon_hours`; lines with
    `usd_per_hour` add up to the hourly cost. `machine_kw` is the mean power of each machine. Cost and energy per unit
    are divided by `tokens_per_s` or `samples_per_s`.
    """

    model_config = with_examples({"what": "network_gbit_per_s", "quantity": 6400, "unit_usd": 4.7})

    what: str
    quantity: float = Field(description="Number of units; for upkeep_usd, the purchase cost that it is a share of.")
    unit_usd: float | None = Field(None, description="Purchase price of one unit.")
    usd_per_hour: float | None = Field(None, description="Hourly price of one unit.")


FILE: dict[str, Any] = {
    "name": "serve.sh",
    "media_type": "application/x-sh",
    "text": "#!/usr/bin/env bash\nset -euo pipefail\nexec vllm serve meta-llama/Llama-3.1-8B-Instruct\n",
}
HANDOFF: dict[str, Any] = {
    "target": "vllm",
    "rank": 1,
    "files": [FILE],
    "notes": ["Flags of vLLM: vllm/engine/arg_utils.py and config/parallel.py of 0.33.0, read 2026-11-23."],
}
TargetName = Annotated[
    Literal[
        "vllm",
        "sglang",
        "tensorrt-llm",
        "llama.cpp",
        "tgi",
        "text-embeddings-inference",
        "mlx",
        "kubernetes",
        "kserve",
        "skypilot",
        "dstack",
        "docker-compose",
        "torchrun",
        "deepspeed",
        "megatron",
        "accelerate",
        "slurm",
    ],
    Component("HandoffTarget"),
]


class HandoffQuery(BaseModel):
    """Target tool, rank of the option, and optionally one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: TargetName
    rank: int = Field(1, ge=1, le=1000)
    file: str | None = Field(
        None, min_length=1, max_length=120, description="Name of a file; returns only this file, unchanged."
    )
    engine_version: str | None = Field(
        None,
        pattern=r"^v?\d+(\.\d+){0,3}[A-Za-z0-9.+-]{0,20}$",
        description="Installed version of the engine. Default: the version from which the flags were read.",
    )


class FileShown(ResponseModel):
    """A file with its name."""

    model_config = with_examples(FILE)

    name: str
    media_type: str
    text: str


class HandoffShown(ResponseModel):
    """Files that start and benchmark one ranked option, and notes for the operator."""

    model_config = with_examples(HANDOFF)

    target: TargetName
    rank: int
    files: list[FileShown]
    notes: list[str]


def handoff_json(handoff: Handoff) -> dict[str, Any]:
    """A hand-off as JSON."""
    return {
        "target": handoff.target,
        "rank": handoff.rank,
        "files": [asdict(file) for file in handoff.files],
        "notes": list(handoff.notes),
    }


# A decimal number without rounding.
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
    """Rank of the option, file format, currency and tax."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = Field(1, ge=1, le=1000)
    format: Annotated[Literal["json", "csv", "xlsx", "cxml", "oci", "ubl", "html"], Component("BillFormat")] = "json"
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="ISO 4217 currency code.")
    usd_rate: Exact | None = Field(
        None, gt=0, le=100_000_000, max_digits=18, description="Exchange rate: units of the currency for one USD."
    )
    rate_date: date | None = Field(None, description="Day of the exchange rate.")
    tax_name: Annotated[str, Field(min_length=1, max_length=40), AfterValidator(require_printable)] | None = None
    tax_percent: Exact | None = Field(None, ge=0, le=100, max_digits=8)

    def to_settlement(self) -> Settlement:
        """The currency and the tax. Raises Unanswerable if either is only partly specified."""
        foreign = self.currency != "USD"
        if foreign != (self.usd_rate is not None) or foreign != (self.rate_date is not None):
            raise Unanswerable(
                "Prices are in USD. For another currency, set currency, usd_rate (units of it for one USD) and "
                "rate_date (day of the rate). For USD, omit usd_rate and rate_date."
            )
        if (self.tax_name is None) != (self.tax_percent is None):
            raise Unanswerable("Set both tax_name and tax_percent, or neither.")
        return Settlement(
            self.currency, self.usd_rate or Decimal(1), self.rate_date, self.tax_name, self.tax_percent or Decimal(0)
        )


class PriceSourceShown(ResponseModel):
    """Kind and source of a price, and its age on the day of the answer."""

    model_config = with_examples(LINE["price"])

    kind: str = Field(
        description="As in cost.price; estimate if it is calculated with an assumption of this service, asked if with "
        "a figure of your request."
    )
    source: str
    observed: str
    confidence: TrustName
    age_days: int | None = None


class BillLineShown(ResponseModel):
    """A quantity of one item; without `unit_price` it must be quoted. `paid` is once or over_term."""

    model_config = with_examples(LINE)

    line_no: int
    kind: str
    goods: str
    sku: str
    description: str
    quantity: float
    unit: str = Field(description="Unit code of UN/ECE Recommendation 20.")
    unit_price: float | None = None
    line_total: float | None = None
    paid: Annotated[Literal["once", "over_term"], Component("Paid")]
    term_months: float | None = None
    price: PriceSourceShown | None = None
    manufacturer: str | None = None
    part_number: str | None = Field(None, description="The manufacturer's part number, if known.")
    supplier: str | None = None
    supplier_part_id: str | None = None
    codes: dict[str, str] = Field(
        description="Classification codes from the catalog: unspsc with unspsc_version, cpv, hs_code."
    )
    notes: str | None = None


class MaterialsTotalsShown(ResponseModel):
    """Totals of all lines, rounded to cents."""

    model_config = with_examples(TOTALS)

    once: float
    over_term: float
    subtotal: float
    tax: float
    total: float


class MaterialsShown(ResponseModel):
    """Bill of materials of one ranked option, at the prices of the answer."""

    model_config = with_examples(BILL)

    recommendation: str
    rank: int
    option: str
    created_at: str
    snapshot: str
    as_of: str = Field(description="Day that price ages refer to.")
    label: str | None = Field(None, description="Label from the request.")
    reference: str | None = None
    cost_centre: str | None = None
    currency: str
    usd_rate: float | None = None
    rate_date: str | None = None
    tax_name: str | None = None
    tax_percent: float | None = None
    lines: list[BillLineShown]
    totals: MaterialsTotalsShown
    to_be_quoted: list[int] = Field(description="Numbers of lines without a price; no total includes them.")


def materials_json(bill: Bill) -> dict[str, Any]:
    """A bill as JSON; amounts are exact to the cent."""
    settled = bill.settlement
    foreign, taxed = settled.rate_date, settled.tax_name
    return {
        "recommendation": bill.answer,
        "rank": bill.rank,
        "option": bill.title,
        "created_at": bill.created_at,
        "snapshot": bill.snapshot,
        "as_of": bill.as_of.isoformat(),
        **bill.filing_values,
        "currency": settled.currency,
        **({} if foreign is None else {"usd_rate": float(settled.per_usd), "rate_date": foreign.isoformat()}),
        **({} if taxed is None else {"tax_name": taxed, "tax_percent": float(settled.tax_percent)}),
        "lines": [line_json(line) for line in bill.lines],
        "totals": {name: float(getattr(bill, name)) for name in MaterialsTotalsShown.model_fields},
        "to_be_quoted": [line.number for line in bill.lines if line.total is None],
    }


def line_json(line: Line) -> dict[str, Any]:
    """A line of the bill as JSON; unknown values are omitted."""
    price, figures = line.price, ("unit_price", "total", "term_months")
    unit_price, total, months = (None if (v := getattr(line, name)) is None else float(v) for name in figures)
    values = {
        "line_no": line.number,
        "kind": line.kind,
        "goods": line.goods,
        "sku": line.sku,
        "description": line.description,
        "quantity": float(line.quantity),
        "unit": line.unit.value,
        "unit_price": unit_price,
        "line_total": total,
        "paid": line.payment_timing,
        "term_months": months,
        "price": None if price is None else rounded_fields(**asdict(price)),
        "manufacturer": line.manufacturer,
        "part_number": line.part_number,
        "supplier": line.supplier,
        "supplier_part_id": line.supplier_part_id,
        "codes": line.codes,
        "notes": line.notes or None,
    }
    return {name: value for name, value in values.items() if value is not None}
