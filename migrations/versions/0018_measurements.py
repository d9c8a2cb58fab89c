"""Measurements of the user's own stacks: the run as uploaded, and the prediction that it is compared with.

Revision ID: 0018
Revises: 0017
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

ACTING = "coalesce(nullif(current_setting('headroom.tenant', true), ''), 'public')"


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
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE own_measurements ENABLE ROW LEVEL SECURITY")
        op.execute("ALTER TABLE own_measurements FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY own_rows ON own_measurements USING ({ACTING} IN (tenant, '*'))")


def downgrade() -> None:
    op.drop_table("own_measurements")
