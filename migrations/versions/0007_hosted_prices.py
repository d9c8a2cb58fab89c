"""Prices of hosted APIs per million tokens of a model.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hosted_prices",
        sa.Column("model", sa.String(120), nullable=False),
        sa.Column("provider", sa.String(120), nullable=False),
        sa.Column("listed_as", sa.String(120), nullable=False),
        sa.Column("usd_per_million_input", sa.Double(), nullable=False),
        sa.Column("usd_per_million_output", sa.Double(), nullable=False),
        sa.Column("usd_per_million_cached_input", sa.Double(), nullable=True),
        sa.Column("page", sa.String(4000), nullable=True),
        sa.Column("source", sa.String(4000), nullable=False),
        sa.Column("observed", sa.String(10), nullable=False),
        sa.CheckConstraint("usd_per_million_input > 0", name=op.f("ck_hosted_prices_input_positive")),
        sa.CheckConstraint("usd_per_million_output >= 0", name=op.f("ck_hosted_prices_output_not_negative")),
        sa.PrimaryKeyConstraint("model", "provider", name=op.f("pk_hosted_prices")),
    )


def downgrade() -> None:
    op.drop_table("hosted_prices")
