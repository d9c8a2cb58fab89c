"""Private records of a tenant: owned hardware, quoted rents and quoted machines; and the report on a bulk write."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from app.api.schemas.base import (
    INTEGER_VALUED,
    Name,
    PricingName,
    PrintableText,
    RequestModel,
    ResponseModel,
    with_examples,
)
from app.api.schemas.inventory import InventorySpec, LicenceName

RecordName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:/-]*$",
        description="Your own name of the record.",
    ),
]
Quantity = Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED]
OWN_FIELDS = ("name", "free", "place", "engines", "note")
HARDWARE = {"name": "rack 4", "accelerator": "a6000", "count": 8, "free": 4, "place": "Berlin"}
OFFER = {
    "name": "acme-h100-2027",
    "seller": "Acme Cloud",
    "accelerator": "h100 sxm",
    "accelerators": 8,
    "pricing_model": "reserved_1y",
    "usd_per_hour": 15.2,
    "valid_until": "2027-03-31",
}
SYSTEM = {
    "name": "acme-8xh100",
    "seller": "Acme Servers",
    "accelerator": "h100 sxm",
    "accelerators": 8,
    "usd": 248000,
    "min_quantity": 2,
    "valid_until": "2027-01-31",
}


class StoredHardware(InventorySpec):
    """Machines or accelerators that you own, stored under a name."""

    model_config = with_examples(HARDWARE)

    name: RecordName
    free: Annotated[int, Field(ge=0, le=1_000_000), INTEGER_VALUED] | None = Field(
        None, description="How many of `count` are free for new work; whole machines. Default: all."
    )
    place: PrintableText | None = Field(None, description="Where the machines are.")
    engines: Annotated[
        list[Name], Field(max_length=20, description="Serving engines and frameworks that they may run. Default: all.")
    ] = []
    note: PrintableText | None = Field(None, description="Text of your own; it affects no answer.")

    @model_validator(mode="after")
    def _check_free(self) -> StoredHardware:
        if self.free is not None and self.free > self.count:
            raise ValueError(f"free is more than count, {self.count}")
        if self.free and self.accelerators_per_machine and self.free % self.accelerators_per_machine:
            raise ValueError("free counts whole machines: use a multiple of accelerators_per_machine")
        return self

    def to_request(self) -> dict[str, Any] | None:
        """Returns the entry of a request's inventory; None if nothing is free."""
        fields = {name: value for name, value in self.model_dump(exclude_unset=True).items() if name not in OWN_FIELDS}
        count = self.count if self.free is None else self.free
        return {**fields, "count": count} if count else None


class QuoteSpec(RequestModel):
    """What quotes of rents and of machines have in common."""

    name: RecordName
    seller: PrintableText = Field(description="Who quotes: a provider of the catalog, or any other company.")
    accelerator: Name | None = Field(None, description="Accelerator of the machine. Give this or `system`.")
    system: Name | None = Field(None, description="Machine, as listed by GET /catalog/systems.")
    accelerators: Annotated[int, Field(ge=1, le=1024), INTEGER_VALUED] | None = Field(
        None, description="Accelerators in one machine. Default: the usual number, or that of the system."
    )
    min_quantity: Quantity = Field(
        1,
        description="Smallest order, in machines. Send one record for each price break; an answer has the price of "
        "the number that it buys.",
    )
    max_quantity: Quantity | None = Field(None, description="Largest order, in machines. Default: no limit.")
    valid_from: date | None = Field(None, description="First day of the price. Default: the day of storing.")
    valid_until: date | None = Field(None, description="Last day of the price. Default: until you delete it.")
    licences: Annotated[
        list[LicenceName],
        Field(max_length=20, description="Software licenses in the price; no bill asks for them again."),
    ] = []
    note: PrintableText | None = Field(None, description="Text of your own; it affects no answer.")

    @model_validator(mode="after")
    def _check_quote(self) -> QuoteSpec:
        if (self.accelerator is None) == (self.system is None):
            raise ValueError("name either accelerator or system")
        if self.system is not None and self.accelerators is not None:
            raise ValueError("system already says how many accelerators a machine has: omit accelerators")
        if self.max_quantity is not None and self.max_quantity < self.min_quantity:
            raise ValueError("max_quantity is less than min_quantity")
        if self.valid_from and self.valid_until and self.valid_until < self.valid_from:
            raise ValueError("valid_until is before valid_from")
        return self


