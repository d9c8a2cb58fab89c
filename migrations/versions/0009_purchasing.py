"""Data for bills of materials: commodity codes, part numbers, and facts of the bills of a stored answer.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "commodity_codes",
        sa.Column("goods", sa.String(120), nullable=False),
        sa.Column("unspsc", sa.String(8), nullable=True),
        sa.Column("unspsc_version", sa.String(10), nullable=True),
        sa.Column("cpv", sa.String(10), nullable=True),
        sa.Column("hs_code", sa.String(10), nullable=True),
        sa.Column("source", sa.String(4000), nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.PrimaryKeyConstraint("goods", name=op.f("pk_commodity_codes")),
    )
    op.create_table(
        "part_numbers",
        sa.Column("item", sa.String(120), nullable=False),
        sa.Column("part_number", sa.String(120), nullable=False),
        sa.Column("source", sa.String(4000), nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.PrimaryKeyConstraint("item", name=op.f("pk_part_numbers")),
    )
    with op.batch_alter_table("recommendations") as batch:
        batch.add_column(sa.Column("supply", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("recommendations") as batch:
        batch.drop_column("supply")
    op.drop_table("part_numbers")
    op.drop_table("commodity_codes")
