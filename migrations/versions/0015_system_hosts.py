"""Hosts of a machine: a rack or slice is rented as one machine, and each of its hosts starts its own part.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("systems", sa.Column("hosts", sa.Integer(), server_default="1", nullable=False))


def downgrade() -> None:
    op.drop_column("systems", "hosts")
