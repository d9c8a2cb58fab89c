"""The catalogue's own accelerators and evidence, read without a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import MappingProxyType

from app.catalog.files import read_rows
from app.catalog.queries import make_support
from app.catalog.seed import accelerator_values, row_values
from app.catalog.tables import EngineSupportRow
from app.sizing.hardware.parts import RATE_NAMES, Accelerator, Link, Segment
from app.sizing.hardware.support.records import EngineSupport


def rows(name: str) -> list[Mapping[str, str]]:
    """Rows of a table as it is published."""
    return list(read_rows(name))


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Every accelerator type, by name."""
    found = {}
    for row in rows("accelerators.csv"):
        values = accelerator_values(row)
        known = {f.name: values[f.name] for f in fields(Accelerator) if f.name in values}
        known |= {"segment": Segment(row["segment"]), "machine_link": Link(values["machine_link"])}
        rates = {name: values[f"{name}_flops_per_s"] for name in RATE_NAMES}
        known["flops_per_s"] = MappingProxyType({k: v for k, v in rates.items() if v is not None})
        found[row["slug"]] = Accelerator(**known)
    return found


def catalogued(slug: str) -> Accelerator:
    return accelerators()[slug]


@cache
def support() -> tuple[EngineSupport, ...]:
    """Evidence of what runs where."""
    return tuple(
        make_support(EngineSupportRow(**row_values(EngineSupportRow, row))) for row in rows("engine_support.csv")
    )
