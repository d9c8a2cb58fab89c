"""Schemas of purchases: the bill behind a cost, bills of materials, and hand-offs with their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.schemas.base import Component, TrustName, require_printable, with_examples
from app.api.schemas.origins import EMPTY, WHOLE, Convert, From, ResultModel
from app.errors import Unanswerable
from app.export.handoff.option import File, Handoff
from app.export.lines import Bill, Line, PriceSource, Settlement, format_decimal
from app.export.order import OrderDetails
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
    "target": "shell",
    "rank": 1,
    "targets": ["shell", "docker-compose", "kubernetes", "kserve"],
    "files": [FILE],
    "notes": ["Flags of vLLM: vllm/engine/arg_utils.py and config/parallel.py of 0.33.0, read 2026-11-23."],
}
TargetName = Annotated[
    Literal[
        "shell",
        "docker",
        "docker-compose",
        "kubernetes",
        "kserve",
        "llm-d",
        "dynamo",
        "ray",
        "skypilot",
        "dstack",
        "torchrun",
        "deepspeed",
        "megatron",
        "accelerate",
        "slurm",
        "vllm",
        "sglang",
        "tensorrt-llm",
        "llama.cpp",
        "ollama",
        "lmdeploy",
        "tgi",
        "text-embeddings-inference",
        "mlx",
        "ctranslate2",
        "diffusers",
        "pytorch",
    ],
    Component("HandoffTarget"),
]


ExportedRank = Annotated[
    int | None,
    Field(
        ge=0,
        le=1000,
        description="Rank of the option; 0 is the mixed fleet. Default: 1, or 0 if no single option is feasible.",
    ),
]


class HandoffQuery(BaseModel):
    """Target tool, rank of the option, and optionally one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: TargetName | None = Field(
        None, description="Tool to write files for. Default: shell, or else the first target that can start the option."
    )
    rank: ExportedRank = None
    file: str | None = Field(
        None, min_length=1, max_length=120, description="Name of a file; returns only this file, unchanged."
    )
    engine_version: str | None = Field(
        None,
        max_length=60,
        pattern=r"^v?\d+(\.\d+){0,3}[A-Za-z0-9.+-]{0,20}$",
        description="Installed version of the engine. Default: the version from which the flags were read.",
    )
    volume_claim: str | None = Field(
        None,
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="PersistentVolumeClaim in Kubernetes that keeps the weights and that all replicas can mount. "
        "Default: a folder of each node.",
    )


class FileShown(ResultModel, of=File):
    """A file with its name."""

    model_config = with_examples(FILE)

    name: str
    media_type: str
    text: str


class HandoffShown(ResultModel, of=Handoff):
    """Files that start and benchmark one ranked option or the mixed fleet, and notes for the operator."""

    model_config = with_examples(HANDOFF)

    target: TargetName
    rank: int
    targets: list[TargetName] = Field(description="Targets that can start this option.")
    files: list[FileShown]
    notes: list[str]


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
    "supplier_kind": "hardware dealer",
    "price": {
        "kind": "survey",
        "source": "survey of sellers",
        "observed": "2026-08",
        "confidence": "medium",
        "age_days": 111,
    },
    "manufacturer": "Supermicro",
    "part_number": "SYS-821GE-TNHR",
    "codes": {"unspsc": "43211501"},
}
TOTALS: dict[str, Any] = {
    "once": 1860200,
    "over_term": 683000.45,
    "subtotal": 2543200.45,
    "tax": 0,
    "total": 2543200.45,
    "excludes": ["5 EA: Delivery, installation and commissioning, per machine"],
}
ORDER: dict[str, Any] = {"buyer": "Example Ltd", "incoterm": "DAP", "due_date": "2026-12-18"}
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


OrderText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(require_printable)]
IncotermName = Annotated[
    Literal["EXW", "FCA", "FAS", "FOB", "CFR", "CIF", "CPT", "CIP", "DAP", "DPU", "DDP"], Component("Incoterm")
]


