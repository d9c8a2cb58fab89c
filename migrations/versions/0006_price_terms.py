"""Terms of a price: kind, source, date, confidence, number of machines, and upfront payment.

Revision ID: 0006
Revises: 0005

The defaults apply to rows that an earlier version still writes; seeding fills the columns.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SEEN = (("price_source", 4000), ("price_observed", 10), ("price_confidence", 10))


def upgrade() -> None:
    op.create_table(
        "providers",
        sa.Column("slug", sa.String(120), nullable=False),
        sa.Column("name", sa.String(120), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("what", sa.String(4000), nullable=False),
        sa.Column("source", sa.String(4000), nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.PrimaryKeyConstraint("slug", name=op.f("pk_providers")),
    )
    # Individual statements instead of a batch: SQLite copies the table of a batch, and other tables reference these rows.
    for table in ("accelerators", "systems"):
        for name, length in SEEN:
            op.add_column(table, sa.Column(name, sa.String(length), nullable=True))
    op.add_column("systems", sa.Column("price_kind", sa.String(10), nullable=True))
    op.add_column("offers", sa.Column("price_kind", sa.String(10), server_default="provider", nullable=False))
    op.add_column("offers", sa.Column("confidence", sa.String(10), server_default="medium", nullable=False))
    for table in ("systems", "offers"):
        op.add_column(table, sa.Column("min_quantity", sa.Integer(), server_default="1", nullable=False))
        op.add_column(table, sa.Column("max_quantity", sa.Integer(), nullable=True))
    op.add_column("offers", sa.Column("upfront_usd", sa.Double(), nullable=True))


def downgrade() -> None:
    for name in ("upfront_usd", "max_quantity", "min_quantity", "confidence", "price_kind"):
        op.drop_column("offers", name)
    for name in ("max_quantity", "min_quantity", "price_kind"):
        op.drop_column("systems", name)
    for table in ("systems", "accelerators"):
        for name, _ in reversed(SEEN):
            op.drop_column(table, name)
    op.drop_table("providers")