class QuotedOffer(QuoteSpec):
    """A rent that was negotiated with you or quoted to you, for a whole machine."""

    model_config = with_examples(OFFER)

    usd_per_hour: Annotated[float, Field(gt=0, le=1e7)] = Field(description="Rent of one whole machine.")
    upfront_usd: Annotated[float, Field(ge=0, le=1e9)] | None = Field(None, description="Paid per machine at once.")
    pricing_model: PricingName = "on_demand"
    region: PrintableText | None = Field(None, description="Region of the machines, as the seller calls it.")

    @model_validator(mode="after")
    def _check_rent(self) -> QuotedOffer:
        if self.pricing_model == "owned":
            raise ValueError("a rent is not owned: send machines that you buy to POST /catalog/systems")
        return self


class QuotedSystem(QuoteSpec):
    """A machine that a seller has quoted to you, with the price of one machine."""

    model_config = with_examples(SYSTEM)

    usd: Annotated[float, Field(gt=0, le=1e9)] = Field(description="Price of one complete machine.")
    licence_usd: Annotated[float, Field(ge=0, le=1e9)] | None = Field(
        None, description="Price of the `licences` for one machine, if the quote adds it to `usd`."
    )
    host_memory_gib: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Memory of the host. Default: that of the system, or an assumed one."
    )
    network_gbit_s: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Network bandwidth of the machine. Default: that of the system, or an assumed one."
    )
    power_kw: Annotated[float, Field(gt=0, le=1e4)] | None = Field(
        None, description="Power of the machine under load. Default: that of the system, or the sum of its parts."
    )

    @model_validator(mode="after")
    def _check_licences(self) -> QuotedSystem:
        if self.licence_usd is not None and not self.licences:
            raise ValueError("licence_usd is the price of licenses: name them in licences")
        return self


class RecordError(ResponseModel):
    """A reason why a line is refused."""

    model_config = with_examples({"pointer": "line 3/count", "detail": "Input should be a valid integer"})

    pointer: str = Field(description="JSON pointer or column of the value.")
    detail: str = Field(description="Why the value is refused, and accepted values.")


class RecordLine(ResponseModel):
    """The action of a write, or of its dry run, on one record."""

    model_config = with_examples({"line": 1, "name": "rack 4", "action": "added"})

    line: int = Field(description="Number of the record, from 1; in a CSV table, of its line.")
    name: str | None = Field(None, description="Your name of the record.")
    action: Literal["added", "changed", "unchanged", "refused"] = Field(description="What happens to the record.")
    errors: list[RecordError] = Field([], description="Why the record is refused; empty if it is not.")


class RecordsReport(ResponseModel):
    """Result of a write of private records, or of its dry run."""

    model_config = with_examples(
        {"dry_run": True, "stored": 0, "refused": 0, "lines": [{"line": 1, "name": "rack 4", "action": "added"}]}
    )

    dry_run: bool = Field(description="Whether nothing was to be stored.")
    stored: int = Field(description="Records that were added or changed.")
    refused: int = Field(description="Records with errors. One such record keeps all others from being stored.")
    lines: list[RecordLine] = Field(description="Every record, in the order of the request.")


class PrivateRecordShown(ResponseModel):
    """A stored record, with names of the catalog."""

    model_config = {"extra": "allow", **with_examples(HARDWARE)}

    name: str = Field(description="Your own name of the record.")


class PrivateRecordList(ResponseModel):
    """Your private records of one kind, by name."""

    model_config = with_examples({"items": [HARDWARE], "next_cursor": None})

    items: list[PrivateRecordShown] = Field(description="Records to store, each under a name of its own.")
    next_cursor: str | None = Field(None, description="Always null: the list has one page.")


class StoredHardwareList(RequestModel):
    """Several records of owned hardware."""

    model_config = with_examples({"items": [HARDWARE]})

    items: Annotated[
        list[StoredHardware],
        Field(min_length=1, max_length=50, description="Records to store, each under a name of its own."),
    ]


class QuotedOfferList(RequestModel):
    """Several quoted rents."""

    model_config = with_examples({"items": [OFFER]})

    items: Annotated[
        list[QuotedOffer],
        Field(min_length=1, max_length=500, description="Records to store, each under a name of its own."),
    ]


class QuotedSystemList(RequestModel):
    """Several quoted machines."""

    model_config = with_examples({"items": [SYSTEM]})

    items: Annotated[
        list[QuotedSystem],
        Field(min_length=1, max_length=500, description="Records to store, each under a name of its own."),
    ]
