"""Spreads of prediction errors by quantity, and the interval of each prediction.

Revision ID: 0005
Revises: 0004

The defaults apply to rows that an earlier version still writes; seeding fills the columns.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

INTERVAL_COLUMNS = ("sources_beside", "distance", "low", "high", "promised")
QUANTILES = tuple(f"worse_p{level}" for level in (5, 10, 20, 50, 80, 90, 95))


def upgrade() -> None:
    op.create_table(
        "spreads",
        sa.Column("quantity", sa.String(120), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=False) for name in ("alone", "remote", "untabulated", *QUANTILES)),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("sources", sa.Integer(), nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.PrimaryKeyConstraint("quantity", name=op.f("pk_spreads")),
    )
    for name in INTERVAL_COLUMNS:
        op.add_column("predictions", sa.Column(name, sa.Double(), server_default="0", nullable=False))


def downgrade() -> None:
    with op.batch_alter_table("predictions") as batch:
        for name in reversed(INTERVAL_COLUMNS):
            batch.drop_column(name)
    op.drop_table("spreads")
