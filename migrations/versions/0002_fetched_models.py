"""Models fetched from a hub on request.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("models") as batch:
        batch.add_column(sa.Column("origin", sa.String(length=10), server_default="curated", nullable=False))


def downgrade() -> None:
    op.execute(sa.text("DELETE FROM model_aliases WHERE model IN (SELECT id FROM models WHERE origin = 'hub')"))
    op.execute(sa.text("DELETE FROM models WHERE origin = 'hub'"))
    with op.batch_alter_table("models") as batch:
        batch.drop_column("origin")
