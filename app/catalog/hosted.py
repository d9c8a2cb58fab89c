"""Models whose weights are not published. They are sold only as a service, so no hardware can be sized for them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from app.catalog.files import read_rows
from app.catalog.names import fold_name


@dataclass(frozen=True, slots=True)
class HostedOnly:
    """A model name, or a pattern of names, without published weights. `sold_as` names the service that offers it."""

    name: str
    maker: str
    sold_as: str


@cache
def hosted_models() -> tuple[HostedOnly, ...]:
    """Returns all known hosted-only models, most specific names first."""
    models = (HostedOnly(row["name"], row["maker"], row["sold_as"]) for row in read_rows("hosted_models.csv"))
    return tuple(sorted(models, key=lambda m: (-len(m.name), m.name)))


def find_hosted_only(name: str) -> HostedOnly | None:
    """Returns the hosted-only model that a name matches, or None. Call it only for names that no catalog model has.

    Check: "openai/gpt-4o-mini" is OpenAI's; "gpt-oss-20b", whose weights are published, gives None.
    """
    key = fold_name(name.rsplit("/", 1)[-1])
    return next((m for m in hosted_models() if fnmatchcase(key, m.name)), None)
