"""Models that are sold as a service only: nobody else can run them, so nothing can be sized for them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from app.catalog.files import rows_of
from app.catalog.names import folded


@dataclass(frozen=True, slots=True)
class HostedOnly:
    """A name, or a pattern of names, whose weights are not published. `sold_as`: where it is had."""

    name: str
    maker: str
    sold_as: str


@cache
def hosted_models() -> tuple[HostedOnly, ...]:
    """Every one that is known, the most telling names first."""
    found = (HostedOnly(row["name"], row["maker"], row["sold_as"]) for row in rows_of("hosted_models.csv"))
    return tuple(sorted(found, key=lambda m: (-len(m.name), m.name)))


def hosted_only(name: str) -> HostedOnly | None:
    """What a name is that no model of the catalogue has, where it is sold as a service only.

    Check: "openai/gpt-4o-mini" is OpenAI's; "gpt-oss-20b", whose weights are published, is none.
    """
    key = folded(name.rsplit("/", 1)[-1])
    return next((m for m in hosted_models() if fnmatchcase(key, m.name)), None)
