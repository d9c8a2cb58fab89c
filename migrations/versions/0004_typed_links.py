"""Links between accelerators and the kind of their memory as typed columns instead of text.

Revision ID: 0004
Revises: 0003

The defaults apply to rows that an earlier version still writes; seeding fills the columns.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Individual statements instead of a batch: SQLite copies the table of a batch, and other tables reference these rows.
    op.add_column("accelerators", sa.Column("memory_is_shared", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("accelerators", sa.Column("machine_link", sa.String(10), server_default="pcie", nullable=False))
    op.add_column("accelerators", sa.Column("link_spans_machines", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("accelerators", sa.Column("slot_bytes_per_s", sa.Double(), server_default="0", nullable=False))
    op.add_column("systems", sa.Column("link", sa.String(10), server_default="none", nullable=False))
    op.add_column("systems", sa.Column("scaleup_domain_size", sa.Double(), nullable=True))


def downgrade() -> None:
    op.drop_column("systems", "scaleup_domain_size")
    op.drop_column("systems", "link")
    op.drop_column("accelerators", "slot_bytes_per_s")
    op.drop_column("accelerators", "link_spans_machines")
    op.drop_column("accelerators", "machine_link")
    op.drop_column("accelerators", "memory_is_shared")
