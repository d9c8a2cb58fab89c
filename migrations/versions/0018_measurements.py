"""Measurements of the user's own stacks: the run as uploaded, and the prediction that it is compared with.

Revision ID: 0018
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "own_measurements",
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("run", sa.JSON(), nullable=False),
        sa.Column("prediction", sa.JSON(), nullable=False),
        sa.Column("predicted_by", sa.String(200), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name=op.f("pk_own_measurements")),
    )


def downgrade() -> None:
    op.drop_table("own_measurements")
