"""Table of the prices of hosted model APIs."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from app.catalog.tables import Slug, Text
from app.db import Base


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
