"""Slices into which a driver divides a card.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "slices",
        sa.Column("accelerator", sa.String(120), nullable=False),
        sa.Column("name", sa.String(20), nullable=False),
        sa.Column("compute_parts", sa.Integer(), nullable=False),
        sa.Column("memory_parts", sa.Integer(), nullable=False),
        sa.Column("starts", sa.String(40), nullable=False),
        sa.Column("source", sa.String(4000), nullable=False),
        sa.Column("as_of", sa.String(10), nullable=False),
        sa.CheckConstraint("compute_parts > 0 AND memory_parts > 0", name=op.f("ck_slices_positive")),
        sa.ForeignKeyConstraint(["accelerator"], ["accelerators.slug"], name=op.f("fk_slices_accelerator_accelerators")),
        sa.PrimaryKeyConstraint("accelerator", "name", name=op.f("pk_slices")),
    )


def downgrade() -> None:
    op.drop_table("slices")
