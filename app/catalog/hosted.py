"""Prices of hosted model APIs, and models sold only as a service: their weights are not published."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.files import read_rows
from app.catalog.names import fold_name
from app.catalog.tables import Slug, Text
from app.db import Base


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


class HostedPriceRow(Base):
    """Price per million tokens of a model on a hosted API."""

    __tablename__ = "hosted_prices"
    __table_args__ = (
        CheckConstraint("usd_per_million_input > 0", name="input_positive"),
        CheckConstraint("usd_per_million_output >= 0", name="output_not_negative"),
    )

    model: Mapped[str] = mapped_column(Slug, primary_key=True)
    provider: Mapped[str] = mapped_column(Slug, primary_key=True)
    listed_as: Mapped[str] = mapped_column(Slug, doc="the model's name in the source")
    usd_per_million_input: Mapped[float]
    usd_per_million_output: Mapped[float] = mapped_column(doc="0 for models that generate no tokens")
    usd_per_million_cached_input: Mapped[float | None]
    page: Mapped[str | None] = mapped_column(Text, doc="the provider's own price page, if the source names it")
    source: Mapped[str] = mapped_column(Text)
    observed: Mapped[str] = mapped_column(String(10))
