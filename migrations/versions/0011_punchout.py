"""Punch-out sessions of buyers' systems.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "punchout_sessions",
        sa.Column("token_digest", sa.String(64), nullable=False),
        sa.Column("buyer", sa.String(120), nullable=False),
        sa.Column("payload", sa.String(255), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("chosen", sa.String(60), nullable=True),
        sa.Column("chosen_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("token_digest", name=op.f("pk_punchout_sessions")),
        sa.UniqueConstraint("buyer", "payload", name="uq_punchout_sessions_payload"),
    )
    op.create_index(op.f("ix_punchout_sessions_expires_at"), "punchout_sessions", ["expires_at"])


def downgrade() -> None:
    op.drop_index(op.f("ix_punchout_sessions_expires_at"), table_name="punchout_sessions")
    op.drop_table("punchout_sessions")
