"""Hardware that the caller owns, as part of a request."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from app.api.schemas.base import INTEGER_VALUED, Name, PrintableText, RequestModel, with_examples
from app.sizing.hardware.parts import OwnedHardware
from app.sizing.hardware.terms import commercial_terms

InventoryUse = Literal["only", "first", "ignore"]


def find_licence(name: str) -> str:
    """A software license under the name of the catalog if it has one, else as typed."""
    known = {licence.casefold(): licence for goods, licence in commercial_terms() if goods == "licence"}
    return known.get(name.casefold(), name)


LicenceName = Annotated[PrintableText, AfterValidator(find_licence)]


class InventorySpec(RequestModel):
    """Machines or accelerators that you own."""

    model_config = with_examples({"accelerator": "a6000", "count": 4}, {"system": "dgx-h100", "count": 2})

    accelerator: Name | None = Field(None, description="Accelerator that you own. Give this or `system`.")
    system: Name | None = Field(None, description="Machine that you own, as listed by GET /catalog/systems.")
    count: Annotated[int, Field(ge=1, le=1_000_000), INTEGER_VALUED] = Field(
        description="Number of accelerators, or of machines with `system`."
    )
    accelerators_per_machine: Annotated[int, Field(ge=1, le=1024), INTEGER_VALUED] | None = Field(
        None,
        description="Accelerators in one of your machines. Default: the usual number, or `count` if that is smaller.",
    )
    sunk: bool | None = Field(
        None,
        description="Whether the machines are paid for: only their operation costs. Default: true, or false with "
        "`usd_per_machine`.",
    )
    usd_per_machine: Annotated[float, Field(gt=0, le=1e9)] | None = Field(
        None,
        description="Book value or quoted price of a machine, with its share of racks and network; spread over the "
        "horizon.",
    )
    host_memory_gib: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Memory of one host of a machine; a rack has several. Default: that of the machine's record."
    )
    network_gbit_s: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        None, description="Network bandwidth of a whole machine. Default: that of the machine's record."
    )
    power_kw: Annotated[float, Field(gt=0, le=1e4)] | None = Field(
        None,
        description="Power of a machine under load. Default: that of its record, or the sum of its parts.",
    )
    licences: Annotated[
        list[LicenceName],
        Field(max_length=20, description="Software licenses that you have for the machines; no bill asks for them."),
    ] = []

    @model_validator(mode="after")
    def _check(self) -> InventorySpec:
        if (self.accelerator is None) == (self.system is None):
            raise ValueError("name either accelerator or system")
        if self.system is not None and self.accelerators_per_machine is not None:
            raise ValueError("system already says how many accelerators a machine has: omit accelerators_per_machine")
        if self.sunk and self.usd_per_machine is not None:
            raise ValueError("machines with a price that counts are not sunk: omit sunk or usd_per_machine")
        if self.sunk is False and self.usd_per_machine is None:
            raise ValueError("sunk is false, so the price counts: add usd_per_machine")
        if self.accelerators_per_machine and self.count % self.accelerators_per_machine:
            raise ValueError(
                f"{self.count} accelerators do not fill machines of {self.accelerators_per_machine}: send one entry "
                "for each kind of machine"
            )
        return self

    def to_owned(self, accelerator: str, per_machine: int, system: str | None) -> OwnedHardware:
        """The entry with names of the catalog."""
        return OwnedHardware(
            accelerator=accelerator,
            count=self.count * per_machine if self.system is not None else self.count,
            per_machine=per_machine,
            system=system,
            usd_per_machine=self.usd_per_machine or 0.0,
            ram_gib=self.host_memory_gib,
            network_gbit_s=self.network_gbit_s,
            power_kw=self.power_kw,
            licences=tuple(self.licences),
        )