class MaterialsQuery(BaseModel):
    """Rank of the option, file format, currency, tax, and the details of the order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: ExportedRank = None
    format: Annotated[Literal["json", "csv", "xlsx", "cxml", "oci", "ubl", "html", "rfq"], Component("BillFormat")] = (
        "json"
    )
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="ISO 4217 currency code.")
    usd_rate: Exact | None = Field(
        None, gt=0, le=100_000_000, max_digits=18, description="Exchange rate: units of the currency for one USD."
    )
    rate_date: date | None = Field(None, description="Day of the exchange rate.")
    tax_name: Annotated[str, Field(min_length=1, max_length=40), AfterValidator(require_printable)] | None = None
    tax_percent: Exact | None = Field(None, ge=0, le=100, max_digits=8)
    term_months: int | None = Field(
        None,
        ge=1,
        le=240,
        description="Months of rentals by the hour and of running costs; commitments and runs have their own term. "
        "Default: the request's horizon_months; without one, a month of rent, or the horizon of a purchase.",
    )
    buyer: OrderText | None = None
    buyer_address: OrderText | None = None
    buyer_contact: OrderText | None = None
    buyer_tax_id: OrderText | None = None
    supplier: OrderText | None = Field(None, description="Dealer of the hardware; default: the maker of the machines.")
    delivery_address: OrderText | None = None
    incoterm: IncotermName | None = None
    payment_terms: OrderText | None = None
    lead_time_days: int | None = Field(None, ge=1, le=3650)
    due_date: date | None = None
    valid_until: date | None = None

    def to_order(self) -> OrderDetails:
        """The details of the order. Raises Unanswerable if a quote would expire before it is due."""
        if self.due_date is not None and self.valid_until is not None and self.valid_until < self.due_date:
            raise Unanswerable.at(
                "query/valid_until",
                f"valid_until ({self.valid_until}) is before due_date ({self.due_date}): a quote must be valid on the "
                "day it is due. Set valid_until to that day or later.",
            )
        return OrderDetails(**{each.name: getattr(self, each.name) for each in fields(OrderDetails)})

    def to_settlement(self) -> Settlement:
        """The currency and the tax. Raises Unanswerable if either is only partly specified."""
        foreign = self.currency != "USD"
        if foreign != (self.usd_rate is not None) or foreign != (self.rate_date is not None):
            raise Unanswerable.at(
                "query/currency",
                "Prices are in USD. For another currency, set currency, usd_rate (units of it for one USD) and "
                "rate_date (day of the rate). For USD, omit usd_rate and rate_date.",
            )
        if (self.tax_name is None) != (self.tax_percent is None):
            lacks = "tax_name" if self.tax_name is None else "tax_percent"
            raise Unanswerable.at(f"query/{lacks}", "Set both tax_name and tax_percent, or neither.")
        return Settlement(
            self.currency, self.usd_rate or Decimal(1), self.rate_date, self.tax_name, self.tax_percent or Decimal(0)
        )


class PriceSourceShown(ResultModel, of=PriceSource):
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


EXACT = From(convert=float)  # exact to the cent


class BillLineShown(ResultModel, of=Line):
    """A quantity of one item; without `unit_price` it must be quoted. `paid` is once or over_term."""

    model_config = with_examples(LINE)

    line_no: Annotated[int, From("number")]
    kind: str
    goods: str
    sku: str
    description: str
    quantity: Annotated[float, EXACT]
    unit: Annotated[str, From(convert=str)] = Field(description="Unit code of UN/ECE Recommendation 20.")
    unit_price: Annotated[float | None, EXACT] = None
    line_total: Annotated[float | None, From("total", convert=float)] = None
    paid: Annotated[Annotated[Literal["once", "over_term"], Component("Paid")], From("payment_timing")]
    term_months: Annotated[float | None, EXACT] = None
    price: PriceSourceShown | None = None
    manufacturer: str | None = None
    part_number: str | None = Field(None, description="The manufacturer's part number, if known.")
    supplier: str | None = None
    supplier_kind: Annotated[str, From("trade", convert=str)] = Field(
        description="Kind of supplier that sells the line, such as hardware dealer or cloud provider."
    )
    supplier_part_id: str | None = None
    codes: dict[str, str] = Field(
        description="Classification codes from the catalog: unspsc with unspsc_version, cpv, hs_code."
    )
    owned: Annotated[bool | None, From(omit=(False,))] = Field(
        None, description="True for what you have already: it costs nothing, and no order contains it."
    )
    notes: Annotated[str | None, From(omit=EMPTY)] = None


def _describe_items(lines: Sequence[Line]) -> list[str]:
    return [f"{format_decimal(line.quantity)} {line.unit.value}: {line.description}" for line in lines]


class MaterialsTotalsShown(ResultModel, of=Bill):
    """Totals of all lines, rounded to cents."""

    model_config = with_examples(TOTALS)

    once: Annotated[float, EXACT]
    over_term: Annotated[float, EXACT]
    subtotal: Annotated[float, EXACT]
    tax: Annotated[float, EXACT]
    total: Annotated[float, EXACT]
    excludes: Annotated[list[str], From("unpriced_lines", convert=_describe_items)] = Field(
        description="Items without a price, which no total includes, with their quantity."
    )


class OrderShown(ResultModel, of=OrderDetails):
    """Details of the order that the buyer stated; documents have empty lines for the others."""

    model_config = with_examples(ORDER)

    buyer: str | None = None
    buyer_address: str | None = None
    buyer_contact: str | None = None
    buyer_tax_id: str | None = None
    supplier: str | None = None
    delivery_address: str | None = None
    incoterm: str | None = None
    payment_terms: str | None = None
    lead_time_days: int | None = None
    due_date: Annotated[str | None, From(convert=date.isoformat)] = None
    valid_until: Annotated[str | None, From(convert=date.isoformat)] = None
    term_months: int | None = None


def _filed(name: str) -> From:
    """A value of the request that the buyer files the answer under."""
    return From("filing_values", convert=lambda values: values.get(name), omit=(None,))


def _if_foreign(path: str, convert: Convert) -> From:
    return From(f"settlement.{path}", convert=convert, when=lambda bill: bill.settlement.rate_date is not None)


class MaterialsShown(ResultModel, of=Bill):
    """Bill of materials of one ranked option or of the mixed fleet, at the prices of the answer."""

    model_config = with_examples(BILL)

    recommendation: Annotated[str, From("answer")]
    rank: int
    option: Annotated[str, From("title")]
    created_at: str
    snapshot: str
    as_of: Annotated[str, From(convert=date.isoformat)] = Field(
        description="Day of the prices; their ages refer to it."
    )
    label: Annotated[str | None, _filed("label")] = Field(None, description="Label from the request.")
    reference: Annotated[str | None, _filed("reference")] = None
    cost_centre: Annotated[str | None, _filed("cost_centre")] = None
    currency: Annotated[str, From("settlement.currency")]
    usd_rate: Annotated[float | None, _if_foreign("per_usd", float)] = None
    rate_date: Annotated[str | None, _if_foreign("rate_date", date.isoformat)] = None
    tax_name: Annotated[str | None, From("settlement.tax_name")] = None
    tax_percent: Annotated[
        float | None,
        From("settlement.tax_percent", convert=float, when=lambda bill: bill.settlement.tax_name is not None),
    ] = None
    order: Annotated[OrderShown | None, From(omit=EMPTY)] = Field(
        None, description="Details of the order from the parameters of the call."
    )
    lines: list[BillLineShown]
    totals: Annotated[MaterialsTotalsShown, From(WHOLE)]
    to_be_quoted: Annotated[list[int], From("unpriced_lines", convert=lambda lines: [n.number for n in lines])] = Field(
        description="Numbers of lines without a price; no total includes them."
    )
