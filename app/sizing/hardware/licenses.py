"""Licenses of published sources: of prices, of electricity, and of measurements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from app.sizing.facts import build_rows


@dataclass(frozen=True, slots=True)
class SourceLicense:
    """A source that states its license. References to it begin with `source_ref`."""

    source_ref: str
    name: str
    license: str  # SPDX identifier
    source: str
    as_of: str


@cache
def source_licenses() -> tuple[SourceLicense, ...]:
    return build_rows(SourceLicense, "source_licenses.csv")


def find_licenses(references: Iterable[str]) -> tuple[SourceLicense, ...]:
    """The sources with a known license to which references point, each once, by name.

    Check:
        >>> [s.license for s in find_licenses(["dstackai/gpuhunt@1:tpu.csv", "dstackai/gpuhunt", "a seller's page"])]
        ['MPL-2.0']
    """
    found = {s for reference in set(references) for s in source_licenses() if reference.startswith(s.source_ref)}
    return tuple(sorted(found, key=lambda s: s.name))
