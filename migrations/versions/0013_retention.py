"""Size of each stored answer, and which answers may be deleted.

Revision ID: 0013
Revises: 0012

The default applies to rows that an earlier version still writes: only their age counts.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

UNFILED = sa.text("status = 'draft' AND version = 0 AND label IS NULL AND reference IS NULL AND cost_centre IS NULL")


def upgrade() -> None:
    op.add_column("filings", sa.Column("size_bytes", sa.Integer(), server_default="0", nullable=False))
    op.execute(
        sa.text(
            "UPDATE filings SET size_bytes = (SELECT length(r.request) + length(r.body) + coalesce(length(r.supply), 0) "
            "FROM recommendations AS r WHERE r.id = filings.recommendation)"
        )
    )
    op.create_index(
        "ix_filings_unfiled",
        "filings",
        ["stored_at", "recommendation", "size_bytes"],
        sqlite_where=UNFILED,
        postgresql_where=UNFILED,
    )
    op.create_index("ix_filings_superseded_by", "filings", ["superseded_by"])
    op.create_index("ix_status_changes_superseded_by", "status_changes", ["superseded_by"])


def downgrade() -> None:
    op.drop_index("ix_status_changes_superseded_by", table_name="status_changes")
    op.drop_index("ix_filings_superseded_by", table_name="filings")
    op.drop_index("ix_filings_unfiled", table_name="filings")
    with op.batch_alter_table("filings") as batch:
        batch.drop_column("size_bytes")
